//! The ancestor processes, by which a program that runs commands in the sandbox and the gate recognise that the same
//! agent started them.

use std::fs;

/// How many ancestors are inspected: a shell or two, and the agent CLI.
const MAX_ANCESTORS: usize = 4;

/// Names of shells, which run between an agent and the programs that it starts.
const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    id: u32,
    parent: u32,
    name: String,
    /// When it was started, in ticks since the machine was: another one of the same number has another.
    started: u64,
}

impl Process {
    /// A file name that identifies this process.
    pub fn mark(&self) -> String {
        format!("by-{}-{}", self.id, self.started)
    }

    pub fn is_shell(&self) -> bool {
        SHELLS.contains(&self.name.as_str())
    }

    fn read(id: u32) -> Option<Self> {
        Self::parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    fn parse(id: u32, stat: &str) -> Option<Self> {
        // The name may have blanks and brackets itself.
        let (head, fields) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let field = |place: usize| fields.split_whitespace().nth(place);
        Some(Self {
            id,
            parent: field(1)?.parse().ok()?,
            name: name.to_owned(),
            started: field(19)?.parse().ok()?,
        })
    }
}

/// The processes above this one, the nearest first.
pub fn ancestors() -> Vec<Process> {
    let first = Process::read(std::os::unix::process::parent_id());
    std::iter::successors(first, |process| Process::read(process.parent))
        .take(MAX_ANCESTORS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_identified_by_its_number_and_start_time() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let process = Process::parse(7, stat).unwrap();
        assert_eq!((process.parent, process.name.as_str()), (3, "a) b"));
        assert_eq!(process.mark(), "by-7-4242");
        assert!(!process.is_shell());
        assert!(Process::parse(7, "7 (sh) S 3").is_none());
    }

    #[test]
    fn parent_is_the_first_ancestor() {
        let processes = ancestors();
        assert_eq!(
            processes.first().map(|process| process.id),
            Some(std::os::unix::process::parent_id())
        );
        assert!(processes.len() <= MAX_ANCESTORS);
    }
}
