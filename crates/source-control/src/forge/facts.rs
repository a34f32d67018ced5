//! What a credential may do and what a forge can, checked without writing anything.

use std::collections::BTreeSet;

use bailiwick_fleet::ports::ForgeError;
use bailiwick_resources::ForgeFacts;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Api;
use super::gitea_rights;

/// Features that older versions of Gitea lack: the version that has them, and what is missing before.
const GITEA_FEATURES: [((u32, u32), &str); 4] = [
    ((1, 20), "finding pushes and tags whose webhooks were lost (1.20)"),
    ((1, 22), "the branch of a status on an older commit (1.22)"),
    ((1, 23), "webhooks for statuses; set pollEvery to find them (1.23)"),
    ((1, 25), "reading, polling and rerunning jobs of Actions (1.25)"),
];

/// How long the shown type of a rule may be.
const MAX_RULE_LENGTH: usize = 60;

#[derive(Debug, Deserialize)]
struct Permissions {
    #[serde(default)]
    permissions: Option<Permission>,
    #[serde(default)]
    default_branch: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Permission {
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    push: bool,
}

#[derive(Debug, Deserialize)]
struct Version {
    version: String,
}

pub(super) async fn gitea(api: &Api) -> Result<ForgeFacts, ForgeError> {
    let permission = permission(api).await?;
    let mut missing_scopes = Vec::new();
    let mut require = |scope: &str, status: u16| {
        if status == 403 {
            missing_scopes.push(scope.to_owned());
        }
    };
    require("read:user", api.root_api().get(&["user"], &[]).await?.status());
    require("read:issue", api.get(&["issues"], &[("limit", "1")]).await?.status());
    // Gitea checks the scope before the content, and refuses these two for their content.
    let empty = json!({ "body": "" });
    let comment = api.send(Method::POST, &["issues", "0", "comments"], &empty).await?;
    require("write:issue", comment.status());
    let release = api.send(Method::POST, &["releases"], &json!({ "tag_name": "" })).await?;
    // A reader's account is refused in the same way.
    if permission.push {
        require("write:repository", release.status());
    }
    let reads_rights = gitea_rights::reads_rights(api, permission.admin).await?;
    let version = version(api).await?;
    let missing_features = version.as_deref().map(missing_features).unwrap_or_default();
    let may_write = permission.push;
    let missing_optional = Vec::new();
    Ok(ForgeFacts {
        version,
        may_write,
        missing_scopes,
        missing_optional,
        reads_rights,
        missing_features,
    })
}

/// On GitHub a writer may read the rights of others. The scopes of a classic token are in a header; the permissions of
/// a fine-grained one show only where a list is refused.
pub(super) async fn github(api: &Api) -> Result<ForgeFacts, ForgeError> {
    let response = api.require_success(api.get(&[], &[]).await?)?;
    let found: Permissions = response.json()?;
    let push = found.permissions.unwrap_or_default().push;
    let branch = found.default_branch.unwrap_or_else(|| "HEAD".to_owned());
    let mut missing_scopes = Vec::new();
    if response.scopes.as_deref().is_some_and(|scopes| !covers_repository(scopes)) {
        missing_scopes.push("repo".to_owned());
    }
    let needed: [(&[&str], &str); 4] = [
        (&["issues"], "issues: read"),
        (&["pulls"], "pull requests: read"),
        (&["actions", "runs"], "actions: read"),
        (&["commits", &branch, "statuses"], "commit statuses: read"),
    ];
    for (path, permission) in needed {
        if is_refused(api, path).await? {
            missing_scopes.push(permission.to_owned());
        }
    }
    let mut missing_optional = Vec::new();
    if is_refused(api, &["commits", &branch, "check-runs"]).await? {
        missing_optional.push("checks: read".to_owned());
    }
    Ok(ForgeFacts {
        may_write: push,
        reads_rights: push,
        missing_scopes,
        missing_optional,
        ..ForgeFacts::default()
    })
}

async fn is_refused(api: &Api, path: &[&str]) -> Result<bool, ForgeError> {
    Ok(api.get(path, &[("per_page", "1")]).await?.status() == 403)
}

/// Whether the scopes of a classic token reach repositories. `public_repo` is enough for a public one; a private one
/// is not found with it.
fn covers_repository(scopes: &str) -> bool {
    scopes.split(',').any(|scope| matches!(scope.trim(), "repo" | "public_repo"))
}

/// The types of the rules of a branch that can refuse a push. GitHub does not tell who is exempt from them.
pub(super) async fn github_branch_rules(
    api: &Api,
    branch: &str,
) -> Result<Vec<String>, ForgeError> {
    let mut path = vec!["rules", "branches"];
    path.extend(branch.split('/'));
    let response = api.get(&path, &[]).await?;
    // Older servers do not have this list, and not every token may read it.
    if matches!(response.status(), 403 | 404) {
        return Ok(Vec::new());
    }
    let found: Vec<BranchRule> = api.require_success(response)?.json()?;
    // A branch is never deleted, and never pushed with force.
    let is_met = |kind: &str| matches!(kind, "deletion" | "non_fast_forward");
    let kinds: BTreeSet<String> = found
        .into_iter()
        .map(|rule| rule.kind.chars().take(MAX_RULE_LENGTH).collect::<String>())
        .filter(|kind| !is_met(kind))
        .collect();
    Ok(kinds.into_iter().collect())
}

#[derive(Debug, Deserialize)]
struct BranchRule {
    #[serde(rename = "type")]
    kind: String,
}

async fn permission(api: &Api) -> Result<Permission, ForgeError> {
    let response = api.get(&[], &[]).await?;
    let found: Permissions = api.require_success(response)?.json()?;
    Ok(found.permissions.unwrap_or_default())
}

async fn version(api: &Api) -> Result<Option<String>, ForgeError> {
    let response = api.root_api().get(&["version"], &[]).await?;
    if !(200..300).contains(&response.status()) {
        return Ok(None);
    }
    let found: Value = response.json()?;
    Ok(Version::deserialize(found).ok().map(|found| found.version.chars().take(60).collect()))
}

fn missing_features(version: &str) -> Vec<String> {
    // Forgejo names the version of Gitea that it corresponds to.
    let version = version.rsplit_once("gitea-").map_or(version, |(_, gitea)| gitea);
    let mut numbers = version.split(|next: char| !next.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (number(), number()) else { return Vec::new() };
    let missing = GITEA_FEATURES.iter().filter(|(since, _)| (major, minor) < *since);
    missing.map(|(_, feature)| (*feature).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{covers_repository, missing_features};

    #[test]
    fn classic_token_needs_a_scope_for_repositories() {
        for scopes in ["repo", "gist, repo, workflow", "public_repo"] {
            assert!(covers_repository(scopes), "{scopes}");
        }
        for scopes in ["", "repo:status", "read:org, gist", "repository"] {
            assert!(!covers_repository(scopes), "{scopes}");
        }
    }

    #[test]
    fn features_are_missing_before_the_version_that_has_them() {
        let count = |version: &str| missing_features(version).len();
        assert_eq!(count("1.27.2"), 0);
        assert_eq!(count("1.25.0"), 0);
        assert_eq!(count("1.24.7"), 1);
        assert_eq!(count("1.22.0-dev"), 2);
        assert_eq!(count("1.19.4"), 4);
        assert_eq!(count("2.0"), 0);
        assert_eq!(count("7.0.4+gitea-1.21.11"), 3, "Forgejo");
        assert_eq!(count("unknown"), 0);
    }
}
