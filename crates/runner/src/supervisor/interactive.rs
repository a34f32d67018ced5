//! Starts an agent program at a person's own terminal.

use std::io;

use super::launch::{self, Launched, OutputReader, WrittenLaunch};
use super::terminal::{Screen, TerminalForwarder};
use super::{SuperviseError, Supervision};
use crate::sandbox::{Streams, Terminal};

/// Plans the launch, writes its files, and starts it at a separate terminal behind the person's.
pub(super) fn launch(
    supervision: &Supervision,
    screen: &Screen,
) -> Result<Launched, SuperviseError> {
    let failed = |error: io::Error| SuperviseError::new("the terminal", error);
    let (assignment, host_listener) = launch::resolve_endpoints(supervision)?;
    let Supervision { directory, adapter, enclosure, .. } = supervision;
    let WrittenLaunch { mut sandbox, argv, .. } =
        launch::write_launch(directory, adapter.as_ref(), enclosure, &assignment)?;
    sandbox.directory.clone_from(&screen.directory);
    let terminal = Terminal::open().map_err(failed)?;
    screen.copy_to(&terminal.program, &terminal.person).map_err(failed)?;
    let streams = Streams::at(terminal.program).map_err(failed)?;
    let running = enclosure.launcher.start_with(&sandbox, &argv, streams);
    let running = running.map_err(|error| SuperviseError::new("the sandbox", error))?;
    let relay = TerminalForwarder::start(screen, terminal.person).map_err(failed)?;
    Ok(Launched { running, host_listener, output: OutputReader::Person(relay) })
}
