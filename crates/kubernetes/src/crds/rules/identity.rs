//! Identities, bindings and grants.

use super::{Limit, Limits, MAX_U32, holds, name};

pub(super) fn service_account() -> Limits {
    let mut limits = vec![("tokenExpirationSeconds", Limit::Range(600.0, 86_400.0))];
    limits.extend(name("serviceAccountName"));
    limits
}

pub(super) fn role_binding() -> Limits {
    let named = "(has(self.name) && self.name != '')";
    vec![
        ("subject.name", Limit::NotEmpty),
        ("resourceRules[].resources", Limit::NotEmpty),
        ("resourceRules[].verbs", Limit::NotEmpty),
        (
            "scope",
            holds(
                format!("!(self.kind in ['namespace', 'repository']) || {named}"),
                "this scope needs a `name`",
            ),
        ),
        (
            "scope",
            holds(format!("self.kind != 'cluster' || !{named}"), "the scope `cluster` has no name"),
        ),
        (
            "",
            holds(
                "!has(self.escalationPolicy) || self.escalationPolicy != 'allow-if-owner' || \
                 self.scope.kind == 'repository'",
                "`allow-if-owner` needs the scope `repository`",
            ),
        ),
    ]
}

/// A secret or config map by its name and at least one key.
fn keys(
    reference: &'static str,
    object: &'static str,
    list: &'static str,
    item: &'static str,
) -> Limits {
    let mut limits = vec![
        (reference, Limit::Required("keys")),
        (list, Limit::NotEmpty),
        (item, Limit::NotEmpty),
    ];
    limits.extend(name(object));
    limits
}

pub(super) fn secret_grant() -> Limits {
    let mut limits = keys("secretRef", "secretRef.name", "secretRef.keys", "secretRef.keys[]");
    limits.push(("rotationPolicy.maxAgeDays", Limit::Range(1.0, MAX_U32)));
    limits
}

pub(super) fn config_grant() -> Limits {
    keys("configMapRef", "configMapRef.name", "configMapRef.keys", "configMapRef.keys[]")
}
