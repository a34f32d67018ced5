//! Stored objects that cannot be read, because another version wrote them or something broke. They are
//! reported, and block nothing but themselves.

use bailiwick_resources::{AnyObject, Kind, RunPhase, readable};

use super::{ControlPlane, ReconcileError, Turn};
use crate::admission::Inventory;
use crate::ports::{Engine, FleetStore, Selection, World, Write};

/// The annotation of an object that cannot be read: why, so that it is told once.
const UNREADABLE: &str = "bailiwick.dev/unreadable";

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Tells what cannot be read of all that is declared, and of the runs and questions that are open.
    pub(super) async fn report_unreadable(&self, inventory: &Inventory, turn: &mut Turn) {
        for object in inventory.objects() {
            self.report_if_unreadable(object, turn).await;
        }
        let open = [RunPhase::Queued, RunPhase::Running, RunPhase::WaitingForApproval];
        let mut selections: Vec<Selection> = open
            .into_iter()
            .map(|phase| Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str()))
            .collect();
        selections.push(Selection::of(Kind::AgentApproval).field("phase", "pending"));
        for selection in selections {
            match self.all(selection).await {
                Ok(objects) => {
                    for object in &objects {
                        self.report_if_unreadable(object, turn).await;
                    }
                }
                Err(error) => turn.note("unreadable", Err(error)),
            }
        }
    }

    async fn report_if_unreadable(&self, object: &AnyObject, turn: &mut Turn) {
        let place = &object.metadata;
        let subject = format!("{}/{}/{}", object.kind, place.namespace, place.name);
        let why = readable(object).err().map(|error| error.to_string());
        let known = place.annotations.get(UNREADABLE);
        if why.as_ref() != known {
            let noted = self.note_unreadable(object, &subject, why.as_deref()).await;
            if let Err(error) = noted {
                turn.note(&subject, Err(error));
            }
        }
        if let Some(why) = why {
            turn.errors.push((subject, why));
        }
    }

    /// Puts it on the object and into the audit log, at once; takes it off when the object is well again.
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
                writes.push(self.audit("ObjectUnreadable", subject.to_owned(), detail));
            }
        }
        writes.push(Write::Replace(marked));
        self.store.commit(writes, self.world.now()).await?;
        Ok(())
    }
}
