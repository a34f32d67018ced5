//! Files that a caller gives to an agent. They are read in the commit that the agent starts from.

use bailiwick_model::template::Template;

use super::caller::Caller;
use super::service::DelegationService;
use super::spawn_agent::SpawnAgent;
use crate::counted::counted;
use crate::failure::Failure;
use crate::task_files;

impl DelegationService {
    /// Returns an error if a file does not exist, or if there are more files than the agent may load.
    pub(super) fn require_files(
        &self,
        request: &SpawnAgent,
        caller: &Caller,
        template: Option<&Template>,
    ) -> Result<(), Failure> {
        let Some(files) = &request.hand_over else { return Ok(()) };
        if let Some(limits) = caller.context_limits(template)?
            && files.len() > usize::try_from(limits.files).unwrap_or(usize::MAX)
        {
            return Err(Failure::refused(format!(
                "{} {} handed over, and it may load {}; name others in the message",
                counted(files.len(), "file"),
                if files.len() == 1 { "is" } else { "are" },
                limits.files
            )));
        }
        let repository = self.context.require_repository()?;
        task_files::read(&repository, &caller.base, files).map(drop)
    }
}
