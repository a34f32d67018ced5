//! Every command with `-o json` prints JSON and nothing else.

use std::collections::BTreeSet;

use bailiwick_cli::Bailiwick;
use bailiwick_testkit::Scratch;
use clap::{Command, CommandFactory as _};
use serde_json::Value;

use crate::BAILIWICK;
use crate::run::{scene, started, wait_for, write};

/// Commands without `-o json`, and why.
const WITHOUT_JSON: [(&str, &str); 10] = [
    ("demo", "it is a demonstration for people"),
    ("exec", "the terminal belongs to the agent program"),
    ("mcp", "it uses the MCP protocol"),
    ("gate", "it answers in the format of the agent program"),
    ("serve", "it prints its address and logs"),
    ("worker", "it prints what it does"),
    ("ui", "it prints the address of the page"),
    ("completions", "it prints a script for a shell"),
    ("man", "it prints nothing"),
    ("supervise", "only `bailiwick` itself starts it"),
];

/// Commands whose result is a line of JSON for each event.
const JSON_LINES: [&str; 2] = ["logs", "runs logs"];

/// Each command with arguments, in the order in which they are run, and its exit code.
const CALLS: &[(&str, &[&str], i32)] = &[
    ("init", &["--dry-run"], 0),
    ("doctor", &["--quick"], 0),
    ("status", &[], 0),
    ("lint", &[], 0),
    ("prepare", &["task.toml"], 0),
    ("compose", &["task.toml", "--stdout"], 0),
    ("compose", &["task.toml"], 0),
    ("spawn", &["task.toml", "--agent-id", "spawned"], 0),
    ("run", &["task.toml", "--agent-id", "one", "--land", "never"], 0),
    ("ps", &["--all"], 0),
    ("logs", &["one"], 0),
    ("diff", &["one"], 0),
    ("diff", &["one", "--stat"], 0),
    ("diff", &["-f", "map.json"], 1),
    ("cost", &["one"], 0),
    ("cost", &[], 0),
    ("verify", &["one"], 0),
    ("land", &["one"], 0),
    ("rollback", &["one"], 0),
    ("reject", &["spawned"], 0),
    ("respawn", &["spawned", "--reason", "try again"], 0),
    ("attach", &["one", "words"], 2),
    ("resume", &["one"], 2),
    ("stop", &["waiting"], 0),
    ("stop", &["one"], 2),
    ("rm", &["waiting", "--force"], 0),
    ("prune", &["--dry-run"], 0),
    ("prune", &["--yes"], 0),
    ("approvals list", &[], 0),
    ("approvals show", &["aap-none"], 2),
    ("approvals approve", &["one", "1"], 2),
    ("approvals deny", &["one", "1"], 2),
    ("memory new", &["Fix it", "--budget", "1000"], 0),
    ("memory list", &["--all"], 0),
    ("memory show", &["#1"], 0),
    ("memory log", &["#1"], 0),
    ("memory verify", &["#1"], 0),
    ("memory budget", &["#1", "2000"], 0),
    ("memory label", &["#1", "--add", "cascade::depth-1"], 0),
    ("memory comment", &["#1", "words"], 0),
    ("memory close", &["#1"], 0),
    ("memory reopen", &["#1"], 0),
    ("memory merge", &[], 0),
    ("recover", &["--from-forge", "#1"], 0),
    ("claims list", &[], 0),
    ("db status", &[], 0),
    ("db migrate", &[], 0),
    ("db copy", &["--from", "none.db", "--to", "other.db"], 2),
    ("claims release", &["99"], 2),
    ("explain", &["--role", "helper", "--", "git push"], 0),
    ("replay", &["--role", "helper"], 1),
    ("hooks install", &["claude", "--role", "helper", "--files", "src/**"], 0),
    ("hooks status", &[], 0),
    ("hooks remove", &["claude"], 0),
    ("agents list", &[], 0),
    ("agents show", &["worker"], 0),
    ("agents new", &["auditor"], 0),
    ("agents import", &["--dry-run"], 0),
    ("agents assemble", &["critic"], 0),
    ("agents tree", &[], 0),
    ("roles list", &[], 0),
    ("roles show", &["helper"], 0),
    ("roles doc", &[], 0),
    ("capabilities list", &[], 0),
    ("capabilities show", &["policy::no-git-ops"], 0),
    ("capabilities fork", &["policy::no-git-ops", "--as", "policy::own"], 0),
    ("ledger list", &[], 0),
    ("ledger show", &["one"], 0),
    ("ledger tree", &[], 0),
    ("ledger parents", &["one"], 0),
    ("ledger descendants", &["one"], 0),
    ("ledger find", &["helper::"], 0),
    ("ledger spec", &["one"], 0),
    ("ledger validate", &["one"], 0),
    ("ledger validate", &["nobody"], 2),
    ("ledger init", &[], 0),
    ("ledger fork", &["by-hand", "agent/by-hand", "--spec-sha", "9f3c"], 0),
    ("ledger record-cost", &["by-hand", "--cents", "3", "--provider", "p", "--model", "m"], 0),
    ("ledger done", &["by-hand", "--summary", "two files"], 0),
    ("ledger merged", &["by-hand"], 0),
    ("ledger fail", &["by-hand", "--reason", "no"], 1),
    ("ledger rejected", &["by-hand", "--reason", "no"], 1),
    ("ledger locks", &[], 0),
    ("ledger revoke-lock", &["--reason", "a breaking change"], 0),
    ("apply", &["-f", "map.json"], 0),
    ("get", &["configmaps"], 0),
    ("describe", &["configmap", "map"], 0),
    ("delete", &["configmap", "map"], 0),
    ("wait", &["configmap/map", "--for", "delete"], 0),
    ("runs start", &["app", "none", "--task", "x"], 1),
    ("runs logs", &["adr-none"], 2),
    ("runs cancel", &["adr-none"], 2),
    ("runs retry", &["adr-none"], 2),
    ("runs resume", &["adr-none"], 2),
    ("runs continue", &["adr-none", "-m", "x"], 2),
    ("runs fork", &["adr-none", "-m", "x"], 2),
    ("runs refresh-context", &["adr-none", "--reason", "x"], 2),
    ("trigger test", &["none", "--delivery", "wd-none"], 2),
    ("trigger replay", &["none", "wd-none"], 2),
    ("trigger fire", &["none", "--repository", "app"], 2),
    ("trigger materialize", &["none", "--delivery", "wd-none"], 2),
    ("trigger enable", &["none"], 2),
    ("trigger pause", &["none"], 2),
    ("trigger resume", &["none"], 2),
    ("trigger disable", &["none"], 2),
    ("trigger archive", &["none"], 2),
    ("workspaces list", &[], 0),
    ("workspaces show", &["none"], 2),
    ("workspaces provision", &["none", "--repository", "none"], 2),
    ("workspaces link", &["src", "--repository", "none"], 2),
    ("workspaces unlink", &["none", "--issue", "1"], 2),
    ("workspaces pin", &["none"], 2),
    ("workspaces unpin", &["none"], 2),
    ("workspaces note", &["none", "words"], 2),
    ("workspaces archive", &["none"], 2),
    ("workspaces cleanup", &["none"], 2),
    ("workspaces recover", &["none"], 2),
    ("workspaces rebase", &["none"], 2),
    ("secrets set", &["forge", "token", "--from-file", "map.json"], 0),
    ("secrets list", &[], 0),
    ("secrets rm", &["forge"], 0),
    ("tokens new", &["ada"], 0),
    ("tokens list", &[], 0),
    ("tokens revoke", &["tok-none"], 2),
    ("workers token", &["--pool", "none"], 0),
    ("workers list", &[], 0),
    ("workers cordon", &["none"], 2),
    ("workers uncordon", &["none"], 2),
    ("workers drain", &["none"], 2),
    ("workers remove", &["none"], 2),
    ("audit", &["--last", "2"], 0),
    ("edit", &["configmap", "none"], 2),
    ("api-resources", &["stack.spec"], 0),
    ("login", &["http://127.0.0.1:9", "--token-stdin"], 2),
    ("logout", &[], 2),
    ("contexts list", &[], 0),
    ("contexts current", &[], 0),
    ("contexts use", &["local"], 0),
    ("contexts delete", &["none"], 2),
];

/// The commands without subcommands.
fn leaves(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
    let verbs: Vec<&Command> = verbs.collect();
    if verbs.is_empty() {
        found.push((name.to_owned(), command.clone()));
    }
    for verb in verbs {
        leaves(verb, format!("{name} {}", verb.get_name()).trim(), found);
    }
}

fn is_json(name: &str, text: &str) -> bool {
    let parses = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    match JSON_LINES.contains(&name) {
        true => text.lines().all(parses),
        false => text.is_empty() || parses(text),
    }
}

#[test]
fn every_command_is_called_here_or_listed_as_without_json() {
    let mut found = Vec::new();
    leaves(&Bailiwick::command(), "", &mut found);
    let without: BTreeSet<&str> = WITHOUT_JSON.iter().map(|(name, _)| *name).collect();
    let called: BTreeSet<&str> = CALLS.iter().map(|(name, _, _)| *name).collect();
    let known: BTreeSet<&str> = called.union(&without).copied().collect();
    let all: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(known, all);
    assert!(called.is_disjoint(&without));
    for (name, command) in &found {
        let mut options = command.get_arguments().filter(|one| one.get_long() == Some("output"));
        assert_eq!(options.next().is_some(), called.contains(name.as_str()), "{name}");
    }
}

#[test]
fn every_command_with_json_output_prints_only_json() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    let waits =
        "do = \"say\"\ntext = \"waiting\"\n[[agent.script]]\ndo = \"wait\"\nmilliseconds = 600000";
    let task = scratch.read("task.toml");
    let (head, _) = task.split_once("[[agent.script]]").unwrap();
    scratch.write("waits.toml", &format!("{head}[[agent.script]]\n{waits}\n"));
    scratch.write(
        "map.json",
        r#"{"apiVersion":"bailiwick.dev/v1alpha1","kind":"ConfigMap","metadata":{"name":"map"},"spec":{"data":{"k":"v"}}}"#,
    );
    scratch.commit("more");
    let arguments = ["run", "waits.toml", "--agent-id", "waiting"];
    let mut child = started(&scratch, "waiting", "waiting", &arguments);
    let mut printed = 0;
    for (name, arguments, code) in CALLS {
        let words: Vec<&str> = name.split(' ').collect();
        let (before, after) = match arguments.iter().position(|word| *word == "--") {
            Some(place) => arguments.split_at(place),
            None => (*arguments, &[][..]),
        };
        let line = [&words, before, &["-o", "json"], after].concat();
        let ran = scratch.run(BAILIWICK, &line);
        assert!(is_json(name, &ran.out), "{line:?}:\n{}\n{}", ran.out, ran.err);
        assert_eq!(ran.code, *code, "{line:?}:\n{}\n{}", ran.out, ran.err);
        assert!(!ran.err.contains("Usage: "), "{line:?} has invalid arguments:\n{}", ran.err);
        assert!(*code != 0 || !ran.out.is_empty(), "{line:?} prints nothing");
        printed += usize::from(!ran.out.is_empty());
    }
    assert!(printed > 60, "only {printed} commands printed something");
    wait_for(|| child.try_wait().unwrap().is_some());
}

#[test]
fn diff_of_an_agent_has_line_counts_and_the_full_patch() {
    let scratch = scene(&[&write("src/new.txt", "new\nlines\n")]);
    scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "one"]).expect_code(0);
    let diff = json(&scratch, &["diff", "one", "-o", "json"]);
    assert_eq!(diff["agent_id"], "one");
    let change = &diff["changes"][0];
    assert_eq!((&change["path"], &change["added"]), (&"src/new.txt".into(), &2.into()), "{diff:#}");
    assert!(diff["patch"].as_str().unwrap().contains("+lines"), "{diff:#}");
    let short = json(&scratch, &["diff", "one", "--stat", "-o", "json"]);
    assert!(short.get("patch").is_none() && short["changes"] == diff["changes"], "{short:#}");
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    serde_json::from_str(&scratch.run(BAILIWICK, arguments).expect_code(0).out).unwrap()
}
