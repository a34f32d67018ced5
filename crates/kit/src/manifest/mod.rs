//! Manifests, and the assembler that creates agent files from them.
//!
//! ```text
//!  manifests/critic.toml ──read──▶ Manifest ──body──▶ # ROLE, # AGENT SUBSTRATE, blocks, # HANDOFFS
//!                                     │                        │
//!                                     └────────── assemble ◀───┘──▶ a file for one program
//! ```

mod body;
mod file;
mod output;

use bailiwick_model::nearest::nearest;
use bailiwick_model::template::AgentType;
use bailiwick_model::{Problem, Source};

pub use file::{Block, Handoff, Manifest, read};
pub use output::{AssembledFile, Program, assemble};

use crate::kit::Kit;
use crate::layer::{Layer, Layout, Origin};

/// A manifest with its file.
#[derive(Debug, Clone)]
pub struct FoundManifest {
    /// The content of the file.
    pub manifest: Manifest,
    pub origin: Origin,
}

fn directory(layer: &Layer) -> &'static str {
    match layer.layout {
        Layout::Plain => "manifests",
        Layout::Underscore => "_manifests",
    }
}

/// Finds a manifest of a kit; a broken one is an error, not a reason to look further down.
pub fn find(kit: &Kit, name: &AgentType) -> Result<Option<FoundManifest>, Vec<Problem>> {
    for layer in kit.layers() {
        let path = format!("{}/{name}.toml", directory(layer));
        let Some(source) = layer.source(&path)? else { continue };
        let mut manifest = read(&source)?;
        let written = manifest.name.get_ref();
        if written != name {
            let message = format!("the name is `{written}`, but the file says `{name}`");
            let place = source.at(manifest.name.span());
            return Err(vec![
                Problem::error("name-mismatch", place, message)
                    .help(format!("write name = \"{name}\", or rename the file")),
            ]);
        }
        let mut blocks = named_blocks(layer, &manifest)?;
        blocks.append(&mut manifest.blocks);
        manifest.blocks = blocks;
        return Ok(Some(FoundManifest { manifest, origin: layer.origin }));
    }
    Ok(None)
}

/// The blocks that a manifest names: each is a file that begins with its title.
fn named_blocks(layer: &Layer, manifest: &Manifest) -> Result<Vec<Block>, Vec<Problem>> {
    let directory = match layer.layout {
        Layout::Plain => "blocks",
        Layout::Underscore => "_blocks",
    };
    let mut blocks = Vec::new();
    for name in &manifest.block_files {
        let path = format!("{directory}/{}.md", name.get_ref());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let file = match name.get_ref().chars().all(plain) {
            true => layer.source(&path)?,
            false => None,
        };
        let Some(file) = file else {
            let message = format!("there is no block `{}`", name.get_ref());
            let place = manifest.source.at(name.span());
            return Err(vec![
                Problem::error("missing-artefact", place, message)
                    .help(format!("write {}", layer.shown(&path))),
            ]);
        };
        let text = file.text.trim();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        blocks.push(match first.strip_prefix("# ") {
            Some(title) => Block::new(title, rest),
            None => Block::new(name.get_ref(), text),
        });
    }
    Ok(blocks)
}

/// The names of all manifests; a file that cannot be called so is an error.
pub fn names(kit: &Kit) -> Result<Vec<AgentType>, Vec<Problem>> {
    let mut names = Vec::new();
    for layer in kit.layers() {
        for file in layer.list(directory(layer))? {
            let Some(stem) = file.strip_suffix(".toml") else { continue };
            match AgentType::parse(stem) {
                Ok(name) if name.as_str() == stem => names.push(name),
                Ok(_) | Err(_) => {
                    let path = format!("{}/{file}", directory(layer));
                    let place = Source::new(layer.shown(&path), "").whole();
                    let message = format!("`{stem}` is not the name of an agent");
                    return Err(vec![
                        Problem::error("bad-name", place, message)
                            .help("use lower-case letters, digits, `-` and `_`"),
                    ]);
                }
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The manifest that someone probably meant.
pub fn nearest_name(kit: &Kit, text: &str) -> Option<String> {
    let names = names(kit).ok()?;
    nearest(text, names.iter().map(AgentType::as_str)).map(str::to_owned)
}
