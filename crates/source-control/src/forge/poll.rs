//! A poll of a repository: its time, its cursor, and events in the form of their webhooks.

use bailiwick_fleet::ports::{ForgeError, PolledEvent};
use bailiwick_resources::Moment;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::{Api, ApiResponse};

/// What a forge stores can become visible later than its time says.
pub(super) const OVERLAP_MILLIS: u64 = 60_000;
/// The commit of a ref that does not exist.
pub(super) const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// The events that a list has.
pub(super) type Found = Vec<PolledEvent>;

/// A poll of one repository.
pub(super) struct Poll<'a> {
    pub(super) api: &'a Api,
    pub(super) since: Moment,
    pub(super) repository: Value,
}

impl<'a> Poll<'a> {
    /// Begins a poll, and gives the next cursor. Without a cursor there is nothing to ask for yet.
    pub(super) async fn begin(
        api: &'a Api,
        cursor: Option<&str>,
    ) -> Result<(Option<Self>, String), ForgeError> {
        let response = api.get(&[], &[]).await?;
        let response = api.require_success(response)?;
        let now = u64::try_from(forge_time(&response)?.as_millisecond()).unwrap_or_default();
        let next = Moment::from_millis(now.saturating_sub(OVERLAP_MILLIS)).to_string();
        let Some(cursor) = cursor else { return Ok((None, next)) };
        let since: Moment = cursor
            .parse()
            .map_err(|_| ForgeError::Refused(format!("`{cursor}` is not a valid cursor")))?;
        Ok((Some(Self { api, since, repository: response.json()? }), next))
    }

    pub(super) fn event(
        &self,
        at: Moment,
        (id, event): (String, &str),
        sender: Option<&str>,
        mut payload: Value,
    ) -> PolledEvent {
        if let Some(payload) = payload.as_object_mut() {
            payload.insert("repository".to_owned(), self.repository.clone());
            let sender = sender.map(|login| json!({ "login": login }));
            payload.insert("sender".to_owned(), sender.unwrap_or_default());
        }
        PolledEvent { id, event: event.to_owned(), payload, at }
    }
}

/// The time on the forge's clock: its times are compared only with each other.
pub(super) fn forge_time(response: &ApiResponse) -> Result<Timestamp, ForgeError> {
    let date = response.date.as_deref().unwrap_or_default();
    let time = jiff::fmt::rfc2822::parse(date);
    time.map(|time| time.timestamp())
        .map_err(|_| ForgeError::Unavailable(format!("its response has no valid date (`{date}`)")))
}
