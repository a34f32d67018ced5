//! What the operator may do, compared with what `access` prints.

use k8s_openapi::api::authorization::v1::{ResourceRule, SubjectRulesReviewStatus};
use k8s_openapi::api::rbac::v1::PolicyRule;

use super::access::rules;

const EVERYTHING: &str = "*";
/// How many missing permissions a message names.
const MAX_NAMED: usize = 5;

/// How the permissions of the operator differ from those that it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnRights {
    /// Permissions that it lacks, as `patch agentstacks.bailiwick.dev/status`.
    pub missing: Vec<String>,
    /// Permissions that it should not have, as `get secrets`.
    pub excess: Vec<String>,
    /// Whether the API server knows all permissions. If not, those that are missing may be there.
    pub is_complete: bool,
}

impl OwnRights {
    /// Compares the answer of an API server.
    pub fn of(found: &SubjectRulesReviewStatus) -> Self {
        let all = &found.resource_rules;
        let needed = rules();
        let missing = needed.iter().flat_map(permissions).filter(|wanted| !is_covered(wanted, all));
        Self {
            missing: missing.map(|permission| permission.to_string()).collect(),
            excess: excess(all),
            is_complete: !found.incomplete && found.evaluation_error.is_none(),
        }
    }

    /// The first of the missing permissions, for people.
    pub fn missing_text(&self) -> String {
        let named = self.missing.iter().take(MAX_NAMED).map(String::as_str);
        let text = named.collect::<Vec<_>>().join(", ");
        match self.missing.len().saturating_sub(MAX_NAMED) {
            0 => text,
            more => format!("{text} and {more} more"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Permission {
    group: String,
    resource: String,
    verb: String,
}

impl std::fmt::Display for Permission {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, resource, verb } = self;
        let (name, sub) = match resource.split_once('/') {
            Some((name, sub)) => (name, format!("/{sub}")),
            None => (resource.as_str(), String::new()),
        };
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        write!(out, "{verb} {name}{group}{sub}")
    }
}

fn permissions(rule: &PolicyRule) -> Vec<Permission> {
    let groups = rule.api_groups.iter().flatten();
    let each = groups.flat_map(|group| {
        let resources = rule.resources.iter().flatten();
        resources.flat_map(move |resource| {
            rule.verbs.iter().map(move |verb| Permission {
                group: group.clone(),
                resource: resource.clone(),
                verb: verb.clone(),
            })
        })
    });
    each.collect()
}

fn is_covered(wanted: &Permission, all: &[ResourceRule]) -> bool {
    all.iter().any(|rule| {
        let names = rule.resource_names.iter().flatten();
        let is_for_all =
            names.clone().next().is_none() || names.clone().any(|name| name == EVERYTHING);
        is_for_all
            && has(rule.api_groups.as_deref(), &wanted.group)
            && has_resource(rule.resources.as_deref(), &wanted.resource)
            && has(Some(&rule.verbs), &wanted.verb)
    })
}

fn has(all: Option<&[String]>, wanted: &str) -> bool {
    all.into_iter().flatten().any(|one| one == EVERYTHING || one == wanted)
}

fn has_resource(all: Option<&[String]>, wanted: &str) -> bool {
    let of_any = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    has(all, wanted) || of_any.is_some_and(|of_any| has(all, &of_any))
}

/// Secrets, and anything that stands for everything.
fn excess(all: &[ResourceRule]) -> Vec<String> {
    let mut found = Vec::new();
    for rule in all {
        for resource in rule.resources.iter().flatten() {
            let is_secret = resource == "secrets" && has(rule.api_groups.as_deref(), "");
            let is_all = resource == EVERYTHING || has(Some(&rule.verbs), EVERYTHING);
            if is_secret || is_all {
                found.push(format!("{} {resource}", rule.verbs.join(",")));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(rules: &[PolicyRule]) -> SubjectRulesReviewStatus {
        let resource_rules = rules.iter().map(|rule| ResourceRule {
            api_groups: rule.api_groups.clone(),
            resource_names: rule.resource_names.clone(),
            resources: rule.resources.clone(),
            verbs: rule.verbs.clone(),
        });
        let resource_rules = resource_rules.collect();
        SubjectRulesReviewStatus { resource_rules, ..SubjectRulesReviewStatus::default() }
    }

    fn rule(group: &str, resource: &str, verb: &str) -> PolicyRule {
        PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: vec![verb.to_owned()],
            ..PolicyRule::default()
        }
    }

    #[test]
    fn role_of_the_operator_is_enough_and_each_part_of_it_is_needed() {
        let complete = OwnRights { is_complete: true, ..OwnRights::default() };
        assert_eq!(OwnRights::of(&granted(&rules())), complete);
        for index in 0..rules().len() {
            let mut fewer = rules();
            fewer.remove(index);
            assert!(!OwnRights::of(&granted(&fewer)).missing.is_empty(), "{:?}", rules()[index]);
        }
        let found = OwnRights::of(&granted(&[]));
        assert!(found.missing.contains(&"create events".to_owned()), "{found:?}");
        assert!(found.missing.contains(&"patch agentstacks.bailiwick.dev/status".to_owned()));
        assert!(found.missing_text().contains(" more"), "{}", found.missing_text());
    }

    #[test]
    fn permission_for_one_name_is_not_enough() {
        let mut named = rules();
        for rule in &mut named {
            rule.resource_names = Some(vec!["one".to_owned()]);
        }
        assert_eq!(OwnRights::of(&granted(&named)).missing, OwnRights::of(&granted(&[])).missing);
    }

    #[test]
    fn secrets_and_wildcards_are_too_much() {
        let all = rule("*", "*", "*");
        let found = OwnRights::of(&granted(&[all]));
        assert_eq!((found.missing, found.excess), (vec![], vec!["* *".to_owned()]));
        let mut more = rules();
        more.push(rule("", "secrets", "get"));
        assert_eq!(OwnRights::of(&granted(&more)).excess, ["get secrets"]);
    }

    #[test]
    fn incomplete_answer_is_marked() {
        let incomplete = SubjectRulesReviewStatus { incomplete: true, ..granted(&[]) };
        assert!(!OwnRights::of(&incomplete).is_complete);
    }
}
