//! The status of MCP servers, as they answered when they were last asked.

use bailiwick_resources::{AgentMcpServer, AnyObject, McpHealth, Object};

use crate::admission::conditions::{McpProbe, StackFacts};
use crate::admission::snapshot::Frozen;
use crate::controllers::ReconcileError;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::status_reconciler::StatusReconciler;
use crate::ports::{Clock, Commits, FleetStore, StackSources, Worktrees, Write};

impl<S: FleetStore, W: Clock + Commits + StackSources + Worktrees> StatusReconciler<S, W> {
    /// Stores the health of a stack's MCP servers, if it changed.
    pub(super) async fn update_server_statuses(
        &self,
        frozen: &Frozen,
        facts: &StackFacts,
    ) -> Result<bool, ReconcileError> {
        let mut writes = Vec::new();
        for server in &frozen.mcp_servers {
            let Some(probe) = facts.mcp.get(server.name()) else { continue };
            // Another stack may have updated it in the same pass.
            let Some(mut kept) = self.store.typed::<AgentMcpServer>(server.name()).await? else {
                continue;
            };
            if kept.metadata.generation != server.metadata.generation {
                continue;
            }
            let before = kept.status.clone();
            stand(&mut kept, probe);
            if kept.status != before {
                writes.push(Write::Status(AnyObject::of(&kept)?));
            }
        }
        if writes.is_empty() {
            return Ok(false);
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }
}

fn stand(server: &mut Object<AgentMcpServer>, probe: &McpProbe) {
    let status = &mut server.status;
    status.observed_generation = server.metadata.generation;
    (status.health, status.message) = match probe {
        McpProbe::NotYet => (McpHealth::Unknown, String::new()),
        McpProbe::Failed(why) | McpProbe::TimedOut(why) => (McpHealth::Failed, why.clone()),
        McpProbe::Answered(tools) => {
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
