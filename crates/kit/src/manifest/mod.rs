//! Manifests, and the assembler that makes agent files of them.
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
pub use output::{Assembled, Program, assemble};

use crate::kit::{Kit, Layer, Layout, Origin};

/// A manifest with its file.
#[derive(Debug, Clone)]
pub struct FoundManifest {
    /// What the file declares.
    pub manifest: Manifest,
    /// Where it comes from.
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
        let manifest = read(&source)?;
        let written = manifest.name.get_ref();
        if written != name {
            let message = format!("the name is `{written}`, but the file says `{name}`");
            let place = source.at(manifest.name.span());
            return Err(vec![
                Problem::error("name-mismatch", place, message)
                    .help(format!("write name = \"{name}\", or rename the file")),
            ]);
        }
        return Ok(Some(FoundManifest { manifest, origin: layer.origin }));
    }
    Ok(None)
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
                    let message = format!("`{stem}` is no name of an agent");
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
