//! Output on a terminal: tables and help fit its width, and colour can be turned off.

use bailiwick_cli::Bailiwick;
use bailiwick_cli::commands::grouped_help::command_line;
use bailiwick_testkit::Scratch;
use clap::{Command, CommandFactory as _};

use crate::BAILIWICK;
use crate::generated::compare;
use crate::run::{scene, write};

/// Runs a shell script on a terminal with this many columns; `$B` is `bailiwick`.
pub(crate) fn on_terminal(scratch: &Scratch, columns: usize, text: &str) -> String {
    let file = scratch.place().join("screen.sh");
    std::fs::write(&file, format!("stty cols {columns} rows 50\nB={BAILIWICK}\n{text}\n")).unwrap();
    let line = format!("sh {}", file.display());
    let mut command = scratch.command("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color");
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

fn widest(text: &str) -> (usize, &str) {
    let lines = text.lines().map(|line| (line.chars().count(), line));
    lines.max_by_key(|(width, _)| *width).unwrap_or_default()
}

/// Adds each command as a person types it.
fn command_names(command: &Command, name: &str, found: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name()).trim().to_owned();
        command_names(sub, &name, found);
        found.push(name);
    }
}

#[test]
fn tables_of_the_embedded_kit_fit_80_and_120_columns() {
    let scratch = Scratch::repository();
    for (name, line) in [
        ("roles", "$B roles list"),
        ("capabilities", "$B capabilities list"),
        ("agents", "$B agents list"),
    ] {
        for columns in [80, 120] {
            let shown = on_terminal(&scratch, columns, &format!("{line} --color never -q"));
            let (width, text) = widest(&shown);
            assert!(width <= columns, "{width} columns of {columns}: {text}");
            compare(&format!("crates/cli/tests/it/screens/{name}-{columns}.txt"), &shown);
        }
        let piped = on_terminal(&scratch, 80, &format!("{line} -q | cat"));
        assert!(!piped.contains('…'), "nothing is truncated in a pipe:\n{piped}");
    }
}

#[test]
fn tables_of_runs_fit_80_columns_with_whole_ids() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    let id = "an-agent-with-quite-a-long-name";
    scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", id]).expect_code(0);
    scratch.run(BAILIWICK, &["reject", id]).expect_code(0);
    for line in [
        "$B ps --all",
        "$B ps --all --all-repos",
        "$B ledger list",
        "$B ledger list --all-repos",
        "$B prune --dry-run --all-repos",
    ] {
        let shown = on_terminal(&scratch, 80, &format!("{line} --color never"));
        let (width, text) = widest(&shown);
        assert!(shown.contains(id), "{line}:\n{shown}");
        assert!(width <= 80, "{line}: {width} columns: {text}");
    }
    let piped = scratch.run(BAILIWICK, &["ledger", "list", "--all-repos"]).expect_code(0).out;
    assert!(piped.contains(scratch.root().to_str().unwrap()), "{piped}");
}

#[test]
fn doctor_output_fits_80_columns_and_is_aligned() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let shown = on_terminal(&scratch, 80, "$B doctor --quick --color never");
    let (width, text) = widest(&shown);
    assert!(width <= 80, "{width} columns: {text}");
    let checks = shown.lines().filter(|line| line.starts_with("good") || line.starts_with("note"));
    let last_column = |line: &str| line.trim_end().rfind("  ").map(|end| end + 2);
    let positions: std::collections::BTreeSet<_> = checks.map(last_column).collect();
    assert_eq!(positions.len(), 1, "{shown}");
}

#[test]
fn help_of_every_command_fits_80_columns() {
    let mut root = command_line(80);
    root.build();
    let mut names = vec![String::new()];
    command_names(&Bailiwick::command(), "", &mut names);
    assert!(names.len() > 100, "only {} commands were checked", names.len());
    for name in names {
        let mut command = &mut root;
        for word in name.split_whitespace() {
            command = command.find_subcommand_mut(word).unwrap();
        }
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            let (width, text) = widest(&help);
            assert!(width <= 80, "help of `{name}` has {width} columns: {text}");
        }
    }
}

#[test]
fn examples_in_help_are_not_folded() {
    let mut root = Bailiwick::command();
    root.build();
    let mut names = Vec::new();
    command_names(&root, "", &mut names);
    for name in names {
        let words = name.split_whitespace();
        let command = words.fold(&root, |command, word| command.find_subcommand(word).unwrap());
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (width, text) = widest(&examples);
        assert!(width <= 80, "an example of `{name}` has {width} columns: {text}");
    }
}

#[test]
fn help_has_no_colour_if_colour_is_turned_off() {
    let scratch = Scratch::bare();
    let shown = on_terminal(&scratch, 80, "$B help run; $B run --help");
    assert!(shown.contains('\u{1b}'), "the control: help has colour by default:\n{shown}");
    let mut names = Vec::new();
    command_names(&Bailiwick::command(), "", &mut names);
    let calls: Vec<String> = names
        .iter()
        // The gate prints its own help.
        .filter(|name| *name != "gate")
        .map(|name| {
            format!(
                "$B --color never help {name}; $B {name} --help --color=never; NO_COLOR=1 $B help \
                 {name}; NO_COLOR=1 $B {name} -h"
            )
        })
        .collect();
    let text = format!("$B --color never help; $B --color never --help; {}", calls.join("\n"));
    let shown = on_terminal(&scratch, 80, &text);
    assert!(shown.contains("Usage: bailiwick ledger record-cost"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{}", shown.lines().find(|l| l.contains('\u{1b}')).unwrap());
    let (width, text) = widest(&shown);
    assert!(width <= 80, "{width} columns: {text}");
}

/// The output after wrong input. A new wording changes only this page.
#[test]
fn error_messages_equal_the_recorded_page() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    scratch.write("no-table.toml", "agent = 1\n");
    scratch.write("unknown.toml", "[task]\nrol = \"worker\"\n[body]\ntext = \"x\"\n");
    scratch.write("no-role.toml", "[task]\nrole = \"wrker\"\n[body]\ntext = \"x\"\n");
    scratch.write("stack.yaml", "kind: AgentStak\nmetadata: {name: a}\n");
    scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "done"]).expect_code(0);
    let mut page = String::new();
    for line in [
        "rnu task.toml",
        "run",
        "run missing.toml",
        "run no-table.toml",
        "run unknown.toml",
        "run no-role.toml",
        "run task.toml --agent-id done",
        "run task.toml --sandbox none",
        "run task.toml --issue here",
        "verify nobody",
        "land nobody",
        "land done --base nowhere",
        "resume nobody",
        "stop nobody",
        "stop done",
        "logs nobody",
        "diff nobody",
        "respawn nobody --reason again",
        "rm nobody",
        "explain --role nobody Bash ls",
        "roles show nobody",
        "capabilities show quality::nothing",
        "agents show nobody",
        "memory show nowhere",
        "apply -f missing.yaml",
        "apply -f stack.yaml",
        "get agentstaks",
        "get agentstacks nobody",
        "delete agentstacks nobody",
        "approvals show nobody",
        "runs retry nobody",
        "secrets set a",
        "tokens new ada --scope king",
        "contexts use nowhere",
        "login ftp://example.org",
        "--db /dev/null/no ps",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = scratch.run(BAILIWICK, &words);
        assert_ne!(ran.code, 0, "{line}: {}", ran.out);
        let message = ran.err.replace(scratch.place().to_str().unwrap(), "PLACE");
        page.push_str(&format!(
            "$ bailiwick {line}\n{}\nexit code {}\n\n",
            message.trim_end(),
            ran.code
        ));
    }
    compare("crates/cli/tests/it/screens/errors.txt", &page);
}
