//! `bailiwick ui` from a terminal: its link, a busy port, a missing browser, Ctrl-C.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddrV4, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use bailiwick_testkit::Scratch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::BAILIWICK;
use crate::run::{run, wait_for};

struct Page {
    process: Child,
    link: String,
}

impl Page {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut command = scratch.command("env");
        // A program that is started in the background ignores Ctrl-C.
        command.args(["--default-signal=INT", BAILIWICK, "ui"]).args(arguments);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", scratch.place().join("programs").display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut link = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut link).unwrap();
        Self { process, link: link.trim().to_owned() }
    }

    fn address(&self) -> SocketAddrV4 {
        self.link.trim_start_matches("http://").split('/').next().unwrap().parse().unwrap()
    }

    /// Presses Ctrl-C; returns the exit code and stderr.
    fn interrupt(mut self) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGINT).unwrap();
        let code = self.process.wait().unwrap().code();
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (code, errors)
    }
}

/// Installs a script as the program that opens a browser.
fn install_browser_opener(scratch: &Scratch, script: &str) {
    let program = scratch.place().join("programs/xdg-open");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn busy_ports_and_public_addresses_are_refused_with_help() {
    let scratch = Scratch::repository();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let refused = run(&scratch, &["ui", "--no-open", "--address", "127.0.0.1", "--port", &port]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", refused.err);
    assert!(refused.err.contains("leave out --port"), "{}", refused.err);
    let network = run(&scratch, &["ui", "--no-open", "--address", "0.0.0.0"]);
    assert_eq!(network.code, 1, "{}", network.err);
    assert!(network.err.contains("reachable from other machines"), "{}", network.err);
}

#[test]
fn each_page_has_its_own_loopback_address_by_default() {
    let scratch = Scratch::repository();
    let first = Page::start(&scratch, &["--no-open"]);
    let second = Page::start(&scratch, &["--no-open"]);
    let chosen = Page::start(&scratch, &["--no-open", "--address", "127.0.0.1"]);
    let [one, other] = [&first, &second].map(|page| *page.address().ip());
    assert!(one.is_loopback() && other.is_loopback(), "{one} {other}");
    assert_ne!(one, other);
    assert_ne!(one.octets()[1], 0, "another program could use {one}");
    assert_eq!(chosen.address().ip().to_string(), "127.0.0.1");
    for page in [first, second, chosen] {
        assert_eq!(page.interrupt().0, Some(0));
    }
}

#[test]
fn browser_opens_the_link_and_a_failing_browser_is_reported() {
    let scratch = Scratch::repository();
    let opened = scratch.place().join("opened");
    install_browser_opener(
        &scratch,
        &format!("echo \"$1\" > {0}.new; mv {0}.new {0}", opened.display()),
    );
    let page = Page::start(&scratch, &[]);
    wait_for(|| !text(&opened).is_empty());
    assert_eq!(text(&opened).trim(), page.link);
    let (code, errors) = page.interrupt();
    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains("no browser"), "{errors}");

    let tried = scratch.place().join("tried");
    install_browser_opener(&scratch, &format!("touch {}; exit 3", tried.display()));
    let mut page = Page::start(&scratch, &[]);
    wait_for(|| tried.exists());
    let mut lines = BufReader::new(page.process.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("no browser could be opened")));
    page.process.kill().unwrap();
    page.process.wait().unwrap();
}

#[test]
fn ctrl_c_ends_the_page_but_not_the_runs() {
    let scratch = Scratch::repository();
    let role = "[role]\nname = \"waiter\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n";
    scratch.write(".bailiwick/roles/waiter.toml", role);
    let task = "[task]\nrole = \"waiter\"\nagent-id = \"waiter\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
                [body]\ntext = \"Wait.\"\n[agent]\ncli = \"script\"\n[[agent.script]]\ndo = \"shell\"\n\
                command = \"mkdir -p src; touch src/begun; until [ -e src/go ]; do sleep 0.1; done\"\n";
    scratch.write("waiter.toml", task);
    scratch.commit("start");
    let page = Page::start(&scratch, &["--no-open"]);
    run(&scratch, &["run", "-d", "waiter.toml", "--land", "never"]).expect_code(0);
    let worktree = scratch.state().join("worktrees/waiter");
    wait_for(|| worktree.join("src/begun").exists());
    let (code, errors) = page.interrupt();
    assert_eq!(code, Some(0), "{errors}");
    std::fs::write(worktree.join("src/go"), "").unwrap();
    wait_for(|| run(&scratch, &["ps", "--all"]).out.contains("done"));
}
