//! Typed reads and status writes over a store of objects.

use std::future::Future;

use bailiwick_resources::{
    AgentTriggerRule, AnyObject, DEFAULT_NAMESPACE, Kind, Moment, Object, Repository, Resource,
};

use super::ReconcileError;
use crate::admission::Inventory;
use crate::ports::{ActionError, ObjectStore, Selection, Target, Write};

/// Typed reads and status writes.
pub(super) trait ObjectQueries: ObjectStore {
    /// All objects that are selected, over all pages.
    fn all(
        &self,
        mut selection: Selection,
    ) -> impl Future<Output = Result<Vec<AnyObject>, ReconcileError>> + Send {
        async move {
            let mut found = Vec::new();
            loop {
                let page = self.list(&selection).await?;
                found.extend(page.objects);
                if page.next.is_none() {
                    return Ok(found);
                }
                selection.after = page.next;
            }
        }
    }

    /// All objects that are selected and can be read. Unreadable ones are reported by the status reconciler and
    /// block no others.
    fn all_typed<R: Resource>(
        &self,
        selection: Selection,
    ) -> impl Future<Output = Result<Vec<Object<R>>, ReconcileError>> + Send {
        async move {
            let found = self.all(selection).await?;
            Ok(found.iter().filter_map(|object| object.typed::<R>().ok()).collect())
        }
    }

    /// All objects that are selected. One that cannot be read is an error: use it where a missing object permits
    /// something.
    fn all_required<R: Resource>(
        &self,
        selection: Selection,
    ) -> impl Future<Output = Result<Vec<Object<R>>, ReconcileError>> + Send {
        async move {
            let found = self.all(selection).await?;
            found.iter().map(|object| Ok(object.typed::<R>()?)).collect()
        }
    }

    /// The object of this name in the default namespace.
    fn typed<R: Resource>(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Object<R>>, ReconcileError>> + Send {
        async move {
            let found = self.get(R::KIND, DEFAULT_NAMESPACE, name).await?;
            Ok(found.map(|object| object.typed::<R>()).transpose()?)
        }
    }

    /// The object of a request, or an error if it does not exist.
    fn named<R: Resource>(
        &self,
        target: &Target,
    ) -> impl Future<Output = Result<Object<R>, ActionError>> + Send {
        async move {
            let found = self.get(R::KIND, &target.namespace, &target.name).await?;
            let found = found.ok_or_else(|| {
                ActionError::NotFound(format!("there is no {} `{}`", R::KIND, target.name))
            })?;
            Ok(found.typed::<R>().map_err(ReconcileError::from)?)
        }
    }

    /// The repository of this full name.
    fn repository(
        &self,
        full_name: &str,
    ) -> impl Future<Output = Result<Object<Repository>, ReconcileError>> + Send {
        async move {
            let all = self.all_typed::<Repository>(Selection::of(Kind::Repository)).await?;
            let found = all
                .into_iter()
                .find(|repository| repository.spec.full_name.eq_ignore_ascii_case(full_name));
            found.ok_or_else(|| ReconcileError::RepositoryMissing(full_name.to_owned()))
        }
    }

    /// The trigger rules of the default namespace.
    fn rules(
        &self,
    ) -> impl Future<Output = Result<Vec<Object<AgentTriggerRule>>, ReconcileError>> + Send {
        let selection = Selection {
            namespace: Some(DEFAULT_NAMESPACE.to_owned()),
            ..Selection::of(Kind::AgentTriggerRule)
        };
        self.all_typed(selection)
    }

    /// Every declared object that admission reads. A kind that cannot be listed is unknown, not empty.
    fn inventory(&self) -> impl Future<Output = Inventory> + Send {
        async move {
            let mut inventory = Inventory::default();
            for &kind in Kind::ALL.iter().filter(|kind| is_declared(**kind)) {
                match self.all(Selection::of(kind)).await {
                    Ok(objects) => objects.into_iter().for_each(|object| inventory.add(object)),
                    Err(error) => inventory = inventory.unlistable(kind, error.to_string()),
                }
            }
            // Unknown groups are like none: they permit nothing, and a denial for a team counts for everybody.
            inventory.with_people(self.people().await.unwrap_or_default())
        }
    }

    /// Stores the status of an object.
    fn store_status<R: Resource>(
        &self,
        object: &Object<R>,
        now: Moment,
    ) -> impl Future<Output = Result<bool, ReconcileError>> + Send {
        let write = AnyObject::of(object).map(Write::Status);
        async move {
            self.commit(vec![write?], now).await?;
            Ok(true)
        }
    }
}

impl<S: ObjectStore> ObjectQueries for S {}

/// Whether people declare objects of a kind, rather than the control plane recording them.
fn is_declared(kind: Kind) -> bool {
    match kind {
        Kind::AgentDispatchRun
        | Kind::AgentDispatchAttempt
        | Kind::WorkItemSessionLink
        | Kind::WorkItemWorkspaceLink
        | Kind::AgentSession
        | Kind::AgentApproval
        | Kind::AgentContextBundle
        | Kind::AgentArtifact
        | Kind::AgentReviewArtifact
        | Kind::AgentTriggerExecution
        | Kind::WebhookDelivery => false,
        Kind::AgentStack
        | Kind::AgentSubagent
        | Kind::AgentToolProfile
        | Kind::AgentMcpServer
        | Kind::AgentSkill
        | Kind::AgentServiceAccount
        | Kind::AgentRoleBinding
        | Kind::AgentSecretGrant
        | Kind::AgentConfigGrant
        | Kind::AgentCapabilityRequirement
        | Kind::AgentTriggerRule
        | Kind::AgentContextLabel
        | Kind::AgentWorkspacePolicy
        | Kind::AgentWorkspace
        | Kind::Repository
        | Kind::RunnerPool
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::Secret
        | Kind::ConfigMap => true,
    }
}
