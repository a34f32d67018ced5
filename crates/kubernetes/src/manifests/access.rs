//! What the operator may do in the cluster: as little as it needs, in one namespace.

use std::collections::BTreeMap;

use bailiwick_resources::{API_VERSION, Kind};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Label, OPERATOR};
use crate::sync::{Direction, synced_kinds};

/// The account of the operator, and its role in the namespace.
#[derive(Debug, Clone)]
pub struct Access {
    /// The account.
    pub account: ServiceAccount,
    /// The role.
    pub role: Role,
    /// Gives the role to the account.
    pub binding: RoleBinding,
}

impl Access {
    /// The access to one namespace.
    pub fn of(namespace: &Label) -> Self {
        let metadata = || ObjectMeta {
            name: Some(OPERATOR.to_owned()),
            namespace: Some(namespace.to_string()),
            labels: Some(BTreeMap::from([(
                "app.kubernetes.io/part-of".to_owned(),
                "bailiwick".to_owned(),
            )])),
            ..ObjectMeta::default()
        };
        Self {
            account: ServiceAccount {
                metadata: metadata(),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            },
            role: Role { metadata: metadata(), rules: Some(rules()) },
            binding: RoleBinding {
                metadata: metadata(),
                role_ref: RoleRef {
                    api_group: "rbac.authorization.k8s.io".to_owned(),
                    kind: "Role".to_owned(),
                    name: OPERATOR.to_owned(),
                },
                subjects: Some(vec![Subject {
                    kind: "ServiceAccount".to_owned(),
                    name: OPERATOR.to_owned(),
                    namespace: Some(namespace.to_string()),
                    ..Subject::default()
                }]),
            },
        }
    }

    /// The objects as YAML documents, in the order in which they are made.
    pub fn yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        Ok(crate::documents(&[
            serde_saphyr::to_string(&self.account)?,
            serde_saphyr::to_string(&self.role)?,
            serde_saphyr::to_string(&self.binding)?,
        ]))
    }
}

pub(super) fn rules() -> Vec<PolicyRule> {
    let group = API_VERSION.split_once('/').map_or(API_VERSION, |(group, _)| group);
    let plurals = |wanted: Direction, suffix: &str| -> Vec<String> {
        let kinds = synced_kinds().filter(|(_, direction)| *direction == wanted);
        kinds.map(|(kind, _): (Kind, _)| format!("{}{suffix}", kind.plural())).collect()
    };
    let mut statuses = plurals(Direction::Declared, "/status");
    statuses.extend(plurals(Direction::Recorded, "/status"));
    vec![
        // `patch` is for the finalizer.
        rule(group, plurals(Direction::Declared, ""), &["get", "list", "watch", "patch"]),
        rule(
            group,
            plurals(Direction::Recorded, ""),
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(group, statuses, &["patch"]),
        rule("", vec!["events".to_owned()], &["create"]),
        // Its uid says whose copies the server has. A Role allows it for its own namespace only.
        rule("", vec!["namespaces".to_owned()], &["get"]),
        rule("coordination.k8s.io", vec!["leases".to_owned()], &["create", "get", "update"]),
        rule("authorization.k8s.io", vec!["localsubjectaccessreviews".to_owned()], &["create"]),
    ]
}

fn rule(group: &str, resources: Vec<String>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::rules;

    #[test]
    fn operator_cannot_read_secrets_or_grant_permissions() {
        for rule in rules() {
            let resources = rule.resources.unwrap();
            assert!(!resources.is_empty());
            for forbidden in
                ["*", "secrets", "pods", "roles", "rolebindings", "serviceaccounts/token"]
            {
                assert!(!resources.iter().any(|resource| resource == forbidden), "{resources:?}");
            }
            for forbidden in ["*", "escalate", "bind", "impersonate", "deletecollection"] {
                assert!(!rule.verbs.iter().any(|verb| verb == forbidden), "{:?}", rule.verbs);
            }
        }
    }
}
