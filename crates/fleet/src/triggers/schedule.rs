//! When a schedule fires. The time zone database is part of the program: no file is read.

use bailiwick_resources::{EventSource, ForgeKind, Moment, Schedule};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use serde_json::json;
use thiserror::Error;

use super::event::{Association, SourceEvent};

/// A fire that is noticed within this time is not late.
pub const GRACE_MILLIS: u64 = 60_000;
/// The maximum number of missed runs to catch up; the latest ones.
const MAX_CATCH_UP: usize = 64;
/// The maximum number of times to search: one per minute for a month.
const MAX_STEPS: usize = 45_000;

/// Why a schedule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// The five fields cannot be read.
    #[error("`{cron}` is no schedule: {why}; write minute, hour, day, month, day of the week")]
    Cron {
        /// The expression.
        cron: String,
        /// The reason.
        why: String,
    },
    /// The time zone does not exist.
    #[error(
        "there is no time zone `{name}`; write one such as Europe/Berlin, or leave it out for UTC"
    )]
    TimeZone {
        /// The name.
        name: String,
    },
    /// It never fires.
    #[error("`{cron}` never comes")]
    Never {
        /// The expression.
        cron: String,
    },
}

/// A schedule, ready.
#[derive(Debug, Clone)]
pub struct CompiledSchedule {
    written: Schedule,
    cron: Cron,
    zone: TimeZone,
}

/// One time that a schedule fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fire {
    /// Its time.
    pub at: Moment,
    /// Whether it is caught up.
    pub late: bool,
}

/// Compiles a schedule.
pub fn compile(schedule: &Schedule) -> Result<CompiledSchedule, ScheduleError> {
    let wrong = |why: String| ScheduleError::Cron { cron: schedule.cron.clone(), why };
    if schedule.cron.split_whitespace().count() != 5 {
        return Err(wrong("there are not five fields".to_owned()));
    }
    let cron = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build()
        .parse(&schedule.cron)
        .map_err(|error| wrong(error.to_string()))?;
    let zone = match schedule.time_zone.as_deref() {
        None | Some("UTC") => TimeZone::UTC,
        Some(name) => TimeZoneDatabase::bundled()
            .get(name)
            .map_err(|_| ScheduleError::TimeZone { name: name.to_owned() })?,
    };
    let compiled = CompiledSchedule { written: schedule.clone(), cron, zone };
    // Leap days are at most eight years apart, so a schedule without a time until then is a mistake.
    match compiled.next_after(Moment::from_millis(1_700_000_000_000)) {
        Some(_) => Ok(compiled),
        None => Err(ScheduleError::Never { cron: schedule.cron.clone() }),
    }
}

impl CompiledSchedule {
    fn zoned(&self, moment: Moment) -> Option<Zoned> {
        let millis = i64::try_from(moment.millis()).ok()?;
        Some(Timestamp::from_millisecond(millis).ok()?.to_zoned(self.zone.clone()))
    }

    /// When it fires next, after a moment.
    pub fn next_after(&self, moment: Moment) -> Option<Moment> {
        let next = self.cron.find_next_occurrence(&self.zoned(moment)?, false).ok()?;
        let millis = u64::try_from(next.timestamp().as_millisecond()).ok()?;
        Some(Moment::from_millis(millis)).filter(|next| *next > moment)
    }

    /// The times after `since` and until `now`, oldest first, without those that are too old to catch up.
    pub fn due(&self, since: Moment, now: Moment) -> Vec<Fire> {
        let catch_up = self.written.catch_up.map_or(0, |span| span.millis());
        let reach = catch_up.max(GRACE_MILLIS);
        let oldest = now.millis().saturating_sub(reach).saturating_sub(1);
        let mut from = since.max(Moment::from_millis(oldest));
        let mut fires = Vec::new();
        for _ in 0..MAX_STEPS {
            let Some(next) = self.next_after(from).filter(|next| *next <= now) else { break };
            let late = now.millis().saturating_sub(next.millis()) > GRACE_MILLIS;
            fires.push(Fire { at: next, late });
            from = next;
        }
        let over = fires.len().saturating_sub(MAX_CATCH_UP);
        fires.split_off(over)
    }

    /// How long a time waits for its forge, in milliseconds: until the next one, and as long as it is caught up.
    pub fn max_wait(&self, at: Moment) -> u64 {
        let next = self.next_after(at).map_or(0, |next| next.millis().saturating_sub(at.millis()));
        self.written.catch_up.map_or(0, |span| span.millis()).max(next)
    }

    /// The event that a fire is. It has the same id whenever it is noticed.
    pub fn event(&self, rule: &str, fire: Fire) -> SourceEvent {
        let uid = format!("schedule/{rule}/{}", fire.at);
        let repository = &self.written.repository;
        let mut event = SourceEvent::new(EventSource::Schedule, ForgeKind::Local, &uid, repository);
        event.at = fire.at;
        event.action = Some(if fire.late { "caught-up" } else { "fired" }.to_owned());
        event.association = Association::Writer;
        event.reference.clone_from(&self.written.reference);
        if let Some(reference) = &self.written.reference {
            let tag = reference.strip_prefix("refs/tags/");
            event.tag = tag.map(str::to_owned);
            let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
            event.branch = (tag.is_none()).then(|| branch.to_owned());
        }
        event.source_refs.schedule = Some(rule.to_owned());
        let payload = json!({ "scheduledAt": fire.at, "cron": self.written.cron });
        event.payload = payload.into();
        event.trust();
        event
    }
}
