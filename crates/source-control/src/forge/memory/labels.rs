//! Labels of an issue, one by one. Older Giteas take only their ids, and none refuses a second label of one name.

use bailiwick_memory::MemoryError;
use reqwest::Method;
use serde_json::json;

use super::{Flavour, ForgeIssues, failed, wire};

/// The colour of labels that we create.
const COLOUR: &str = "#7a7a7a";

/// Adds labels to an issue. Those that the repository does not have are created.
pub(super) async fn add(
    issues: &ForgeIssues,
    number: u64,
    names: &[String],
) -> Result<(), MemoryError> {
    if names.is_empty() {
        return Ok(());
    }
    let labels = match issues.flavour {
        Flavour::Gitea => json!({ "labels": ids(issues, names).await? }),
        Flavour::Github => json!({ "labels": names }),
    };
    let number = number.to_string();
    let path = ["issues", number.as_str(), "labels"];
    let response = issues.api.send(Method::POST, &path, &labels).await.map_err(failed)?;
    issues.api.require_success(response).map(drop).map_err(failed)
}

/// Removes labels from an issue. One that it does not have is no error.
pub(super) async fn remove(
    issues: &ForgeIssues,
    number: u64,
    names: &[String],
) -> Result<(), MemoryError> {
    if names.is_empty() {
        return Ok(());
    }
    let number = number.to_string();
    let labels = match issues.flavour {
        // Of several labels with one name only the issue tells which one it has.
        Flavour::Gitea => {
            let path = ["issues", number.as_str(), "labels"];
            let response = issues.api.get(&path, &[]).await.map_err(failed)?;
            let response = issues.api.require_success(response).map_err(failed)?;
            let current: Vec<wire::RepositoryLabel> = response.json().map_err(failed)?;
            let named = current.into_iter().filter(|label| names.contains(&label.name));
            named.map(|label| label.id.to_string()).collect()
        }
        Flavour::Github => names.to_vec(),
    };
    for label in &labels {
        let path = ["issues", number.as_str(), "labels", label];
        let response = issues.api.send(Method::DELETE, &path, &json!({})).await.map_err(failed)?;
        // Somebody else has removed it meanwhile.
        if !response.is_missing() {
            issues.api.require_success(response).map_err(failed)?;
        }
    }
    Ok(())
}

async fn ids(issues: &ForgeIssues, names: &[String]) -> Result<Vec<u64>, MemoryError> {
    let mut known: Vec<wire::RepositoryLabel> = issues.list(&["labels"], &[]).await?;
    // Of several labels with one name everybody takes the same.
    known.sort_by_key(|label| label.id);
    let mut ids = Vec::new();
    for name in names {
        if let Some(label) = known.iter().find(|label| label.name == *name) {
            ids.push(label.id);
            continue;
        }
        let wanted = json!({ "name": name, "color": COLOUR });
        let response = issues.api.send(Method::POST, &["labels"], &wanted).await.map_err(failed)?;
        let response = issues.api.require_success(response).map_err(failed)?;
        let label: wire::RepositoryLabel = response.json().map_err(failed)?;
        ids.push(label.id);
    }
    Ok(ids)
}
