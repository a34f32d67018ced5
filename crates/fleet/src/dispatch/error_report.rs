//! Errors of the forge of a repository: reported in the status of the repository until it works again.

use bailiwick_resources::{Object, Repository};

use super::{ControlPlane, ReconcileError};
use crate::ports::{Engine, FetchError, FleetStore, ForgeError, World, Written};
use crate::triggers::text::beginning;

/// How much of a fault is kept.
const MAX_ERROR_LENGTH: usize = 500;

/// What a forge is wanted for.
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

    fn begins(self) -> &'static str {
        match self {
            Self::Asking => "asking: ",
            Self::Fetching => "fetching: ",
            Self::Writing => "writing: ",
        }
    }
}

/// What is said of a repository after something has failed, or has worked: a line for each that does not work. What
/// works takes its own line away, and no other.
pub(super) fn faults(
    before: Option<&str>,
    wanted: ForgeUse,
    fault: Option<&str>,
) -> Option<String> {
    let mut lines = Vec::new();
    for one in ForgeUse::ALL {
        let known = || before?.lines().find(|line| line.starts_with(one.begins()));
        match fault {
            Some(why) if one == wanted => {
                let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                lines.push(format!("{}{}", one.begins(), beginning(&why, MAX_ERROR_LENGTH)));
            }
            None if one == wanted => {}
            Some(_) | None => lines.extend(known().map(str::to_owned)),
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// A commit, brought here; whether that works is told with its repository.
    pub(super) async fn fetch_commit(
        &self,
        repository: &Object<Repository>,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        let found = self.world.fetch_commit(&repository.spec, reference, sha).await;
        match &found {
            Ok(_) => self.report_forge_error(repository, ForgeUse::Fetching, None).await,
            // It has answered, and there is no such commit.
            Err(FetchError::Missing(_)) => {}
            Err(fault @ (FetchError::Failed(_) | FetchError::Unavailable(_))) => {
                self.report_forge_error(repository, ForgeUse::Fetching, Some(&fault.to_string()))
                    .await;
            }
        }
        found
    }

    /// The forge of a repository, to write to it.
    pub(super) async fn forge_to_write(
        &self,
        repository: &Object<Repository>,
    ) -> Result<W::Forge, ReconcileError> {
        let forge = self.forge(repository).await;
        if let Err(error @ (ReconcileError::Forge(_) | ReconcileError::Credential { .. })) = &forge
        {
            self.report_forge_error(repository, ForgeUse::Writing, Some(&error.to_string())).await;
        }
        forge
    }

    /// Says of a repository whether it can be written to, by what its forge answered. A target that has moved,
    /// and what a forge cannot do at all, are no faults of it.
    pub(super) async fn report_write_result(
        &self,
        repository: &Object<Repository>,
        answered: &Result<Written, ForgeError>,
    ) {
        match answered {
            Ok(_) => self.report_forge_error(repository, ForgeUse::Writing, None).await,
            Err(ForgeError::Moved { .. } | ForgeError::Unsupported(_)) => {}
            Err(error @ (ForgeError::Refused(_) | ForgeError::Unavailable(_))) => {
                self.report_forge_error(repository, ForgeUse::Writing, Some(&error.to_string()))
                    .await;
            }
        }
    }

    /// Says of a repository what does not work, or that it does.
    async fn report_forge_error(
        &self,
        repository: &Object<Repository>,
        wanted: ForgeUse,
        fault: Option<&str>,
    ) {
        let before = repository.status.fault.as_deref();
        if faults(before, wanted, fault).as_deref() == before {
            return;
        }
        // What was wanted matters more: where this cannot be kept just now, the next answer tells again.
        let _ = self.store_forge_error(repository.name(), wanted, fault).await;
    }

    async fn store_forge_error(
        &self,
        name: &str,
        wanted: ForgeUse,
        fault: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let Some(mut now) = self.typed::<Repository>(name).await? else { return Ok(()) };
        let told = faults(now.status.fault.as_deref(), wanted, fault);
        if told != now.status.fault {
            now.status.fault = told;
            self.store_status(&now).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ForgeUse, faults};

    #[test]
    fn what_works_takes_its_own_line_away_and_no_other() {
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
        // What was written without a word of ours before it goes with the first that is.
        assert_eq!(faults(Some("no route"), ForgeUse::Asking, None), None);
    }
}
