//! The gate in the settings of agents that people start themselves.
//!
//! ```text
//!  observe ─▶ Draft (what each file would hold) ─▶ shown (--dry-run) or applied
//!     ▲            ▲
//!  places     settings_entry · codex_trust · plugin · disarmed · record
//! ```
//!
//! Every change is first drafted for all files, then written: an unreadable or invalid file stops everything before
//! anything is changed. [`json_text`] edits JSON in place, so that foreign parts keep their bytes.

pub mod agent;
pub mod codex_roots;
pub mod codex_trust;
pub mod disarmed;
pub mod draft;
pub mod folder_trust;
pub mod gate_command;
pub mod hooked_call;
pub mod install;
pub mod json_edit;
pub mod json_text;
pub mod limits;
pub mod other_hooks;
pub mod own_rules;
pub mod pending_command;
pub mod places;
pub mod plugin;
pub mod record;
pub mod remove;
pub mod sandboxed_shell;
pub mod scratch_space;
pub mod settings_entry;
pub mod shell_prefix;
pub mod status;
