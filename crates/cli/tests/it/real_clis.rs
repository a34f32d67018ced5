//! `bailiwick hooks install` enforces limits in the real agent CLIs: they are run against a scripted
//! model that tries forbidden calls, and the effects are checked on disk and in the remote.

mod changed_commands;
mod sample;

use std::path::PathBuf;
use std::process::Command;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::{Cli, CliRun, Prepared};
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::Value;

use crate::BAILIWICK;

/// For whom the gate is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Repository,
    User,
}

const GIT: &str = "policy::git-read-only";
const FILES: &str = "scope::files-whitelist";

/// The calls of the model in order, and the rule that denies each.
fn attempts(root: &str) -> [(Call, Option<&'static str>); 5] {
    [
        (Call::shell("git push origin HEAD:main"), Some(GIT)),
        (Call::write(format!("{root}/src/inside.txt"), "inside\n"), None),
        (Call::write(format!("{root}/outside.txt"), "outside\n"), Some(FILES)),
        (Call::shell("echo redirected > redirected.txt"), Some(FILES)),
        (Call::shell("g''it push origin HEAD:other"), Some(GIT)),
    ]
}

/// A repository with a remote, a CLI in it, and a `bailiwick` that shares its HOME.
struct Stage {
    cli: Cli,
    scope: Scope,
    scratch: Scratch,
    model: ScriptedModel,
    run: Prepared,
}

impl Stage {
    fn new(cli: Cli, scope: Scope) -> Self {
        let scratch = Scratch::repository();
        scratch.write("src/kept.txt", "kept\n");
        scratch.commit("Begin");
        let remote = scratch.place().join("remote.git").display().to_string();
        scratch.git(&["init", "--quiet", "--bare", &remote]);
        scratch.git(&["remote", "add", "origin", &remote]);
        // Alone in its directory, so that the gate of this build is used.
        std::fs::create_dir(scratch.place().join("bin")).unwrap();
        let ours = scratch.place().join("bin/bailiwick");
        if std::fs::hard_link(BAILIWICK, &ours).is_err() {
            std::fs::copy(BAILIWICK, &ours).unwrap();
        }
        let root = scratch.root().canonicalize().unwrap();
        let turns = attempts(root.to_str().unwrap()).map(|(call, _)| Turn::Calls(vec![call]));
        let turns = turns.into_iter().chain([Turn::say("finished")]).collect();
        let model = ScriptedModel::start(Script::new(turns));
        let run = with_default_settings(CliRun::new(cli, &model, &root), cli).prepare();
        let stage = Self { cli, scope, scratch, model, run };
        if scope == Scope::Repository {
            stage.trust_repository();
        }
        stage
    }

    /// Lets the CLI read settings of the repository, like a person who confirms its question.
    fn trust_repository(&self) {
        let root = self.scratch.root().canonicalize().unwrap();
        match self.cli {
            Cli::Claude => {}
            Cli::Codex => {
                let config = self.run.home().join(".codex/config.toml");
                let text = std::fs::read_to_string(&config).unwrap();
                assert!(text.contains("\"untrusted\""), "{text}");
                std::fs::write(config, text.replace("\"untrusted\"", "\"trusted\"")).unwrap();
            }
            Cli::Gemini => {
                let folders = serde_json::json!({root.to_str().unwrap(): "TRUST_FOLDER"});
                let file = self.run.home().join(".gemini/trustedFolders.json");
                std::fs::write(file, folders.to_string()).unwrap();
            }
            Cli::OpenCode => {
                // Otherwise it downloads a package for the directory with our plugin.
                let ours = self.run.home().join(".config/opencode");
                for name in ["package.json", "package-lock.json", PLUGIN_PACKAGE] {
                    let text = std::fs::read_to_string(ours.join(name)).unwrap();
                    self.scratch.write(&format!(".opencode/{name}"), &text);
                }
            }
        }
    }

    /// `bailiwick` with the directories of the CLI's run.
    fn bailiwick(&self, arguments: &[&str]) -> Ran {
        let mut command: Command = self.scratch.command(self.scratch.place().join("bin/bailiwick"));
        command.env("HOME", self.run.home()).env("CODEX_HOME", self.run.home().join(".codex"));
        command.env("XDG_CONFIG_HOME", self.run.home().join(".config")).args(arguments);
        Ran::from(command.output().unwrap())
    }

    fn hooks(&self, verb: &str, more: &[&str]) -> Ran {
        let mut words = vec!["hooks", verb, self.cli.name()];
        words.extend(more);
        if self.scope == Scope::User {
            words.push("--user");
        }
        self.bailiwick(&words)
    }

    /// The state of the gate, with its findings.
    fn gate_state(&self) -> (String, Value) {
        let ran = self.bailiwick(&["hooks", "status", self.cli.name(), "-o", "json"]);
        let status: Value = serde_json::from_str(&ran.out).unwrap();
        let place = match self.scope {
            Scope::Repository => "/hooks/0",
            Scope::User => "/hooks/1",
        };
        let report = status.pointer(place).unwrap();
        let state = value_at(report, "/standing").as_str().unwrap().to_owned();
        assert_eq!(ran.code == 0, matches!(state.as_str(), "intact" | "absent"), "{status:#}");
        (state, value_at(report, "/findings"))
    }

    fn log(&self) -> PathBuf {
        let mut directories = std::fs::read_dir(self.scratch.state().join("hooks")).unwrap();
        let directory = directories.next().unwrap().unwrap().path();
        assert!(directories.next().is_none(), "more than one gate writes a log");
        directory.join("decisions.jsonl")
    }

    fn decisions(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The branches of the remote.
    fn pushed(&self) -> Vec<String> {
        let output = self.scratch.git(&["ls-remote", "origin"]);
        let names = output.lines().filter_map(|line| line.split("refs/heads/").nth(1));
        names.map(str::to_owned).collect()
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.scratch.root().join(name)).ok()
    }

    /// The number of decisions, and how many would differ under these limits.
    fn replay_counts(&self, limits: &[&str]) -> (Value, Value) {
        let log = self.log().display().to_string();
        let mut words = vec!["replay", log.as_str(), "-o", "json"];
        words.extend(limits);
        let report: Value =
            serde_json::from_str(&self.bailiwick(&words).expect_code(0).out).unwrap();
        (value_at(&report, "/decisions"), value_at(&report, "/changed"))
    }
}

/// The value at a pointer, or null.
fn value_at(value: &Value, pointer: &str) -> Value {
    value.pointer(pointer).cloned().unwrap_or_default()
}

const PLUGIN_PACKAGE: &str = "node_modules/@opencode-ai/plugin/package.json";

/// The CLI reads settings from everywhere, and only the gate limits it.
fn with_default_settings(run: CliRun, cli: Cli) -> CliRun {
    match cli {
        Cli::Claude => run
            .settings(r#"{"permissions":{"allow":["Bash","Read","Edit","Write"]}}"#)
            .argument("--setting-sources")
            .argument("user,project,local"),
        Cli::OpenCode => run.variable("OPENCODE_DISABLE_PROJECT_CONFIG", "0"),
        Cli::Codex | Cli::Gemini => run,
    }
}

fn check_limits_are_enforced(cli: Cli, scope: Scope) {
    let stage = Stage::new(cli, scope);
    stage.hooks("install", &["--role", "developer", "--files", "src/**"]).expect_code(0);
    let ran = stage.run.run("Do the work.").expect_code(0);
    assert!(ran.out.contains("finished"), "{}", ran.out);
    assert_only_allowed_effects(&stage);
    assert_eq!(stage.gate_state(), ("intact".to_owned(), serde_json::json!([])));
    assert_eq!(stage.replay_counts(&[]), (5.into(), 0.into()));
    let (decisions, changed) = stage.replay_counts(&["--role", "read-only"]);
    assert_eq!(decisions, 5);
    assert!(changed.as_u64().unwrap() > 0, "read-only allowed the agent to write");
    let decision_count = stage.decisions().len();
    stage.hooks("remove", &[]).expect_code(0);
    assert_eq!(stage.gate_state().0, "absent");
    stage.run.run("Do the work.").expect_code(0);
    let results = stage.model.results();
    assert_eq!(stage.pushed(), ["main", "other"], "without the gate: {results:#?}");
    assert_eq!(stage.text("outside.txt").as_deref(), Some("outside\n"), "{results:#?}");
    assert_eq!(stage.text("redirected.txt").as_deref(), Some("redirected\n"), "{results:#?}");
    assert_eq!(stage.decisions().len(), decision_count, "the gate was called after it was removed");
}

/// The agent did only what is allowed, got the reason for each denial, and the log has every decision.
fn assert_only_allowed_effects(stage: &Stage) {
    let results = stage.model.results();
    assert_eq!(stage.pushed(), [""; 0], "something was pushed: {results:#?}");
    assert_eq!(stage.text("src/inside.txt").as_deref(), Some("inside\n"), "{results:#?}");
    assert_eq!(stage.text("outside.txt"), None, "{results:#?}");
    assert_eq!(stage.text("redirected.txt"), None, "{results:#?}");
    let decisions = stage.decisions();
    assert_eq!(decisions.len(), 5, "{decisions:#?}");
    for (number, ((attempt, rule), record)) in attempts("").into_iter().zip(&decisions).enumerate()
    {
        let result = stage.model.result(&format!("call_0_{number}_0"));
        let outcome = if rule.is_some() { "deny" } else { "allow" };
        assert_eq!(value_at(record, "/decision/outcome"), outcome, "{attempt:?}: {record:#}");
        assert_eq!(value_at(record, "/decision/because/rule").as_str(), rule, "{record:#}");
        assert_eq!(value_at(record, "/dialect"), stage.cli.name());
        match rule {
            Some(rule) => assert!(result.contains(rule), "{attempt:?}: the model got {result}"),
            None => assert!(!result.contains("::"), "{attempt:?}: the model got {result}"),
        }
    }
}

/// A script of the agent, whose effects no command text shows.
const SCRIPT: &str = "echo '{}' > .claude/settings.local.json\necho changed > kept.txt\n\
                      git -c user.name=a -c user.email=a@b.c commit -qm by-script --allow-empty\necho made > src/made.txt\n";

/// A script in the scope writes nothing outside of it, and does not disable the gate for later calls.
fn check_script_is_limited(cli: Cli, scope: Scope) {
    let mut stage = Stage::new(cli, scope);
    stage.scratch.write("kept.txt", "kept\n");
    stage.scratch.commit("Keep");
    let root = stage.scratch.root().canonicalize().unwrap();
    let calls = [
        Call::write(root.join("src/reach.sh").display().to_string(), SCRIPT),
        Call::shell("sh src/reach.sh"),
        Call::shell("sleep 4"),
        Call::shell("git push origin HEAD:main"),
        Call::shell("cd src"),
        Call::shell("pwd"),
    ];
    let turns = calls.map(|call| Turn::Calls(vec![call])).into_iter();
    stage.model = ScriptedModel::start(Script::new(turns.chain([Turn::say("finished")]).collect()));
    stage.run = with_default_settings(CliRun::new(cli, &stage.model, &root), cli).prepare();
    if scope == Scope::Repository {
        stage.trust_repository();
    }
    stage.hooks("install", &["--role", "developer", "--files", "src/**"]).expect_code(0);
    stage.run.run("Do the work.").expect_code(0);
    let results = stage.model.results();
    assert_eq!(stage.text("src/made.txt").as_deref(), Some("made\n"), "the control: {results:#?}");
    assert_eq!(stage.text("kept.txt").as_deref(), Some("kept\n"), "{results:#?}");
    assert!(!stage.scratch.git(&["log", "--format=%s"]).contains("by-script"), "{results:#?}");
    let pushed = stage.model.result("call_0_3_0");
    assert!(pushed.contains(GIT), "the gate still answers: {pushed}");
    let directory = stage.model.result("call_0_5_0");
    // The other CLIs run each command in their own start directory.
    assert!(cli != Cli::Claude || directory.trim().ends_with("/src"), "{results:#?}");
    assert_eq!(stage.gate_state(), ("intact".to_owned(), serde_json::json!([])));
    // The control: without the sandbox the same script has all these effects.
    let install = ["--role", "developer", "--files", "src/**", "--no-sandbox"];
    stage.hooks("install", &install).expect_code(0);
    stage.run.run("Do the work.").expect_code(0);
    assert_eq!(stage.text("kept.txt").as_deref(), Some("changed\n"), "the control");
    assert!(stage.scratch.git(&["log", "--format=%s"]).contains("by-script"), "the control");
}

#[test]
fn script_of_claude_is_limited_in_a_repository() {
    check_script_is_limited(Cli::Claude, Scope::Repository);
}

#[test]
fn script_of_opencode_is_limited_in_a_repository() {
    check_script_is_limited(Cli::OpenCode, Scope::Repository);
}

#[test]
fn script_of_opencode_is_limited_for_a_user() {
    check_script_is_limited(Cli::OpenCode, Scope::User);
}

#[test]
fn script_of_codex_is_limited_in_a_repository() {
    check_script_is_limited(Cli::Codex, Scope::Repository);
}

#[test]
fn script_of_codex_is_limited_for_a_user() {
    check_script_is_limited(Cli::Codex, Scope::User);
}

#[test]
fn script_of_gemini_is_limited_in_a_repository() {
    check_script_is_limited(Cli::Gemini, Scope::Repository);
}

#[test]
fn script_of_gemini_is_limited_for_a_user() {
    check_script_is_limited(Cli::Gemini, Scope::User);
}

#[test]
fn script_of_claude_is_limited_for_a_user() {
    check_script_is_limited(Cli::Claude, Scope::User);
}

#[test]
fn claude_is_limited_in_a_repository() {
    check_limits_are_enforced(Cli::Claude, Scope::Repository);
}

#[test]
fn claude_is_limited_for_a_user() {
    check_limits_are_enforced(Cli::Claude, Scope::User);
}

#[test]
fn codex_is_limited_in_a_repository() {
    check_limits_are_enforced(Cli::Codex, Scope::Repository);
}

#[test]
fn codex_is_limited_for_a_user() {
    check_limits_are_enforced(Cli::Codex, Scope::User);
}

#[test]
fn gemini_is_limited_in_a_repository() {
    check_limits_are_enforced(Cli::Gemini, Scope::Repository);
}

#[test]
fn gemini_is_limited_for_a_user() {
    check_limits_are_enforced(Cli::Gemini, Scope::User);
}

#[test]
fn opencode_is_limited_in_a_repository() {
    check_limits_are_enforced(Cli::OpenCode, Scope::Repository);
}

#[test]
fn opencode_is_limited_for_a_user() {
    check_limits_are_enforced(Cli::OpenCode, Scope::User);
}
