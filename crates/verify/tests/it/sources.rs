//! Every source file of this workspace can be measured, with the function lengths that rustfmt shows.

use std::path::{Path, PathBuf};

use bailiwick_model::module::CheckModule;
use bailiwick_verify::Verdict;
use bailiwick_verify::facts::Texts;

use crate::{change, no_facts, verdict};

#[test]
fn source_files_of_this_workspace_are_measured() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let mut files = Vec::new();
    collect(crates, &mut files);
    assert!(files.len() > 50, "{} files", files.len());
    let (mut named, mut cut) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let after = Some(text.clone().into_bytes());
        let texts = Texts { before: None, after };
        // No file exceeds this limit, so the check must pass.
        let wide = "[verification]\nmax-file-lines = 9999\nmax-function-lines = 9999";
        let module = CheckModule::QualityConstructorPattern;
        let measured = verdict(module, wide, change("a.rs", false), texts.clone(), no_facts());
        assert!(measured.is_pass(), "{}: {measured:?}", file.display());
        let longest = longest_top_level_function(&text);
        if longest > 1 {
            let narrow = format!(
                "[verification]\nmax-file-lines = 9999\nmax-function-lines = {}",
                longest - 1
            );
            let verdict = verdict(module, &narrow, change("a.rs", false), texts, no_facts());
            let Verdict::Fail { reason, detail } = verdict else {
                panic!("{}: nothing has {longest} lines", file.display())
            };
            let message = format!("{reason}\n{}", detail.unwrap_or_default());
            match message.contains(&format!("has {longest} lines")) {
                true => named += 1,
                // A long list is cut, and the functions of an `impl` can fill it.
                false if message.contains("\n… and ") => cut += 1,
                false => panic!("{}: {message}", file.display()),
            }
        }
    }
    assert!(cut * 100 < named, "{cut} lists cut, {named} functions named");
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// In formatted code a top-level function ends at the next closing brace without indentation. Files with
/// source code in string literals are left out.
fn longest_top_level_function(text: &str) -> usize {
    if text.contains("r#\"") || text.contains("\\\n") {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let starts = |line: &&str| {
        let words = line.split(['(', '<']).next().unwrap_or_default();
        !line.starts_with([' ', '/', '#', '"'])
            && words.split_whitespace().rev().nth(1) == Some("fn")
    };
    let starts_of_functions = lines.iter().enumerate().filter(|(_, line)| starts(line));
    let lengths = starts_of_functions.map(|(place, line)| {
        let body = lines.iter().skip(place).take_while(|line| !line.starts_with('}'));
        if line.ends_with('}') { 1 } else { body.count() + 1 }
    });
    lengths.max().unwrap_or(0)
}
