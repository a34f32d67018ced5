//! Finds the event of an agent at a time, so that its transcript opens where an attempt began.

use bailiwick_fleet::ports::LocalRunEvents;
use bailiwick_server::{ApiError, Session};

use crate::site::Site;
use crate::text::encoded;

/// The number of the first event that is not before a time in milliseconds; none if every event is before it.
pub(crate) async fn event_at(
    site: &Site,
    session: &Session,
    run: &str,
    millis: u64,
) -> Result<Option<u64>, ApiError> {
    // Events up to `before` are before the time, and the one after `end` is not.
    let (mut before, mut end) = (0, event_after(site, session, run, 0).await?.last);
    while before < end {
        let middle = before + (end - before) / 2;
        match event_after(site, session, run, middle).await?.events.first() {
            Some(event) if event.at < millis => before = event.number,
            Some(_) | None => end = middle,
        }
    }
    let found = event_after(site, session, run, before).await?;
    Ok(found.events.first().map(|event| event.number))
}

async fn event_after(
    site: &Site,
    session: &Session,
    run: &str,
    after: u64,
) -> Result<LocalRunEvents, ApiError> {
    let path = format!("/api/v1alpha1/local/runs/{}/events?after={after}&limit=1", encoded(run));
    site.api.get(session, &path).await
}
