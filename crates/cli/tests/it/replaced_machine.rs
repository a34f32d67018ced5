//! The chain of docs/guides/chain.md where the machine is lost between the orchestrator and the reviewer: another
//! one, with an empty database, an empty state directory and its own clone, completes it from the forge alone.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::{StandIn, Told};
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use crate::BAILIWICK;
use crate::fleet::{SECRET, Serving};
use crate::guides::chain::script;
use crate::guides::guide::Guide;

/// How long an effect may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);
const KEY: &str = "config/bailiwick/memory.key";

/// A machine with a clone of the forge's repository, and nothing else.
struct Machine {
    scratch: Scratch,
}

impl Machine {
    fn new(model: &ScriptedModel) -> Self {
        let mut scratch = Scratch::repository();
        let programs = Cli::Claude.program().parent().unwrap().to_path_buf();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [programs].into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path).unwrap();
        scratch.set_variable("PATH", path.to_str().unwrap());
        scratch.set_variable("ANTHROPIC_BASE_URL", &model.base_url());
        scratch.set_variable("ANTHROPIC_API_KEY", "a-key-of-nobody");
        // Cached facts about agent programs.
        for cache in ["canaries", "versions"] {
            let link = scratch.state().join(cache);
            let source = crate::conformance::stage::test_cache().join(cache);
            std::os::unix::fs::symlink(source, link).unwrap();
        }
        Self { scratch }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.scratch.run(BAILIWICK, arguments)
    }

    fn run_with_input(&self, arguments: &[&str], input: &str) {
        let mut command = self.scratch.command(BAILIWICK);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::from(child.wait_with_output().unwrap()).expect_code(0);
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["-o", "json"]].concat()).expect_code(0);
        serde_json::from_str(&ran.out).unwrap()
    }

    /// Applies the documents of the guide, and starts the control plane.
    fn serve(&self, forge: &StandIn) -> Serving {
        let mut guide = Guide::read("docs/guides/chain.md");
        guide.fill("https://forge.example/api/v1", forge.api_url());
        guide.fill("/srv/shop", self.scratch.root().display().to_string());
        self.run_with_input(&["secrets", "set", "shop-forge", "token"], &forge.token());
        self.run_with_input(&["secrets", "set", "shop-webhook", "key"], SECRET);
        self.run_with_input(&["apply", "-f", "-"], &guide.later_text("yaml"));
        let serving = Serving::listen(&self.scratch, "127.0.0.1:0");
        for stack in ["stack/orchestrator", "stack/reviewer"] {
            self.run(&["wait", stack, "--for", "condition=Ready"]).expect_code(0);
        }
        serving
    }

    /// Waits for the end of the run that a rule started.
    fn wait_for_run(&self, rule: &str) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let all = self.json(&["get", "runs"]);
            let mut runs = all.as_array().unwrap().iter();
            let run = runs.find(|run| {
                let phase = run["status"]["phase"].as_str().unwrap_or_default();
                run["spec"]["triggerRule"] == rule
                    && ["succeeded", "failed", "cancelled"].contains(&phase)
            });
            if let Some(run) = run {
                assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
                return run.clone();
            }
            assert!(Instant::now() < deadline, "no run of {rule} has ended: {all:#}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

fn deliver(forge: &StandIn, serving: &Serving, event: &Told) {
    let hook = format!("http://{}/webhooks/shop", serving.address);
    let (status, body) = forge.webhook(event).deliver(&hook, SECRET);
    assert_eq!(status, 202, "{body}");
}

fn copy_key(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join(KEY).parent().unwrap()).unwrap();
    std::fs::copy(from.join(KEY), to.join(KEY)).unwrap();
}

#[test]
fn replacement_machine_completes_a_chain_from_the_forge() {
    let model = ScriptedModel::start(script());
    let forge = StandIn::gitea("acme/shop");
    let lost = Machine::new(&model);
    lost.scratch.write("src/kept.txt", "kept\n");
    // The reviewer takes over the claims of the lost machine.
    lost.scratch.write(".bailiwick/settings.toml", "[claims]\n");
    lost.scratch.commit("Begin");
    forge.take(&lost.scratch.root(), "main");
    for account in ["labeller", forge.account()] {
        forge.permit(account, "write");
    }
    let issue = forge.add_issue("A parser", "Please build one.");
    let named = format!("acme/shop#{issue}");
    let serving = lost.serve(&forge);
    lost.run(&["memory", "budget", &named, "400000"]).expect_code(0);
    for label in ["cascade::depth-2", "agent::orchestrator"] {
        deliver(&forge, &serving, &Told::Label { number: issue, label: label.to_owned() });
    }
    lost.wait_for_run("orchestrator");
    let known = lost.json(&["recover", "--from-forge", &named]);

    // The machine is lost with its database, worktrees and clone; a copy of the key exists.
    let replacement = Machine::new(&model);
    copy_key(lost.scratch.place(), replacement.scratch.place());
    drop((serving, lost));
    let url = forge.repository().display().to_string();
    replacement.scratch.git(&["fetch", "--quiet", &url, "main"]);
    replacement.scratch.git(&["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    let serving = replacement.serve(&forge);
    assert_eq!(replacement.json(&["get", "runs"]), json!([]));
    let recovered = replacement.json(&["recover", "--from-forge", &named, "--continue"]);
    assert_eq!(recovered[0]["digest"], known[0]["digest"]);
    assert_eq!((&recovered[0]["new_runs"], &recovered[0]["continued"]), (&json!(1), &json!(true)));
    assert_eq!(recovered[0]["work"]["next"], json!({ "kind": "start", "agent": "reviewer" }));
    let labels = forge.labels(issue);
    assert!(labels.contains(&"agent::reviewer".to_owned()), "{labels:?}");
    deliver(&forge, &serving, &Told::Labelled { number: issue, by: forge.account().to_owned() });

    // The reviewer has the files of the orchestrator and of both specialists.
    let run = replacement.wait_for_run("reviewer");
    let branch = format!("agent/{}", run["status"]["attempts"][0].as_str().unwrap());
    let files = forge.git(&["ls-tree", "-r", "--name-only", &branch, "src"]);
    for file in ["all.txt", "lexer/a.txt", "parser/b.txt", "review.txt"] {
        assert!(files.contains(&format!("src/{file}")), "{files}");
    }
    let pulls = forge.pull_bodies();
    assert_eq!(pulls.len(), 1, "{pulls:#?}");
    assert!(pulls[0].contains(&format!("\n\nCloses #{issue}\n")), "{pulls:#?}");
    let state = replacement.json(&["memory", "show", &named]);
    assert_eq!(state["problems"], json!([]), "{state:#}");
    let claimants = state["claims"].as_array().unwrap().iter().map(|claim| &claim["agent"]);
    assert!(claimants.clone().all(|agent| *agent == run["status"]["attempts"][0]), "{state:#}");
    let log = replacement.run(&["memory", "log", &named]).expect_code(0).out;
    assert_eq!(log.matches("subagent_result").count(), 2, "{log}");
    let labels = forge.labels(issue);
    assert!(!labels.iter().any(|label| label.starts_with("agent::")), "{labels:?}");
    // A person merges the pull request, which closes the issue.
    replacement.run(&["memory", "close", &named]).expect_code(0);
    let closed = replacement.json(&["recover", "--from-forge", &named, "--continue"]);
    assert_eq!(closed[0]["work"]["next"]["kind"], "closed");
    assert_eq!(forge.breaches(), [] as [String; 0]);
}
