//! The settings of cargo that a tree brings: what would put something of the tree in place of the compiler,
//! or silence it, is refused.
//!
//! Wrappers and other compilers without a path are allowed: the environment of checks unsets them, and cargo prefers
//! that.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::plain;

/// Larger settings are refused.
const MAX_SIZE: u64 = 4 * 1024 * 1024;

/// Why the settings of a tree are refused.
#[derive(Debug, Error)]
pub(super) enum SettingsError {
    #[error("{}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("{}: {error}", file.display())]
    NoToml { file: PathBuf, error: toml::de::Error },
    #[error("{} sets {what}: a tree may not say what builds it", file.display())]
    Forbidden { file: PathBuf, what: String },
}

/// Refuses what must not be set in any of these directories of a tree.
pub(super) fn refuse<'a>(
    tree: &Path,
    places: impl Iterator<Item = &'a Path>,
) -> Result<(), SettingsError> {
    for place in places {
        for name in [".cargo/config.toml", ".cargo/config"] {
            let file = place.join(name);
            let text = match plain::read(tree, &file, MAX_SIZE) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(SettingsError::Unreadable { file, error }),
                Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            };
            let settings: toml::Table = match text.parse() {
                Ok(settings) => settings,
                Err(error) => return Err(SettingsError::NoToml { file, error }),
            };
            if let Some(what) = find(&settings) {
                return Err(SettingsError::Forbidden { file, what });
            }
        }
    }
    Ok(())
}

/// The first forbidden setting, if there is one.
fn find(settings: &toml::Table) -> Option<String> {
    // Both name programs: the second one is what cargo asks for passwords, with a network.
    let leads =
        ["include", "credential-alias"].into_iter().find(|name| settings.contains_key(*name));
    if let Some(name) = leads {
        return Some(name.to_owned());
    }
    let own = |table: &toml::Value| table.get("credential-provider").is_some_and(is_of_the_tree);
    let registries = settings.get("registries").and_then(toml::Value::as_table);
    if settings.get("registry").is_some_and(own)
        || registries.is_some_and(|all| all.values().any(own))
    {
        return Some("credential-provider".to_owned());
    }
    let programs = ["rustc", "rustc-wrapper", "rustc-workspace-wrapper", "rustdoc"];
    let build = settings.get("build").and_then(toml::Value::as_table);
    let build = build.and_then(|build| {
        let own = |name: &&str| build.get(*name).is_some_and(is_of_the_tree);
        let program = programs.into_iter().find(own).map(|name| format!("build.{name}"));
        program.or_else(|| flags(build).map(|name| format!("build.{name}")))
    });
    let targets = ["target", "host"].into_iter().filter_map(|name| settings.get(name)?.as_table());
    let target = targets.flatten().find_map(|(name, target)| {
        let target = target.as_table()?;
        let runner = target.contains_key("runner") && runs_here(name);
        let linker = target.get("linker").is_some_and(is_of_the_tree);
        let found = if runner { Some("runner") } else { linker.then_some("linker") };
        found.or_else(|| flags(target)).map(|what| format!("target.{name}.{what}"))
    });
    let variables = settings.get("env").and_then(toml::Value::as_table);
    let variable = variables.and_then(|all| {
        let steers = |name: &&String| {
            ["LD_", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_", "CARGO_"]
                .iter()
                .any(|start| name.starts_with(start))
                || *name == "PATH"
        };
        all.keys().find(steers).map(|name| format!("env.{name}"))
    });
    build.or(target).or(variable)
}

/// Flags that silence the compiler, or have something of the tree run by it.
fn flags(table: &toml::Table) -> Option<&'static str> {
    ["rustflags", "rustdocflags"].into_iter().find(|name| {
        let text = table.get(*name).map(ToString::to_string).unwrap_or_default();
        let forbidden =
            ["cap-lints", "runtool", "codegen-backend", "sysroot", "load-pass", "plugin"];
        let linker = text.split("linker=").nth(1).is_some_and(|after| {
            let value = after.split(['"', '\'', ' ', ',']).next().unwrap_or_default();
            value.contains('/')
        });
        linker || forbidden.iter().any(|one| text.contains(one))
    })
}

/// A program without a path is one of the person's; with one, it is the tree's.
fn is_of_the_tree(value: &toml::Value) -> bool {
    match value.as_str() {
        Some(name) => name.contains('/'),
        None => true,
    }
}

/// Whether what is built for a target may be run on this machine.
fn runs_here(target: &str) -> bool {
    target.starts_with("cfg(")
        || (target.starts_with(std::env::consts::ARCH) && target.contains("linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_put_files_of_the_tree_into_the_build_are_found() {
        for (bad, name) in [
            ("[build]\nrustc-wrapper = \"f/w\"", "build.rustc-wrapper"),
            ("[build]\nrustc = \"./rustc\"", "build.rustc"),
            ("[build]\nrustc-workspace-wrapper = \"f/w\"", "build.rustc-workspace-wrapper"),
            ("[build]\nrustdoc = \"f/w\"", "build.rustdoc"),
            ("[build]\nrustflags = [\"--cap-lints=allow\"]", "build.rustflags"),
            ("[build]\nrustflags = \"--cap-lints allow\"", "build.rustflags"),
            ("[target.'cfg(all())']\nrunner = \"true\"", "runner"),
            ("[target.'cfg(all())']\nrustflags = [\"--cap-lints\", \"allow\"]", "rustflags"),
            ("[target.x86_64-unknown-linux-gnu]\nlinker = \"tools/ld\"", "linker"),
            ("[build]\nrustflags = [\"-Clinker=tools/ld\"]", "build.rustflags"),
            ("[env]\nLD_PRELOAD = { value = \"x.so\", relative = true }", "env.LD_PRELOAD"),
            ("include = \"other.toml\"", "include"),
            ("[registry]\ncredential-provider = [\"./steal\"]", "credential-provider"),
            ("[registries.x]\ncredential-provider = \"f/steal\"", "credential-provider"),
            ("[credential-alias]\nx = [\"f/steal\"]", "credential-alias"),
        ] {
            let found = find(&bad.parse().unwrap());
            assert!(found.as_ref().is_some_and(|found| found.contains(name)), "{bad}: {found:?}");
        }
        for good in [
            "",
            "[build]\nrustc-wrapper = \"sccache\"\nrustflags = [\"--cfg\", \"tokio_unstable\"]",
            "[target.x86_64-unknown-linux-gnu]\nlinker = \"clang\"\nrustflags = [\"-C\", \"link-arg=-fuse-ld=lld\"]",
            "[target.wasm32-unknown-unknown]\nrunner = \"wasm-bindgen-test-runner\"",
            "[alias]\nxtask = \"run -p xtask --\"\n[env]\nDATABASE_URL = \"sqlite::memory:\"",
        ] {
            assert_eq!(find(&good.parse().unwrap()), None, "{good}");
        }
    }
}
