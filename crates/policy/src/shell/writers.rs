//! Programs that are known to write the files named behind them: `tee`, `cp`, `rm`, `sed -i` …

use super::field::Field;
use super::walk::Walker;
use super::{Directory, How, Write};

/// Notes the files that a program of this name writes.
pub(super) fn note_writes(_walker: &mut Walker, _name: &str, _arguments: &[Field]) {}

impl Walker {
    /// Notes a file that is written from where the command is now.
    pub(super) fn wrote(&mut self, path: Field, how: How, by: &str) {
        let from = vec![Directory::start()];
        self.reading.writes.push(Write { path, from, how, by: by.to_owned() });
    }
}
