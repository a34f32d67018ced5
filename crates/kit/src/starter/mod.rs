//! What `init` writes: a commented starting kit, and an example task that fits the repository.
//!
//! [`Project::detect`] recognises the build tools; [`files`] writes what it found into the kit.

mod cargo;
mod cmake;
mod dotnet;
mod elixir;
mod files;
mod go;
mod ignored;
mod jvm;
mod kit_texts;
mod make;
mod node;
mod php;
mod project;
mod python;
mod render;
mod ruby;
mod shell;
mod stack;
mod tool;
mod whitelist;

pub use files::Files;
pub use project::{Content, Project};
pub use render::files;
pub use stack::{Note, Stack};
pub use tool::Tool;
