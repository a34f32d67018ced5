//! The compilers and tools of the person, as a program in a sandbox may see them.
//!
//! Of the home directory only what is named here is seen: what `PATH` leads to, and the sources that
//! cargo has fetched. Credentials are in neither.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::sandbox::Bind;

/// Version managers, whose programs need the directory of the manager.
const MANAGERS: [&str; 15] = [
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rvm",
    ".nodenv",
    ".asdf",
    ".volta",
    ".sdkman",
    ".bun",
    ".deno",
    ".fnm",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/uv",
    "go",
];

/// Variables with the path of a version manager or an installation, and its default. A home at another path would
/// hide it.
const PLACES: [(&str, &str); 10] = [
    ("NVM_DIR", ".nvm"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("NODENV_ROOT", ".nodenv"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("VOLTA_HOME", ".volta"),
    ("SDKMAN_DIR", ".sdkman"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("JAVA_HOME", ""),
    ("GOROOT", ""),
];

/// As many places as the links of one directory of programs may lead to: each is a mount.
const MAX_LINKED: usize = 64;
/// As many links as may be on the way to an interpreter.
const MAX_LINKS: usize = 8;

/// Why no toolchain can be chosen for a tree.
#[derive(Debug, Error)]
pub enum ToolchainError {
    #[error("the tree names no toolchain that could be used, and rustup has no default")]
    NoChoice,
    #[error("{0} is no plain file")]
    NoPlainFile(&'static str),
    #[error("{file}: {error}")]
    Unreadable { file: &'static str, error: io::Error },
}

/// Directories that are mounted in a worktree must not end git's search for its repository.
pub const GIT_ACROSS_MOUNTS: (&str, &str) = ("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1");

/// Variables that tell tools to work offline, so that they report missing packages at once. npm would look for a
/// newer version of itself in every new home, which takes longer than a short test.
pub const OFFLINE: [(&str, &str); 3] =
    [("CARGO_NET_OFFLINE", "true"), ("GOPROXY", "off"), ("npm_config_update_notifier", "false")];

/// Python leaves its compiled files beside the sources, where they would count as work without a `.gitignore`.
pub const NO_BYTECODE: (&str, &str) = ("PYTHONDONTWRITEBYTECODE", "1");

const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// What a root always contains.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt"];

/// The person's toolchains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The home directory.
    pub home: PathBuf,
    /// The search path for programs.
    pub path: OsString,
    /// The directory of cargo.
    pub cargo: PathBuf,
    /// The directory of rustup.
    pub rustup: PathBuf,
    /// Variables with network proxies, for what may use the network.
    pub proxies: Vec<(String, String)>,
    /// The virtual environment of Python that is active.
    pub virtual_env: Option<PathBuf>,
    /// The directories of version managers and installations, by their variables.
    pub places: Vec<(String, PathBuf)>,
}

/// The visible parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleToolchain {
    /// The read-only mounts.
    pub binds: Vec<Bind>,
    /// The search path for programs.
    pub path: String,
    /// The directory of rustup, if there is one.
    pub rustup: Option<String>,
    /// The variables of the active environment.
    pub variables: Vec<(String, String)>,
}

/// Compilers that rustup has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Its name in rustup.
    pub name: String,
    /// Its directory, if it exists.
    pub place: Option<PathBuf>,
}

impl Toolchain {
    /// A program of it, by its path where that is known.
    pub fn program(&self, name: &str) -> String {
        let program = self.place.as_ref().map(|place| place.join("bin").join(name));
        let program = program.filter(|program| program.is_file());
        program.map_or_else(|| name.to_owned(), |program| program.display().to_string())
    }
}

impl Host {
    /// From the environment of this process.
    pub fn observe() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = PathBuf::from(variable("HOME").unwrap_or_else(|| OsString::from("/")));
        let place = |name: &str, otherwise: &str| {
            variable(name).map_or_else(|| home.join(otherwise), PathBuf::from)
        };
        Self {
            cargo: place("CARGO_HOME", ".cargo"),
            rustup: place("RUSTUP_HOME", ".rustup"),
            proxies: PROXIES
                .into_iter()
                .flat_map(|name| [name.to_owned(), name.to_uppercase()])
                .filter_map(|name| Some((std::env::var(&name).ok()?, name)))
                // One with a password must not reach untrusted programs.
                .filter(|(value, _)| !value.contains('@'))
                .map(|(value, name)| (name, value))
                .collect(),
            virtual_env: variable("VIRTUAL_ENV").map(PathBuf::from),
            places: PLACES
                .into_iter()
                .filter_map(|(name, otherwise)| {
                    let usual = (!otherwise.is_empty()).then(|| home.join(otherwise));
                    Some((name.to_owned(), variable(name).map(PathBuf::from).or(usual)?))
                })
                .collect(),
            path: variable("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin")),
            home,
        }
    }

    /// What a program in a sandbox sees of it.
    pub fn visible(&self) -> VisibleToolchain {
        let mut binds: Vec<Bind> = Vec::new();
        let mut path: Vec<String> = Vec::new();
        for entry in std::env::split_paths(&self.path) {
            let Some(shown) = entry.to_str().filter(|_| entry.is_absolute()) else { continue };
            let Ok(real) = fs::canonicalize(&entry) else { continue };
            if !real.is_dir() || path.iter().any(|other| other == shown) {
                continue;
            }
            if !in_system(&entry) {
                let environment = virtual_environment(&entry);
                let place = self.manager_of(&entry).or_else(|| environment.clone());
                let place = place.unwrap_or_else(|| entry.clone());
                let Ok(real) = fs::canonicalize(&place) else { continue };
                // A directory that holds the home would show all of it.
                if self.home.starts_with(&real) || self.home.starts_with(&place) {
                    continue;
                }
                add(&mut binds, place);
                if environment.is_some() {
                    self.interpreters(&entry).into_iter().for_each(|one| add(&mut binds, one));
                }
                self.linked(&entry).into_iter().for_each(|one| add(&mut binds, one));
            }
            path.push(shown.to_owned());
        }
        let rustup = self.rustup.to_str().filter(|_| self.rustup.join("toolchains").is_dir());
        if rustup.is_some() && !in_system(&self.rustup) {
            add(&mut binds, self.rustup.clone());
        }
        if Path::new("/nix/store").is_dir() {
            add(&mut binds, PathBuf::from("/nix/store"));
        }
        let active = self.virtual_env.as_ref().and_then(|place| place.to_str());
        let active = active.filter(|place| path.contains(&format!("{place}/bin")));
        let active = active.map(|place| ("VIRTUAL_ENV".to_owned(), place.to_owned()));
        let shown = |place: &Path| {
            in_system(place) || binds.iter().any(|bind| place.starts_with(&bind.target))
        };
        let places = self.places.iter().filter(|(_, place)| shown(place));
        let places =
            places.filter_map(|(name, place)| Some((name.clone(), place.to_str()?.to_owned())));
        let variables: Vec<(String, String)> = places.chain(active).collect();
        VisibleToolchain {
            binds,
            path: path.join(":"),
            rustup: rustup.map(str::to_owned),
            variables,
        }
    }

    /// The targets of links in a directory of programs: npm, pipx and others install a program elsewhere and link to
    /// it. Each is shown with its packages or virtual environment.
    fn linked(&self, bin: &Path) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(bin).into_iter().flatten().flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let Some(program) = is_link.then(|| fs::canonicalize(entry.path()).ok()).flatten()
            else {
                continue;
            };
            let packages =
                program.ancestors().filter(|above| above.ends_with("node_modules")).last();
            let environment = program.parent().and_then(virtual_environment);
            let interpreters =
                environment.as_ref().map(|place| self.interpreters(&place.join("bin")));
            let place = match (packages, environment) {
                (Some(packages), _) => packages.to_owned(),
                (None, Some(environment)) => environment,
                (None, None) => program.clone(),
            };
            let places = [place].into_iter().chain(interpreters.into_iter().flatten());
            let may = |place: &PathBuf| !self.home.starts_with(place) && !in_system(place);
            found.extend(places.filter(may));
        }
        found.sort();
        found.dedup();
        found.truncate(MAX_LINKED);
        found
    }

    /// The interpreters of the links in the `bin` of a virtual environment, if they can be shown: each with its own
    /// libraries, or with its version manager.
    pub fn interpreters(&self, bin: &Path) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for name in ["python", "python3"] {
            let mut link = bin.join(name);
            // A link may lead to another one: each of them must be seen.
            for _ in 0..MAX_LINKS {
                let Ok(target) = fs::read_link(&link) else { break };
                link = link.parent().unwrap_or(bin).join(target);
                let Some(prefix) = link.parent().and_then(Path::parent) else { break };
                let place = self.manager_of(&link).unwrap_or_else(|| prefix.to_owned());
                let real = fs::canonicalize(&place).unwrap_or_else(|_| place.clone());
                let whole = self.home.starts_with(&place) || self.home.starts_with(&real);
                let own = bin.starts_with(&place);
                if !whole && !own && !in_system(&place) && !found.contains(&place) {
                    found.push(place);
                }
            }
        }
        found
    }

    /// The compilers that build a tree, where rustup has them: those that the tree names if it does so
    /// by a plain name, or else the person's own. Never some that the tree brings with it.
    pub fn toolchain(&self, tree: &Path) -> Result<Option<Toolchain>, ToolchainError> {
        let toolchains = self.rustup.join("toolchains");
        if !toolchains.is_dir() {
            return Ok(None);
        }
        let settings = fs::read_to_string(self.rustup.join("settings.toml")).unwrap_or_default();
        let settings: toml::Table = settings.parse().unwrap_or_default();
        let own = |key: &str| settings.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let (named, says) = channel(tree)?;
        let Some(name) = named.or_else(|| own("default_toolchain")) else {
            return if says { Err(ToolchainError::NoChoice) } else { Ok(None) };
        };
        let triple = own("default_host_triple")
            .unwrap_or_else(|| format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        let places = [toolchains.join(&name), toolchains.join(format!("{name}-{triple}"))];
        Ok(Some(Toolchain { place: places.into_iter().find(|place| place.is_dir()), name }))
    }

    /// What cargo has fetched, visible below `place`.
    pub fn fetched(&self, place: &Path) -> Vec<Bind> {
        ["registry/index", "registry/cache", "registry/src", "git/db", "git/checkouts"]
            .into_iter()
            .map(|name| Bind::new(self.cargo.join(name), place.join(name)))
            .filter(|bind| bind.source.is_dir())
            .collect()
    }

    /// The part of cargo's settings about sources; the rest is left out, because it may contain tokens and
    /// passwords.
    pub fn cargo_settings(&self) -> Option<String> {
        let text = ["config.toml", "config"]
            .into_iter()
            .find_map(|name| fs::read_to_string(self.cargo.join(name)).ok())?;
        let settings: toml::Table = text.parse().ok()?;
        let mut allowed_settings = toml::Table::new();
        for (section, names) in [
            ("source", &["replace-with", "registry", "directory", "local-registry", "git"][..]),
            ("registries", &["index", "protocol"][..]),
        ] {
            let Some(all) = settings.get(section).and_then(toml::Value::as_table) else { continue };
            let mut allowed = toml::Table::new();
            for (name, one) in all {
                let pairs = one.as_table().into_iter().flatten();
                let plain = pairs.filter(|(key, value)| {
                    // An address may have a password in front of its host.
                    names.contains(&key.as_str())
                        && value.as_str().is_some_and(|text| !text.contains('@'))
                });
                let plain = plain.map(|(key, value)| (key.clone(), value.clone())).collect();
                allowed.insert(name.clone(), toml::Value::Table(plain));
            }
            allowed_settings.insert(section.to_owned(), toml::Value::Table(allowed));
        }
        (!allowed_settings.is_empty()).then(|| allowed_settings.to_string())
    }

    /// A digest that is another one when the compilers may be: of the place, size and time of what
    /// `PATH` leads to and of what rustup chooses by. Nothing is started.
    pub fn stamp(&self) -> String {
        let mut digest = Sha256::new();
        let mut add = |file: &Path| {
            let Ok(data) = fs::metadata(file) else { return };
            let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
            let line = format!(
                "{}\0{}\0{}\0{}.{}\n",
                file.display(),
                real.display(),
                data.len(),
                data.mtime(),
                data.mtime_nsec()
            );
            digest.update(line.as_bytes());
        };
        for program in ["cargo", "rustc", "rustup", "node", "python3", "go", "ruby", "java"] {
            let found = std::env::split_paths(&self.path).map(|place| place.join(program));
            if let Some(file) = found.into_iter().find(|file| file.is_file()) {
                add(&file);
            }
        }
        add(&self.rustup.join("settings.toml"));
        for directory in ["update-hashes", "toolchains"] {
            let mut entries: Vec<PathBuf> = fs::read_dir(self.rustup.join(directory))
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect();
            entries.sort();
            for entry in entries {
                add(&entry);
                for program in ["bin/cargo", "bin/rustc"] {
                    add(&entry.join(program));
                }
            }
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn manager_of(&self, entry: &Path) -> Option<PathBuf> {
        let mut own = MANAGERS.into_iter().map(|name| self.home.join(name));
        // Some are installed outside of the home, for everybody, under the same name.
        let is_manager = |place: &&Path| {
            place.file_name().is_some_and(|name| {
                MANAGERS.iter().any(|one| one.starts_with('.') && *name == **one)
            })
        };
        own.find(|place| entry.starts_with(place))
            .or_else(|| entry.ancestors().find(is_manager).map(Path::to_path_buf))
    }
}

/// The home directories of tools that do not read `HOME`: Java asks the system for it, and Ruby installs gems beside
/// itself.
pub(crate) fn homes(home: &Path) -> [(String, String); 3] {
    [
        ("MAVEN_OPTS".to_owned(), format!("-Duser.home={}", home.display())),
        ("GRADLE_USER_HOME".to_owned(), home.join(".gradle").display().to_string()),
        ("GEM_HOME".to_owned(), home.join(".local/share/gem/installed").display().to_string()),
    ]
}

/// The virtual environment whose `bin` this is.
fn virtual_environment(bin: &Path) -> Option<PathBuf> {
    let place = bin.parent()?;
    (bin.ends_with("bin") && place.join("pyvenv.cfg").is_file()).then(|| place.to_owned())
}

/// Whether a path is one of the system's programs or libraries, which everybody may read.
pub(crate) fn in_system_programs(path: &Path) -> bool {
    in_system(path) && !path.starts_with("/etc")
}

pub(crate) fn in_system(path: &Path) -> bool {
    SYSTEM.iter().any(|place| path.starts_with(place))
}

fn add(binds: &mut Vec<Bind>, place: PathBuf) {
    if !binds.iter().any(|bind| place.starts_with(&bind.target)) {
        binds.push(Bind::same(place));
    }
}

/// The toolchain that a tree names, if that is a plain name, and whether it configures one at all.
fn channel(tree: &Path) -> Result<(Option<String>, bool), ToolchainError> {
    let plain = |name: &str| {
        let letter = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-' | '_');
        (!name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(letter))
            .then(|| name.to_owned())
    };
    for file in ["rust-toolchain", "rust-toolchain.toml"] {
        let path = tree.join(file);
        let text = match fs::symlink_metadata(&path) {
            Err(_) => continue,
            Ok(data) if data.is_file() => fs::read_to_string(&path),
            Ok(_) => return Err(ToolchainError::NoPlainFile(file)),
        };
        let text = text.map_err(|error| ToolchainError::Unreadable { file, error })?;
        let table: Option<toml::Table> = text.parse().ok();
        let name = match table.as_ref().and_then(|table| table.get("toolchain")) {
            Some(toolchain) => toolchain.get("channel").and_then(toml::Value::as_str),
            None => Some(text.trim()),
        };
        return Ok((name.and_then(plain), true));
    }
    Ok((None, false))
}
