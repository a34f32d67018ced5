//! Which tools of the one vocabulary belong to which class of a tool profile.

use bailiwick_policy::tool::{Class, Tool};
use bailiwick_policy::tool_lists::OWN_SERVER;
use bailiwick_resources::ToolClass;

/// Commands that change more than the worktree, or reach out of it.
pub(super) const PRIVILEGED_COMMANDS: [&str; 34] = [
    "sudo",
    "doas",
    "su",
    "pkexec",
    "chown",
    "mount",
    "umount",
    "systemctl",
    "service",
    "docker",
    "podman",
    "kubectl",
    "helm",
    "terraform",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "apk",
    "brew",
    "npm publish",
    "cargo publish",
    "git push",
    "gh",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "curl",
    "wget",
    "nc",
    "ncat",
    "socat",
    "crontab",
];

/// The tools of a class, without those of MCP servers, which have their own names.
pub fn class_tools(class: ToolClass) -> Vec<String> {
    let names: &[&str] = match class {
        ToolClass::Shell => {
            &["Bash", "Typing", "BashOutput", "KillShell", "ListShells", "CodeMode"]
        }
        ToolClass::Filesystem => &["Read", "Glob", "Grep", "LSP", "Write", "Edit", "NotebookEdit"],
        ToolClass::Network => &["WebFetch", "WebSearch", "CodeSearch"],
        // No supported CLI has a browser; servers provide one.
        ToolClass::Browser => &[],
        ToolClass::Subagents => &["Agent", "AgentMessage"],
        ToolClass::Mcp => &["McpResource"],
    };
    names.iter().map(ToString::to_string).collect()
}

/// The tools of our own server, by which sub-agents are started as runs of their own.
pub(super) fn own_server() -> String {
    format!("mcp__{OWN_SERVER}__*")
}

/// Tools that touch nothing.
pub(super) fn speaking() -> Vec<String> {
    let speaking = Tool::all().iter().filter(|tool| tool.class == Class::NoEffect);
    speaking.map(|tool| tool.name.to_owned()).collect()
}

/// Every tool that touches anything.
pub(super) fn touching() -> Vec<String> {
    let touching = Tool::all().iter().filter(|tool| tool.class != Class::NoEffect);
    touching.map(|tool| tool.name.to_owned()).chain(["mcp__*".to_owned()]).collect()
}

/// Every tool of the vocabulary but these.
pub(super) fn all_but(left_out: &[String]) -> Vec<String> {
    let all = Tool::all().iter().map(|tool| tool.name.to_owned());
    all.filter(|name| !left_out.contains(name)).collect()
}
