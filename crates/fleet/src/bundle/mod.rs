//! Context bundles: what an agent is given to read, in seven layers, without secrets, within limits.
//!
//! ```text
//!  parts ─redact▶ parts without secrets ─cut▶ parts within limits ─▶ Bundle ─render▶ text
//! ```
//!
//! Secrets are redacted first, so that a cut cannot split one. The same parts give the same digest, and the stored
//! texts give the same bundle.

mod assemble;
mod cut;
mod label_rules;
mod parts;
pub(crate) mod redact;
mod value_forms;

pub use assemble::{Bundle, BundleError, Part, assemble, data_section};
pub use cut::{DIFF_LIMIT, LOG_LIMIT};
pub use label_rules::{
    Breach, LabelFault, UnsafePattern, awaits_review, label_faults, unsafe_patterns,
};
pub use parts::{Form, InputPart, NamedSource, SourcePart, StackTexts};
pub use redact::{PLACEHOLDER, Redacted, RedactionError, RedactionRules, Redactor};

/// How many bytes the layers that instruct may have together.
pub const PROMPT_LIMIT: usize = 64 * 1024;
/// How many bytes a bundle may have.
pub const BUNDLE_LIMIT: usize = 750 * 1024;
/// How many sources may be attached.
pub const MAX_ATTACHMENTS: usize = 32;
