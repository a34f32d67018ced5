//! `bailiwick ui`: the web page for the runs of this machine.

mod own_address;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_engine::context::Context;
use bailiwick_engine::fleet::plane;
use bailiwick_engine::local_runs::LedgerRuns;
use bailiwick_fleet::ports::{FleetStore as _, TokenRecord, TokenScope};
use bailiwick_server::{Server, Settings, knows_client_users, mint_session};
use bailiwick_store::Store;
use bailiwick_web::{LinkRules, WebPages};
use clap::Args;

use super::fleet::serve::shutdown_signal;
use super::fleet::{actor, now};
use crate::failure::Failure;
use crate::output;

/// How long the person stays signed in.
const SESSION_MILLIS: u64 = 12 * 60 * 60 * 1_000;
/// How long the link works.
const LINK_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Open the web page with the runs of this machine
///
/// Serves the page on a loopback address of its own and opens it in the browser, signed in by a
/// link that works once, for ten minutes, and for your user only. Ctrl-C ends the page; runs
/// continue. `bailiwick serve` has the same pages, for people who sign in.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick ui\n  bailiwick ui --no-open --port 8080 --address 127.0.0.1"
)]
pub struct Ui {
    /// Print the link, and do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Loopback address; default: a random one, so that no program on another port gets the session
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Ipv4Addr>,
    /// Port; default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl Ui {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failure::general(format!("no runtime: {error}")))?;
        runtime.block_on(self.serve(context))
    }

    /// The requested address, or a free one; explains if it must be shared.
    fn page_address(&self) -> Ipv4Addr {
        self.address.unwrap_or_else(|| {
            own_address::own_address().unwrap_or_else(|why| {
                output::note(format!(
                    "the page is at 127.0.0.1, because {why}: do not open pages of programs that you do not trust \
                     in the same browser"
                ));
                Ipv4Addr::LOCALHOST
            })
        })
    }

    async fn serve(self, context: &Context) -> Result<(), Failure> {
        let store = Arc::new(Store::open(context.database.location().clone()).await?);
        let failed = |error: String| Failure::general(error);
        let expires_at = now().plus_millis(SESSION_MILLIS);
        let session = mint_session(&person()?, TokenScope::Admin, expires_at, now())
            .map_err(|error| failed(error.to_string()))?;
        let secret = secret()?;
        let user = knows_client_users().then(|| rustix::process::geteuid().as_raw());
        let rules = LinkRules { lifetime: LINK_LIFETIME, user };
        let pages = WebPages::new("").with_link(&secret, session.text, rules);
        let path = pages.link_path(&secret);
        let settings = Settings {
            address: SocketAddr::new(IpAddr::V4(self.page_address()), self.port),
            local_runs: Some(Arc::new(LedgerRuns::new(context))),
            ..Settings::default()
        };
        // Approvals can be decided here; `bailiwick serve` carries them out.
        let plane = plane(context, Arc::clone(&store));
        let server = Server::bind(settings, Arc::clone(&store), Arc::clone(&plane.api))
            .await
            .map_err(|error| {
                let failure = failed(error.to_string());
                let is_chosen = self.port != 0;
                if is_chosen {
                    failure.help("choose another port, or leave out --port")
                } else {
                    failure
                }
            })?
            .with_pages(Arc::new(pages), "");
        // Not before there is a page: nothing would revoke it.
        store.put_token(session.record.clone()).await?;
        // From now on, a person who has the link can end the page.
        let (shutdown, hung_up) = (shutdown_signal(), hung_up());
        let link = format!("http://{}{path}", server.address());
        output::line(&link);
        output::note(
            "the link works once, for 10 minutes; Ctrl-C ends the page, and runs continue",
        );
        match (self.no_open, user) {
            (true, _) => {}
            (false, Some(_)) => open(link),
            // Every user can read the arguments of the program that opens it.
            (false, None) => output::note(
                "open the link yourself: this system does not tell which user opens it, so it is shown only here",
            ),
        }
        server
            .run(async {
                tokio::select! {
                    () = shutdown => {}
                    () = hung_up => {}
                }
            })
            .await;
        // The session of the page ends with it.
        let revoked = TokenRecord { revoked_at: Some(now()), ..session.record };
        store.put_token(revoked).await?;
        Ok(())
    }
}

/// Completes when the terminal is closed, unless that signal is ignored, as with `nohup`.
fn hung_up() -> impl Future<Output = ()> + use<> {
    use tokio::signal::unix::{SignalKind, signal};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = ignored.is_some_and(|mask| mask & 1 == 1);
    let hangup = (!is_ignored).then(|| signal(SignalKind::hangup()));
    async move {
        match hangup {
            Some(Ok(mut hangup)) => {
                hangup.recv().await;
            }
            Some(Err(_)) | None => std::future::pending().await,
        }
    }
}

/// The person at the keyboard, as tokens name people.
fn person() -> Result<String, Failure> {
    let name = actor()?;
    let plain = |c: char| c.is_alphanumeric() || "-_.@".contains(c);
    Ok(name.chars().map(|c| if plain(c) { c } else { '-' }).collect())
}

fn secret() -> Result<String, Failure> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::general(format!("there are no random numbers: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens a browser; reports a failure, as on a machine without a display.
fn open(link: String) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some of these programs end only with the browser.
    std::thread::spawn(move || {
        if !command.status().is_ok_and(|status| status.success()) {
            output::note("no browser could be opened: open the link yourself");
        }
    });
}
