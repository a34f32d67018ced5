//! What the pod of an attempt is granted of its cluster. Untrusted work gets nothing of it.

use bailiwick_resources::{
    AgentServiceAccount, DEFAULT_NAMESPACE, IDENTITY_TOKEN, Object, PodGrants, PodIdentity,
    PodToken, TrustTier,
};
use toml::{Table, Value};

use super::LaunchRefusal;

/// An identity, as it was admitted and as it is now.
pub(super) struct LaunchIdentity {
    pub(super) admitted: Option<Object<AgentServiceAccount>>,
    pub(super) current: Option<Object<AgentServiceAccount>>,
}

/// What the pod of an attempt is granted. `trust` is that of the run, its repository and its pool.
pub(super) fn pod_grants(
    identity: &LaunchIdentity,
    trust: TrustTier,
) -> Result<PodGrants, LaunchRefusal> {
    let (Some(admitted), Some(current)) = (&identity.admitted, &identity.current) else {
        return Ok(PodGrants::default());
    };
    match trust {
        TrustTier::Trusted => {}
        TrustTier::Untrusted => return Ok(PodGrants::default()),
    }
    let (admitted, current) = (&admitted.spec, &current.spec);
    let place = |account: &AgentServiceAccount| {
        (account.namespace.clone(), account.service_account_name.clone())
    };
    if place(admitted) != place(current) {
        return Err(changed("it is another ServiceAccount"));
    }
    Ok(PodGrants {
        identity: Some(PodIdentity {
            account: current.service_account_name.clone(),
            namespace: Some(&current.namespace)
                .filter(|namespace| *namespace != DEFAULT_NAMESPACE)
                .cloned(),
            image_pull_secrets: current.image_pull_secret_refs.clone(),
            token: token(admitted, current)?,
        }),
    })
}

/// The token, if both the admitted and the current version have one.
fn token(
    admitted: &AgentServiceAccount,
    current: &AgentServiceAccount,
) -> Result<Option<PodToken>, LaunchRefusal> {
    if !(admitted.automount_service_account_token && current.automount_service_account_token) {
        return Ok(None);
    }
    if admitted.token_audience != current.token_audience {
        return Err(changed("its token is for another audience"));
    }
    let audience = current.token_audience.clone().filter(|_| current.has_audience());
    let audience = audience.ok_or_else(|| changed("its token has no audience"))?;
    Ok(Some(PodToken { audience, seconds: current.token_expiration_seconds }))
}

fn changed(what: &str) -> LaunchRefusal {
    let why = format!("the identity changed since the admission, {what}; start a new run");
    LaunchRefusal::PermissionsChanged(why)
}

/// The task of an attempt, with the token of its identity as a secret file.
pub(super) fn with_identity_token(
    task: String,
    grants: &PodGrants,
) -> Result<String, LaunchRefusal> {
    if grants.token().is_none() {
        return Ok(task);
    }
    let unreadable = LaunchRefusal::TaskUnreadable;
    let mut read: Table =
        task.parse().map_err(|error: toml::de::Error| unreadable(error.to_string()))?;
    let agent = read.entry("agent").or_insert_with(|| Value::Table(Table::new()));
    let files = agent
        .as_table_mut()
        .map(|agent| agent.entry("secret-files").or_insert_with(|| Value::Array(Vec::new())));
    let files = files.and_then(Value::as_array_mut);
    let files = files.ok_or_else(|| unreadable("`agent.secret-files` is no list".to_owned()))?;
    files.push(Value::String(IDENTITY_TOKEN.to_owned()));
    toml::to_string(&read).map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use bailiwick_model::{Source, Task};
    use bailiwick_resources::Metadata;
    use serde_json::json;

    use super::*;

    fn account(change: impl FnOnce(&mut serde_json::Value)) -> Option<Object<AgentServiceAccount>> {
        let mut spec = json!({
            "serviceAccountName": "fixer", "owner": { "kind": "organization", "name": "acme" },
            "tokenAudience": "vault", "tokenExpirationSeconds": 7_200,
            "automountServiceAccountToken": true, "imagePullSecretRefs": ["registry"],
        });
        change(&mut spec);
        Some(Object::new(Metadata::named("fixer"), serde_json::from_value(spec).unwrap()))
    }

    fn granted(change: impl FnOnce(&mut serde_json::Value)) -> Result<PodGrants, LaunchRefusal> {
        let identity = LaunchIdentity { admitted: account(|_| {}), current: account(change) };
        pod_grants(&identity, TrustTier::Trusted)
    }

    #[test]
    fn trusted_run_gets_its_account_and_a_token_that_it_was_admitted_with() {
        let identity = granted(|_| {}).unwrap().identity.unwrap();
        assert_eq!(
            (identity.account.as_str(), identity.image_pull_secrets),
            ("fixer", vec!["registry".to_owned()])
        );
        let token = PodToken { audience: "vault".to_owned(), seconds: 7_200 };
        assert_eq!((identity.token, identity.namespace), (Some(token), None));
        let without = granted(|spec| spec["automountServiceAccountToken"] = json!(false)).unwrap();
        assert_eq!(without.token(), None, "today's version withdraws it");
        let admitted = account(|spec| spec["automountServiceAccountToken"] = json!(false));
        let identity = LaunchIdentity { admitted, current: account(|_| {}) };
        let grants = pod_grants(&identity, TrustTier::Trusted).unwrap();
        assert!(grants.identity.is_some() && grants.token().is_none(), "it was not admitted");
    }

    #[test]
    fn untrusted_run_gets_nothing_of_the_cluster() {
        let identity = LaunchIdentity { admitted: account(|_| {}), current: account(|_| {}) };
        assert_ne!(pod_grants(&identity, TrustTier::Trusted).unwrap(), PodGrants::default());
        assert_eq!(pod_grants(&identity, TrustTier::Untrusted).unwrap(), PodGrants::default());
    }

    #[test]
    fn other_account_or_audience_than_was_admitted_is_refused() {
        for (field, value) in [
            ("serviceAccountName", json!("admin")),
            ("namespace", json!("other")),
            ("tokenAudience", json!("another")),
        ] {
            let refused = granted(|spec| spec[field] = value);
            assert!(matches!(refused, Err(LaunchRefusal::PermissionsChanged(_))), "{field}");
        }
    }

    #[test]
    fn task_names_the_token_as_a_secret_file_of_the_agent() {
        let task = "[task]\nrole = \"developer\"\n[body]\ntext = \"Mend it.\"\n";
        let other = format!("{task}[agent]\nsecret-files = [\"OTHER\"]\n");
        for task in [task, other.as_str()] {
            let changed = with_identity_token(task.to_owned(), &granted(|_| {}).unwrap()).unwrap();
            let parsed = Task::parse(&Source::new("the task", changed.as_str())).unwrap();
            let last = parsed.agent.secret_files.last().map(ToString::to_string);
            assert_eq!(last.as_deref(), Some(IDENTITY_TOKEN));
            let unchanged = with_identity_token(task.to_owned(), &PodGrants::default()).unwrap();
            assert_eq!(unchanged, task);
        }
    }
}
