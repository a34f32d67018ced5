//! Stored objects that cannot be read, because another version wrote them or something broke. They are
//! reported, and block nothing but themselves.

use bailiwick_resources::{AnyObject, Kind, RunPhase, readable};

use crate::admission::Inventory;
use crate::controllers::audit_log::Correlation;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::status_reconciler::StatusReconciler;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{Clock, Commits, FleetStore, Selection, StackSources, Worktrees, Write};

/// The annotation of an unreadable object with the reason, so that it is reported once.
const UNREADABLE: &str = "bailiwick.dev/unreadable";

impl<S: FleetStore, W: Clock + Commits + StackSources + Worktrees> StatusReconciler<S, W> {
    /// Reports unreadable declared objects, open runs and pending approvals.
    pub(super) async fn report_unreadable(
        &self,
        inventory: &Inventory,
        summary: &mut ReconcileSummary,
    ) {
        for object in inventory.objects() {
            self.report_if_unreadable(object, summary).await;
        }
        let open = [RunPhase::Queued, RunPhase::Running, RunPhase::WaitingForApproval];
        let mut selections: Vec<Selection> = open
            .into_iter()
            .map(|phase| Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str()))
            .collect();
        selections.push(Selection::of(Kind::AgentApproval).field("phase", "pending"));
        for selection in selections {
            match self.store.all(selection).await {
                Ok(objects) => {
                    for object in &objects {
                        self.report_if_unreadable(object, summary).await;
                    }
                }
                Err(error) => summary.record("unreadable", Err(error)),
            }
        }
    }

    async fn report_if_unreadable(&self, object: &AnyObject, summary: &mut ReconcileSummary) {
        let place = &object.metadata;
        let subject = format!("{}/{}/{}", object.kind, place.namespace, place.name);
        let why = readable(object).err().map(|error| error.to_string());
        let known = place.annotations.get(UNREADABLE);
        if why.as_ref() != known {
            let noted = self.note_unreadable(object, &subject, why.as_deref()).await;
            if let Err(error) = noted {
                summary.record(&subject, Err(error));
            }
        }
        if let Some(why) = why {
            summary.errors.push((subject, why));
        }
    }

    /// Annotates the object and writes an audit line; removes the annotation when the object can be read again.
    async fn note_unreadable(
        &self,
        object: &AnyObject,
        subject: &str,
        why: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let mut marked = object.clone();
        let notes = &mut marked.metadata.annotations;
        let mut writes = Vec::new();
        match why {
            None => drop(notes.remove(UNREADABLE)),
            Some(why) => {
                notes.insert(UNREADABLE.to_owned(), why.to_owned());
                let detail = serde_json::json!({ "why": why });
                writes.push(Correlation::default().line(
                    self.world.now(),
                    "ObjectUnreadable",
                    subject.to_owned(),
                    detail,
                ));
            }
        }
        writes.push(Write::Replace(marked));
        self.store.commit(writes, self.world.now()).await?;
        Ok(())
    }
}
