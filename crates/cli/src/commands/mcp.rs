//! `bailiwick mcp`: the tools of delegation, for agent programs.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bailiwick_engine::context::Context;
use bailiwick_engine::delegating::DelegationService;
use bailiwick_engine::delegating::http::{self, Announcement};
use bailiwick_engine::delegating::server::CallHandler;
use bailiwick_engine::delegating::stdio;
use bailiwick_engine::options::RunOptions;
use bailiwick_engine::system::random_name;
use bailiwick_lifecycle::ports::{Consent, Delegation as _};
use bailiwick_lifecycle::supervision::Budget;
use bailiwick_model::attempt::Allowance;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task;
use clap::Args;
use serde_json::Value;

use super::agents;
use crate::failure::Failure;
use crate::output;

/// Serve the delegation tools to an agent CLI over MCP
///
/// Uses standard input and output by default. The program can list agent templates, start agents,
/// wait for them and send them messages. Each agent is a separate run with its own worktree,
/// sandbox, gate, budget and checks. Their work does not land by itself.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick mcp\n  claude mcp add bailiwick -- bailiwick mcp\n  \
                        codex mcp add bailiwick -- bailiwick mcp --tokens 500000\n  bailiwick mcp \
                        --http 127.0.0.1:7777"
)]
pub struct Mcp {
    /// Forward every call to the supervisor that listens on this socket; for agents inside of a run
    #[arg(long, value_name = "PATH", hide = true)]
    socket: Option<PathBuf>,
    /// Serve over HTTP on this loopback address instead; port 0 takes any free port
    ///
    /// Clients must send the token in BAILIWICK_MCP_TOKEN; if it is not set, a token is generated
    /// and printed.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:0",
        value_parser = address
    )]
    http: Option<SocketAddr>,
    #[command(flatten)]
    budget: Shared,
}

/// The shared budget of all agents that are started here; the program that starts them has its own.
#[derive(Debug, Clone, Copy, Default, Args)]
struct Shared {
    /// Tokens, input and output, of all agents that are started here
    #[arg(long, value_name = "N", help_heading = "Budget", conflicts_with = "socket")]
    tokens: Option<u64>,
    /// United States dollars
    #[arg(long, value_name = "AMOUNT", help_heading = "Budget", conflicts_with = "socket", value_parser = dollars)]
    usd: Option<f64>,
    /// Turns (answers of the model)
    #[arg(long, value_name = "N", help_heading = "Budget", conflicts_with = "socket")]
    turns: Option<u64>,
}

impl Shared {
    fn allowance(self) -> Allowance {
        let Self { tokens, usd, turns } = self;
        Budget::of(&task::Budget { tokens, usd, turns, ..task::Budget::default() }).0
    }
}

impl Mcp {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let answer: CallHandler = match self.socket {
            Some(socket) => stdio::forwarding(socket),
            None => {
                context.require_repository()?;
                agents::seed(context);
                let options = RunOptions { land: Some(AutoLand::Never), ..RunOptions::default() };
                let root = Some(random_name()?);
                let (context, limits) = (context.clone(), self.budget.allowance());
                let service = DelegationService { context, caller: None, root, limits, options };
                Arc::new(move |tool: &str, arguments: Value, cancelled: &AtomicBool| {
                    service.call(tool, &arguments, Consent::Absent, cancelled)
                })
            }
        };
        match self.http {
            Some(address) => Ok(http::serve(&answer, address, &announce)?),
            None => {
                if std::io::stdin().is_terminal() {
                    output::note("an agent program is to speak here, not a person: see --help");
                }
                Ok(stdio::serve(answer)?)
            }
        }
    }
}

/// Prints how callers reach the server.
fn announce(announcement: Announcement) {
    match announcement {
        Announcement::Token(token) => output::line(format_args!("token {token}")),
        Announcement::Address(address) => output::line(address),
    }
}

/// An amount of money that one can spend.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "it needs an amount above 0, for example 2.50".to_owned())
}

/// An address with its port. If only one of them is given, the error shows both.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port: u16 = text.trim_start_matches(':').parse().unwrap_or(7777);
        let host: IpAddr = text.parse().unwrap_or(Ipv4Addr::LOCALHOST.into());
        format!("it needs an address and a port, for example {}", SocketAddr::new(host, port))
    })
}
