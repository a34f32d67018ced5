//! Messages of cargo: `--message-format=json` and `cargo metadata`.

use std::path::PathBuf;

use serde::Deserialize;

/// A message of cargo.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "reason")]
pub(super) enum CargoMessage {
    #[serde(rename = "compiler-message")]
    Diagnostic { message: Diagnostic },
    #[serde(rename = "compiler-artifact")]
    Artifact(Artifact),
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Diagnostic {
    pub(super) level: String,
    pub(super) rendered: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Artifact {
    pub(super) package_id: String,
    pub(super) target: Target,
    pub(super) profile: Profile,
    pub(super) executable: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Profile {
    pub(super) test: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Target {
    pub(super) kind: Vec<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) doctest: bool,
}

/// The members of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    pub(super) workspace_members: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) manifest_path: PathBuf,
    pub(super) targets: Vec<Target>,
}

/// The lines that are cargo's; a program's own are none of them.
pub(super) fn parse(output: &[u8]) -> Vec<CargoMessage> {
    output
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
