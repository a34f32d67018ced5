//! Whether the token may push to a branch, and why a push failed.

use bailiwick_fleet::ports::{ForgeError, Rights, Written};
use serde::Deserialize;

use super::client::Api;
use super::shared_requests;

/// The part of a branch that is about rights.
#[derive(Debug, Deserialize)]
struct BranchRights {
    /// The protection of the branch and the rights of the token's account together. Only Gitea tells it: GitHub
    /// says that a branch is protected, and not against whom.
    #[serde(default)]
    user_can_push: Option<bool>,
}

impl BranchRights {
    fn rights(&self) -> Rights {
        match self.user_can_push {
            Some(true) => Rights::Write,
            Some(false) => Rights::Read,
            None => Rights::Unknown,
        }
    }
}

/// The rights of the token on a branch; nothing if the branch does not exist yet.
async fn existing_branch(api: &Api, branch: &str) -> Result<Option<Rights>, ForgeError> {
    let mut path = vec!["branches"];
    path.extend(branch.split('/'));
    let response = api.get(&path, &[]).await?;
    if response.is_missing() {
        return Ok(None);
    }
    let branch: BranchRights = api.require_success(response)?.json()?;
    Ok(Some(branch.rights()))
}

/// The rights of the token on a branch. GitHub tells nothing of one that does not exist yet.
pub(super) async fn push_rights(api: &Api, branch: &str) -> Result<Rights, ForgeError> {
    Ok(existing_branch(api, branch).await?.unwrap_or(Rights::Unknown))
}

/// The same on Gitea, where rules of the repository protect branches before they exist.
pub(super) async fn gitea_push_rights(api: &Api, branch: &str) -> Result<Rights, ForgeError> {
    if let Some(known) = existing_branch(api, branch).await? {
        return Ok(known);
    }
    let response = api.get(&["branch_protections"], &[]).await?;
    // Only administrators of the repository may read the rules.
    if matches!(response.status(), 403 | 404) {
        return Ok(Rights::Unknown);
    }
    let rules: Vec<ProtectionRule> = api.require_success(response)?.json()?;
    // Gitea lists them in the order in which they apply.
    for rule in &rules {
        match rule.concerns(branch) {
            Some(true) => return rule.rights(api).await,
            Some(false) => {}
            None => return Ok(Rights::Unknown),
        }
    }
    Ok(Rights::Unknown)
}

/// A rule that protects branches by their name.
#[derive(Debug, Deserialize)]
struct ProtectionRule {
    rule_name: String,
    #[serde(default)]
    enable_push: bool,
    #[serde(default)]
    enable_push_whitelist: bool,
    #[serde(default)]
    push_whitelist_usernames: Vec<String>,
    #[serde(default)]
    push_whitelist_teams: Vec<String>,
}

impl ProtectionRule {
    /// Whether the rule is about this branch; nothing if the rule is not understood.
    fn concerns(&self, branch: &str) -> Option<bool> {
        let rule = self.rule_name.as_str();
        if rule.contains(['[', ']', '{', '}', '\\']) {
            return None;
        }
        let is_plain = !rule.contains(['*', '?']);
        Some(if is_plain { rule.eq_ignore_ascii_case(branch) } else { matches(rule, branch) })
    }

    async fn rights(&self, api: &Api) -> Result<Rights, ForgeError> {
        if !self.enable_push {
            return Ok(Rights::Read);
        }
        if !self.enable_push_whitelist {
            return Ok(Rights::Unknown);
        }
        let account = shared_requests::account(api).await?;
        let is_listed = account.is_some_and(|account| {
            self.push_whitelist_usernames.iter().any(|name| name.eq_ignore_ascii_case(&account))
        });
        Ok(match (is_listed, self.push_whitelist_teams.is_empty()) {
            (true, _) => Rights::Write,
            (false, true) => Rights::Read,
            // Who is in a team is not known here.
            (false, false) => Rights::Unknown,
        })
    }
}

/// Whether a glob of Gitea means a name: `*` and `?` stay between slashes, `**` does not. Takes at most the product of
/// both lengths, whatever the glob.
fn matches(glob: &str, name: &str) -> bool {
    // Which beginnings of the name the glob so far can mean, the empty one first.
    let mut ends: Vec<bool> = std::iter::once(true).chain(name.chars().map(|_| false)).collect();
    let mut rest = glob.chars();
    while let Some(wanted) = rest.next() {
        let crosses_slashes = wanted == '*' && rest.as_str().starts_with('*');
        if crosses_slashes {
            rest.next();
        }
        // Whether the beginning that is one character shorter fits, with this part and without it.
        let (mut with, mut without) = (false, false);
        for (end, last) in ends.iter_mut().zip(std::iter::once(None).chain(name.chars().map(Some)))
        {
            let fits = match (wanted, last) {
                ('*', None) => *end,
                ('*', Some(last)) => *end || (with && (crosses_slashes || last != '/')),
                (_, None) => false,
                ('?', Some(last)) => without && last != '/',
                (same, Some(last)) => without && same == last,
            };
            without = std::mem::replace(end, fits);
            with = fits;
        }
    }
    ends.last().copied().unwrap_or_default()
}

/// The result of a push. Git does not tell a rejected token from other refusals, so that the API is asked.
pub(super) async fn push_result(
    api: &Api,
    pushed: Result<Written, ForgeError>,
) -> Result<Written, ForgeError> {
    if !matches!(pushed, Err(ForgeError::Refused(_))) {
        return pushed;
    }
    let asked = api.get(&[], &[]).await.and_then(|response| api.require_success(response));
    match asked {
        Err(account @ ForgeError::Account(_)) => Err(account),
        Ok(_) | Err(_) => pushed,
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::random::Random;

    use super::*;

    fn rule(name: &str) -> ProtectionRule {
        ProtectionRule {
            rule_name: name.to_owned(),
            enable_push: false,
            enable_push_whitelist: false,
            push_whitelist_usernames: Vec::new(),
            push_whitelist_teams: Vec::new(),
        }
    }

    /// The definition: tries every length of each star.
    fn means(glob: &str, name: &str) -> bool {
        let tails = |until: usize, rest: &str| {
            (0..=until).any(|at| name.get(at..).is_some_and(|tail| means(rest, tail)))
        };
        if let Some(rest) = glob.strip_prefix("**") {
            return tails(name.len(), rest);
        }
        if let Some(rest) = glob.strip_prefix('*') {
            return tails(name.find('/').unwrap_or(name.len()), rest);
        }
        let (mut wanted, mut found) = (glob.chars(), name.chars());
        match (wanted.next(), found.next()) {
            (None, None) => true,
            (Some('?'), Some(one)) => one != '/' && means(wanted.as_str(), found.as_str()),
            (Some(same), Some(one)) => same == one && means(wanted.as_str(), found.as_str()),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    #[test]
    fn globs_mean_the_same_as_their_definition() {
        let mut random = Random::rotating("globs_mean_the_same_as_their_definition");
        let mut matching = 0;
        for _ in 0..20_000 {
            let mut text = |letters: &[u8], max_length: usize| -> String {
                (0..random.below(max_length))
                    .map(|_| char::from(letters[random.below(letters.len())]))
                    .collect()
            };
            let (glob, name) = (text(b"ab/**?", 8), text(b"ab/", 8));
            assert_eq!(matches(&glob, &name), means(&glob, &name), "{glob} {name}");
            matching += usize::from(matches(&glob, &name));
        }
        assert!(matching > 100, "{matching}");
    }

    /// Trying every length of each star would never end here.
    #[test]
    fn hostile_glob_is_decided() {
        let name = "a".repeat(255);
        for star in ["*", "**"] {
            let stars = format!("{star}a").repeat(80);
            assert_eq!(rule(&format!("{stars}b")).concerns(&name), Some(false));
            assert_eq!(rule(&format!("{stars}{star}")).concerns(&name), Some(true));
        }
    }

    #[test]
    fn globs_match_like_giteas() {
        for (name, branch, expected) in [
            ("Main", "main", Some(true)),
            ("release/*", "release/1", Some(true)),
            ("release/*", "release/1/x", Some(false)),
            ("release/**", "release/1/x", Some(true)),
            ("*", "a/b", Some(false)),
            ("v?", "v1", Some(true)),
            ("v?", "v12", Some(false)),
            ("v[0-9]", "v1", None),
            ("{a,b}", "a", None),
        ] {
            assert_eq!(rule(name).concerns(branch), expected, "{name} {branch}");
        }
    }

    #[test]
    fn rights_are_read_from_the_forges_answer() {
        let rights = |text: &str| serde_json::from_str::<BranchRights>(text).unwrap().rights();
        let gitea = r#"{"protected": true, "user_can_push": false, "commit": {"id": "a"}}"#;
        assert_eq!(rights(gitea), Rights::Read);
        assert_eq!(rights(r#"{"protected": true, "user_can_push": true}"#), Rights::Write);
        assert_eq!(rights(r#"{"protected": false, "user_can_push": true}"#), Rights::Write);
        assert_eq!(rights(r#"{"protected": true}"#), Rights::Unknown);
    }
}
