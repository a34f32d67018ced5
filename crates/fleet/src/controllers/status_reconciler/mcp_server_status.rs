//! The status of MCP servers, as of their last probe. A server of several stacks is denied only if none of them may
//! use it.

use std::collections::BTreeMap;

use bailiwick_resources::{AgentMcpServer, AnyObject, McpApproval, McpHealth, Object, Repository};

use crate::admission::conditions::{McpProbe, StackFacts, server_refusal};
use crate::admission::snapshot::FrozenStack;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::status_reconciler::StatusReconciler;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{Clock, Commits, FleetStore, StackSources, Worktrees, Write};

/// The facts about a server in this pass.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerFacts {
    /// A stack may use it, and it was probed with this result.
    Probed(McpProbe),
    /// No stack so far may use it, and why the first may not.
    Refused(String),
}

/// The facts about each server that stacks name, by name and generation.
#[derive(Debug, Default)]
pub(super) struct FoundServers(BTreeMap<(String, u64), ServerFacts>);

impl FoundServers {
    /// Adds the facts of a stack about its servers.
    pub(super) fn add(
        &mut self,
        frozen: &FrozenStack,
        facts: &StackFacts,
        repositories: &[Object<Repository>],
    ) {
        for server in &frozen.mcp_servers {
            let place = (server.name().to_owned(), server.metadata.generation);
            match server_refusal(frozen.stack.name(), repositories, server) {
                Some(why) => {
                    self.0.entry(place).or_insert(ServerFacts::Refused(why));
                }
                None => {
                    let probe = facts.mcp.get(server.name()).cloned().unwrap_or(McpProbe::NotYet);
                    self.0.insert(place, ServerFacts::Probed(probe));
                }
            }
        }
    }
}

impl<S: FleetStore, W: Clock + Commits + StackSources + Worktrees> StatusReconciler<S, W> {
    /// Stores the health of the servers that stacks name, if it changed.
    pub(super) async fn update_server_statuses(
        &self,
        found: &FoundServers,
        summary: &mut ReconcileSummary,
    ) {
        for ((name, generation), facts) in &found.0 {
            let result = self.update_server_status(name, *generation, facts).await;
            summary.record(name, result);
        }
    }

    async fn update_server_status(
        &self,
        name: &str,
        generation: u64,
        facts: &ServerFacts,
    ) -> Result<bool, ReconcileError> {
        let Some(mut kept) = self.store.typed::<AgentMcpServer>(name).await? else {
            return Ok(false);
        };
        if kept.metadata.generation != generation {
            return Ok(false);
        }
        let before = kept.status.clone();
        update_health(&mut kept, facts);
        if kept.status == before {
            return Ok(false);
        }
        self.store.commit(vec![Write::Status(AnyObject::of(&kept)?)], self.world.now()).await?;
        Ok(true)
    }
}

fn update_health(server: &mut Object<AgentMcpServer>, facts: &ServerFacts) {
    let status = &mut server.status;
    status.observed_generation = server.metadata.generation;
    (status.health, status.message) = match facts {
        ServerFacts::Refused(why) => (McpHealth::Denied, why.clone()),
        ServerFacts::Probed(_) if server.spec.approval_policy == McpApproval::Deny => {
            let why = "approvalPolicy denies every call";
            (McpHealth::Disabled, why.to_owned())
        }
        ServerFacts::Probed(McpProbe::NotYet) => (McpHealth::Unknown, String::new()),
        ServerFacts::Probed(McpProbe::Failed(why) | McpProbe::TimedOut(why)) => {
            (McpHealth::Failed, why.clone())
        }
        ServerFacts::Probed(McpProbe::Answered(tools)) => {
            status.discovered_tools.clone_from(tools);
            let gone = |name: &&String| !tools.iter().any(|tool| tool.name == **name);
            let missing: Vec<&str> =
                server.spec.required_tools.iter().filter(gone).map(String::as_str).collect();
            match missing.is_empty() {
                true => (McpHealth::Ready, String::new()),
                false => (McpHealth::Degraded, format!("it has no {}", missing.join(", "))),
            }
        }
    };
}
