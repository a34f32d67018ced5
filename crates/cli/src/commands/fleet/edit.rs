//! `bailiwick edit`: changes a resource in the person's editor.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bailiwick_client::ApplyMode;
use bailiwick_engine::context::variable;
use bailiwick_fleet::resources::{DeclareError, Outcome};
use bailiwick_resources::{AnyObject, Author, Kind};
use clap::Args;
use serde_json::{Value, json};

use super::access::FleetAccess;
use super::named::{kind, missing};
use super::{Namespace, documents};
use crate::failure::Failure;
use crate::output::{self, FormatOption};

const DEFAULT_EDITOR: &str = "vi";

/// Edit a resource in your editor and apply it
///
/// Uses $VISUAL, else $EDITOR, else vi. If another person changed the object meanwhile, nothing is
/// changed and your edited file is kept.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick edit stack fixer\n  EDITOR=nano bailiwick edit pool/inside"
)]
pub struct Edit {
    /// The kind, or KIND/NAME
    #[arg(value_name = "KIND")]
    kind: String,
    /// The name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

impl Edit {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let (kind, name) = self.named()?;
        if kind.author() == Author::ControlPlane {
            return Err(DeclareError::Recorded { kind, name }.into());
        }
        if kind == Kind::Secret {
            return Err(DeclareError::Secret { kind, name }.into());
        }
        let target = fleet.target(&self.namespace, &name);
        let found = fleet.ask(async |client| Ok(client.get(kind, &target).await?))?;
        let stored = found.ok_or_else(|| missing(kind, &name))?;
        let file = EditedFile::create(&stored)?;
        file.open_editor()?;
        let (edited, text) = match file.read() {
            Ok(read) => read,
            Err(failure) => return Err(file.keep(failure)),
        };
        if text == file.before {
            let value = json!({ "kind": kind, "name": name, "outcome": Outcome::Unchanged });
            let text = format!("{}/{name} unchanged", kind.short());
            return output::done(self.format.format, text, &value);
        }
        if (edited.kind, &edited.metadata.name) != (kind, &name)
            || edited.metadata.namespace != target.namespace
        {
            return Err(file.keep(Failure::usage("kind, name and namespace cannot be edited")));
        }
        // Without a version the change of another person would be lost. A new status is no such change.
        let now = fleet.ask(async |client| Ok(client.get(kind, &target).await?))?;
        let version = match &now {
            Some(now) if is_same_declaration(now, &stored) => now.metadata.resource_version,
            Some(_) | None => stored.metadata.resource_version,
        };
        let mut edited = edited;
        edited.metadata.resource_version = version;
        let documents = [edited];
        let applied = fleet
            .ask(async |client| Ok(client.apply(&documents, ApplyMode::Write).await?))
            .map_err(|failure| file.keep(failure))?;
        let outcome = applied.first().map_or(Outcome::Unchanged, |one| one.outcome);
        let word = match outcome {
            Outcome::Created => "created",
            Outcome::Configured => "edited",
            Outcome::Unchanged => "unchanged",
        };
        let value = json!({ "kind": kind, "name": name, "outcome": outcome });
        output::done(self.format.format, format!("{}/{name} {word}", kind.short()), &value)
    }

    fn named(&self) -> Result<(Kind, String), Failure> {
        let (text, name) = match (self.kind.split_once('/'), &self.name) {
            (Some((kind, name)), None) => (kind, name.to_owned()),
            (None, Some(name)) => (self.kind.as_str(), name.clone()),
            (Some(_), Some(_)) | (None, None) => {
                return Err(Failure::usage("name one object: KIND NAME, or KIND/NAME"));
            }
        };
        Ok((kind(text)?, name))
    }
}

/// Whether two versions of an object differ in their status only.
fn is_same_declaration(one: &AnyObject, other: &AnyObject) -> bool {
    let (one_metadata, other_metadata) = (&one.metadata, &other.metadata);
    one.spec == other.spec
        && one_metadata.uid == other_metadata.uid
        && one_metadata.labels == other_metadata.labels
        && one_metadata.annotations == other_metadata.annotations
}

/// The document in a temporary file, which only its owner can read.
struct EditedFile {
    file: tempfile::TempPath,
    before: String,
}

impl EditedFile {
    fn create(stored: &AnyObject) -> Result<Self, Failure> {
        let shown = AnyObject { status: Value::Null, ..stored.clone() };
        let before = documents::yaml(&shown)?;
        let failed =
            |error| Failure::general(format!("a temporary file cannot be created: {error}"));
        let mut file = tempfile::Builder::new()
            .prefix("bailiwick-edit-")
            .suffix(".yaml")
            .tempfile()
            .map_err(failed)?;
        file.write_all(before.as_bytes()).map_err(failed)?;
        Ok(Self { file: file.into_temp_path(), before })
    }

    fn path(&self) -> &Path {
        &self.file
    }

    fn open_editor(&self) -> Result<(), Failure> {
        let editor = match (variable("VISUAL")?, variable("EDITOR")?) {
            (Some(editor), _) | (None, Some(editor)) => editor,
            (None, None) => DEFAULT_EDITOR.to_owned(),
        };
        // An editor may have arguments, as `code --wait`; the shell splits them as git does.
        let status = Command::new("sh")
            .args(["-c", &format!("{editor} \"$1\""), "editor"])
            .arg(self.path())
            .status()
            .map_err(|error| Failure::general(format!("`{editor}` cannot be started: {error}")))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::general(format!("`{editor}` failed ({status}); nothing is changed")))
    }

    /// The document and its text.
    fn read(&self) -> Result<(AnyObject, String), Failure> {
        let text = std::fs::read_to_string(self.path())
            .map_err(|error| Failure::general(format!("the file cannot be read: {error}")))?;
        let mut all = documents::parse("the edited document", &text)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok((one, text)),
            (Some(_) | None, _) => Err(Failure::usage("leave exactly one document in the file")),
        }
    }

    /// Keeps the file, so that the edits are not lost.
    fn keep(&self, failure: Failure) -> Failure {
        let path: PathBuf = self.path().to_owned();
        let copy = path.with_extension("kept.yaml");
        match std::fs::rename(&path, &copy) {
            Ok(()) => failure.help(format!("your edited file is kept: {}", copy.display())),
            Err(error) => failure.help(format!("your edited file could not be kept: {error}")),
        }
    }
}
