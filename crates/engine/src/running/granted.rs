//! Grants of an agent: variables of its supervisor, and private files.
//!
//! A file lies below the run's own directory, where no other sandbox looks, and only as long as an attempt is
//! under way: the process that ends it removes it, and so does the one that finds a run that was cut off.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use bailiwick_fleet::admission::review::file_variable;
use bailiwick_lifecycle::supervision::redaction::SHORTEST;
use bailiwick_model::task::{self, Line};
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::{set_variable, variable};
use crate::failure::Failure;

/// The grants of an agent.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Its variables, those among them that name files.
    pub variables: Vec<(String, String)>,
    /// Files by their names, and what is in them.
    pub files: Vec<(String, String)>,
    /// The secrets to redact.
    pub secrets: Vec<String>,
}

/// Returns an error if a task grants something twice, or by what is no name of a variable.
pub fn require_names(agent: &task::Agent) -> Result<(), Failure> {
    let of_files = || agent.secret_files.iter().chain(&agent.config_files);
    if let Some(name) = of_files().find(|name| !is_variable(name.as_str())) {
        return Err(Failure::refused(format!("`{name}` is not the name of a variable")));
    }
    let plain = agent.secrets.iter().chain(&agent.configs).map(ToString::to_string);
    let mut all: Vec<String> =
        plain.chain(of_files().map(|name| file_variable(name.as_str()))).collect();
    all.sort();
    let same = all.windows(2).find_map(|two| match two {
        [one, other] if one == other => Some(one),
        _ => None,
    });
    match same {
        Some(name) => Err(Failure::refused(format!("the task grants {name} twice"))),
        None => Ok(()),
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What a task grants, out of the environment of its supervisor.
pub fn of(agent: &task::Agent, directory: &RunDirectory) -> Result<Granted, Failure> {
    require_names(agent)?;
    let mut granted = Granted::default();
    for name in &agent.secrets {
        let value = secret(name)?;
        granted.secrets.push(value.clone());
        granted.variables.push((name.to_string(), value));
    }
    for name in &agent.secret_files {
        let value = secret(name)?;
        granted.secrets.push(value.clone());
        granted.put(directory, name, value);
    }
    for name in &agent.configs {
        granted.variables.push((name.to_string(), plain(name)?));
    }
    for name in &agent.config_files {
        granted.put(directory, name, plain(name)?);
    }
    granted.variables.sort();
    Ok(granted)
}

impl Granted {
    fn put(&mut self, directory: &RunDirectory, name: &Line, value: String) {
        let name = name.as_str();
        let path = directory.granted().join(name);
        self.variables.push((file_variable(name), path.display().to_string()));
        self.files.push((name.to_owned(), value));
    }
}

fn secret(name: &Line) -> Result<String, Failure> {
    let Some(value) = variable(name.as_str())? else { return Err(unset(name)) };
    if value.trim().len() < SHORTEST {
        return Err(Failure::general(format!(
            "{name} is shorter than {SHORTEST} characters: it could not be kept out of logs"
        )));
    }
    Ok(value)
}

fn plain(name: &Line) -> Result<String, Failure> {
    set_variable(name.as_str())?.ok_or_else(|| unset(name))
}

fn unset(name: &Line) -> Failure {
    Failure::general(format!("the task grants {name}, which is not set here"))
}

/// Written files, removed when this is dropped.
pub struct Files {
    place: PathBuf,
}

impl Files {
    /// Writes them; nothing of an earlier attempt is left.
    pub fn write(
        directory: &RunDirectory,
        files: &[(String, String)],
    ) -> Result<Option<Self>, Failure> {
        let place = directory.granted();
        let failed = |error: io::Error| {
            Failure::general(format!("{} cannot be written: {error}", place.display()))
        };
        forget(directory).map_err(failed)?;
        if files.is_empty() {
            return Ok(None);
        }
        fs::DirBuilder::new().mode(0o700).create(&place).map_err(failed)?;
        // From here on, every error removes them again.
        let written = Self { place: place.clone() };
        for (name, text) in files {
            let mut options = File::options();
            let file = options.write(true).create_new(true).mode(0o600).open(place.join(name));
            file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
        }
        Ok(Some(written))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What is left is removed by the next search for runs that were cut off, or by the next attempt.
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Removes the files of an attempt without a supervisor.
pub fn forget(directory: &RunDirectory) -> io::Result<()> {
    match fs::remove_dir_all(directory.granted()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
