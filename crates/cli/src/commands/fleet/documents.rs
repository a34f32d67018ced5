//! Documents that people write: YAML, several in a file, or JSON.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_resources::AnyObject;
use serde_saphyr::MergeKeyPolicy;

use crate::failure::Failure;

/// How much is read of one file.
const MAX_DOCUMENT_BYTES: u64 = 4 * 1024 * 1024;

/// All documents of some files and directories; `-` is standard input.
pub fn read(context: &Context, files: &[PathBuf]) -> Result<Vec<AnyObject>, Failure> {
    let mut all = Vec::new();
    for file in files {
        if file.as_os_str() == "-" {
            let text = limited(std::io::stdin().lock(), Path::new("standard input"))?;
            all.extend(parse("standard input", &text)?);
            continue;
        }
        let path = context.directory.join(file);
        let paths = if path.is_dir() { below(&path)? } else { vec![path] };
        for path in paths {
            let unreadable =
                |error| Failure::general(format!("{} cannot be read: {error}", path.display()));
            let open = std::fs::File::open(&path).map_err(unreadable)?;
            let text = limited(open, &path)?;
            let shown = path.strip_prefix(&context.directory).unwrap_or(&path);
            all.extend(parse(&shown.display().to_string(), &text)?);
        }
    }
    if all.is_empty() {
        return Err(Failure::usage("the given files contain no document")
            .help("a document begins with apiVersion, kind, metadata and spec"));
    }
    Ok(all)
}

fn limited(from: impl std::io::Read, name: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = from.take(MAX_DOCUMENT_BYTES + 1).read_to_string(&mut text);
    let read = read
        .map_err(|error| Failure::general(format!("{} cannot be read: {error}", name.display())))?;
    if u64::try_from(read).unwrap_or(u64::MAX) > MAX_DOCUMENT_BYTES {
        return Err(Failure::usage(format!(
            "{} is longer than {MAX_DOCUMENT_BYTES} bytes",
            name.display()
        )));
    }
    Ok(text)
}

/// The files of a directory that are documents, sorted; those in directories below it are others'.
fn below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable =
        |error| Failure::general(format!("{} cannot be read: {error}", directory.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_file() && ending.is_some_and(|it| matches!(it, "yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The documents of a text.
pub fn parse(name: &str, text: &str) -> Result<Vec<AnyObject>, Failure> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        reject_unsupported_tags: true,
        merge_keys: MergeKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_documents: 1_000,
            max_depth: 64,
        },
    };
    let read = serde_saphyr::from_multiple_with_options(text, options);
    read.map_err(|error| Failure::usage(format!("{name}: {error}")))
}

/// An object as a document.
pub fn yaml(object: &AnyObject) -> Result<String, Failure> {
    serde_saphyr::to_string(object)
        .map_err(|error| Failure::general(format!("it cannot be written as YAML: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{parse, yaml};

    const POOL: &str = "apiVersion: bailiwick.dev/v1alpha1\nkind: RunnerPool\nmetadata:\n  name: a\n\
                        spec:\n  capacity: 2\n  trustTier: trusted\n  serviceAccountRef: r\n";

    #[test]
    fn documents_are_read_and_written_again() {
        let two = format!("{POOL}---\n{POOL}");
        let read = parse("x", &two).unwrap();
        assert_eq!(read.len(), 2);
        let again = parse("x", &yaml(&read[0]).unwrap()).unwrap();
        assert_eq!(again[0], read[0]);
        assert!(parse("x", "").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "kind: RunnerPool",
            "apiVersion: bailiwick.dev/v1alpha1\nkind: Nothing\nmetadata: {name: a}\nspec: {}",
            "apiVersion: x\nkind: RunnerPool\nmetadata: {name: a}\nspec: {}\nmore: 1",
            "a: &x 1\nb: *x",
            "a: 1\na: 2",
        ] {
            assert!(parse("x", text).is_err(), "{text}");
        }
    }
}
