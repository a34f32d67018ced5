//! `bailiwick login` without a token: a user confirms a code at a real OpenID provider.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use bailiwick_testkit::oidc::{OidcProvider, confirm_device};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

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

/// A fleet whose tools need a secret that only the group `reviewers` is granted.
fn place_with_group_grant() -> Place {
    let place = Place::bare();
    let set = |name: &str, key: &str, value: &str| {
        place.run_with_input(&["secrets", "set", name, key], value).expect_code(0);
    };
    set("webhook", "key", super::SECRET);
    set("forge", "token", &place.forge.token());
    set("tracker", "token", "the tracker's own token");
    let mut documents = place.documents();
    for document in &mut documents {
        match document["kind"].as_str() {
            Some("AgentStack") => {
                document["spec"]["secretPolicy"] = json!({ "allowedSecretRefs": ["tracker"] });
            }
            Some("AgentToolProfile") => {
                document["spec"]["requiredSecretRefs"] =
                    json!([{ "name": "tracker", "keys": ["token"] }]);
            }
            _ => {}
        }
    }
    let grant = json!({
        "subject": { "kind": "group", "name": "reviewers" },
        "secretRef": { "name": "tracker", "keys": ["token"] }, "purpose": "tool",
        "allowedRepositories": ["acme/*"], "mountPolicy": "file",
    });
    documents.push(super::document("AgentSecretGrant", "tracker", grant));
    place.apply(&documents).expect_code(0);
    place
}

#[test]
fn grant_for_a_group_admits_the_run_of_its_member_and_of_nobody_else() {
    let provider = OidcProvider::start(&format!("{PUBLIC_URL}/auth/callback"));
    let place = place_with_group_grant();
    let serving = serve(&place, &provider);
    let start_in = |context: &str| {
        place.run(&["--context", context, "runs", "start", "app", "fixer", "--task", "Mend it."])
    };
    let runs = || place.json(&["--context", "local", "get", "runs"]).as_array().unwrap().len();
    // A token that an administrator made says nothing about groups.
    let token = place.json(&["--context", "local", "tokens", "new", "bob", "--scope", "operator"]);
    let server = format!("http://{}", serving.address);
    let login = ["login", &server, "--context", "token", "--token-stdin"];
    place.run_with_input(&login, token["token"].as_str().unwrap()).expect_code(0);
    let refused = start_in("token");
    assert!(refused.code == 2 && refused.err.contains("ToolSecretNotGranted"), "{}", refused.err);
    assert_eq!(runs(), 0);
    let mut pending = log_in(&place, &serving);
    confirm_device(&pending.address, &pending.code, "grace");
    assert!(pending.child.wait().unwrap().success());
    let run = start_in("team").expect_code(0);
    assert!(run.out.contains("adr-"), "{}", run.out);
    assert_eq!(runs(), 1);
    // Her sign-in gives nothing to others.
    start_in("token").expect_code(2);
    assert_eq!(runs(), 1);
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
