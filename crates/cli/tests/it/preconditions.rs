//! A missing requirement is reported before anything is created, and nothing is left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use crate::run::{scene, write};
use crate::{BAILIWICK, KEI_AGENT_RUNTIME};

/// A directory with one program, which comes first on PATH.
fn program(scratch: &Scratch, name: &str, script: &str) -> String {
    let bin = scratch.place().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// No agent exists: no run, no worktree, no branch, no directory of a run.
#[track_caller]
fn assert_nothing_is_left(scratch: &Scratch) {
    let listed = scratch.run(BAILIWICK, &["ledger", "list", "-o", "json"]).expect_code(0);
    assert_eq!(serde_json::from_str::<Value>(&listed.out).unwrap(), serde_json::json!([]));
    assert_eq!(scratch.git(&["branch", "--format=%(refname:short)"]), "main\n");
    assert_eq!(scratch.git(&["worktree", "list"]).lines().count(), 1);
    for directory in ["runs", "worktrees"] {
        let directory = scratch.state().join(directory);
        let entries = std::fs::read_dir(&directory).map(|all| all.flatten().collect::<Vec<_>>());
        assert!(
            entries.as_ref().map_or(true, Vec::is_empty),
            "{}: {entries:?}",
            directory.display()
        );
    }
    assert!(!scratch.root().join("tasks").exists());
}

fn output(mut command: Command, arguments: &[&str]) -> Ran {
    Ran::from(command.args(arguments).output().unwrap())
}

#[test]
fn old_git_is_refused_before_anything_starts() {
    let scratch = scene(&[&write("src/b.txt", "b\n")]);
    let real = scratch.run("sh", &["-c", "command -v git"]).out;
    let used = scratch.place().join("used");
    let script = |version: &str| {
        format!(
            "[ \"$*\" = --version ] && {{ echo 'git version {version}'; exit; }}\ntouch '{}'\nexec {} \"$@\"",
            used.display(),
            real.trim()
        )
    };
    let temporary = scratch.place().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let run = |program_file: &str, version: &str, arguments: &[&str]| {
        let path = program(&scratch, "git", &script(version));
        let mut command = scratch.command(program_file);
        command.env("PATH", path).env("TMPDIR", &temporary);
        output(command, arguments)
    };
    for arguments in [
        &["demo"][..],
        &["run", "task.toml"],
        &["run", "-d", "task.toml"],
        &["spawn", "task.toml"],
        &["exec", "--role", "helper", "--", "claude"],
        &["verify", "one"],
        &["land", "one"],
        &["respawn", "one"],
        &["rollback", "one"],
        &["resume", "one"],
        &["serve"],
    ] {
        let refused = run(BAILIWICK, "2.30.2", arguments).expect_code(1);
        let expected = "git 2.30.2 is too old: git 2.39 or newer is needed";
        assert!(refused.err.contains(expected), "{arguments:?}: {}", refused.err);
        assert!(refused.out.is_empty(), "{arguments:?}: {}", refused.out);
    }
    let kei = run(KEI_AGENT_RUNTIME, "2.30.2", &["run", "task.toml"]).expect_code(1);
    assert!(kei.err.contains("git 2.30.2 is too old"), "{}", kei.err);
    let doctor = run(BAILIWICK, "2.30.2", &["doctor", "--quick"]).expect_code(1);
    assert!(doctor.out.contains("git 2.30.2 is too old"), "{}", doctor.out);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    std::fs::remove_file(&used).ok();
    run(BAILIWICK, "2.30.2", &["run", "task.toml"]).expect_code(1);
    assert!(!used.exists(), "git was called only for its version");
    assert_nothing_is_left(&scratch);
    // The control: the same git with another version number.
    run(BAILIWICK, "2.39.0", &["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
    assert!(used.exists() && scratch.state().join("worktrees/one").exists());
}

/// A command in a user namespace in which no other user namespace can be created.
fn without_user_namespaces(scratch: &Scratch) -> Command {
    let line = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let mut command = scratch.command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", line, BAILIWICK]);
    command
}

#[test]
fn missing_user_namespaces_are_reported_before_anything_starts() {
    let scratch = scene(&[&write("src/b.txt", "b\n")]);
    let claude = program(&scratch, "claude", "echo '2.1.197 (Claude Code)'");
    for arguments in [
        &["run", "task.toml"][..],
        &["run", "task.toml", "--sandbox", "partial"],
        &["run", "-d", "task.toml"],
        &["spawn", "--start", "task.toml"],
        &["demo"],
    ] {
        let refused = output(without_user_namespaces(&scratch), arguments).expect_code(1);
        for part in [
            "no user namespace can be made here, because the sysctl user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=15000",
            "`--sandbox partial` does not help",
            "`--sandbox off` starts the agent with no sandbox",
        ] {
            assert!(refused.err.contains(part), "{arguments:?}: {part}\n{}", refused.err);
        }
        assert!(refused.out.is_empty(), "{arguments:?}: {}", refused.out);
        assert_nothing_is_left(&scratch);
    }
    let mut doctor = without_user_namespaces(&scratch);
    doctor.env("PATH", claude);
    let doctor = output(doctor, &["doctor", "-o", "json"]).expect_code(1);
    let report: Value = serde_json::from_str(&doctor.out).unwrap();
    assert_eq!((&report["good"], &report["sandbox"]), (&Value::from(false), &Value::from("off")));
    assert_eq!(report["agents"][0]["gate"]["why"], "there is no sandbox to start it in");
    // Checks do not fail because of the machine.
    scratch
        .run(BAILIWICK, &["run", "task.toml", "--agent-id", "made", "--no-verify"])
        .expect_code(0);
    for command in ["verify", "land"] {
        let refused = output(without_user_namespaces(&scratch), &[command, "made"]).expect_code(1);
        assert!(refused.err.contains("user.max_user_namespaces is 0"), "{}", refused.err);
    }
    let events = scratch.run(BAILIWICK, &["ledger", "show", "made", "-o", "json"]).expect_code(0);
    assert!(!events.out.contains("verification-failed"), "{}", events.out);
    scratch.run(BAILIWICK, &["verify", "made"]).expect_code(0);
    // The controls: without a sandbox the task runs there; with a sandbox it runs here.
    let off = ["run", "task.toml", "--agent-id", "one", "--sandbox", "off"];
    output(without_user_namespaces(&scratch), &off).expect_code(0);
    scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "two"]).expect_code(0);
}

#[test]
fn checkout_that_blocks_landing_is_reported_before_the_start() {
    let scratch = scene(&[&write("src/b.txt", "b\n")]);
    scratch.write("src/a.txt", "being edited\n");
    let ran = scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "one", "--land", "auto"]);
    let ran = ran.expect_code(2);
    let note = ran.err.find("has uncommitted changes (src/a.txt)").unwrap();
    assert!(note < ran.err.find("making the worktree").unwrap(), "{}", ran.err);
    assert!(ran.err.contains("error: refs/heads/main is checked out"), "{}", ran.err);
    // The control: there is no note if the run does not land automatically, or if nothing was changed.
    let later = scratch.run(BAILIWICK, &["run", "task.toml", "--land", "never"]).expect_code(0);
    assert!(!later.err.contains("uncommitted changes"), "{}", later.err);
    scratch.git(&["checkout", "--quiet", "src/a.txt"]);
    let clean = ["run", "task.toml", "--agent-id", "two", "--land", "auto"];
    let clean = scratch.run(BAILIWICK, &clean).expect_code(0);
    assert!(!clean.err.contains("uncommitted changes"), "{}", clean.err);
}

const TASK: &str = "[task]\nrole = \"helper\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
                    [verification]\ncommands = [\"true\"]\n[agent]\ncli = \"CLI\"\n[body]\ntext = \
                    \"Do it.\"\n";

#[test]
fn missing_key_creates_nothing_and_suggests_found_logins() {
    let scratch = scene(&[]);
    scratch.write("claude.toml", &TASK.replace("CLI", "claude-code"));
    scratch.write("codex.toml", &TASK.replace("CLI", "codex"));
    let version =
        "case $1 in --version) echo '2.1.197 (Claude Code)';; *) touch \"$0.started\";; esac";
    program(&scratch, "claude", version);
    let path = program(&scratch, "codex", "echo 'codex-cli 0.166.0'");
    let run = |arguments: &[&str]| {
        let mut command = scratch.command(BAILIWICK);
        command.env("PATH", &path);
        let ran = output(command, arguments).expect_code(1);
        assert_nothing_is_left(&scratch);
        ran.err
    };
    let home = scratch.place().join("home");
    let bare = run(&["run", "claude.toml"]);
    let expected = "error: there is no API key for claude-code: ANTHROPIC_API_KEY is not set\n help: set \
                    ANTHROPIC_API_KEY; it stays with the supervisor, and the agent never sees it\n \
                    logins of claude-code in a run: api-key, subscription, bedrock, vertex\n";
    assert!(bare.ends_with(expected), "{bare}");
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    let login = "{\"claudeAiOauth\":{\"accessToken\":\"sk-ant-oat01-nobody\"}}";
    std::fs::write(home.join(".claude/.credentials.json"), login).unwrap();
    for arguments in [
        &["run", "claude.toml"][..],
        &["run", "-d", "claude.toml"],
        &["spawn", "--start", "claude.toml"],
    ] {
        let offered = run(arguments);
        let expected = format!(
            "help: found a Claude subscription ({}/.claude/.credentials.json). Use it: `--login \
             subscription`, or `login = \"subscription\"` under [agent] in the task\n",
            home.display()
        );
        assert!(offered.contains(&expected), "{offered}");
        assert!(!offered.contains("sk-ant"), "{offered}");
    }
    std::fs::create_dir_all(home.join(".codex")).unwrap();
    let tokens = "{\"OPENAI_API_KEY\":null,\"tokens\":{\"access_token\":\"secret-token\"}}";
    std::fs::write(home.join(".codex/auth.json"), tokens).unwrap();
    let codex = run(&["run", "codex.toml"]);
    assert!(codex.contains("found a ChatGPT login of Codex"), "{codex}");
    assert!(
        codex.contains("cannot be used in a run") && codex.contains("hooks install codex"),
        "{codex}"
    );
    let mut command = scratch.command(BAILIWICK);
    command.env("PATH", &path);
    let refused = output(command, &["run", "codex.toml", "--login", "subscription"]).expect_code(2);
    assert!(refused.err.contains("logins of codex in a run: api-key"), "{}", refused.err);
    assert_nothing_is_left(&scratch);
    let wrong = scratch.run(BAILIWICK, &["run", "claude.toml", "--login", "oauth"]).expect_code(2);
    let values = "[possible values: api-key, subscription, bedrock, vertex]";
    assert!(wrong.err.contains(values), "{}", wrong.err);
    scratch.write("wrong.toml", &TASK.replace("cli = \"CLI\"", "login = \"oauth\""));
    let wrong = scratch.run(BAILIWICK, &["run", "wrong.toml"]).expect_code(1);
    for value in ["api-key", "subscription", "bedrock", "vertex"] {
        assert!(wrong.err.contains(value), "{}", wrong.err);
    }
    assert!(!scratch.place().join("bin/claude.started").exists());
}

/// A PATH with the programs of every CLI, and the node that they need.
fn all_clis() -> String {
    let mut directories: Vec<PathBuf> = Vec::new();
    for cli in Cli::ALL {
        let directory = cli.program().parent().unwrap().to_path_buf();
        if cli == Cli::Gemini {
            directories.push(directory.join("node_modules/.bin"));
        }
        directories.push(directory);
    }
    let path = std::env::var("PATH").unwrap();
    let all: Vec<String> = directories.iter().map(|one| one.display().to_string()).collect();
    format!("{}:{path}", all.join(":"))
}

#[test]
fn doctor_proves_every_cli_once_without_an_api_key() {
    let scratch = scene(&[]);
    let doctor = |more: &[&str]| {
        let mut command = scratch.command(BAILIWICK);
        command.env("PATH", all_clis());
        let ran = output(command, &[&["doctor", "-o", "json"], more].concat()).expect_code(0);
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    for (more, state) in
        [(&["--quick"][..], "skipped"), (&[], "proven-now"), (&[], "proven-before")]
    {
        let report = doctor(more);
        let agents = report["agents"].as_array().unwrap();
        assert_eq!(agents.len(), Cli::ALL.len());
        for (agent, cli) in agents.iter().zip(Cli::ALL) {
            assert_eq!(agent["gate"]["state"], state, "{agent}");
            assert!(agent["version"].as_str().unwrap().contains(cli.version()), "{agent}");
        }
    }
    // A program that does not ask the gate is not proven.
    let path = program(&scratch, "claude", "echo '9.9.9 (Claude Code)'");
    let mut command = scratch.command(BAILIWICK);
    command.env("PATH", path);
    let ran = output(command, &["doctor"]).expect_code(1);
    assert!(ran.out.contains("not proven: it never asked its model"), "{}", ran.out);
    assert!(ran.out.contains("none of those installed can be used in runs"), "{}", ran.out);
}
