//! The kinds of resources.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use bailiwick_model::nearest::nearest;

/// Who writes objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// People declare them; the control plane adds the status.
    People,
    /// Written only by the control plane, as records.
    ControlPlane,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $plural:literal $short:literal $author:ident;)*) => {
        /// The kind of a resource.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
        )]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in the field `kind`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The plural form in URLs.
            pub fn plural(self) -> &'static str {
                match self { $(Self::$name => $plural,)* }
            }

            /// A short name for the command line.
            pub fn short(self) -> &'static str {
                match self { $(Self::$name => $short,)* }
            }

            /// Who writes objects of this kind.
            pub fn author(self) -> Author {
                match self { $(Self::$name => Author::$author,)* }
            }
        }
    };
}

kinds! {
    /// A definition of an agent: its program, model, prompt, tools and identity.
    AgentStack "agentstacks" "stack" People;
    /// An agent that a stack can delegate to.
    AgentSubagent "agentsubagents" "subagent" People;
    /// Limits on tools, commands, files and hosts.
    AgentToolProfile "agenttoolprofiles" "toolprofile" People;
    /// A managed MCP server.
    AgentMcpServer "agentmcpservers" "mcp" People;
    /// A reusable procedure that a stack can load.
    AgentSkill "agentskills" "skill" People;
    /// The identity of a stack or a runner pool.
    AgentServiceAccount "agentserviceaccounts" "asa" People;
    /// A binding of a role to a subject.
    AgentRoleBinding "agentrolebindings" "arb" People;
    /// A permission to use keys of a secret.
    AgentSecretGrant "agentsecretgrants" "secretgrant" People;
    /// A permission to use keys of a config map.
    AgentConfigGrant "agentconfiggrants" "configgrant" People;
    /// The requirements of an object, and whether they are granted.
    AgentCapabilityRequirement "agentcapabilityrequirements" "requirement" ControlPlane;
    /// A rule that starts a stack for matching events.
    AgentTriggerRule "agenttriggerrules" "trigger" People;
    /// One piece of delegated work, shown like a pipeline.
    AgentDispatchRun "agentdispatchruns" "run" ControlPlane;
    /// One execution of a run.
    AgentDispatchAttempt "agentdispatchattempts" "attempt" ControlPlane;
    /// A link between a work item and a session.
    WorkItemSessionLink "workitemsessionlinks" "sessionlink" ControlPlane;
    /// A link between a work item and a workspace.
    WorkItemWorkspaceLink "workitemworkspacelinks" "workspacelink" ControlPlane;
    /// A reviewed piece of prompt text.
    AgentContextLabel "agentcontextlabels" "contextlabel" People;
    /// How workspaces are created and retained.
    AgentWorkspacePolicy "agentworkspacepolicies" "workspacepolicy" People;
    /// A git worktree and its status.
    AgentWorkspace "agentworkspaces" "workspace" ControlPlane;
    /// A session of an agent program.
    AgentSession "agentsessions" "session" ControlPlane;
    /// A request for an approval. It is bound to one exact action.
    AgentApproval "agentapprovals" "approval" ControlPlane;
    /// The context of a run, as it was assembled.
    AgentContextBundle "agentcontextbundles" "bundle" ControlPlane;
    /// A result of a run.
    AgentArtifact "agentartifacts" "artifact" ControlPlane;
    /// A review that a run produced.
    AgentReviewArtifact "agentreviewartifacts" "review" ControlPlane;
    /// The result of one rule for one event.
    AgentTriggerExecution "agenttriggerexecutions" "execution" ControlPlane;
    /// A webhook that was received.
    WebhookDelivery "webhookdeliveries" "delivery" ControlPlane;
    /// A repository, its forge and the policy for work in it.
    Repository "repositories" "repo" People;
    /// A pool of runners for attempts.
    RunnerPool "runnerpools" "pool" People;
    /// An identity of the platform.
    ServiceAccount "serviceaccounts" "sa" People;
    /// A role of the platform.
    Role "roles" "role" People;
    /// A role binding of the platform.
    RoleBinding "rolebindings" "rb" ControlPlane;
    /// Secret values.
    Secret "secrets" "secret" People;
    /// Values that are not secret.
    ConfigMap "configmaps" "cm" People;
}

impl Kind {
    /// All short names, as `kubectl` needs them: the short name, its plural, and what else people write.
    pub fn short_names(self) -> Vec<String> {
        let short = self.short();
        let plural = match short.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{short}s"),
        };
        let mut names = vec![short.to_owned(), plural];
        if self == Self::AgentDispatchRun {
            names.extend(["agentrun".to_owned(), "agentruns".to_owned()]);
        }
        names
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    /// Reads the name exactly as it is written in the field `kind`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::ALL.iter().find(|kind| kind.as_str() == text).copied().ok_or_else(|| {
            let near = nearest(&text, Self::ALL.iter().map(|kind| kind.as_str()));
            let near = near.map(str::to_owned);
            D::Error::custom(UnknownKind { text: text.into_owned(), near })
        })
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Parses a name, plural or short name. Case is ignored.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let asked = text.to_ascii_lowercase();
        let known = |kind: &&Self| {
            asked == kind.as_str().to_ascii_lowercase()
                || asked == kind.plural()
                || asked.strip_suffix('s') == Some(kind.short())
                || kind.short_names().contains(&asked)
        };
        Self::ALL.iter().find(known).copied().ok_or_else(|| {
            let names =
                Self::ALL.iter().flat_map(|kind| [kind.as_str(), kind.plural(), kind.short()]);
            UnknownKind { text: text.to_owned(), near: nearest(text, names).map(str::to_owned) }
        })
    }
}

/// An unknown kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no kind `{text}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct UnknownKind {
    /// The text that was given.
    pub text: String,
    /// The kind that was probably meant.
    pub near: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Kind;

    #[test]
    fn every_name_leads_to_exactly_one_kind() {
        let mut seen = BTreeMap::new();
        for &kind in Kind::ALL {
            let short = kind.short_names();
            let all =
                [kind.as_str(), kind.plural()].into_iter().chain(short.iter().map(String::as_str));
            for name in all {
                assert_eq!(name.parse(), Ok(kind), "{name}");
                let other = seen.insert(name.to_ascii_lowercase(), kind);
                assert!(other.is_none_or(|other| other == kind), "{name} is used by two kinds");
            }
        }
        for (name, kind) in [
            ("deliveries", Kind::WebhookDelivery),
            ("stacks", Kind::AgentStack),
            ("pools", Kind::RunnerPool),
            ("AgentRuns", Kind::AgentDispatchRun),
            ("workspacepolicies", Kind::AgentWorkspacePolicy),
        ] {
            assert_eq!(name.parse(), Ok(kind), "{name}");
        }
        let wrong = "agentstak".parse::<Kind>().unwrap_err();
        assert!(wrong.to_string().contains("did you mean"), "{wrong}");
    }
}
