//! The declared objects that a run depends on: compared when a failed run is retried, to find what was fixed.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::{
    AgentConfigGrant, AgentDispatchAttempt, AgentDispatchRun, AgentRoleBinding, AgentSecretGrant,
    Kind, Object, Repository, RunnerPool, StackSnapshot, Subject,
};

use super::launch::more_labels;
use crate::admission::{Inventory, snapshot};

/// The value of an object that does not exist.
const ABSENT: &str = "absent";

/// The objects that a run depends on, as `Kind/name`, each with a digest of its spec. Kinds that could not be listed
/// are left out: they count as unchanged.
pub(super) fn dependencies(
    inventory: &Inventory,
    run: &Object<AgentDispatchRun>,
    attempt: Option<&Object<AgentDispatchAttempt>>,
) -> BTreeMap<String, String> {
    let mut found = Dependencies { inventory, found: BTreeMap::new() };
    let namespace = &run.metadata.namespace;
    let admitted = attempt.map(|attempt| &attempt.spec.agent_stack_snapshot);
    let mut names = found.add_stack(namespace, &run.spec.agent_stack, admitted);
    names.extend(found.add_pool(namespace, &run.spec.runner_pool));
    if let Some(rule) = &run.spec.trigger_rule {
        found.add(Kind::AgentTriggerRule, namespace, rule);
    }
    found.add_repository(&run.spec.repository);
    found.add_permissions(&names);
    found.found
}

/// The changes since: every object whose digest differs, or that exists only now or existed only then.
pub(super) fn changed_since(
    then: &BTreeMap<String, String>,
    today: &BTreeMap<String, String>,
) -> Vec<String> {
    let absent = ABSENT.to_owned();
    let names: BTreeSet<&String> = then.keys().chain(today.keys()).collect();
    let differs =
        |name: &&String| then.get(*name).unwrap_or(&absent) != today.get(*name).unwrap_or(&absent);
    names.into_iter().filter(differs).cloned().collect()
}

struct Dependencies<'a> {
    inventory: &'a Inventory,
    found: BTreeMap<String, String>,
}

impl Dependencies<'_> {
    fn add(&mut self, kind: Kind, namespace: &str, name: &str) {
        if self.inventory.require_listed(kind).is_err() {
            return;
        }
        let object = self.inventory.object(kind, namespace, name);
        let digest = object.map(|object| object.spec_digest().prefix(16).to_owned());
        let value = digest.unwrap_or_else(|| ABSENT.to_owned());
        self.found.insert(format!("{kind}/{name}"), value);
    }

    /// The names of the stack and everything it names, as admitted and as they are now.
    fn add_stack(
        &mut self,
        namespace: &str,
        stack: &str,
        admitted: Option<&StackSnapshot>,
    ) -> BTreeSet<String> {
        let labels = admitted.map(more_labels).unwrap_or_default();
        let today = snapshot(self.inventory, namespace, stack, &labels).ok();
        let then = admitted.into_iter().flat_map(|admitted| &admitted.objects);
        let now = today.iter().flat_map(|frozen| &frozen.snapshot.objects);
        let mut all: BTreeSet<(Kind, String)> =
            then.chain(now).map(|one| (one.object.kind, one.object.name.clone())).collect();
        let missing = today.iter().flat_map(|frozen| &frozen.missing);
        all.extend(missing.map(|one| (one.object.kind, one.object.name.clone())));
        all.insert((Kind::AgentStack, stack.to_owned()));
        for (kind, name) in &all {
            self.add(*kind, namespace, name);
        }
        all.into_iter().map(|(_, name)| name).collect()
    }

    /// The pool and the identity of its runners; their names.
    fn add_pool(&mut self, namespace: &str, name: &str) -> Vec<String> {
        self.add(Kind::RunnerPool, namespace, name);
        let pool = self.inventory.get::<RunnerPool>(namespace, name).ok();
        let account = pool.map(|pool| pool.spec.service_account_ref);
        if let Some(account) = &account {
            self.add(Kind::AgentServiceAccount, namespace, account);
        }
        [name.to_owned()].into_iter().chain(account).collect()
    }

    /// The repository and the credential that writes to its forge.
    fn add_repository(&mut self, full_name: &str) {
        let all = self.inventory.readable::<Repository>().unwrap_or_default();
        let mut all = all.into_iter();
        let same = |one: &Object<Repository>| one.spec.full_name.eq_ignore_ascii_case(full_name);
        let Some(repository) = all.find(same) else { return };
        let namespace = &repository.metadata.namespace;
        self.add(Kind::Repository, namespace, repository.name());
        if let Some(key) = &repository.spec.credential_ref {
            self.add(Kind::Secret, namespace, &key.name);
        }
    }

    /// Grants and bindings of the named subjects, with the secrets and config maps that they are about. Of a secret
    /// only the times of its values are known here.
    fn add_permissions(&mut self, subjects: &BTreeSet<String>) {
        let meant = |subject: &Subject| {
            subjects.contains(&subject.name)
                || subject.stack_ref.as_ref().is_some_and(|stack| subjects.contains(stack))
        };
        for binding in self.inventory.readable::<AgentRoleBinding>().unwrap_or_default() {
            if meant(&binding.spec.subject) {
                self.add(Kind::AgentRoleBinding, &binding.metadata.namespace, binding.name());
            }
        }
        for grant in self.inventory.readable::<AgentSecretGrant>().unwrap_or_default() {
            if meant(&grant.spec.subject) {
                let namespace = &grant.metadata.namespace;
                self.add(Kind::AgentSecretGrant, namespace, grant.name());
                let secret = &grant.spec.secret_ref;
                self.add(
                    Kind::Secret,
                    secret.namespace.as_deref().unwrap_or(namespace),
                    &secret.name,
                );
            }
        }
        for grant in self.inventory.readable::<AgentConfigGrant>().unwrap_or_default() {
            if meant(&grant.spec.subject) {
                let namespace = &grant.metadata.namespace;
                self.add(Kind::AgentConfigGrant, namespace, grant.name());
                let map = &grant.spec.config_map_ref;
                self.add(Kind::ConfigMap, map.namespace.as_deref().unwrap_or(namespace), &map.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_different_values_count_as_changed() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let before = map(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", ABSENT)]);
        let now = map(&[("a", "1"), ("b", "2"), ("d", ABSENT), ("e", "1"), ("f", ABSENT)]);
        assert_eq!(changed_since(&before, &now), ["b", "c", "e"]);
        assert!(changed_since(&before, &before).is_empty());
    }
}
