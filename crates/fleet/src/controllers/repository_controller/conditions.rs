//! The conditions of a repository. One pure function computes them from its spec and the facts in its status, and
//! everything that changes such a fact calls [`update_conditions`] before it stores the status.

use bailiwick_resources::{
    ConditionType, Finding, ForgeFacts, ForgeKind, ForgeProblem, ForgeUse, Moment, Object, Reason,
    Repository, RepositoryStatus, Standing, settle,
};

use crate::controllers::ReconcileError;
use crate::ports::{AccountProblem, ForgeError};
use crate::triggers::text::beginning;

/// The maximum length of a stored error.
const MAX_ERROR_LENGTH: usize = 500;

/// The conditions, in the order of `expected_conditions`. A new fact gets its own function here.
pub(in crate::controllers) fn repository_conditions(
    repository: &Object<Repository>,
) -> Vec<Finding> {
    let needed = [forge_reachable(repository), account_sufficient(repository)];
    let ready = ready(&needed, &repository.status);
    let mut findings = Vec::from(needed);
    // Without these agents can work: what they limit is in their messages.
    findings.extend([actor_rights_known(repository), version_supported(repository)]);
    findings.push(ready);
    findings
}

/// Computes the conditions again, to be stored with the facts that have changed.
pub(in crate::controllers) fn update_conditions(repository: &mut Object<Repository>, now: Moment) {
    let findings = repository_conditions(repository);
    let generation = repository.metadata.generation;
    let before = std::mem::take(&mut repository.status.conditions);
    repository.status.conditions = settle(&before, findings, generation, now);
    repository.status.observed_generation = generation;
}

/// Whether a repository is connected to a forge.
pub(in crate::controllers) fn has_forge(repository: &Repository) -> bool {
    match repository.forge {
        ForgeKind::Github | ForgeKind::Gitea => repository.credential_ref.is_some(),
        ForgeKind::Generic | ForgeKind::Local => false,
    }
}

fn forge_reachable(repository: &Object<Repository>) -> Finding {
    let kind = ConditionType::ForgeReachable;
    let status = &repository.status;
    if let Some(problem) = status.forge_problems.first() {
        let message = format!("{}: {}", problem.used_for.as_str(), problem.message);
        return Finding::fails(kind, problem.reason, message);
    }
    if !has_forge(&repository.spec) {
        let message = "it has no forge with a credential, so none is asked";
        return Finding::holds(kind, Reason::NoForge, message);
    }
    match status.observed_at {
        Some(_) => Finding::holds(kind, Reason::ForgeAnswers, "the forge answers"),
        None => Finding::unknown(kind, Reason::NotYetObserved, "the forge was not asked yet"),
    }
}

/// A finding from the forge's facts about the account; the same for every kind if there are none.
fn about_account(
    repository: &Object<Repository>,
    kind: ConditionType,
    judge: impl FnOnce(&ForgeFacts) -> Finding,
) -> Finding {
    if !has_forge(&repository.spec) {
        let message = "it has no forge with a credential, so none is asked";
        return Finding::holds(kind, Reason::NoForge, message);
    }
    match &repository.status.forge_facts {
        Some(facts) => judge(facts),
        None => Finding::unknown(kind, Reason::NotYetObserved, "the forge has not answered yet"),
    }
}

fn account_sufficient(repository: &Object<Repository>) -> Finding {
    let kind = ConditionType::AccountSufficient;
    let problems = &repository.status.forge_problems;
    if let Some(problem) = problems.iter().find(|problem| is_account_problem(problem.reason)) {
        return Finding::fails(kind, problem.reason, problem.message.clone());
    }
    about_account(repository, kind, |facts| {
        if !facts.missing_scopes.is_empty() {
            let message = format!(
                "the token lacks {}; create a token with these scopes and store it in the secret of \
                 spec.credentialRef",
                facts.missing_scopes.join(", ")
            );
            return Finding::fails(kind, Reason::ForgeScopeMissing, message);
        }
        if !facts.may_write {
            let message = "the account may not write to the repository, so that nothing can be \
                           pushed; give it write access";
            return Finding::fails(kind, Reason::ForgeWriteAccessMissing, message);
        }
        let mut message = "the token may read and write".to_owned();
        if !facts.missing_optional.is_empty() {
            message += "; it lacks ";
            message += &facts.missing_optional.join(", ");
            message += ", which only some features need";
        }
        Finding::holds(kind, Reason::ForgeAccountSuffices, message)
    })
}

/// Whether a person has to change the account, its token or the name of the repository.
fn is_account_problem(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ForgeTokenRejected
            | Reason::ForgeRepositoryNotFound
            | Reason::ForgeRepositoryRenamed
            | Reason::ForgeScopeMissing
            | Reason::CredentialMissing
    )
}

fn actor_rights_known(repository: &Object<Repository>) -> Finding {
    let kind = ConditionType::ActorRightsKnown;
    about_account(repository, kind, |facts| match facts.reads_rights {
        true => {
            let message = "the forge tells which accounts may write";
            Finding::holds(kind, Reason::ActorRightsReadable, message)
        }
        false => {
            let message = "this token cannot learn which accounts may write code, so that comments and labels of \
                           others are not trusted; use the token of an owner of the organization with the scope \
                           read:organization, or give every team of the repository write access to code";
            Finding::fails(kind, Reason::ActorRightsUnreadable, message)
        }
    })
}

fn version_supported(repository: &Object<Repository>) -> Finding {
    let kind = ConditionType::ForgeVersionSupported;
    about_account(repository, kind, |facts| {
        let version = facts.version.as_deref();
        if !facts.missing_features.is_empty() {
            let message = format!(
                "version {} lacks: {}; update the forge to use them",
                version.unwrap_or("unknown"),
                facts.missing_features.join("; ")
            );
            return Finding::fails(kind, Reason::ForgeVersionOld, message);
        }
        match (version, repository.spec.forge) {
            (Some(version), _) => {
                let message = format!("version {version} has every feature that is used");
                Finding::holds(kind, Reason::ForgeVersionCurrent, message)
            }
            (None, ForgeKind::Gitea) => {
                let message = "the forge does not tell its version; features that it lacks fail when they are used";
                Finding::unknown(kind, Reason::ForgeVersionUnknown, message)
            }
            (None, ForgeKind::Github | ForgeKind::Generic | ForgeKind::Local) => {
                Finding::holds(kind, Reason::ForgeVersionCurrent, "the forge has no versions")
            }
        }
    })
}

/// The worst of the others and of the checkout.
fn ready(others: &[Finding], status: &RepositoryStatus) -> Finding {
    let kind = ConditionType::Ready;
    if let Some(problem) = &status.checkout_problem {
        return Finding::fails(kind, Reason::RequirementsUnmet, problem.clone());
    }
    let worst = |standing| others.iter().find(|one| one.status == standing);
    if let Some(unmet) = worst(Standing::False) {
        let message = format!("{}: {}", unmet.kind.as_str(), unmet.message);
        return Finding::fails(kind, Reason::RequirementsUnmet, message);
    }
    match worst(Standing::Unknown) {
        Some(unknown) => {
            let message = format!("{}: {}", unknown.kind.as_str(), unknown.message);
            Finding::unknown(kind, Reason::RequirementsUnknown, message)
        }
        None => Finding::holds(kind, Reason::AllConditionsMet, "agents can work on it"),
    }
}

/// The effect of a failed use of a forge on its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::controllers) struct Problem {
    pub(in crate::controllers) reason: Reason,
    pub(in crate::controllers) message: String,
}

impl Problem {
    pub(in crate::controllers) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The effect of a controller's error on the repository.
    pub(in crate::controllers) fn of(error: &ReconcileError) -> Self {
        if let ReconcileError::Forge(error) = error {
            return Self::of_forge(error);
        }
        let reason = match matches!(error, ReconcileError::Credential { .. }) {
            true => Reason::CredentialMissing,
            false => Reason::ForgeRefused,
        };
        Self::new(reason, error.to_string())
    }

    /// The effect of a forge's error on the repository.
    pub(in crate::controllers) fn of_forge(error: &ForgeError) -> Self {
        let reason = match error {
            ForgeError::Unavailable(_) => Reason::ForgeUnreachable,
            ForgeError::Account(AccountProblem::TokenRejected) => Reason::ForgeTokenRejected,
            ForgeError::Account(AccountProblem::RightMissing { .. }) => Reason::ForgeScopeMissing,
            ForgeError::Account(AccountProblem::RepositoryNotFound) => {
                Reason::ForgeRepositoryNotFound
            }
            ForgeError::Account(AccountProblem::Renamed { .. }) => Reason::ForgeRepositoryRenamed,
            ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_) => {
                Reason::ForgeRefused
            }
        };
        Self::new(reason, error.to_string())
    }
}

/// Records one use of a forge: a use that works removes its own problem and no other.
pub(in crate::controllers) fn record_use(
    status: &mut RepositoryStatus,
    used_for: ForgeUse,
    problem: Option<Problem>,
) {
    status.forge_problems.retain(|known| known.used_for != used_for);
    if let Some(Problem { reason, message }) = problem {
        let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = beginning(&words, MAX_ERROR_LENGTH).to_owned();
        status.forge_problems.push(ForgeProblem { used_for, reason, message });
        status.forge_problems.sort_by_key(|known| known.used_for);
    }
    let lines = status
        .forge_problems
        .iter()
        .map(|known| format!("{}: {}", known.used_for.as_str(), known.message));
    let lines: Vec<String> = lines.collect();
    status.fault = (!lines.is_empty()).then(|| lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{
        ForgeUse, Kind, Object, Reason, Repository, Standing, expected_conditions,
    };
    use serde_json::json;

    use super::{
        AccountProblem, ForgeError, ForgeFacts, Problem, record_use, repository_conditions,
        update_conditions,
    };

    fn repository(forge: &str) -> Object<Repository> {
        let spec = json!({
            "fullName": "acme/app", "forge": forge, "checkout": "/srv/app",
            "apiUrl": "https://forge.example/api/v1",
            "credentialRef": { "name": "forge", "key": "token" },
        });
        let spec: Repository = serde_json::from_value(spec).unwrap();
        Object::new(bailiwick_resources::Metadata::named("app"), spec)
    }

    fn standings(repository: &Object<Repository>) -> Vec<(Standing, Reason)> {
        let found = repository_conditions(repository);
        let kinds: Vec<_> = found.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, expected_conditions(Kind::Repository));
        found.iter().map(|one| (one.status, one.reason)).collect()
    }

    fn sufficient_facts() -> ForgeFacts {
        let version = Some("1.27.2".to_owned());
        ForgeFacts { version, may_write: true, reads_rights: true, ..ForgeFacts::default() }
    }

    #[test]
    fn only_required_account_rights_make_a_repository_unready() {
        let mut object = repository("gitea");
        object.status.observed_at = Some(bailiwick_resources::Moment::from_millis(7));
        let mut standings_with = |facts: ForgeFacts| {
            object.status.forge_facts = Some(facts);
            let found = standings(&object);
            (found[1], found[2], found[3], found[4].0)
        };
        let suffices = (Standing::True, Reason::ForgeAccountSuffices);
        let readable = (Standing::True, Reason::ActorRightsReadable);
        let current = (Standing::True, Reason::ForgeVersionCurrent);
        assert_eq!(
            standings_with(sufficient_facts()),
            (suffices, readable, current, Standing::True)
        );
        let scopes = vec!["write:issue".to_owned()];
        let lacking = (Standing::False, Reason::ForgeScopeMissing);
        let found = standings_with(ForgeFacts { missing_scopes: scopes, ..sufficient_facts() });
        assert_eq!(found, (lacking, readable, current, Standing::False));
        let reader = (Standing::False, Reason::ForgeWriteAccessMissing);
        let found = standings_with(ForgeFacts { may_write: false, ..sufficient_facts() });
        assert_eq!(found, (reader, readable, current, Standing::False));
        let missing_optional = vec!["checks: read".to_owned()];
        let found = standings_with(ForgeFacts { missing_optional, ..sufficient_facts() });
        assert_eq!(found, (suffices, readable, current, Standing::True));
        let unreadable = (Standing::False, Reason::ActorRightsUnreadable);
        let found = standings_with(ForgeFacts { reads_rights: false, ..sufficient_facts() });
        assert_eq!(found, (suffices, unreadable, current, Standing::True));
        let old = (Standing::False, Reason::ForgeVersionOld);
        let missing_features = vec!["statuses (1.23)".to_owned()];
        let found = standings_with(ForgeFacts { missing_features, ..sufficient_facts() });
        assert_eq!(found, (suffices, readable, old, Standing::True));
        let unknown = (Standing::Unknown, Reason::ForgeVersionUnknown);
        let found = standings_with(ForgeFacts { version: None, ..sufficient_facts() });
        assert_eq!(found, (suffices, readable, unknown, Standing::True));
    }

    #[test]
    fn account_problem_has_its_own_reason_until_it_is_fixed() {
        let problems = [
            (AccountProblem::TokenRejected, Reason::ForgeTokenRejected),
            (AccountProblem::RepositoryNotFound, Reason::ForgeRepositoryNotFound),
            (
                AccountProblem::Renamed { to: "acme/other".to_owned() },
                Reason::ForgeRepositoryRenamed,
            ),
        ];
        for (problem, reason) in problems {
            let mut object = repository("gitea");
            object.status.forge_facts = Some(sufficient_facts());
            let problem = Problem::of_forge(&ForgeError::Account(problem));
            record_use(&mut object.status, ForgeUse::Asking, Some(problem));
            assert_eq!(standings(&object)[1], (Standing::False, reason));
            record_use(&mut object.status, ForgeUse::Asking, None);
            assert_eq!(standings(&object)[1], (Standing::True, Reason::ForgeAccountSuffices));
        }
    }

    fn problem_with(reason: Reason) -> Option<Problem> {
        Some(Problem::new(reason, "no\nroute"))
    }

    #[test]
    fn successful_use_removes_only_its_own_problem() {
        let mut status = repository("gitea").status;
        record_use(&mut status, ForgeUse::Writing, problem_with(Reason::ForgeUnreachable));
        record_use(&mut status, ForgeUse::Fetching, problem_with(Reason::ForgeSlow));
        assert_eq!(status.fault.as_deref(), Some("fetching: no route\nwriting: no route"));
        let before = status.clone();
        record_use(&mut status, ForgeUse::Asking, None);
        assert_eq!(status, before);
        record_use(&mut status, ForgeUse::Fetching, None);
        assert_eq!(status.fault.as_deref(), Some("writing: no route"));
        record_use(&mut status, ForgeUse::Writing, None);
        assert_eq!((status.fault, status.forge_problems), (None, Vec::new()));
    }

    #[test]
    fn slow_forge_is_a_condition_until_it_answers() {
        let mut one = repository("gitea");
        let unknown = (Standing::Unknown, Reason::NotYetObserved);
        assert_eq!(standings(&one)[0], unknown);
        assert_eq!(standings(&one)[4], (Standing::Unknown, Reason::RequirementsUnknown));
        record_use(&mut one.status, ForgeUse::Asking, problem_with(Reason::ForgeSlow));
        let slow = (Standing::False, Reason::ForgeSlow);
        assert_eq!(standings(&one)[0], slow);
        assert_eq!(standings(&one)[4], (Standing::False, Reason::RequirementsUnmet));
        record_use(&mut one.status, ForgeUse::Asking, None);
        one.status.forge_facts = Some(sufficient_facts());
        let now = bailiwick_resources::Moment::from_millis(7);
        one.status.observed_at = Some(now);
        update_conditions(&mut one, now);
        assert_eq!(one.status.conditions[0].reason, Reason::ForgeAnswers);
        assert!(one.status.conditions.iter().all(|one| one.status == Standing::True));
        let none = (Standing::True, Reason::NoForge);
        assert_eq!(standings(&repository("local"))[0], none);
    }

    #[test]
    fn checkout_that_cannot_be_used_makes_a_repository_unready_and_says_nothing_about_the_forge() {
        let mut one = repository("local");
        let before = standings(&one);
        assert_eq!(before[4], (Standing::True, Reason::AllConditionsMet));
        one.status.checkout_problem = Some("the disk is full".to_owned());
        assert_eq!(standings(&one)[..4], before[..4]);
        assert_eq!(standings(&one)[4], (Standing::False, Reason::RequirementsUnmet));
        assert!(repository_conditions(&one)[4].message.contains("the disk is full"));
    }
}
