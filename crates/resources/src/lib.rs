//! The resources of the control plane: what people declare, and the records of what happened.
//!
//! ```text
//!  declared                                         recorded
//!  ────────                                         ────────
//!  Repository ◀── TriggerRule ──names──▶ Stack      WebhookDelivery ──▶ TriggerExecution
//!                     │                    │                                  │
//!                     ▼                    ├─▶ ToolProfile                    ▼
//!                 RunnerPool               ├─▶ McpServer, Skill          DispatchRun ──▶ DispatchAttempt
//!                                          ├─▶ Subagent                       │               │
//!                                          ├─▶ ContextLabel                   ├─▶ ContextBundle
//!                                          ├─▶ WorkspacePolicy                ├─▶ Workspace, Session
//!                                          └─▶ AgentServiceAccount            ├─▶ Artifact, ReviewArtifact
//!                                                 ▲        ▲                  └─▶ Approval
//!                               SecretGrant, ConfigGrant   RoleBinding        WorkItem…Link
//! ```
//!
//! Each kind is one type in one file; validation, JSON Schema, the HTTP description and the
//! reference page all come from it. Unknown keys are errors.

mod access;
mod artifact;
mod bundle;
mod capability_requirement;
mod condition;
mod context_label;
mod dispatch;
mod grants;
mod identity;
mod job;
mod kind;
mod kind_check;
mod links;
mod mcp_server;
mod moment;
mod native;
mod object;
mod pod_grants;
mod pod_problem;
mod reason;
mod references;
mod repository;
mod runner_pool;
mod session;
mod skill;
mod stack;
mod subagent;
mod tool_profile;
mod trigger;
mod trigger_rule;
mod variable;
mod workspace;

pub use access::*;
pub use artifact::*;
pub use bundle::*;
pub use capability_requirement::*;
pub use condition::*;
pub use context_label::*;
pub use dispatch::*;
pub use grants::*;
pub use identity::*;
pub use job::*;
pub use kind::*;
pub use kind_check::{object_schema, readable};
pub use links::*;
pub use mcp_server::*;
pub use moment::*;
pub use native::*;
pub use object::*;
pub use pod_grants::*;
pub use pod_problem::*;
pub use reason::*;
pub use references::*;
pub use repository::*;
pub use runner_pool::*;
pub use session::*;
pub use skill::*;
pub use stack::*;
pub use subagent::*;
pub use tool_profile::*;
pub use trigger::*;
pub use trigger_rule::*;
pub use variable::*;
pub use workspace::*;

pub use bailiwick_model::{AuditLevel, DiscoveredTool};

/// The group and version under which every resource is written.
pub const API_VERSION: &str = "bailiwick.dev/v1alpha1";
