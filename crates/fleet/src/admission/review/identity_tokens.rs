//! The token of an identity: made by the cluster for the pod of a Job, and by nobody else.

use bailiwick_resources::{AgentServiceAccount, Object, Reason, RunnerPool};

use super::ReviewInput;
use super::entries::{Entry, EntryDecision};

/// Why the token that an identity asks for cannot be made. Without a pool, nothing is said.
pub(super) fn objection(
    input: &ReviewInput<'_>,
    account: &Object<AgentServiceAccount>,
    about: &str,
) -> Option<Entry> {
    let pool = input.pool.filter(|_| account.spec.automount_service_account_token)?;
    let (code, message) = refusal(&account.spec, pool)?;
    Some(Entry::new(EntryDecision::Denied, code, about, message))
}

fn refusal(account: &AgentServiceAccount, pool: &Object<RunnerPool>) -> Option<(Reason, String)> {
    let forbidden = Reason::TokenProjectionForbidden;
    let Some(settings) = pool.spec.job_settings() else {
        let message = format!(
            "only the pods of pools with `runsOn: jobs` get tokens, and `{}` is none: use another pool, or leave out \
             `automountServiceAccountToken`",
            pool.name()
        );
        return Some((forbidden, message));
    };
    if !account.has_audience() {
        let message = "a token without `tokenAudience` would be one of the API server: add it";
        return Some((forbidden, message.to_owned()));
    }
    let (lifetime, deadline) = (account.token_expiration_seconds, settings.deadline_seconds());
    (lifetime < deadline).then(|| {
        let message = format!(
            "its token is valid for {lifetime} seconds, and a Job of the pool `{}` may take {deadline}: raise \
             `tokenExpirationSeconds`, or lower `job.deadline`",
            pool.name()
        );
        (Reason::TokenLifetimeOutOfBounds, message)
    })
}
