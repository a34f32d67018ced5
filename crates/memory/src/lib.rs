//! The protocol by which agents keep their state in the issues of a forge, as pure functions.
//!
//! ```text
//!  issue, comments, now ──▶ footer: events ──▶ state: checkpoint, claims, what was ignored and why
//!  what a run did       ──▶ exit: comment ──▶ issue body ──▶ labels, assignee
//!  port                 what is needed of a forge; protocol: these steps on a forge; entry: before a run
//!  migration            versions of migrations, assigned before an agent starts
//!  claim_table          claims of a repository; reservation: tokens of runs, in the same table
//!  claim_protocol       the table on one reference, by compare-and-swap, or in comments: claim_log
//!  claim_snapshot       what earlier comments led to, so that the claims of years need not be read; claim_compaction:
//!                       reading and writing it on a forge
//!  recovery             what a machine without a database needs to continue
//! ```
//!
//! Comments are the record. The checkpoint in the issue's body is a cache that is rebuilt from them, because a forge
//! can lose an edit of a body, and because comments do not become visible in the order of their ids.

mod budget;
mod checkpoint;
mod claim_compaction;
mod claim_log;
mod claim_protocol;
mod claim_snapshot;
mod claim_table;
mod comment;
mod context;
mod entry;
mod event;
mod exit;
mod issue;
mod issue_body;
mod labels;
mod migration;
mod port;
mod protocol;
mod prune;
mod recorded;
mod recovery;
mod reservation;
mod resource;
mod signature;
mod state;

pub use budget::{DepthRefusal, SpawnRefusal, max_depth, may_enter, may_spawn};
pub use checkpoint::{
    Budget, ChainEntry, ChainResult, Checkpoint, CheckpointError, CurrentTask, HistoryEntry,
    IssueState, MAX_CHAIN, MAX_FILES, MAX_HISTORY,
};
pub use claim_log::{ClaimLog, ClaimStore, UnknownRelease};
pub use claim_protocol::{ClaimError, ReleaseReport};
pub use claim_table::{
    CLAIMS_REF, ClaimRefusal, ClaimRequest, ClaimTable, TableClaim, TableProblem,
};
pub use comment::{CommentError, ResultComment};
pub use context::{ContextParts, ContextRefusal, check_context};
pub use entry::{Entrant, EntryRefusal, IssueContext, check_entry, issue_context};
pub use event::{
    CascadeEntry, ClaimRelease, Event, EventBudget, EventKind, FooterError, StateChanges,
    TaskClaim, TokenClaim, events_of, footer,
};
pub use exit::{ExitPlan, RunResult, plan_exit, updated_body};
pub use issue::{Comment, Issue, SharedAccount, Trust};
pub use issue_body::{BodyError, find_checkpoint, with_checkpoint};
pub use labels::{Family, LabelChange, change_labels};
pub use migration::{
    MigrationVersion, assign_versions, migration_of, placeholders, with_versions, without_versions,
};
pub use port::{
    BodyEdit, IssueMemory, LabelEvent, MemoryError, ReadIssue, RefContent, RefSwap, StateEvent,
};
pub use protocol::{ExitReport, Loaded, Protocol, Violation};
pub use prune::{Archive, prune};
pub use recorded::Recorded;
pub use recovery::{NextStep, Recovered, RecoveredRun, recover};
pub use reservation::{Reservation, ReservationRequest};
pub use resource::{Resource, ResourceKind, overlap};
pub use signature::SigningKey;
pub use state::{Ignored, IgnoredReason, Inconsistency, State, read_state};
