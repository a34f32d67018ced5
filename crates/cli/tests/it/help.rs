//! Help, colour, completions and `-o json`.

use bailiwick_cli::Bailiwick;
use bailiwick_testkit::Scratch;
use clap::{Command, CommandFactory as _};

use crate::BAILIWICK;

fn visit_commands(command: &Command, name: &str, visit: &mut impl FnMut(&Command, &str)) {
    visit(command, name);
    for sub in command.get_subcommands() {
        visit_commands(sub, &format!("{name} {}", sub.get_name()), visit);
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let mut count = 0;
    visit_commands(&Bailiwick::command(), "bailiwick", &mut |command, name| {
        count += 1;
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.contains("Example"), "{name} has no example");
        assert!(after.contains("bailiwick"), "{name}: the example does not call bailiwick");
        assert!(command.get_about().is_some(), "{name} has no description");
    });
    assert!(count > 25, "only {count} commands were checked");
}

#[test]
fn command_definitions_are_valid() {
    use bailiwick_cli::kei::{agent_runtime, capability, ledger};
    Bailiwick::command().debug_assert();
    agent_runtime::AgentRuntime::command().debug_assert();
    capability::CapabilityTool::command().debug_assert();
    ledger::LedgerTool::command().debug_assert();
}

#[test]
fn every_listing_supports_json() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    scratch.run(BAILIWICK, &["init"]).expect_code(0);
    scratch.commit("kit");
    let task = ".bailiwick/tasks/example.toml";
    scratch.run(BAILIWICK, &["spawn", task, "--agent-id", "one", "-o", "json"]).expect_code(0);
    for arguments in [
        &["init", "-o", "json"][..],
        &["lint", "-o", "json"],
        &["prepare", task, "-o", "json"],
        &["agents", "list", "-o", "json"],
        &["agents", "show", "worker", "-o", "json"],
        &["agents", "new", "auditor", "-o", "json"],
        &["roles", "list", "-o", "json"],
        &["roles", "show", "developer", "-o", "json"],
        &["capabilities", "list", "-o", "json"],
        &["capabilities", "show", "policy::no-git-ops", "-o", "json"],
        &["ledger", "list", "-o", "json"],
        &["ledger", "show", "one", "-o", "json"],
        &["ledger", "tree", "-o", "json"],
        &["ledger", "parents", "one", "-o", "json"],
        &["ledger", "descendants", "one", "-o", "json"],
        &["ledger", "find", "contributor::", "-o", "json"],
        &["ledger", "locks", "-o", "json"],
        &["doctor", "-o", "json"],
    ] {
        let ran = scratch.run(BAILIWICK, arguments).expect_code(0);
        let value: serde_json::Value = serde_json::from_str(&ran.out)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", ran.out));
        assert!(value.is_array() || value.is_object(), "{arguments:?}");
    }
}

#[test]
fn colours_are_used_on_request_and_never_with_no_color() {
    let scratch = Scratch::repository();
    let coloured = scratch.run(BAILIWICK, &["roles", "list", "--color", "always"]).expect_code(0);
    assert!(coloured.out.contains('\u{1b}'), "positive control: no colour: {}", coloured.out);
    assert!(
        !scratch.run(BAILIWICK, &["roles", "list"]).out.contains('\u{1b}'),
        "colour without a terminal"
    );
    let script = "script -qec \"$0 roles list\" /dev/null";
    let on_terminal = |no_color: Option<&str>| {
        let mut shell = scratch.command("sh");
        shell.args(["-c", script, BAILIWICK]).env("TERM", "xterm-256color");
        if let Some(value) = no_color {
            shell.env("NO_COLOR", value);
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "script(1) is needed: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(on_terminal(None).contains('\u{1b}'), "no colour on a terminal");
    assert!(!on_terminal(Some("1")).contains('\u{1b}'), "colour with NO_COLOR");
}

#[test]
fn completions_are_valid_scripts() {
    let scratch = Scratch::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = scratch.run(BAILIWICK, &["completions", shell]).expect_code(0);
        assert!(ran.out.contains("bailiwick"), "{shell}");
    }
    let check = "set -e; source <(\"$0\" completions bash); complete -p bailiwick";
    let ran = scratch.run("bash", &["-c", check, BAILIWICK]).expect_code(0);
    assert!(ran.out.contains("_bailiwick"), "{}", ran.out);
}

#[test]
fn manual_pages_are_written_to_the_given_directory() {
    let scratch = Scratch::bare();
    scratch.run(BAILIWICK, &["man", "pages"]).expect_code(0);
    for page in ["bailiwick.1", "bailiwick-run.1", "bailiwick-ledger-list.1"] {
        let text = scratch.read(&format!("pages/{page}"));
        assert!(text.contains(".TH"), "{page}: {text}");
    }
    let page = scratch.read("pages/bailiwick-ledger-record-cost.1");
    for expected in [
        "\\-\\-cents <CENTS>",
        "[\\-\\-replace]",
        "<ID>",
        "EXAMPLES",
        "EXIT STATUS",
        "0 success; 1",
    ] {
        assert!(page.contains(expected), "{expected} is missing in\n{page}");
    }
    std::fs::create_dir(scratch.root().join("below")).unwrap();
    scratch.run(BAILIWICK, &["-C", "below", "man", "../others"]).expect_code(0);
    assert!(scratch.root().join("others/bailiwick.1").is_file());
}

#[test]
fn quiet_commands_print_only_results() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let loud = scratch.run(BAILIWICK, &["init"]).expect_code(0);
    assert!(loud.err.contains("next: "), "positive control: {}", loud.err);
    let quiet = scratch.run(BAILIWICK, &["init", "-q"]).expect_code(0);
    assert!(quiet.out.contains("kept") && quiet.err.is_empty(), "{}{}", quiet.out, quiet.err);
}

#[test]
fn closed_output_pipe_is_not_an_error() {
    let scratch = Scratch::bare();
    let pipe = "set -o pipefail; \"$0\" completions zsh | head -1";
    let ran = scratch.run("bash", &["-c", pipe, BAILIWICK]).expect_code(0);
    assert_eq!((ran.out.lines().count(), ran.err.as_str()), (1, ""));
}

#[test]
fn closed_output_pipe_does_not_hide_an_error() {
    let scratch = Scratch::repository();
    for number in 0..300 {
        let role = format!("[role]\nname = \"r{number}\"\nbogus = 1\n");
        scratch.write(&format!(".bailiwick/roles/r{number}.toml"), &role);
    }
    let pipe = "set -o pipefail; \"$0\" lint | head -1";
    scratch.run("bash", &["-c", pipe, BAILIWICK]).expect_code(1);
    let full = scratch.run("bash", &["-c", "\"$0\" roles show developer > /dev/full", BAILIWICK]);
    assert!(full.expect_code(1).err.contains("could not be printed"));
}

#[test]
fn doctor_reports_the_environment() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let ran = scratch.run(BAILIWICK, &["doctor"]).expect_code(0);
    for expected in
        ["git", "repository", "ledger", "kit", "sandbox", "Landlock", "seccomp", "claude-code"]
    {
        assert!(ran.out.contains(expected), "{expected} is missing in\n{}", ran.out);
    }
    scratch.write(".bailiwick/roles/broken.toml", "[role]\nnam = 1\n");
    let ran = scratch.run(BAILIWICK, &["doctor"]).expect_code(1);
    assert!(ran.out.contains("1 error\n") && ran.out.contains("bailiwick lint"), "{}", ran.out);
}

#[test]
fn doctor_lists_described_programs_and_ends_with_a_verdict() {
    let scratch = Scratch::repository();
    let adapter = "[adapter]\nname = \"babysitter\"\nprogram = \"sh\"\n[launch]\narguments = \
                     [\"-c\", \"{prompt}\"]\n[gate]\nkind = \"none\"\n";
    scratch.write(".bailiwick/adapters/babysitter.toml", adapter);
    scratch.write(".bailiwick/adapters/broken.toml", "[adapter]\nnam = 1\n");
    let quick = ["doctor", "--quick"];
    let early = scratch.run(BAILIWICK, &quick).expect_code(0);
    assert!(early.out.contains("has no commit"), "{}", early.out);
    scratch.commit("start");
    let ran = scratch.run(BAILIWICK, &quick).expect_code(0);
    let line = |name: &str| ran.out.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("babysitter").starts_with("good"), "{}", ran.out);
    assert!(line("broken").contains("cannot be used"), "{}", ran.out);
    assert!(
        ran.out.trim_end().lines().last().unwrap().contains("agents can run here")
            || ran.out.ends_with("Agents can run here.\n"),
        "{}",
        ran.out
    );
    scratch.write(".bailiwick/roles/broken.toml", "[role]\nnam = 1\n");
    let failed = scratch.run(BAILIWICK, &quick).expect_code(1);
    let verdict = failed.out.lines().last().unwrap();
    assert!(verdict.starts_with("Agents cannot run here. Fix this first: kit:"), "{verdict}");
}

#[test]
fn doctor_runs_agent_programs_without_credentials() {
    let scratch = Scratch::repository();
    let bin = scratch.place().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let fake = bin.join("claude");
    std::fs::write(&fake, "#!/bin/sh\necho \"9.9.9 key=${ANTHROPIC_API_KEY:-none}\"\n").unwrap();
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = scratch.command(BAILIWICK);
    command.args(["doctor", "-o", "json"]).env("PATH", path).env("ANTHROPIC_API_KEY", "secret");
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(output.contains("9.9.9 key=none"), "{output}");
}

#[test]
fn unknown_agent_is_a_usage_error_that_names_the_list_command() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    for command in ["stop", "attach", "logs", "cost", "diff", "rm"] {
        let ran = scratch.run(BAILIWICK, &[command, "nobody"]).expect_code(2);
        assert!(ran.err.contains("there is no agent `nobody`"), "{command}: {}", ran.err);
        assert!(ran.err.contains("bailiwick ps --all"), "{command}: {}", ran.err);
        assert_eq!(ran.out, "", "{command}");
    }
}
