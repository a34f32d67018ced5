//! Access to forges: clients with credentials, fetched commits. Errors are reported in the status of the repository
//! until the same use of its forge works again.

use std::future::Future;
use std::sync::Arc;

use bailiwick_resources::{AgentRoleBinding, ForgeUse, Object, Reason, Repository};

use super::forge_health::{Deadline, ForgeHealth, Waited};
use super::repository_controller::Problem;
use super::timed_forge::TimedForge;
use super::{CredentialProblem, ReconcileError};
use crate::admission::Inventory;
use crate::admission::code_owners::Grammar;
use crate::admission::ownership::{OwnerFacts, TeamMembers, deciding_teams, is_decided_by_owners};
use crate::ports::{
    Clock, Commits, FetchError, FleetError, Forge as _, ForgeError, Forges, ObjectStore,
    SecretStore, StackSources, Written,
};

/// How many teams are asked for their members in one decision.
const MAX_TEAMS: usize = 20;

/// Access to the forges of repositories.
pub(super) struct ForgeAccess<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    health: Arc<ForgeHealth<S, W>>,
}

impl<S, W> ForgeAccess<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>) -> Self {
        let health = Arc::new(ForgeHealth::new(Arc::clone(&store), Arc::clone(&world)));
        Self { store, world, health }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits> ForgeAccess<S, W> {
    /// A client of the forge of a repository, with its credential. Each of its requests has a deadline.
    pub(super) async fn open(
        &self,
        repository: &Object<Repository>,
    ) -> Result<TimedForge<S, W>, ReconcileError> {
        let credential = match &repository.spec.credential_ref {
            None => None,
            Some(key) => {
                let namespace = &repository.metadata.namespace;
                let found = self.store.secret_value(namespace, &key.name, &key.key).await;
                let value = match found {
                    Ok(Some(value)) => Ok(value),
                    Ok(None) => Err(CredentialProblem::Missing),
                    Err(FleetError::Undecryptable { .. }) => Err(CredentialProblem::Sealed),
                    Err(error) => return Err(error.into()),
                };
                let (secret, key) = (key.name.clone(), key.key.clone());
                Some(value.map_err(|problem| ReconcileError::Credential {
                    secret,
                    key,
                    problem,
                })?)
            }
        };
        let forge = self.world.forge(&repository.spec, credential.as_deref())?;
        Ok(TimedForge::new(forge, repository.clone(), Arc::clone(&self.health)))
    }

    /// The same, for writing.
    pub(super) async fn open_to_write(
        &self,
        repository: &Object<Repository>,
    ) -> Result<TimedForge<S, W>, ReconcileError> {
        let forge = self.open(repository).await;
        if let Err(error @ (ReconcileError::Forge(_) | ReconcileError::Credential { .. })) = &forge
        {
            self.health.report(repository, ForgeUse::Writing, Some(Problem::of(error))).await;
        }
        forge
    }

    /// Fetches a commit.
    pub(super) async fn fetch_commit(
        &self,
        repository: &Object<Repository>,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        let fetched = self.world.fetch_commit(&repository.spec, reference, sha);
        let (used_for, deadline) = (ForgeUse::Fetching, Deadline::FETCH);
        let found = match self.health.wait(repository, used_for, deadline, fetched).await {
            Waited::Answered(found) => found,
            Waited::TimedOut(why) => return Err(FetchError::Unavailable(why)),
        };
        let reason = match &found {
            Ok(_) => {
                self.health.report(repository, used_for, None).await;
                return found;
            }
            // The forge has answered: it has no such commit.
            Err(FetchError::Missing(_)) => return found,
            // Nothing is known about the forge.
            Err(FetchError::Local(error)) if !error.is_credential() => return found,
            Err(FetchError::Local(_)) => Reason::CredentialMissing,
            Err(FetchError::Failed(_)) => Reason::ForgeRefused,
            Err(FetchError::Unavailable(_)) => Reason::ForgeUnreachable,
            Err(FetchError::Account(problem)) => {
                Problem::of_forge(&ForgeError::Account(problem.clone())).reason
            }
        };
        if let Err(fault) = &found {
            let problem = Problem::new(reason, fault.to_string());
            self.health.report(repository, used_for, Some(problem)).await;
        }
        found
    }

    /// Waits for a source that may come from the forge, as for any other response of it.
    pub(super) async fn wait_for_source<T>(
        &self,
        repository: &Object<Repository>,
        source: impl Future<Output = Result<T, FetchError>> + Send,
    ) -> Result<T, FetchError> {
        let (used_for, deadline) = (ForgeUse::Asking, Deadline::SEVERAL);
        match self.health.wait(repository, used_for, deadline, source).await {
            Waited::Answered(found) => found,
            Waited::TimedOut(why) => Err(FetchError::Unavailable(why)),
        }
    }

    /// Fetches a commit as a step of a controller.
    pub(super) async fn fetched_commit(
        &self,
        repository: &Object<Repository>,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, ReconcileError> {
        let found = self.fetch_commit(repository, reference, sha).await;
        found.map_err(|fault| match fault {
            FetchError::Unavailable(why) => ForgeError::Unavailable(why).into(),
            FetchError::Account(problem) => ForgeError::Account(problem).into(),
            FetchError::Local(error) => error.into(),
            other @ (FetchError::Missing(_) | FetchError::Failed(_)) => {
                ReconcileError::Fetch(other)
            }
        })
    }

    /// Reports whether a repository can be written to. A target that has moved, and an operation that the forge
    /// does not support, are not errors of the repository. That it did not answer is reported by [`TimedForge`].
    pub(super) async fn report_write_result(
        &self,
        repository: &Object<Repository>,
        answered: &Result<Written, ForgeError>,
    ) {
        match answered {
            Ok(_) => self.health.report(repository, ForgeUse::Writing, None).await,
            Err(
                ForgeError::Moved { .. }
                | ForgeError::Unsupported(_)
                | ForgeError::Unavailable(_)
                | ForgeError::Account(_),
            ) => {}
            Err(error @ ForgeError::Refused(_)) => {
                let problem = Problem::new(Reason::ForgeRefused, error.to_string());
                self.health.report(repository, ForgeUse::Writing, Some(problem)).await;
            }
        }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources> ForgeAccess<S, W> {
    /// Adds the owners of a repository to an inventory, if one of these bindings depends on them. CODEOWNERS is read
    /// at the head of the default branch on the forge, for any commit.
    pub(super) async fn add_owners(
        &self,
        inventory: &mut Inventory,
        repository: &Object<Repository>,
        bindings: &[Object<AgentRoleBinding>],
    ) -> Result<(), ReconcileError> {
        if !is_decided_by_owners(bindings) {
            return Ok(());
        }
        let owners = match Grammar::of(repository.spec.forge) {
            Some(_) => self.owners_at_tip(repository).await?,
            None => OwnerFacts::Unusable("its forge has no accounts".to_owned()),
        };
        if let OwnerFacts::Read(files) = &owners {
            let teams = deciding_teams(inventory, bindings, repository, files);
            for (index, team) in teams.iter().enumerate() {
                let members = if index < MAX_TEAMS {
                    self.team_members(repository, team).await?
                } else {
                    let why = format!("only {MAX_TEAMS} teams of CODEOWNERS are asked for");
                    TeamMembers::Unreadable(why)
                };
                inventory.set_team_members(&repository.spec.full_name, team, members);
            }
        }
        inventory.set_owners(&repository.spec.full_name, owners);
        Ok(())
    }

    /// The members of a team. What the forge may tell later is an error: an outage revokes no right.
    async fn team_members(
        &self,
        repository: &Object<Repository>,
        team: &str,
    ) -> Result<TeamMembers, ReconcileError> {
        let owner = repository.spec.full_name.split('/').next().unwrap_or_default();
        let name = match team.split_once('/') {
            Some((organization, name)) if organization.eq_ignore_ascii_case(owner) => name,
            Some(_) | None => {
                let why = format!("only teams of {owner}, which has the repository, can own files");
                return Ok(TeamMembers::Unreadable(why));
            }
        };
        let answer = match self.open(repository).await {
            Ok(forge) => forge.team_members(name).await.map_err(ReconcileError::from),
            Err(error) => Err(error),
        };
        match answer {
            Err(ReconcileError::Forge(
                error @ (ForgeError::Refused(_)
                | ForgeError::Moved { .. }
                | ForgeError::Unsupported(_)),
            )) => Ok(TeamMembers::Unreadable(error.to_string())),
            answer => answer,
        }
    }

    async fn owners_at_tip(
        &self,
        repository: &Object<Repository>,
    ) -> Result<OwnerFacts, ReconcileError> {
        let branch = format!("refs/heads/{}", repository.spec.default_branch);
        Ok(match self.fetch_commit(repository, &branch, None).await {
            Ok(Some(tip)) => self.world.code_owners(&repository.spec, &tip).await,
            Ok(None) | Err(FetchError::Missing(_)) => {
                OwnerFacts::Unusable(format!("the forge has no {branch}"))
            }
            Err(FetchError::Failed(why)) => OwnerFacts::Unusable(why),
            // Retried later: an outage revokes no right.
            Err(FetchError::Unavailable(why)) => return Err(ForgeError::Unavailable(why).into()),
            Err(FetchError::Account(problem)) => return Err(ForgeError::Account(problem).into()),
            Err(FetchError::Local(error)) => return Err(error.into()),
        })
    }
}
