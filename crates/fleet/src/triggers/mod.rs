//! From events to runs: events are normalised, matched by rules, deduplicated and turned into records. Everything
//! here is pure: facts and times are arguments, and records are results whose names are derived from their subject,
//! so that the same event planned twice is written once.
//!
//! ```text
//!  bytes ─signature─▶ wire ─▶ SourceEvent ─lookups─▶ evaluate(event, rules, seen, now) ─▶ PlannedExecution
//!  clock ─schedule──────────────▲                      │  lifecycle · matcher · dedupe
//!  person ──────────────────────┘                      └─ concurrency · template
//! ```

pub mod concurrency;
pub mod conditions;
pub mod dedupe;
mod draft;
pub mod dry_run;
pub mod event;
pub mod labels;
pub mod lifecycle;
pub mod lookup;
pub mod matcher;
mod mention;
mod names;
pub mod own_work;
pub mod plan;
pub mod prompt;
mod sample;
pub mod schedule;
pub mod signature;
pub mod template;
pub mod text;
pub mod wire;

pub use concurrency::{ActiveRun, GroupDecision};
pub use conditions::{RepositoryFacts, RuleFacts, StackFacts, conditions};
pub use dry_run::{DryRun, dry_run};
pub use event::{Association, SourceEvent};
pub use labels::{LabelChange, occurrences};
pub use lifecycle::LifecycleError;
pub use lookup::{Lookup, lookups};
pub use matcher::{CompiledMatcher, FieldReport, MatchReport};
pub use names::delivery_name;
pub use own_work::OwnWork;
pub use plan::{
    EventContext, Intent, PlannedExecution, RecentExecution, RequiredLookups, RunDraft, evaluate,
    required_lookups,
};
pub use sample::sample;
pub use schedule::{CompiledSchedule, Fire, ScheduleError};
pub use signature::{SignatureError, SignatureHeaders};
pub use wire::{Delivery, WireError};
