//! The kinds of resources there are.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bailiwick_model::nearest::nearest;

/// Who writes objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// People declare them; the control plane adds their status.
    People,
    /// The control plane alone writes them: they record what happened.
    ControlPlane,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $plural:literal $short:literal $author:ident;)*) => {
        /// What a resource is.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As it stands behind `kind:`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Many of them, as in addresses.
            pub fn plural(self) -> &'static str {
                match self { $(Self::$name => $plural,)* }
            }

            /// A short name for the command line.
            pub fn short(self) -> &'static str {
                match self { $(Self::$name => $short,)* }
            }

            /// Who writes it.
            pub fn author(self) -> Author {
                match self { $(Self::$name => Author::$author,)* }
            }
        }
    };
}

kinds! {
    /// A reusable definition of a runnable agent.
    AgentStack "agentstacks" "stack" People;
    /// A named agent that a stack may delegate to.
    AgentSubagent "agentsubagents" "subagent" People;
    /// Which native tools, commands, files and hosts an agent may use.
    AgentToolProfile "agenttoolprofiles" "toolprofile" People;
    /// A managed MCP server.
    AgentMcpServer "agentmcpservers" "mcp" People;
    /// A reusable procedure that a stack can load.
    AgentSkill "agentskills" "skill" People;
    /// The identity under which agents run.
    AgentServiceAccount "agentserviceaccounts" "asa" People;
    /// Which role an identity has, and where.
    AgentRoleBinding "agentrolebindings" "arb" People;
    /// Who may use which keys of a secret, for what.
    AgentSecretGrant "agentsecretgrants" "secretgrant" People;
    /// Who may use which keys of a config map, for what.
    AgentConfigGrant "agentconfiggrants" "configgrant" People;
    /// What an object needs to be run, and whether it is granted.
    AgentCapabilityRequirement "agentcapabilityrequirements" "requirement" ControlPlane;
    /// Connects events to a stack.
    AgentTriggerRule "agenttriggerrules" "trigger" People;
    /// One piece of delegated work, shown like a pipeline.
    AgentDispatchRun "agentdispatchruns" "run" ControlPlane;
    /// One execution of it.
    AgentDispatchAttempt "agentdispatchattempts" "attempt" ControlPlane;
    /// Joins a work item and a session.
    WorkItemSessionLink "workitemsessionlinks" "sessionlink" ControlPlane;
    /// Joins a work item and a workspace.
    WorkItemWorkspaceLink "workitemworkspacelinks" "workspacelink" ControlPlane;
    /// A reviewed piece of prompt.
    AgentContextLabel "agentcontextlabels" "contextlabel" People;
    /// How workspaces are made and kept.
    AgentWorkspacePolicy "agentworkspacepolicies" "workspacepolicy" People;
    /// A worktree and what is known of it.
    AgentWorkspace "agentworkspaces" "workspace" ControlPlane;
    /// A conversation with an agent program.
    AgentSession "agentsessions" "session" ControlPlane;
    /// A person's answer, bound to the exact thing asked.
    AgentApproval "agentapprovals" "approval" ControlPlane;
    /// What an agent was given to read, with digests.
    AgentContextBundle "agentcontextbundles" "bundle" ControlPlane;
    /// Something that a run has made.
    AgentArtifact "agentartifacts" "artifact" ControlPlane;
    /// A review that a run has made.
    AgentReviewArtifact "agentreviewartifacts" "review" ControlPlane;
    /// What a rule did with an event.
    AgentTriggerExecution "agenttriggerexecutions" "execution" ControlPlane;
    /// A webhook as it came in.
    WebhookDelivery "webhookdeliveries" "delivery" ControlPlane;
    /// A repository that agents may work on, and its forge.
    Repository "repositories" "repo" People;
    /// Where attempts are executed.
    RunnerPool "runnerpools" "pool" People;
    /// An identity as the platform knows it.
    ServiceAccount "serviceaccounts" "sa" People;
    /// A set of rights as the platform knows it.
    Role "roles" "role" People;
    /// Who has a role, as the platform knows it.
    RoleBinding "rolebindings" "rb" ControlPlane;
    /// Values that nobody may see.
    Secret "secrets" "secret" People;
    /// Values that anybody may see.
    ConfigMap "configmaps" "cm" People;
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// By its name, plural or short name; case does not matter.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let asked = text.to_ascii_lowercase();
        let known = |kind: &&Self| {
            asked == kind.as_str().to_ascii_lowercase()
                || asked == kind.plural()
                || asked == kind.short()
                || asked.strip_suffix('s') == Some(kind.short())
                || asked.strip_suffix("ies") == kind.short().strip_suffix('y').or(Some(""))
        };
        Self::ALL.iter().find(known).copied().ok_or_else(|| {
            let names =
                Self::ALL.iter().flat_map(|kind| [kind.as_str(), kind.plural(), kind.short()]);
            UnknownKind { text: text.to_owned(), near: nearest(text, names).map(str::to_owned) }
        })
    }
}

/// There is no such kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no kind `{text}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct UnknownKind {
    /// What was asked for.
    pub text: String,
    /// What may have been meant.
    pub near: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Kind;

    #[test]
    fn every_name_of_a_kind_leads_to_it_and_to_no_other() {
        let mut seen = BTreeMap::new();
        for &kind in Kind::ALL {
            for name in [kind.as_str(), kind.plural(), kind.short()] {
                assert_eq!(name.parse(), Ok(kind), "{name}");
                let other = seen.insert(name.to_ascii_lowercase(), kind);
                assert!(other.is_none_or(|other| other == kind), "{name} is taken twice");
            }
        }
        for (name, kind) in [
            ("deliveries", Kind::WebhookDelivery),
            ("stacks", Kind::AgentStack),
            ("pools", Kind::RunnerPool),
        ] {
            assert_eq!(name.parse(), Ok(kind), "{name}");
        }
        let wrong = "agentstak".parse::<Kind>().unwrap_err();
        assert!(wrong.to_string().contains("did you mean"), "{wrong}");
    }
}
