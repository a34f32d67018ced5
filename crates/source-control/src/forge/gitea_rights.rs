//! The rights of other accounts on Gitea. Only an administrator may ask for them one by one; for a writer's token the
//! list of assignees is the other source, where it is exact.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{ForgeError, Rights};
use serde::Deserialize;

use super::client::Api;
use super::{common, wire};

/// The unit of a repository that stands for its git content.
const CODE: &str = "repo.code";
const READ_OR_LESS: [&str; 2] = ["none", "read"];

#[derive(Debug, Deserialize)]
pub(super) struct Team {
    #[serde(default)]
    permission: String,
    /// The access to each unit.
    #[serde(default)]
    units_map: Option<BTreeMap<String, String>>,
}

/// Whether the list of assignees has exactly the accounts that may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignees {
    Exact,
    /// Teams that may write something other than code are in it as well.
    TooWide,
}

/// The rights of an account.
pub(super) async fn permission(api: &Api, actor: &str) -> Result<Rights, ForgeError> {
    let response = common::get_permission(api, actor).await?;
    if response.status() != 403 {
        return common::rights(api, actor, response);
    }
    match assignees(api).await? {
        Assignees::TooWide => Ok(Rights::Unknown),
        Assignees::Exact => {
            let response = api.get(&["assignees"], &[]).await?;
            let users: Vec<wire::User> = api.require_success(response)?.json()?;
            let is_assignee = users.iter().any(|user| user.login.eq_ignore_ascii_case(actor));
            Ok(if is_assignee { Rights::Write } else { Rights::Read })
        }
    }
}

/// Whether the list of assignees is exact: in a repository without teams it is, and where every team that may write
/// anything may write code.
pub(super) async fn assignees(api: &Api) -> Result<Assignees, ForgeError> {
    let response = api.get(&["teams"], &[]).await?;
    match response.status() {
        // The repository belongs to a user, who has no teams.
        405 => return Ok(Assignees::Exact),
        403 | 404 => return Ok(Assignees::TooWide),
        _ => {}
    }
    let teams: Vec<Team> = api.require_success(response)?.json()?;
    let exact = teams.iter().all(Team::writes_code_or_nothing);
    Ok(if exact { Assignees::Exact } else { Assignees::TooWide })
}

impl Team {
    fn writes_code_or_nothing(&self) -> bool {
        if matches!(self.permission.as_str(), "admin" | "owner") {
            return true;
        }
        let Some(units) = &self.units_map else { return false };
        let may_write = |access: &String| !READ_OR_LESS.contains(&access.as_str());
        !units.values().any(may_write) || units.get(CODE).is_some_and(may_write)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Team;

    fn is_exact(team: Value) -> bool {
        serde_json::from_value::<Team>(team).unwrap().writes_code_or_nothing()
    }

    #[test]
    fn only_teams_that_write_something_else_than_code_make_the_list_too_wide() {
        assert!(is_exact(json!({ "permission": "owner", "units_map": null })));
        assert!(is_exact(json!({ "permission": "write", "units_map": { "repo.code": "write" } })));
        assert!(is_exact(json!({ "permission": "read", "units_map": { "repo.code": "read" } })));
        let wiki = json!({ "repo.code": "read", "repo.wiki": "write" });
        assert!(!is_exact(json!({ "permission": "none", "units_map": wiki })));
        let strange = json!({ "repo.code": "read", "repo.wiki": "a-new-word" });
        assert!(!is_exact(json!({ "permission": "none", "units_map": strange })));
        assert!(!is_exact(json!({ "permission": "write" })), "an old server does not tell");
    }
}
