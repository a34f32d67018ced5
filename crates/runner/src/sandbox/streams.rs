//! The standard streams of a program.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use super::messages::Input;

/// The standard streams of a program.
#[derive(Debug)]
pub struct Streams {
    pub(super) input: Option<OwnedFd>,
    pub(super) kind: Input,
    pub(super) output: Stdio,
    pub(super) errors: Stdio,
}

impl Streams {
    /// It prints there, and reads nothing.
    pub fn new(output: impl Into<Stdio>, errors: impl Into<Stdio>) -> Self {
        let (output, errors) = (output.into(), errors.into());
        Self { input: None, kind: Input::Nothing, output, errors }
    }

    /// It reads this.
    pub fn reading(self, input: impl Into<OwnedFd>) -> Self {
        Self { input: Some(input.into()), kind: Input::Given, ..self }
    }

    /// It reads and prints at this side of a terminal, which controls it: an interrupt that is typed
    /// there reaches it.
    pub fn at(terminal: OwnedFd) -> io::Result<Self> {
        let (output, errors) = (terminal.try_clone()?, terminal.try_clone()?);
        let streams = Self::new(output, errors);
        Ok(Self { input: Some(terminal), kind: Input::Terminal, ..streams })
    }
}

/// Both sides of a new terminal.
#[derive(Debug)]
pub struct Terminal {
    /// The side of the person, or of a program in their place.
    pub person: OwnedFd,
    /// The side of the program.
    pub program: OwnedFd,
}

impl Terminal {
    /// A terminal that controls no session yet.
    pub fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags)?;
        grantpt(&person)?;
        unlockpt(&person)?;
        let program = ioctl_tiocgptpeer(&person, flags)?;
        Ok(Self { person, program })
    }
}
