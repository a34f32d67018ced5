//! `bailiwick login` without a token: a user confirms a code at a real OpenID provider.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use bailiwick_testkit::oidc::{OidcProvider, confirm_device};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Place, Serving};
use crate::BAILIWICK;

const PUBLIC_URL: &str = "http://127.0.0.1:1";

/// A login that waits for its confirmation, and the address and code that it shows.
struct PendingLogin {
    child: Child,
    address: String,
    code: String,
}

fn serve(place: &Place, provider: &OidcProvider) -> Serving {
    let secret = place.scratch.place().join("client-secret");
    std::fs::write(&secret, OidcProvider::CLIENT_SECRET).unwrap();
    let options = [
        "--oidc-issuer",
        &provider.issuer,
        "--oidc-client-id",
        OidcProvider::CLIENT_ID,
        "--oidc-client-secret-file",
        secret.to_str().unwrap(),
        "--oidc-request-scope",
        "groups",
        "--oidc-group-scope",
        "reviewers=approver",
        "--public-url",
        PUBLIC_URL,
    ];
    Serving::with(&place.scratch, "127.0.0.1:0", &options)
}

fn log_in(place: &Place, serving: &Serving) -> PendingLogin {
    let mut command = place.scratch.command(BAILIWICK);
    command.args(["login", &format!("http://{}", serving.address), "--context", "team"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let (first, second) = (line(), line());
    let address = first.strip_prefix("Open ").unwrap().strip_suffix(" in a browser").unwrap();
    let code = second.strip_prefix("and confirm that it shows the code ").unwrap();
    assert!(line().starts_with("Waiting for your confirmation"));
    // Without a reader, the rest could fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    PendingLogin { address: address.to_owned(), code: code.to_owned(), child }
}

#[test]
fn login_waits_until_the_user_confirms_the_code() {
    let provider = OidcProvider::start(&format!("{PUBLIC_URL}/auth/callback"));
    let place = Place::bare();
    let serving = serve(&place, &provider);
    let mut login = log_in(&place, &serving);
    confirm_device(&login.address, &login.code, "grace");
    let mut output = String::new();
    login.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(login.child.wait().unwrap().success(), "{output}");
    assert!(output.contains("as grace (approver); context team is in use"), "{output}");
    place.run(&["get", "stacks"]).expect_code(0);
    // The scope of the user's groups cannot read the audit log.
    let denied = place.run(&["audit"]).expect_code(2);
    assert!(denied.err.contains("scope admin; yours has scope approver"), "{}", denied.err);
}

#[test]
fn interrupted_login_stores_nothing() {
    let provider = OidcProvider::start(&format!("{PUBLIC_URL}/auth/callback"));
    let place = Place::bare();
    let serving = serve(&place, &provider);
    let mut login = log_in(&place, &serving);
    kill(Pid::from_raw(i32::try_from(login.child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(login.child.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
    assert!(!place.scratch.place().join("config/bailiwick/client").exists());
    let tokens = place.json(&["tokens", "list"]);
    assert_eq!(tokens.as_array().map(Vec::len), Some(0), "{tokens}");
}
