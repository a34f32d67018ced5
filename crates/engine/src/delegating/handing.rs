//! Files that a caller hands over to an agent: they are read in the commit that it starts from.

use bailiwick_model::template::Template;

use super::caller::Caller;
use super::session::Session;
use super::spawn_agent::SpawnAgent;
use crate::counted::counted;
use crate::failure::Failure;
use crate::task_files;

impl Session {
    /// Returns an error if a file that is to be handed over is not there, or if they are more than may be.
    pub(super) fn require_files(
        &self,
        asked: &SpawnAgent,
        caller: &Caller,
        template: Option<&Template>,
    ) -> Result<(), Failure> {
        let Some(files) = &asked.hand_over else { return Ok(()) };
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
