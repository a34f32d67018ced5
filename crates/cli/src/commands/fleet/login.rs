//! `bailiwick login`, `bailiwick logout`: a server for the commands of the fleet.

use std::io::{IsTerminal as _, Read as _};

use bailiwick_client::{
    ContextName, Http, LOCAL, PlainHttp, ServerAddress, ServerContext, Token, sign_in,
};
use bailiwick_engine::context::Context;
use bailiwick_engine::database;
use bailiwick_resources::{DEFAULT_NAMESPACE, is_object_name};
use bailiwick_server::{DeviceAnswer, WhoAmI};
use clap::Args;
use serde_json::json;
use tokio::runtime::Runtime;

use super::access::contexts_file;
use super::acting::runtime;
use crate::failure::Failure;
use crate::output::{self, FormatOption};
use crate::view::plain;

/// No token is longer.
const MAX_TOKEN_BYTES: u64 = 8 * 1024;

/// Log in to a server and use it for fleet commands
///
/// If the server has an OpenID provider, you sign in there: open the address that is shown and
/// confirm the code. Otherwise, or with `--token`, you are asked for a token.
///
/// The token is checked with the server and stored in ~/.config/bailiwick/client/contexts.toml, or
/// in the file that BAILIWICK_CONFIG names; only you can read that file. `--context NAME` names the
/// login; by default its name is the host of the server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick login https://fleet.example\n  bailiwick login \
                  https://fleet.example --context team --token-stdin < token.txt\n\nAn admin creates \
                  tokens on the server: bailiwick tokens new ada --scope operator")]
pub struct Login {
    /// The address of the server: https://HOST
    #[arg(value_name = "SERVER")]
    server: String,
    /// Ask for a token on the terminal, even if the server has an OpenID provider
    #[arg(long)]
    token: bool,
    /// Read a token from standard input
    #[arg(long, conflicts_with = "token")]
    token_stdin: bool,
    /// The namespace of fleet commands with this login
    #[arg(short = 'n', long, value_name = "NAMESPACE", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Send the token unencrypted to another machine
    #[arg(long)]
    insecure_http: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// Forget a login
///
/// The token stays valid on the server until it expires or is revoked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick logout\n  bailiwick logout --context team")]
pub struct Logout {
    #[command(flatten)]
    format: FormatOption,
}

impl Login {
    /// Runs the command.
    pub fn run(self, context: &Context, name: Option<&str>) -> Result<(), Failure> {
        let plain_http =
            if self.insecure_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        let server = ServerAddress::parse(&self.server, plain_http)?;
        let name = ContextName::parse(name.unwrap_or(&server.host()))?;
        if !is_object_name(&self.namespace) {
            return Err(Failure::usage(format!("`{}` cannot name a namespace", self.namespace)));
        }
        let file = contexts_file(context)?;
        // A file that cannot be used is reported before a token is typed.
        file.load()?;
        let runtime = runtime()?;
        let token = self.token(&runtime, &server)?;
        let client = Http::new(server.clone(), &token)?;
        let me: WhoAmI = database::wait(&runtime, client.who_am_i())?;
        let login = ServerContext {
            server: server.to_string(),
            token,
            namespace: self.namespace,
            insecure_http: self.insecure_http,
        };
        file.change(|all| {
            all.insert(&name, login);
            Ok(())
        })?;
        let (actor, name) = (plain(&me.actor), name.as_str());
        let scope = super::tokens::scope_word(me.scope);
        let text = format!("logged in to {server} as {actor} ({scope}); context {name} is in use");
        let value = json!({
            "context": name, "server": server.to_string(), "actor": me.actor, "scope": me.scope,
            "expiresAt": me.expires_at, "serverVersion": me.server_version,
        });
        output::done(self.format.format, text, &value)
    }

    fn token(&self, runtime: &Runtime, server: &ServerAddress) -> Result<Token, Failure> {
        let input = std::io::stdin();
        let text = if self.token_stdin {
            let mut text = String::new();
            let read = input.lock().take(MAX_TOKEN_BYTES).read_to_string(&mut text);
            read.map_err(|error| Failure::general(format!("cannot read the token: {error}")))?;
            text
        } else {
            let offered = match self.token {
                true => None,
                false => database::wait(runtime, sign_in(server, show_code))?,
            };
            match (offered, input.is_terminal()) {
                (Some(token), _) => return Ok(token),
                (None, true) => typed()?,
                (None, false) => {
                    return Err(Failure::usage("there is no terminal to ask for the token")
                        .help("bailiwick login SERVER --token-stdin < FILE"));
                }
            }
        };
        Token::parse(&text).ok_or_else(|| Failure::usage("that is not a token"))
    }
}

/// Prints what the person must do; nothing is stored before they have confirmed.
fn show_code(started: &DeviceAnswer) {
    let code = plain(&started.user_code);
    match &started.verification_uri_complete {
        Some(address) => output::aside(format_args!(
            "Open {} in a browser\nand confirm that it shows the code {code}",
            plain(address)
        )),
        None => output::aside(format_args!(
            "Open {} in a browser\nand enter the code {code}",
            plain(&started.verification_uri)
        )),
    }
    output::aside("Waiting for your confirmation (Ctrl-C to stop) …");
}

/// Reads a line from the terminal without showing it.
fn typed() -> Result<String, Failure> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let failed = |error| Failure::general(format!("the terminal cannot be used: {error}"));
    let input = std::io::stdin();
    let shown = tcgetattr(&input).map_err(failed)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    output::aside("Token (it is not shown):");
    tcsetattr(&input, OptionalActions::Flush, &hidden).map_err(failed)?;
    let mut line = String::new();
    let read = input.read_line(&mut line);
    tcsetattr(&input, OptionalActions::Flush, &shown).map_err(failed)?;
    read.map_err(|error| Failure::general(format!("cannot read the token: {error}")))?;
    Ok(line)
}

impl Logout {
    /// Runs the command.
    pub fn run(self, context: &Context, name: Option<&str>) -> Result<(), Failure> {
        let file = contexts_file(context)?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => file.load()?.current().map(str::to_owned).ok_or_else(|| {
                Failure::usage("no context is in use").help("bailiwick logout --context NAME")
            })?,
        };
        if name == LOCAL {
            return Err(Failure::usage("`local` is this machine's database; it has no login"));
        }
        let forgotten = file.change(|all| all.remove(&name))?;
        let text = format!("logged out of {} (context {name})", plain(&forgotten.server));
        let value = json!({ "context": name, "server": forgotten.server });
        output::done(self.format.format, text, &value)
    }
}
