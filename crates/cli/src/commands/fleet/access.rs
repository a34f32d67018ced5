//! The destination of fleet commands: the database of this machine, or a server that the person logged in to.

use std::sync::Arc;

use bailiwick_client::{
    AddressError, ClientError, ContextsError, ContextsFile, FleetClient, Http, LOCAL, Local,
    ServerContext,
};
use bailiwick_engine::context::{Context, variable};
use bailiwick_engine::database;
use bailiwick_engine::fleet::plane;
use bailiwick_fleet::ports::{ActionError, Target};
use bailiwick_resources::DEFAULT_NAMESPACE;
use bailiwick_store::Store;

use super::Namespace;
use super::acting::{caller, runtime};
use crate::failure::Failure;
use crate::view::plain;

/// The file with the logins, below the directory of the user's configuration.
const CONTEXTS_FILE: &str = "client/contexts.toml";
/// Names another file with logins.
const CONTEXTS_VARIABLE: &str = "BAILIWICK_CONFIG";

/// The options that select the destination.
#[derive(Debug, Clone, Default)]
pub struct Destination {
    /// `--context`
    pub context: Option<String>,
    /// `--db`
    pub database: Option<String>,
}

/// The control plane that a command uses.
pub struct FleetAccess {
    /// The surroundings on this machine.
    pub context: Context,
    server: Option<ServerContext>,
}

impl From<ContextsError> for Failure {
    fn from(error: ContextsError) -> Self {
        let text = plain(&error.to_string());
        match error {
            ContextsError::Unusable { .. } => Self::general(text),
            ContextsError::Exposed { path } => {
                let path = path.display();
                Self::general(text).help(format!("chmod 600 {path}, and create new tokens"))
            }
            ContextsError::Unknown { .. } => {
                Self::usage(text).help("see them: bailiwick contexts list")
            }
            ContextsError::Name { .. } => Self::usage(text),
        }
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        let text = plain(&error.to_string());
        match error {
            AddressError::Malformed { .. } => Self::usage(text),
            AddressError::Unencrypted { .. } => Self::usage(text)
                .help("or pass --insecure-http if nobody can listen on the way to it"),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = plain(&error.to_string());
        match error {
            ClientError::Action(error) => error.into(),
            ClientError::Declare(error) => error.into(),
            ClientError::Unreachable { .. } => Self::general(text).help(
                "check the address and the server: bailiwick contexts list; this machine's \
                 database: --context local",
            ),
            ClientError::TokenRejected { server } => Self::usage(text)
                .help(format!("log in with a new token: bailiwick login {}", plain(&server))),
            ClientError::SignInFailed { .. } => {
                Self::general(text).help("or log in with a token: bailiwick login SERVER --token")
            }
            ClientError::ScopeDenied { .. } => {
                Self::usage(text).help("ask an admin: bailiwick tokens new NAME --scope SCOPE")
            }
            ClientError::Refused { .. } => Self::usage(text),
            ClientError::Incompatible { .. } => {
                Self::general(text).help("use the same version of bailiwick on both sides")
            }
        }
    }
}

/// The file with the logins.
pub fn contexts_file(context: &Context) -> Result<ContextsFile, Failure> {
    let path = match variable(CONTEXTS_VARIABLE)? {
        Some(path) => context.directory.join(path),
        None => context.user_kit.join(CONTEXTS_FILE),
    };
    Ok(ContextsFile::at(path))
}

impl Destination {
    /// Refuses a context for a command that works on this machine.
    pub fn require_local(&self) -> Result<(), Failure> {
        match self.context.as_deref() {
            None | Some(LOCAL) => Ok(()),
            Some(_) => Err(Failure::usage("this command works on this machine, not on a server")
                .help("leave --context out")),
        }
    }

    /// Finds the control plane: `--context`, else `--db`, else the context in use, else this machine's database.
    pub fn find(&self, context: Context) -> Result<FleetAccess, Failure> {
        let server = match (self.context.as_deref(), self.database.as_deref()) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage("--context and --db cannot be used together")
                    .help("--db is this machine's database; --context is a server"));
            }
            (Some(LOCAL), None) | (None, Some(_)) => None,
            (Some(name), None) => Some(contexts_file(&context)?.load()?.find(name)?.clone()),
            // The variable names a database as `--db` does.
            (None, None) if variable("KEI_LEDGER_DB")?.is_some() => None,
            (None, None) => {
                let all = contexts_file(&context)?.load()?;
                let used = all.current().map(|name| all.find(name).cloned()).transpose();
                used.map_err(|error| {
                    Failure::from(error).help("choose one: bailiwick contexts use NAME, or local")
                })?
            }
        };
        Ok(FleetAccess { context, server })
    }
}

impl FleetAccess {
    /// Whether a server does the work.
    pub fn is_remote(&self) -> bool {
        self.server.is_some()
    }

    /// Refuses a login, for a command that needs the database of the server: that of this machine is another one.
    pub fn require_database(self) -> Result<Context, Failure> {
        match self.server {
            None => Ok(self.context),
            Some(_) => Err(Failure::usage(
                "this command needs the database of the server, not a login",
            )
            .help("run it on the server's machine; for this machine's database: --context local")),
        }
    }

    /// The namespace that was named, else that of the login.
    pub fn namespace(&self, named: &Namespace) -> String {
        let of_login = || self.server.as_ref().map(|server| server.namespace.clone());
        named.namespace.clone().or_else(of_login).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }

    /// An object that something is done to.
    pub fn target(&self, namespace: &Namespace, name: &str) -> Target {
        Target { namespace: self.namespace(namespace), name: name.to_owned() }
    }

    /// Does something with the control plane.
    pub fn ask<T>(
        &self,
        work: impl AsyncFnOnce(&dyn FleetClient) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        database::wait(&runtime()?, async {
            if let Some(server) = &self.server {
                let client = Http::new(server.address()?, &server.token)?;
                return work(&client).await;
            }
            let store = Arc::new(Store::open(self.context.database.location().clone()).await?);
            let api = plane(&self.context, Arc::clone(&store)).api;
            work(&Local::new(store, api, caller()?)).await
        })
    }
}

/// Whether an action failed because its object does not exist.
pub fn is_missing(error: &ClientError) -> bool {
    matches!(error, ClientError::Action(ActionError::NotFound(_)))
}
