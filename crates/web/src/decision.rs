//! A run of the inbox that waits for a decision, with the actions that decide it.

use bailiwick_fleet::ports::{LocalJob, LocalRun, LocalRunDetail, LocalVerb, TokenScope};
use bailiwick_resources::Moment;
use bailiwick_server::Session;

use crate::actions::{Action, JobView, job_views};
use crate::runs::RunRow;
use crate::site::Site;
use crate::text::{encoded, line};

const MAX_NAME: usize = 80;
/// How many runs are shown with their actions.
pub(crate) const MAX_WITH_ACTIONS: usize = 20;

/// A run that waits, and what a person can decide here.
pub(crate) struct Decision {
    pub(crate) row: RunRow,
    /// The next command; empty if there is none.
    pub(crate) next: String,
    /// Actions that need no words: verify and land.
    pub(crate) plain: Vec<Action>,
    /// Actions that a reason goes with: reject and try again.
    pub(crate) reasoned: Vec<Action>,
    /// The newest job of the run.
    pub(crate) job: Option<JobView>,
}

impl Decision {
    pub(crate) fn new(base: &str, run: &LocalRun, now: Moment) -> Self {
        let next = run.next.as_deref().map(|next| line(&format!("bailiwick {next}"), MAX_NAME));
        Self {
            row: RunRow::new(base, run, now),
            next: next.unwrap_or_default(),
            plain: Vec::new(),
            reasoned: Vec::new(),
            job: None,
        }
    }

    /// Adds the actions that are possible now. Without them, the page of the run still has them.
    pub(crate) async fn add_actions(
        &mut self,
        site: &Site,
        session: &Session,
        jobs: &[LocalJob],
        now: Moment,
    ) {
        if session.scope() < TokenScope::Operator {
            return;
        }
        let path = format!("/api/v1alpha1/local/runs/{}", encoded(&self.row.id));
        let Ok(detail) = site.api.get::<LocalRunDetail>(session, &path).await else { return };
        for action in &detail.actions {
            let Some(shown) = Action::new(session, action) else { continue };
            if shown.impossible.is_some() {
                continue;
            }
            match action.action {
                LocalVerb::Verify | LocalVerb::Land => self.plain.push(shown),
                LocalVerb::Reject | LocalVerb::Respawn => self.reasoned.push(shown),
                LocalVerb::Stop
                | LocalVerb::Message
                | LocalVerb::Resume
                | LocalVerb::Rollback
                | LocalVerb::Remove => {}
            }
        }
        let own = jobs.iter().find(|job| job.run == detail.run.id);
        self.job = own.and_then(|job| job_views(std::slice::from_ref(job), now).pop());
    }
}
