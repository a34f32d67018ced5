//! `bailiwick audit`: who did what, when.

use bailiwick_server::AuditLine;
use clap::Args;

use super::access::FleetAccess;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};
use crate::view::plain;

/// The number of lines in one read.
const PAGE: usize = 1_000;

/// Show the audit log, oldest first
///
/// Each line has the time, the person or `bailiwick` itself, the event and the object. With `-o
/// json` also the details and the ids of the request, the run and the rule.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick audit --last 20\n  bailiwick audit --actor ada --event \
                  AgentApprovalDecision\n  bailiwick audit --subject Secret/ -o json"
)]
pub struct Audit {
    /// Only the last N lines
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Only lines after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Only lines of this person
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only this event
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only objects whose name, as AgentStack/default/fixer, begins with this text
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    #[command(flatten)]
    format: FormatOption,
}

impl Audit {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let mut lines = fleet.ask(async |client| {
            let mut found = Vec::new();
            let mut after = self.after;
            loop {
                let page = client.audit(after, PAGE).await?;
                let Some(last) = page.last() else { return Ok(found) };
                after = last.number;
                found.extend(page.into_iter().filter(|line| self.selects(line)));
            }
        })?;
        if let Some(last) = self.last {
            lines.drain(..lines.len().saturating_sub(last));
        }
        if self.format.format == Format::Json {
            return output::json(&lines);
        }
        if lines.is_empty() {
            output::note("no lines in the audit log");
            return Ok(());
        }
        let rows: Vec<Vec<String>> = lines
            .iter()
            .map(|AuditLine { number, entry }| {
                let (at, actor) = (entry.at.to_string(), plain(&entry.actor));
                vec![number.to_string(), at, actor, plain(&entry.event), plain(&entry.subject)]
            })
            .collect();
        let columns = [
            Column::number("NUMBER"),
            Column::fixed("TIME"),
            Column::text("ACTOR"),
            Column::fixed("EVENT"),
            Column::text("SUBJECT"),
        ];
        output::table(&columns, &rows);
        Ok(())
    }

    fn selects(&self, line: &AuditLine) -> bool {
        let entry = &line.entry;
        self.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
            && self.event.as_ref().is_none_or(|event| *event == entry.event)
            && self.subject.as_ref().is_none_or(|subject| entry.subject.starts_with(subject))
    }
}
