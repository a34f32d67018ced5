//! The credential is sent only to the forge.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use bailiwick_fleet::ports::{Forge as _, ForgeError, WriteBack};
use bailiwick_source_control::forge::{Token, open};
use bailiwick_testkit::forge::{Fault, Flavour, StandIn};

use super::{BOTH, Setup, block_on, declared, opened};

#[test]
fn no_error_shows_the_token() {
    let secret = "not-the-right-token-0123456789";
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let stranger = opened(&setup.stand_in, &setup.scratch, secret);
        assert!(!format!("{stranger:?}").contains(secret));
        let push =
            WriteBack::Push { branch: "new".to_owned(), commit: setup.feature.clone(), from: None };
        for what in [super::writing::comment(1, "hello"), push] {
            let Err(error) = block_on(stranger.write("key", &what)) else { panic!("a stranger") };
            assert!(matches!(error, ForgeError::Refused(_) | ForgeError::Account(_)), "{error:?}");
            assert!(!format!("{error:?} {error}").contains(secret), "{error:?}");
        }
        // The forge itself repeats it.
        let own_token = setup.stand_in.token();
        let number = setup.stand_in.add_issue("It fails", "");
        let echo = format!("no right for {own_token}");
        setup.stand_in.fail_next("POST /", Fault::Status(403, echo));
        let what = super::writing::comment(number, "hello");
        let error = block_on(setup.forge.write("key", &what)).unwrap_err().to_string();
        assert!(error.contains("no right for [secret]"), "{error}");
    }
}

#[test]
fn redirect_is_not_followed_with_the_token() {
    let other = StandIn::gitea("acme/widgets");
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "");
    let place = format!("{}/api/v1/repos/acme/widgets/issues/{number}", other.base_url());
    setup.stand_in.fail_next("GET /", Fault::Redirect(place));
    let refused = block_on(setup.forge.issue(number));
    assert!(matches!(refused, Err(ForgeError::Account(_))), "{refused:?}");
    let git = format!("{}/acme/widgets.git/info/refs?service=git-upload-pack", other.base_url());
    setup.stand_in.fail_next("info/refs", Fault::Redirect(git));
    let (branch, commit) = ("new".to_owned(), setup.feature.clone());
    let refused =
        block_on(setup.forge.write("key", &WriteBack::Push { branch, commit, from: None }));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(other.requests().len(), 0, "the other forge gets no request");
}

#[test]
fn address_without_tls_or_with_a_credential_is_refused() {
    let setup = Setup::new(Flavour::Gitea);
    let token = || Some(Token::parse("x").unwrap());
    for (url, why) in [
        ("http://forge.example.org/api/v1", "use https"),
        ("https://me:secret@forge.example.org/api/v1", "contains a credential"),
        ("ftp://forge.example.org", "must begin with https"),
        ("forge", "cannot be read"),
    ] {
        let mut repository = declared(&setup.stand_in, setup.scratch.root());
        repository.api_url = Some(url.to_owned());
        let error = open(&repository, token(), &setup.scratch.state()).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("me:secret"), "{url}: {error}");
        let mut repository = declared(&setup.stand_in, setup.scratch.root());
        repository.clone_url = Some(url.to_owned());
        assert!(open(&repository, token(), &setup.scratch.state()).is_err(), "{url}");
    }
    let repository = declared(&setup.stand_in, setup.scratch.root());
    assert!(open(&repository, None, &setup.scratch.state()).is_err(), "no token");
    assert!(Token::parse("a b").is_err() && Token::parse("").is_err());
}

/// A wrapper around git records its arguments and its environment.
#[test]
fn token_is_in_no_argument_or_file_and_local_configuration_is_ignored() {
    const NAME: &str = "PUSH_AS_A_CHILD";
    if let Ok(place) = std::env::var(NAME) {
        return push_here(&place);
    }
    let setup = Setup::new(Flavour::Gitea);
    let place = setup.scratch.place();
    // An agent that can write the checkout's configuration could redirect the push.
    let trap = StandIn::gitea("acme/widgets");
    let (url, elsewhere) = (setup.stand_in.base_url(), trap.base_url());
    setup.scratch.git(&["config", &format!("url.{elsewhere}/.insteadOf"), &format!("{url}/")]);
    setup.scratch.git(&["config", "http.proxy", &elsewhere]);
    let tools = place.join("tools");
    std::fs::create_dir(&tools).unwrap();
    let real = which_git();
    let log = place.join("calls");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\nenv >> {}\nexec {real} \"$@\"\n",
        log.display(),
        place.join("environments").display()
    );
    std::fs::write(tools.join("git"), script).unwrap();
    std::fs::set_permissions(tools.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
    let parameters = serde_json::json!({
        "root": setup.scratch.root(), "state": setup.scratch.state(),
        "api": setup.stand_in.api_url(), "token": setup.stand_in.token(),
        "commit": setup.feature,
    });
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let test = "forge::secrecy::token_is_in_no_argument_or_file_and_local_configuration_is_ignored";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(NAME, parameters.to_string())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The push arrived at the forge and nowhere else.
    assert_eq!(setup.stand_in.git(&["rev-parse", "pushed"]).trim(), setup.feature);
    assert_eq!(trap.requests().len(), 0);
    let token = setup.stand_in.token();
    let calls = std::fs::read_to_string(&log).unwrap();
    assert!(calls.contains(" push "), "{calls}");
    assert!(!calls.contains(&token) && !calls.contains("Authorization"), "{calls}");
    // Positive control: git's environment contained it.
    let requests = setup.stand_in.requests();
    assert!(requests.iter().any(|request| {
        request.path.contains("git-receive-pack")
            && request
                .headers
                .iter()
                .any(|(name, value)| name == "authorization" && value.starts_with("Basic "))
    }));
    let environments = std::fs::read_to_string(place.join("environments")).unwrap();
    assert!(environments.contains("Authorization: Basic"));
    for directory in [setup.scratch.root(), setup.scratch.state()] {
        let found = Command::new("grep").arg("-r").arg(&token).arg(&directory).output().unwrap();
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
        let basic =
            Command::new("grep").args(["-r", "extraHeader"]).arg(&directory).output().unwrap();
        assert!(basic.stdout.is_empty(), "{}", String::from_utf8_lossy(&basic.stdout));
    }
}

fn push_here(parameters: &str) {
    let parameters: serde_json::Value = serde_json::from_str(parameters).unwrap();
    let text = |name: &str| parameters.get(name).unwrap().as_str().unwrap().to_owned();
    let anything = StandIn::gitea("acme/widgets");
    let mut repository = declared(&anything, text("root").into());
    repository.api_url = Some(text("api"));
    let token = Token::parse(&text("token")).unwrap();
    let forge = open(&repository, Some(token), text("state").as_ref()).unwrap();
    let (branch, commit) = ("pushed".to_owned(), text("commit"));
    block_on(forge.write("key", &WriteBack::Push { branch, commit, from: None })).unwrap();
}

fn which_git() -> String {
    let output = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
