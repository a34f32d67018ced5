//! The rights of other accounts on Gitea. An administrator may ask for them one by one; for a writer's token the list of
//! assignees is the other source. In an organization both count teams that may write only a wiki or issues, or leave out
//! teams that may write code, so the teams of the repository are looked at as well. Their members are read here, too.

use std::collections::BTreeMap;

use bailiwick_fleet::admission::TeamMembers;
use bailiwick_fleet::ports::{ForgeError, Rights};
use serde::Deserialize;

use super::client::Api;
use super::shared_requests::{self, Access};
use super::wire;

/// The unit of a repository that stands for its git content.
const CODE: &str = "repo.code";
const WRITING: [&str; 3] = ["write", "admin", "owner"];
/// Gitea 1.27 lists members of teams that may read one of these as assignees.
const ASSIGNABLE: [&str; 2] = ["repo.issues", "repo.pulls"];

#[derive(Debug, Deserialize)]
struct Team {
    #[serde(default)]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    permission: String,
    /// The access to each unit.
    #[serde(default)]
    units_map: Option<BTreeMap<String, String>>,
}

/// The teams of a repository, or why they are not known.
enum Teams {
    /// The repository belongs to a user, who has no teams.
    None,
    Hidden,
    Of(Vec<Team>),
}

/// Whether an account is a member of one of several teams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Member,
    Other,
    /// The token may not read the members of all of them.
    Unknown,
}

/// The rights of an account.
pub(super) async fn permission(api: &Api, actor: &str) -> Result<Rights, ForgeError> {
    let response = shared_requests::get_permission(api, actor).await?;
    if response.status() == 403 {
        return permission_of_assignee(api, actor).await;
    }
    let Some(access) = shared_requests::access(api, actor, response)? else {
        return Ok(Rights::Unknown);
    };
    match (access, teams(api).await?) {
        // An administrator of a repository may write everything in it.
        (Access::Admin, _) | (Access::Write, Teams::None) => Ok(Rights::Write),
        (Access::Read, Teams::None) => Ok(Rights::Read),
        (Access::Write | Access::Read, Teams::Hidden) => Ok(Rights::Unknown),
        (Access::Write, Teams::Of(teams)) => confirm_writer(api, &teams, actor).await,
        (Access::Read, Teams::Of(teams)) => {
            let writers = teams.iter().filter(|team| team.writes_code_unseen());
            Ok(match membership(api, writers, actor).await? {
                Membership::Member => Rights::Write,
                Membership::Other => Rights::Read,
                Membership::Unknown => Rights::Unknown,
            })
        }
    }
}

/// Whether an account may write code of which Gitea says that it may write.
async fn confirm_writer(api: &Api, teams: &[Team], actor: &str) -> Result<Rights, ForgeError> {
    let narrow = teams.iter().filter(|team| team.seems_to_write_code());
    match membership(api, narrow, actor).await? {
        Membership::Other => return Ok(Rights::Write),
        Membership::Unknown => return Ok(Rights::Unknown),
        Membership::Member => {}
    }
    match membership(api, teams.iter().filter(|team| team.writes_code()), actor).await? {
        Membership::Member => return Ok(Rights::Write),
        Membership::Unknown => return Ok(Rights::Unknown),
        Membership::Other => {}
    }
    // Gitea lets a collaborator write code, too, who may write something as a member of a team.
    match api.get(&["collaborators", actor], &[]).await?.status() {
        204 => Ok(Rights::Write),
        404 => Ok(Rights::Read),
        _ => Ok(Rights::Unknown),
    }
}

async fn permission_of_assignee(api: &Api, actor: &str) -> Result<Rights, ForgeError> {
    let are_exact = match teams(api).await? {
        Teams::None => true,
        Teams::Hidden => false,
        Teams::Of(teams) => teams.iter().all(Team::has_exact_assignees),
    };
    if !are_exact {
        return Ok(Rights::Unknown);
    }
    let response = api.get(&["assignees"], &[]).await?;
    let users: Vec<wire::User> = api.require_success(response)?.json()?;
    let is_assignee = users.iter().any(|user| user.login.eq_ignore_ascii_case(actor));
    Ok(if is_assignee { Rights::Write } else { Rights::Read })
}

/// Whether the rights of every account can be read.
pub(super) async fn reads_rights(api: &Api, is_admin: bool) -> Result<bool, ForgeError> {
    let teams = match teams(api).await? {
        Teams::None => return Ok(true),
        Teams::Hidden => return Ok(false),
        Teams::Of(teams) => teams,
    };
    if !is_admin {
        return Ok(teams.iter().all(Team::has_exact_assignees));
    }
    let some_seem_to = teams.iter().any(Team::seems_to_write_code);
    let is_asked = |team: &&Team| {
        team.seems_to_write_code()
            || team.writes_code_unseen()
            || (some_seem_to && team.writes_code())
    };
    for team in teams.iter().filter(is_asked) {
        if !shows_members(api, team).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn teams(api: &Api) -> Result<Teams, ForgeError> {
    let response = api.get(&["teams"], &[]).await?;
    match response.status() {
        405 => Ok(Teams::None),
        403 | 404 => Ok(Teams::Hidden),
        _ => Ok(Teams::Of(api.require_success(response)?.json()?)),
    }
}

/// The members of a team that has access to the repository.
pub(super) async fn team_members(api: &Api, name: &str) -> Result<TeamMembers, ForgeError> {
    let unreadable = |why: &str| Ok(TeamMembers::Unreadable(why.to_owned()));
    let teams = match teams(api).await? {
        Teams::None => return unreadable("the repository belongs to no organization"),
        Teams::Hidden => {
            return unreadable("the token needs the right to list the teams of the repository");
        }
        Teams::Of(teams) => teams,
    };
    let Some(team) = teams.iter().find(|team| team.name.eq_ignore_ascii_case(name)) else {
        return unreadable("no team of this name has access to the repository");
    };
    if !team.writes_code() {
        return unreadable("the team may not write code of the repository");
    }
    let list = ["teams", &team.id.to_string(), "members"];
    let right = "the scope `read:organization`, of an account in the team or among the owners";
    shared_requests::team_members(api, &list, right).await
}

async fn membership<'a>(
    api: &Api,
    teams: impl Iterator<Item = &'a Team>,
    actor: &str,
) -> Result<Membership, ForgeError> {
    let root = api.root_api();
    let mut found = Membership::Other;
    for team in teams {
        let member = ["teams", &team.id.to_string(), "members", actor];
        let response = root.get(&member, &[]).await?;
        match response.status() {
            200 => return Ok(Membership::Member),
            // Both an account outside of the team and a team that the token may not see are missing.
            404 if shows_members(api, team).await? => {}
            403 | 404 => found = Membership::Unknown,
            _ => {
                api.require_success(response)?;
                found = Membership::Unknown;
            }
        }
    }
    Ok(found)
}

/// Whether the token may read the members of a team.
async fn shows_members(api: &Api, team: &Team) -> Result<bool, ForgeError> {
    let list = ["teams", &team.id.to_string(), "members"];
    let response = api.root_api().get(&list, &[("limit", "1")]).await?;
    match response.status() {
        403 | 404 => Ok(false),
        _ => api.require_success(response).map(|_| true),
    }
}

impl Team {
    fn writes_code(&self) -> bool {
        self.administers() || self.unit(CODE).is_some_and(|access| WRITING.contains(&access))
    }

    /// Gitea takes the least access of a team to any unit for its access to the repository, so that members of a team
    /// that may write only a wiki seem to be writers.
    fn seems_to_write_code(&self) -> bool {
        !self.writes_code() && may_write(&self.permission)
    }

    /// The access to the repository does not show that the team may write code: Gitea 1.27 has none for teams whose
    /// units have an access of their own, and an older one takes the least.
    fn writes_code_unseen(&self) -> bool {
        self.writes_code() && !self.administers() && self.permission != "write"
    }

    /// Whether its members are assignees if they may write code, and only then. Gitea 1.27 lists some readers as well.
    fn has_exact_assignees(&self) -> bool {
        if !self.writes_code() {
            return !may_read(&self.permission)
                && self
                    .units_map
                    .as_ref()
                    .is_some_and(|units| !units.values().any(|access| may_read(access)));
        }
        let is_listed = |unit: &&str| self.unit(unit).is_some_and(may_read);
        !self.writes_code_unseen() || ASSIGNABLE.iter().any(is_listed)
    }

    fn administers(&self) -> bool {
        matches!(self.permission.as_str(), "admin" | "owner")
    }

    fn unit(&self, name: &str) -> Option<&str> {
        self.units_map.as_ref()?.get(name).map(String::as_str)
    }
}

/// A word that is not known counts as the higher access.
fn may_write(access: &str) -> bool {
    !matches!(access, "none" | "read" | "")
}

fn may_read(access: &str) -> bool {
    !matches!(access, "none" | "")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Team;

    fn team(permission: &str, units: &Value) -> Team {
        serde_json::from_value(json!({ "permission": permission, "units_map": units })).unwrap()
    }

    /// Whether the team writes code, only seems to, hides that it does, and has exact assignees.
    fn kinds(permission: &str, units: &Value) -> [bool; 4] {
        let team = team(permission, units);
        [
            team.writes_code(),
            team.seems_to_write_code(),
            team.writes_code_unseen(),
            team.has_exact_assignees(),
        ]
    }

    #[test]
    fn rights_of_a_teams_members_are_read() {
        let (code, wiki) = (json!({ "repo.code": "write" }), json!({ "repo.wiki": "write" }));
        assert_eq!(kinds("owner", &Value::Null), [true, false, false, true]);
        assert_eq!(kinds("write", &code), [true, false, false, true]);
        assert_eq!(kinds("write", &wiki), [false, true, false, false], "Gitea 1.22");
        assert_eq!(kinds("none", &wiki), [false, false, false, false], "Gitea 1.27");
        let both = json!({ "repo.code": "read", "repo.wiki": "write" });
        assert_eq!(kinds("read", &both), [false, false, false, false]);
        let mixed = json!({ "repo.code": "write", "repo.issues": "read" });
        assert_eq!(kinds("read", &mixed), [true, false, true, true], "the lower one of both");
        assert_eq!(kinds("none", &code), [true, false, true, false], "never an assignee");
        let strange = json!({ "repo.wiki": "a-new-word" });
        assert_eq!(kinds("a-new-word", &strange), [false, true, false, false]);
        assert_eq!(kinds("write", &Value::Null), [false, true, false, false], "an old server");
        assert_eq!(kinds("none", &json!({ "repo.code": "none" })), [false, false, false, true]);
    }

    #[test]
    fn unknown_permission_writes_no_code() {
        assert!(!team("write", &json!({ "repo.code": "a-new-word" })).writes_code());
    }
}
