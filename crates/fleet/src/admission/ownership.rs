//! `escalationPolicy: allow-if-owner`: does the person who applied a binding own the repository that it is about?

use std::collections::BTreeSet;

use bailiwick_resources::{
    AgentRoleBinding, EscalationPolicy, Kind, Metadata, Object, Repository, Role, RoleRefKind,
    TrustTier,
};
use thiserror::Error;

use super::code_owners::{OwnedFiles, Owner};
use super::inventory::{Found, Inventory};

/// The annotation with the author of the spec of a binding or role. Its value in a document is ignored.
pub const APPLIED_BY: &str = "bailiwick.dev/applied-by";

/// The CODEOWNERS file of a repository, on its default branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerFacts {
    /// It cannot be used, with the reason.
    Unusable(String),
    /// All files of the repository, grouped by their owners.
    Read(Vec<OwnedFiles>),
}

/// The members of a team of a forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamMembers {
    /// Their accounts.
    Known(Vec<String>),
    /// They cannot be read, with the reason.
    Unreadable(String),
}

/// Why a person does not count as the owner of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotOwner {
    #[error(
        "`allow-if-owner` counts only for trusted work: use `require-admin-approval` for other work"
    )]
    Untrusted,
    #[error(
        "it is not known who applied {kind} `{name}`: an owner of the repository must delete it and apply it again"
    )]
    AuthorUnknown { kind: Kind, name: String },
    #[error(
        "`{person}` applied {kind} `{name}` and has no forge account here: add one under `spec.accounts` of Repository `{repository}`"
    )]
    NoAccount { kind: Kind, name: String, person: String, repository: String },
    #[error(
        "the owners of the repository are unknown: {0}; correct it, or use `require-admin-approval`"
    )]
    Unread(String),
    #[error(
        "`{person}` applied {kind} `{name}` and does not own `{path}`, which belongs to {owners}: an owner of all files must delete it and apply it again"
    )]
    NotTheirs { kind: Kind, name: String, person: String, path: String, owners: String },
}

/// Whether CODEOWNERS decides about one of these bindings.
pub fn is_decided_by_owners(bindings: &[Object<AgentRoleBinding>]) -> bool {
    bindings.iter().any(|one| one.spec.escalation_policy == EscalationPolicy::AllowIfOwner)
}

/// The teams that own files which the authors of these bindings do not own by their accounts.
pub fn deciding_teams(
    inventory: &Inventory,
    bindings: &[Object<AgentRoleBinding>],
    repository: &Object<Repository>,
    files: &[OwnedFiles],
) -> BTreeSet<String> {
    let is_decided = |one: &&Object<AgentRoleBinding>| {
        one.spec.escalation_policy == EscalationPolicy::AllowIfOwner
    };
    let decided = bindings.iter().filter(is_decided);
    let authors = decided.filter_map(|one| authors(inventory, one).ok()).flatten();
    let known: Vec<&Vec<String>> =
        authors.filter_map(|(_, _, person)| repository.spec.accounts.get(&person)).collect();
    let undecided =
        files.iter().filter(|one| known.iter().any(|accounts| !are_owned_by(one, accounts)));
    let teams = undecided.flat_map(|one| &one.owners).filter_map(|owner| match owner {
        Owner::Team(team) => Some(team.clone()),
        Owner::User(_) | Owner::Mail(_) => None,
    });
    teams.collect()
}

/// Whether one of these accounts owns files, without its teams.
fn are_owned_by(files: &OwnedFiles, accounts: &[String]) -> bool {
    files.owners.iter().any(|owner| owner.is_one_of(accounts))
}

/// The people who wrote what a binding gives: its own author, and that of its role.
pub fn authors(
    inventory: &Inventory,
    binding: &Object<AgentRoleBinding>,
) -> Result<Vec<(Kind, String, String)>, NotOwner> {
    let mut written = vec![(Kind::AgentRoleBinding, binding.metadata.clone())];
    match binding.spec.role_ref.kind {
        RoleRefKind::RoleTemplate => {}
        RoleRefKind::Role | RoleRefKind::ClusterRole => {
            let name = &binding.spec.role_ref.name;
            let role = inventory.get::<Role>(&binding.metadata.namespace, name);
            let metadata = match role {
                Found::Here(role) => role.metadata.clone(),
                // Without its annotation, it has no author.
                Found::Missing | Found::Unknown(_) => Metadata::named(name),
            };
            written.push((Kind::Role, metadata));
        }
    }
    let author = |(kind, metadata): (Kind, Metadata)| {
        let person = metadata.annotations.get(APPLIED_BY).filter(|name| !name.is_empty()).cloned();
        let name = metadata.name;
        match person {
            Some(person) => Ok((kind, name, person)),
            None => Err(NotOwner::AuthorUnknown { kind, name }),
        }
    };
    written.into_iter().map(author).collect()
}

/// Whether all who wrote what a binding gives own every file of the repository, by its CODEOWNERS file.
pub fn require_owner(
    inventory: &Inventory,
    binding: &Object<AgentRoleBinding>,
    repository: &Object<Repository>,
    trust: TrustTier,
) -> Result<(), NotOwner> {
    match trust {
        TrustTier::Trusted => {}
        TrustTier::Untrusted => return Err(NotOwner::Untrusted),
    }
    let authors = authors(inventory, binding)?;
    for (kind, name, person) in authors {
        let Some(accounts) = repository.spec.accounts.get(&person) else {
            let repository = repository.name().to_owned();
            return Err(NotOwner::NoAccount { kind, name, person, repository });
        };
        let files = match inventory.owners(&repository.spec.full_name) {
            Some(OwnerFacts::Read(files)) => files,
            Some(OwnerFacts::Unusable(why)) => return Err(NotOwner::Unread(why.clone())),
            None => return Err(NotOwner::Unread("CODEOWNERS was not read".to_owned())),
        };
        if files.is_empty() {
            return Err(NotOwner::Unread("the repository has no files".to_owned()));
        }
        let is_theirs = |owner: &Owner| match owner {
            Owner::User(_) | Owner::Mail(_) => owner.is_one_of(accounts),
            Owner::Team(team) => match inventory.team_members(&repository.spec.full_name, team) {
                Some(TeamMembers::Known(members)) => {
                    let is_member = |account: &String| {
                        members.iter().any(|member| member.eq_ignore_ascii_case(account))
                    };
                    accounts.iter().any(is_member)
                }
                Some(TeamMembers::Unreadable(_)) | None => false,
            },
        };
        if let Some(other) = files.iter().find(|one| !one.owners.iter().any(is_theirs)) {
            let owners = render_owners(inventory, &repository.spec.full_name, other);
            let path = other.example.clone();
            return Err(NotOwner::NotTheirs { kind, name, person, path, owners });
        }
    }
    Ok(())
}

fn render_owners(inventory: &Inventory, repository: &str, files: &OwnedFiles) -> String {
    let each = files.owners.iter().map(|owner| match owner {
        Owner::User(_) | Owner::Mail(_) => owner.to_string(),
        Owner::Team(team) => match inventory.team_members(repository, team) {
            Some(TeamMembers::Known(_)) => owner.to_string(),
            Some(TeamMembers::Unreadable(why)) => {
                format!("{owner} (its members cannot be read: {why})")
            }
            None => format!("{owner} (its members are unknown)"),
        },
    });
    match each.collect::<Vec<_>>().as_slice() {
        [] => "nobody".to_owned(),
        names => names.join(", "),
    }
}
