//! The text of an assembled agent: `# ROLE`, the texts of its substrate role, its blocks, and to whom
//! it hands over.

use bailiwick_model::{Problem, RoleName};
use serde_spanned::Spanned;

use super::file::Manifest;
use crate::bind::{SEPARATOR, capabilities, texts};
use crate::kit::Kit;
use crate::resolve::{ResolvedRole, resolve};
use crate::tool_table::matches;

/// A text with its warnings.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) text: String,
    pub(super) warnings: Vec<Problem>,
}

/// Joins the sections with blank lines. The text of the substrate role is one section, and changes nothing else.
pub(super) fn compose(kit: &Kit, manifest: &Manifest) -> Result<Body, Vec<Problem>> {
    let mut sections = vec![section("ROLE", &manifest.role)];
    let mut warnings = Vec::new();
    if let Some(name) = &manifest.substrate_role {
        let role = resolve(kit, name.get_ref(), manifest.source.at(name.span()))?;
        spawnable(manifest, name, &role).map_err(|problem| vec![problem])?;
        tools_within(manifest, name, &role)?;
        let told: Vec<String> = texts(&capabilities(kit, &role)?).collect();
        let title = format!("AGENT SUBSTRATE — role {}", role.name);
        sections.push(section(&title, &told.join(SEPARATOR)));
        warnings.extend(role.warnings);
    }
    for block in &manifest.blocks {
        sections.push(section(block.title.get_ref(), block.text.get_ref()));
    }
    if !manifest.handoffs.is_empty() {
        let line = |handoff: &super::Handoff| {
            format!("- `{}`: {}", handoff.to.get_ref(), handoff.when.get_ref().trim())
        };
        let lines: Vec<String> = manifest.handoffs.iter().map(line).collect();
        sections.push(section("HANDOFFS", &lines.join("\n")));
    }
    Ok(Body { text: sections.join("\n\n") + "\n", warnings })
}

fn section(title: &str, text: &str) -> String {
    format!("# {}\n\n{}", title.trim(), text.trim())
}

fn spawnable(
    manifest: &Manifest,
    name: &Spanned<RoleName>,
    role: &ResolvedRole,
) -> Result<(), Problem> {
    if role.spawnable {
        return Ok(());
    }
    let message = format!("role `{}` is not spawnable, so no agent can have it", role.name);
    Err(Problem::error("not-spawnable", manifest.source.at(name.span()), message)
        .help("`bailiwick roles list` shows the roles that an agent may have"))
}

/// An agent whose prompt states limits must not get tools beyond them.
fn tools_within(
    manifest: &Manifest,
    name: &Spanned<RoleName>,
    role: &ResolvedRole,
) -> Result<(), Vec<Problem>> {
    let allowed = role.tools.join(", ");
    let Some(tools) = &manifest.tools else {
        let message = format!("it has the role `{}` and all tools", role.name);
        let place = manifest.source.at(name.span());
        let help = format!("say tools = […]; the role has {allowed}");
        return Err(vec![Problem::error("wider-than-role", place, message).help(help)]);
    };
    let beyond = |tool: &&Spanned<String>| {
        !role.tools.iter().any(|allowed| matches(allowed, tool.get_ref()))
    };
    let problem = |tool: &Spanned<String>| {
        let message = format!("the role `{}` has no tool `{}`", role.name, tool.get_ref());
        Problem::error("wider-than-role", manifest.source.at(tool.span()), message)
            .help(format!("the role has {allowed}"))
    };
    let problems: Vec<Problem> = tools.iter().filter(beyond).map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}
