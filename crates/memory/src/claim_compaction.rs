//! Reading claims without the comments that a snapshot has, and writing the next snapshot.

use crate::claim_log::ClaimLog;
use crate::claim_snapshot::{ClaimSnapshot, are_changes, to_compact};
use crate::port::{BodyEdit, IssueMemory, MemoryError};
use crate::protocol::{Loaded, MAX_ATTEMPTS, Protocol};
use crate::state::{read_claims, read_state};

impl<M: IssueMemory> Protocol<'_, M> {
    /// The claims in the comments of their issue. Comments that are part of its snapshot are not read.
    pub(crate) async fn load_claims(&self, number: u64) -> Result<Loaded, MemoryError> {
        let mut attempt = 0;
        loop {
            let result = self.load_claims_once(number).await;
            match result {
                Err(MemoryError::Unavailable(_)) if attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.memory.back_off(attempt).await;
                }
                other => return other,
            }
        }
    }

    async fn load_claims_once(&self, number: u64) -> Result<Loaded, MemoryError> {
        let read = self.memory.read_issue(number).await?;
        let Some(snapshot) = ClaimSnapshot::find(&read.issue, &self.trust) else {
            return self.load_all(read).await;
        };
        let since = Some(snapshot.read_from());
        let mut comments = self.memory.comments(number, since).await?;
        if !snapshot.holds(&comments, &self.trust) {
            return self.load_all(read).await;
        }
        comments.retain(|comment| snapshot.is_before(comment.id));
        let mut state = read_state(&read.issue, &comments, &self.trust);
        if !are_changes(&state.events) {
            return self.load_all(read).await;
        }
        let states = self.memory.state_events(number, since).await?;
        state.claims =
            read_claims(&read.issue, Some(&snapshot), &state.events, &self.trust, &states);
        Ok(Loaded { read, comments, state })
    }

    /// Writes a snapshot of the claims, if many comments were read that are old enough. Nothing is lost without it.
    pub(crate) async fn compact_claims(
        &self,
        number: u64,
        loaded: &Loaded,
    ) -> Result<(), MemoryError> {
        let Loaded { read, comments, state } = loaded;
        let earlier = ClaimSnapshot::find(&read.issue, &self.trust)
            .filter(|earlier| comments.iter().all(|comment| earlier.is_before(comment.id)));
        let events = to_compact(&state.events, comments.len(), read.now);
        if events.is_empty() {
            return Ok(());
        }
        let since = earlier.as_ref().map(ClaimSnapshot::read_from);
        let states = self.memory.state_events(number, since).await?;
        match ClaimLog::snapshot_after(earlier.as_ref(), events, &self.trust, &states) {
            Some(snapshot) => self.write_snapshot(number, &snapshot).await,
            None => Ok(()),
        }
    }

    /// Writes a snapshot into the text that the issue has now: a person may have edited it meanwhile.
    async fn write_snapshot(
        &self,
        number: u64,
        snapshot: &ClaimSnapshot,
    ) -> Result<(), MemoryError> {
        for attempt in 1..=MAX_ATTEMPTS {
            let read = self.memory.read_issue(number).await?;
            // That of another machine is as good, and ours is there if an earlier attempt wrote it.
            let is_as_new = |found: ClaimSnapshot| !found.is_before(snapshot.up_to);
            if ClaimSnapshot::find(&read.issue, &self.trust).is_some_and(is_as_new) {
                return Ok(());
            }
            let body = snapshot.body(&read.issue, &self.key).filter(|_| !read.is_body_cut);
            let Some(body) = body else { return Err(no_room(number)) };
            match self.memory.edit_body(number, read.body_version, &body).await? {
                BodyEdit::Written if read.body_version.is_some() => return Ok(()),
                // Without a version an edit can be lost, so it is read again.
                BodyEdit::Written => {}
                BodyEdit::Conflict => self.memory.back_off(attempt).await,
            }
        }
        Err(MemoryError::Unavailable("others changed the issue's text at the same time".to_owned()))
    }
}

/// Why an issue has no snapshot of its claims.
fn no_room(issue: u64) -> MemoryError {
    MemoryError::Refused(format!(
        "the text of issue #{issue} has no room for it, so all comments are read each time; shorten the text"
    ))
}
