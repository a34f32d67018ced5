//! The directories and the database that a command uses.

use std::env;
use std::path::PathBuf;

use bailiwick_source_control::Repository;
use bailiwick_store::{Location, Store};

use crate::database::Database;
use crate::failure::Failure;
use crate::notices::Notices;

/// The directories, database and outputs of a command.
#[derive(Debug, Clone)]
pub struct Context {
    /// The working directory.
    pub directory: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    /// Where the user's kit is.
    pub user_kit: PathBuf,
    /// The kit that the command line names.
    pub kit_root: Option<PathBuf>,
    /// The database.
    pub database: Database,
    /// The global options to repeat in suggested commands.
    pub global_options: String,
    /// Where services report what they do.
    pub notices: Notices,
}

impl Context {
    /// Builds the context; options of the command line take precedence over the environment.
    pub fn observe(
        kit_root: Option<PathBuf>,
        database: Option<&str>,
        notices: Notices,
    ) -> Result<Self, Failure> {
        let directory = env::current_dir()
            .map_err(|error| Failure::general(format!("this directory cannot be used: {error}")))?;
        let home = || match variable("HOME")? {
            Some(home) => Ok(PathBuf::from(home)),
            None => Err(Failure::general("HOME is not set, so there is no place for state")
                .help("set HOME, or BAILIWICK_STATE and XDG_CONFIG_HOME")),
        };
        let mut global_options = String::new();
        if let Some(root) = &kit_root {
            global_options += &format!(" --kit-root {}", root.display());
        }
        let state = match (variable("BAILIWICK_STATE")?, variable("XDG_STATE_HOME")?) {
            (Some(state), _) => directory.join(state),
            (None, Some(base)) => directory.join(base).join("bailiwick"),
            (None, None) => home()?.join(".local/state/bailiwick"),
        };
        let user_kit = match variable("XDG_CONFIG_HOME")? {
            Some(base) => directory.join(base).join("bailiwick"),
            None => home()?.join(".config/bailiwick"),
        };
        let by_option = database.is_some();
        let named = match database {
            Some(text) => Some(text.to_owned()),
            None => variable("KEI_LEDGER_DB")?,
        };
        let location = match named {
            Some(text) => Location::parse(&text, &state)
                .map_err(|error| Failure::refused(format!("{error}")))?,
            None => Location::file(state.join("bailiwick.db")),
        };
        if by_option {
            // Shown without the password.
            global_options += &format!(" --db {location}");
        }
        let database = Database::at(location);
        Ok(Self { directory, state, user_kit, kit_root, database, global_options, notices })
    }

    /// Runs something that needs the database.
    pub fn with_store<T>(
        &self,
        work: impl AsyncFnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.database.open()?.with(work)
    }

    /// The repository that contains this directory.
    pub fn repository(&self) -> Option<Repository> {
        Repository::discover(&self.directory)
    }

    /// The repository that contains this directory, or an error that says what to do.
    pub fn require_repository(&self) -> Result<Repository, Failure> {
        self.repository().ok_or_else(|| {
            Failure::general(format!("{} is not in a git repository", self.directory.display()))
                .help("go to one, or make one: git init && git commit --allow-empty -m start")
        })
    }
}

/// A variable of the environment. An empty one counts as unset; one that is not UTF-8 is an error, since
/// ignoring it would use another directory than the person chose.
pub fn variable(name: &str) -> Result<Option<String>, Failure> {
    Ok(set_variable(name)?.filter(|value| !value.is_empty()))
}

/// A variable, which may be empty.
pub fn set_variable(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Failure::general(format!("the variable {name} is not UTF-8")))
        }
    }
}
