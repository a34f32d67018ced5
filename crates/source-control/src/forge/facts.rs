//! What a credential may do and what a forge can, checked without writing anything.

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

#[derive(Debug, Deserialize)]
struct Permissions {
    #[serde(default)]
    permissions: Option<Permission>,
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
    Ok(ForgeFacts { version, may_write, missing_scopes, reads_rights, missing_features })
}

/// On GitHub a writer may read the rights of others, and scopes of fine-grained tokens cannot be read.
pub(super) async fn github(api: &Api) -> Result<ForgeFacts, ForgeError> {
    let Permission { push, .. } = permission(api).await?;
    let mut missing_scopes = Vec::new();
    if api.get(&["issues"], &[("per_page", "1")]).await?.status() == 403 {
        missing_scopes.push("issues: read".to_owned());
    }
    Ok(ForgeFacts { may_write: push, reads_rights: push, missing_scopes, ..ForgeFacts::default() })
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
    use super::missing_features;

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
