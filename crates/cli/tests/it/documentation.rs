//! The documentation as a book: every page is in its summary, and every link targets an existing page and heading.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::workspace;

/// A link of a page.
struct Link {
    page: PathBuf,
    line: usize,
    target: String,
}

#[test]
fn every_page_is_in_the_summary_of_the_book() {
    let docs = workspace().join("docs");
    let listed: BTreeSet<PathBuf> =
        links(&docs.join("SUMMARY.md")).iter().map(|link| docs.join(&link.target)).collect();
    let mut pages: BTreeSet<PathBuf> = pages(&docs).into_iter().collect();
    assert!(pages.remove(&docs.join("SUMMARY.md")));
    assert_eq!(listed, pages);
}

#[test]
fn every_link_targets_an_existing_file_and_heading() {
    let root = workspace();
    let docs = root.join("docs");
    let mut broken = Vec::new();
    let mut count = 0;
    let other_pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root.join(name));
    for page in pages(&docs).into_iter().chain(other_pages) {
        for link in links(&page) {
            count += 1;
            if let Err(error) = check_link(&link, &docs) {
                broken.push(format!("{}:{}: {}: {error}", page.display(), link.line, link.target));
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn broken_link_is_detected() {
    let docs = workspace().join("docs");
    let page = docs.join("tutorial.md");
    for (target, is_valid) in [
        ("security.md", true),
        ("security.md#what-is-claimed", true),
        ("#where-to-go-next", true),
        ("security.md#what-is-imagined", false),
        ("no-such-page.md", false),
        ("../crates/cli/Cargo.toml", false),
    ] {
        let link = Link { page: page.clone(), line: 1, target: target.to_owned() };
        assert_eq!(check_link(&link, &docs).is_ok(), is_valid, "{target}");
    }
}

fn check_link(link: &Link, docs: &Path) -> Result<(), String> {
    let (path, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let file = match path {
        "" => link.page.clone(),
        path => normalized(&link.page.parent().unwrap().join(path)),
    };
    if !file.exists() {
        return Err(format!("{} does not exist", file.display()));
    }
    if link.page.starts_with(docs) && !file.starts_with(docs) {
        return Err("it leads out of the book".to_owned());
    }
    if !anchor.is_empty() && !anchors(&file).contains(anchor) {
        return Err(format!("{} has no heading `{anchor}`", file.display()));
    }
    Ok(())
}

fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// The relative links of a page, outside of code.
fn links(page: &Path) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, text) in prose(page) {
        for part in text.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.is_empty() {
                let (page, target) = (page.to_owned(), target.to_owned());
                found.push(Link { page, line, target });
            }
        }
    }
    found
}

/// The anchors of a page's headings, as mdBook and forges make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let headings = prose(page).into_iter().filter(|(_, text)| text.starts_with('#'));
    let anchor = |(_, text): (usize, String)| {
        let title = text.trim_start_matches('#').trim().to_lowercase();
        let characters = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        characters.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The numbered lines of a page outside of fenced blocks, without inline code between backticks.
fn prose(page: &Path) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let is_heading = line.starts_with('#');
            let code = |(index, part): (usize, &str)| {
                (is_heading || index % 2 == 0).then(|| part.to_owned())
            };
            let text_only: String = line.split('`').enumerate().filter_map(code).collect();
            lines.push((number + 1, text_only));
        }
    }
    lines
}

/// Resolves `..` in a path.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normalized.pop();
        } else {
            normalized.push(part);
        }
    }
    normalized
}
