//! The budget of one command: every step is charged, so that time and memory are limited.

use super::environment::Environment;
use super::field::Field;
use super::walk::Walker;
use super::{Hidden, HiddenReason};

/// The maximum nesting of commands.
const MAX_DEPTH: usize = 40;
/// The maximum number of texts, commands and programs.
const MAX_STEPS: usize = 4_000;
/// How much is read and copied, in bytes or what costs as much as one.
const MAX_WORK: usize = 2 << 20;
/// How many programs, and how many files.
const MAX_EFFECTS: usize = 1_000;
const MAX_HIDDEN: usize = 64;

/// The cost so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    depth: usize,
    steps: usize,
    work: usize,
    exhausted: bool,
}

impl Walker {
    /// Records that the text does not show something.
    pub(super) fn hide(&mut self, why: HiddenReason, text: &str) {
        if self.reading.hidden.len() >= MAX_HIDDEN {
            return;
        }
        let text: String = text.chars().take(120).collect();
        self.reading.hidden.push(Hidden { why, text });
    }

    /// Charges some work; false if the budget is exhausted: then the work must not be done, and the command is
    /// hidden as too large.
    pub(super) fn spend(&mut self, work: usize) -> bool {
        self.budget.work = self.budget.work.saturating_add(work);
        if self.budget.work > MAX_WORK || self.budget.exhausted {
            self.exhaust("the whole command");
        }
        !self.budget.exhausted
    }

    /// Pays for a copy of what is known of variables and functions.
    pub(super) fn spend_copy(&mut self) -> bool {
        let weight = self.environment.weight();
        self.spend(weight)
    }

    /// Whether one more program or file may be noted.
    pub(super) fn another_effect(&mut self, fields: &[Field]) -> bool {
        let reading = &self.reading;
        if reading.runs.len().max(reading.writes.len()) >= MAX_EFFECTS {
            self.exhaust("the whole command");
        }
        let weight: usize = fields.iter().map(Field::weight).sum();
        self.spend(32 + weight + 16 * self.through.len())
    }

    /// After this was recorded, nothing else needs to be found.
    fn exhaust(&mut self, text: &str) {
        if !self.budget.exhausted {
            self.budget.exhausted = true;
            // It must be recorded even if the list is full.
            self.reading.hidden.truncate(MAX_HIDDEN - 1);
            self.hide(HiddenReason::TooComplex, text);
        }
    }

    /// Does one step of the work, one level further down.
    pub(super) fn deeper(&mut self, text: &str, work: impl FnOnce(&mut Self)) {
        self.budget.steps += 1;
        if self.budget.steps > MAX_STEPS {
            self.exhaust(text);
        }
        if !self.spend(16) {
            return;
        }
        if self.budget.depth >= MAX_DEPTH {
            return self.hide(HiddenReason::TooComplex, text);
        }
        self.budget.depth += 1;
        work(self);
        self.budget.depth -= 1;
    }
}

impl Environment {
    /// The approximate size of a copy, in bytes.
    fn weight(&self) -> usize {
        let names = self.functions.len()
            + self.aliases.len()
            + self.exported.len()
            + self.frozen.len()
            + self.odd.len()
            + self.changed.len();
        16 + 24 * names + 48 * self.variables.len()
    }
}
