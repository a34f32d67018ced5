//! Documents that people write: YAML, several in a file, or JSON.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bailiwick_client::ClientError;
use bailiwick_engine::context::Context;
use bailiwick_resources::AnyObject;
use serde::de::DeserializeOwned;
use serde_saphyr::{DefaultMessageFormatter, MergeKeyPolicy, MessageFormatter as _, Spanned};

use super::document_places::{DocumentPlace, Lines, locate};
use crate::failure::Failure;

/// How much is read of one file.
const MAX_DOCUMENT_BYTES: u64 = 4 * 1024 * 1024;

/// Documents, and where they were read.
#[derive(Debug, Default)]
pub struct Documents {
    pub objects: Vec<AnyObject>,
    places: Vec<DocumentPlace>,
}

impl Documents {
    fn add(&mut self, file: &str, text: &str) -> Result<(), Failure> {
        let objects = parse(file, text)?;
        let lines = read_yaml::<Spanned<Lines>>(file, text)?;
        let place = |lines| DocumentPlace { file: file.to_owned(), lines };
        self.places.extend(lines.into_iter().map(place));
        self.objects.extend(objects);
        Ok(())
    }

    /// An error of the control plane, with the file and line of what it is about.
    pub fn locate(&self, error: ClientError) -> Failure {
        locate(error, &self.objects, &self.places)
    }
}

/// All documents of some files and directories; `-` is standard input.
pub fn read(context: &Context, files: &[PathBuf]) -> Result<Documents, Failure> {
    let mut all = Documents::default();
    for file in files {
        if file.as_os_str() == "-" {
            let text = limited(std::io::stdin().lock(), Path::new("standard input"))?;
            all.add("standard input", &text)?;
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
            all.add(&shown.display().to_string(), &text)?;
        }
    }
    if all.objects.is_empty() {
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
    read_yaml(name, text)
}

fn read_yaml<T: DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>, Failure> {
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
    read.map_err(|error| {
        let why = DefaultMessageFormatter.format_message(error.without_snippet()).into_owned();
        let line = error.location().map_or_else(String::new, |at| format!(":{}", at.line()));
        Failure::usage(format!("{name}{line}: {why}"))
    })
}

/// An object as a document.
pub fn yaml(object: &AnyObject) -> Result<String, Failure> {
    serde_saphyr::to_string(object)
        .map_err(|error| Failure::general(format!("it cannot be written as YAML: {error}")))
}

#[cfg(test)]
mod tests {
    use bailiwick_client::ClientError;
    use bailiwick_fleet::resources::{DeclareError, check};

    use super::{Documents, parse, yaml};

    const POOL: &str = "apiVersion: bailiwick.dev/v1alpha1\nkind: RunnerPool\nmetadata:\n  name: a\n\
                        spec:\n  capacity: 2\n  trustTier: trusted\n  serviceAccountRef: r\n";

    #[test]
    fn documents_are_unchanged_after_writing_and_reading() {
        let two = format!("{POOL}---\n{POOL}");
        let read = parse("x", &two).unwrap();
        assert_eq!(read.len(), 2);
        let again = parse("x", &yaml(&read[0]).unwrap()).unwrap();
        assert_eq!(again[0], read[0]);
        assert!(parse("x", "").unwrap().is_empty());
    }

    #[test]
    fn invalid_documents_are_refused() {
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

    #[test]
    fn errors_of_the_control_plane_name_file_and_line() {
        let refused = |text: &str| {
            let mut all = Documents::default();
            all.add("pool.yaml", text).unwrap();
            let error: DeclareError = check(&all.objects).unwrap_err();
            all.locate(ClientError::from(error)).to_string()
        };
        let two = |second: &str| format!("{}---\n{second}", POOL.replace("name: a", "name: first"));
        let faulty = POOL.replace("name: a", "name: a b").replace("capacity: 2", "capacity: 0");
        let lines = refused(&two(&faulty));
        let lines: Vec<&str> = lines.lines().collect();
        assert!(
            lines[0].starts_with("pool.yaml:13: RunnerPool `a b` metadata.name: "),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("pool.yaml:15: RunnerPool `a b` spec.capacity: "),
            "{lines:?}"
        );
        for (written, expected) in [
            (
                POOL.replace("capacity: 2", "capacityy: 2"),
                "pool.yaml:15: RunnerPool `a` spec.capacityy: ",
            ),
            (
                POOL.replace("capacity: 2", "capacity: x"),
                "pool.yaml:15: RunnerPool `a` spec.capacity: ",
            ),
            (
                POOL.replace("name: a", "name: first"),
                "pool.yaml:11: RunnerPool `first` is declared twice",
            ),
            (POOL.replace("/v1alpha1", "/v9"), "pool.yaml:10: apiVersion `bailiwick.dev/v9`"),
            (
                POOL.replace("  capacity: 2\n", ""),
                "pool.yaml:14: RunnerPool `a` spec: missing field",
            ),
        ] {
            let message = refused(&two(&written));
            assert!(message.starts_with(expected), "{message}");
        }
        let json = r#"{"apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool",
            "metadata": {"name": "a"},
            "spec": {"trustTier": "trusted", "serviceAccountRef": "r",
                "capacity": 0}}"#;
        assert!(refused(json).starts_with("pool.yaml:4: "), "{}", refused(json));
    }

    #[test]
    fn parse_error_is_one_sentence_with_its_line() {
        for (text, message) in [
            (
                "a: [\n",
                "x:1: unknown field `a`, expected one of apiVersion, kind, metadata, spec, status",
            ),
            ("apiVersion: x\nkind: Nothing\n", "x:2: there is no kind `Nothing`"),
        ] {
            assert_eq!(parse("x", text).unwrap_err().to_string(), message);
        }
    }
}
