//! Access to forges: clients with credentials, fetched commits. Errors are reported in the status of the repository
//! until the same use of its forge works again.

use std::sync::Arc;

use bailiwick_resources::{Object, Repository};

use super::objects::ObjectQueries as _;
use super::{CredentialProblem, ReconcileError};
use crate::ports::{
    Clock, Commits, FetchError, FleetError, ForgeError, Forges, ObjectStore, SecretStore, Written,
};
use crate::triggers::text::beginning;

/// How much of an error is kept.
const MAX_ERROR_LENGTH: usize = 500;

/// What a forge is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForgeUse {
    /// It is asked what there is.
    Asking,
    /// A commit is fetched from it.
    Fetching,
    /// Something is written to it.
    Writing,
}

impl ForgeUse {
    const ALL: [Self; 3] = [Self::Asking, Self::Fetching, Self::Writing];

    fn prefix(self) -> &'static str {
        match self {
            Self::Asking => "asking: ",
            Self::Fetching => "fetching: ",
            Self::Writing => "writing: ",
        }
    }
}

/// The `status.fault` of a repository after one use of its forge: a line for each use that fails. A use that works
/// removes its own line and no other. Only this function writes and reads such lines.
pub(super) fn faults(
    before: Option<&str>,
    used_for: ForgeUse,
    fault: Option<&str>,
) -> Option<String> {
    let mut lines = Vec::new();
    for one in ForgeUse::ALL {
        let known = || before?.lines().find(|line| line.starts_with(one.prefix()));
        match fault {
            Some(why) if one == used_for => {
                let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                lines.push(format!("{}{}", one.prefix(), beginning(&why, MAX_ERROR_LENGTH)));
            }
            None if one == used_for => {}
            Some(_) | None => lines.extend(known().map(str::to_owned)),
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Access to the forges of repositories.
pub(super) struct ForgeAccess<S, W> {
    store: Arc<S>,
    world: Arc<W>,
}

impl<S, W> ForgeAccess<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>) -> Self {
        Self { store, world }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits> ForgeAccess<S, W> {
    /// A client of the forge of a repository, with its credential.
    pub(super) async fn open(
        &self,
        repository: &Object<Repository>,
    ) -> Result<W::Forge, ReconcileError> {
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
        Ok(self.world.forge(&repository.spec, credential.as_deref())?)
    }

    /// The same, to write to it.
    pub(super) async fn open_to_write(
        &self,
        repository: &Object<Repository>,
    ) -> Result<W::Forge, ReconcileError> {
        let forge = self.open(repository).await;
        if let Err(error @ (ReconcileError::Forge(_) | ReconcileError::Credential { .. })) = &forge
        {
            self.report(repository, ForgeUse::Writing, Some(&error.to_string())).await;
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
        let found = self.world.fetch_commit(&repository.spec, reference, sha).await;
        match &found {
            Ok(_) => self.report(repository, ForgeUse::Fetching, None).await,
            // The forge has answered: it has no such commit.
            Err(FetchError::Missing(_)) => {}
            Err(fault @ (FetchError::Failed(_) | FetchError::Unavailable(_))) => {
                self.report(repository, ForgeUse::Fetching, Some(&fault.to_string())).await;
            }
        }
        found
    }

    /// The same, as a step of a controller.
    pub(super) async fn fetched_commit(
        &self,
        repository: &Object<Repository>,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, ReconcileError> {
        let found = self.fetch_commit(repository, reference, sha).await;
        found.map_err(|fault| match fault {
            FetchError::Unavailable(why) => ForgeError::Unavailable(why).into(),
            other @ (FetchError::Missing(_) | FetchError::Failed(_)) => {
                ReconcileError::Fetch(other)
            }
        })
    }

    /// Reports whether a repository can be written to. A target that has moved, and an operation that the forge
    /// does not support, are not errors of the repository.
    pub(super) async fn report_write_result(
        &self,
        repository: &Object<Repository>,
        answered: &Result<Written, ForgeError>,
    ) {
        match answered {
            Ok(_) => self.report(repository, ForgeUse::Writing, None).await,
            Err(ForgeError::Moved { .. } | ForgeError::Unsupported(_)) => {}
            Err(error @ (ForgeError::Refused(_) | ForgeError::Unavailable(_))) => {
                self.report(repository, ForgeUse::Writing, Some(&error.to_string())).await;
            }
        }
    }

    async fn report(
        &self,
        repository: &Object<Repository>,
        used_for: ForgeUse,
        fault: Option<&str>,
    ) {
        let before = repository.status.fault.as_deref();
        if faults(before, used_for, fault).as_deref() == before {
            return;
        }
        // The operation itself matters more: a report that cannot be stored is made again by the next use.
        let _ = self.store_report(repository.name(), used_for, fault).await;
    }

    async fn store_report(
        &self,
        name: &str,
        used_for: ForgeUse,
        fault: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let Some(mut now) = self.store.typed::<Repository>(name).await? else { return Ok(()) };
        let told = faults(now.status.fault.as_deref(), used_for, fault);
        if told != now.status.fault {
            now.status.fault = told;
            self.store.store_status(&now, self.world.now()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ForgeUse, faults};

    #[test]
    fn use_that_works_removes_its_own_line_and_no_other() {
        let both = faults(None, ForgeUse::Writing, Some("no\nroute"));
        let both = faults(both.as_deref(), ForgeUse::Fetching, Some("gone"));
        assert_eq!(both.as_deref(), Some("fetching: gone\nwriting: no route"));
        let later = faults(both.as_deref(), ForgeUse::Fetching, Some("still gone"));
        assert_eq!(later.as_deref(), Some("fetching: still gone\nwriting: no route"));
        let one = faults(later.as_deref(), ForgeUse::Asking, None);
        assert_eq!(one, later);
        let one = faults(one.as_deref(), ForgeUse::Fetching, None);
        assert_eq!(one.as_deref(), Some("writing: no route"));
        assert_eq!(faults(one.as_deref(), ForgeUse::Writing, None), None);
        // A line without a prefix, as earlier versions wrote it, goes with the first report.
        assert_eq!(faults(Some("no route"), ForgeUse::Asking, None), None);
    }
}
