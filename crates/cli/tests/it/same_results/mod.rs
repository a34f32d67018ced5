//! Ordinary commands give the same exit status, output and files in the sandbox of a run as outside of it.
//! `TRANSCRIPTS` names a directory with commands of real agents, one JSON string a line; they run as well.

mod commands;
mod projects;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use bailiwick_gate::{HostContext, evaluate_call};
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::{Outcome, Policy};
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::json;
use tempfile::TempDir;

use crate::BAILIWICK;
use crate::corpus::outside_tmp;
use crate::run::{events, kinds};
use crate::verify::toolchains;

/// The number of commands in one step of the agent.
const PER_STEP: usize = 25;

/// Runs the commands from one number to another, and stores for each its exit status, its output without times,
/// addresses and process ids, and a hash of all files.
const DRIVER: &str = r#"from=$1 to=$2 out=$PWD/notes/results; mkdir -p "$out"
files() { find . \( -name .git -o -name target -o -name results -o -name .cache \) -prune -o \( -type f -o -type l \) -print0 | LC_ALL=C sort -z | xargs -0 sha1sum 2>/dev/null | sha1sum; }
n=$from
while [ "$n" -lt "$to" ]; do
  jq -r ".[$n]" tools/commands.json > "$out/command"
  timeout 120 bash "$out/command" < /dev/null > "$out/raw" 2> "$out/errors"
  echo "exit $?" > "$out/$n"
  sed -E 's/[0-9]+(\.[0-9]+)? ?(ms|µs|s)\b/TIME/g; s/(duration_ms|suite_duration_ms):? [0-9.]+/TIME/; s/0x[0-9a-f]{6,}/ADDRESS/g; s#/tmp/[A-Za-z0-9._-]+#TMP#g; s/\(cached\)/TIME/; s/ \([0-9]+\) panicked/ panicked/; s/\?\? notes\/results.*//; s/^ok .*TIME$/ok/' "$out/raw" | sed '/^$/d' >> "$out/$n"
  files >> "$out/$n"
  head -c 300 "$out/errors" > "$out/$n.errors"
  n=$((n + 1))
done
rm -f "$out/command" "$out/raw" "$out/errors"
"#;

#[test]
fn commands_give_the_same_result_in_and_outside_the_sandbox() {
    let commands = selected_commands();
    let scratch = Scratch::repository();
    projects::make(&scratch);
    prepare(&scratch, &commands);
    let worktree = scratch.state().join("worktrees/one");
    let environment = environment_inside(&scratch);
    bailiwick(&scratch, &["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
    let outside = run_outside(&scratch, &worktree, &environment, commands.len());
    let ran = bailiwick(&scratch, &["run", "one", "--no-verify"]);
    let inside = results(&worktree);
    let denied = kinds(&events(&scratch, "one"), "decision");
    let denied: Vec<_> = denied.iter().filter(|one| one["answer"] != "allow").collect();
    assert!(denied.is_empty(), "{denied:?}");
    assert_eq!(outside.len(), commands.len(), "the control: all commands ran outside");
    for (number, command) in commands::TESTS.iter().enumerate() {
        assert!(outside[&number].starts_with("exit 0\n"), "{command}: {}", outside[&number]);
    }
    let differs = |number: &usize| inside.get(number) != outside.get(number);
    let describe = |number: usize| {
        let show = |results: &BTreeMap<usize, String>| results.get(&number).cloned();
        let errors =
            std::fs::read_to_string(worktree.join(format!("notes/results/{number}.errors")));
        format!(
            "{number}: {}\n  inside  {:?}\n  outside {:?}\n  errors {errors:?}",
            commands[number],
            show(&inside),
            show(&outside),
        )
    };
    let different: Vec<String> = (0..commands.len()).filter(differs).map(describe).collect();
    let gate = Gate::of(&scratch, &worktree);
    let denied = |how| commands.iter().filter(|command| gate.denies(command, how)).count();
    let failing = outside.values().filter(|result| !result.starts_with("exit 0\n")).count();
    figure(&format!(
        "allowed commands: {} run, {} differ inside from outside ({failing} end with another status than 0 on both \
         sides); the gate denies {} of them by their text, {} where it leaves to the kernel what it cannot read",
        commands.len(),
        different.len(),
        denied(Enforcement::TextOnly),
        denied(Enforcement::Kernel),
    ));
    assert!(
        different.is_empty(),
        "{} differ:\n{}\n{}",
        different.len(),
        different.join("\n"),
        ran.err
    );
}

/// The tests of each project; all commands at full depth, otherwise every tenth; only those that contain
/// `COMMANDS`, if it is set; and the commands of real agents.
fn selected_commands() -> Vec<String> {
    let all = commands::all();
    assert!(all.len() >= 1000, "{}", all.len());
    let step = if Depth::from_env() == Depth::Full { 1 } else { 10 };
    let filter = std::env::var("COMMANDS").ok();
    let matches = |command: &String| filter.as_ref().is_none_or(|words| command.contains(words));
    let selected = all.into_iter().step_by(step).filter(matches);
    commands::TESTS.map(str::to_owned).into_iter().chain(selected).chain(transcripts()).collect()
}

/// Runs `bailiwick` with the person's Rust toolchain.
fn bailiwick(scratch: &Scratch, arguments: &[&str]) -> Ran {
    let mut command = scratch.command(BAILIWICK);
    toolchains(&mut command);
    Ran::from(command.args(arguments).output().unwrap())
}

/// Commands of real agents that only read, because they also run outside of a sandbox.
fn transcripts() -> Vec<String> {
    let Some(directory) = std::env::var_os("TRANSCRIPTS") else { return Vec::new() };
    let files =
        std::fs::read_dir(Path::new(&directory)).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    let commands: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| serde_json::from_str::<String>(&line).ok())
        .filter(|command| only_reads(command))
        .collect();
    figure(&format!("allowed commands: {} of real agents", commands.len()));
    commands
}

/// Whether a command is a pipe of programs that only read, below its own directory.
fn only_reads(command: &str) -> bool {
    const READERS: [&str; 14] = [
        "ls", "cat", "head", "tail", "wc", "grep", "nl", "sort", "uniq", "cut", "echo", "pwd",
        "rev", "tr",
    ];
    let plain = |byte: char| byte.is_ascii_alphanumeric() || " ._-|/'\",:=*\\[]^+".contains(byte);
    let program =
        |part: &str| part.split_whitespace().next().is_some_and(|word| READERS.contains(&word));
    let is_below = !command.contains(" /") && !command.contains("..") && !command.contains(" -o");
    command.chars().all(plain) && is_below && command.split('|').all(program)
}

/// A role like `developer`, a task whose steps run the commands, and the commands.
fn prepare(scratch: &Scratch, commands: &[String]) {
    scratch.write(
        ".bailiwick/roles/helper.toml",
        "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = [\"policy::git-read-only\", \
         \"scope::files-whitelist\", \"scope::files-denylist\", \"scope::no-rule-edits\", \
         \"safety::no-dep-bump\", \"safety::no-mass-delete\"]\n[tools]\nallowed = [\"*\"]\n",
    );
    scratch.write("tools/commands.json", &serde_json::to_string(commands).unwrap());
    scratch.write("tools/run.sh", DRIVER);
    let steps: String = (0..commands.len())
        .step_by(PER_STEP)
        .map(|from| {
            step(&format!("bash tools/run.sh {from} {}", (from + PER_STEP).min(commands.len())))
        })
        .collect();
    scratch.write("task.toml", &task(&steps));
    scratch.write("probe.toml", &task(&step("env -0 | base64 -w 0")));
    scratch.commit("commands");
}

fn step(command: &str) -> String {
    format!("[[agent.script]]\ndo = \"shell\"\ncommand = {command:?}\n")
}

fn task(steps: &str) -> String {
    format!(
        "[task]\nrole = \"helper\"\n[scope]\nfiles-whitelist = {:?}\n[body]\ntext = \"do it\"\n[agent]\ncli = \
         \"script\"\n{steps}",
        projects::WHITELIST
    )
}

/// The environment of a command in a run, for the same command outside.
fn environment_inside(scratch: &Scratch) -> Vec<(String, String)> {
    bailiwick(scratch, &["run", "probe.toml", "--agent-id", "probe", "--no-verify"]).expect_code(0);
    let result = kinds(&events(scratch, "probe"), "tool-result").remove(0);
    let encoded = result["output"].as_str().unwrap().trim().to_owned();
    let mut decoder = Command::new("base64");
    decoder.arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut decoding = decoder.spawn().unwrap();
    std::io::Write::write_all(&mut decoding.stdin.take().unwrap(), encoded.as_bytes()).unwrap();
    let text = String::from_utf8(decoding.wait_with_output().unwrap().stdout).unwrap();
    let for_spawned_agent = |line: &str| line.replace("/probe/", "/one/").replace("/probe", "/one");
    let pair = |line: &str| {
        for_spawned_agent(line)
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    text.split('\0').filter_map(pair).collect()
}

/// Runs all commands in the worktree without a sandbox, and resets it.
fn run_outside(
    scratch: &Scratch,
    worktree: &Path,
    environment: &[(String, String)],
    count: usize,
) -> BTreeMap<usize, String> {
    let home = scratch.state().join("runs/one/home");
    let existed = home.exists();
    std::fs::create_dir_all(&home).unwrap();
    let mut command = Command::new("bash");
    command.args(["tools/run.sh", "0", &count.to_string()]).current_dir(worktree).env_clear();
    let status = command.envs(environment.iter().cloned()).stdin(Stdio::null()).status().unwrap();
    assert!(status.success());
    let results = results(worktree);
    for arguments in [["reset", "--quiet", "--hard"], ["clean", "--quiet", "-ffdx"]] {
        let git = scratch.command("git").args(arguments).current_dir(worktree).status().unwrap();
        assert!(git.success());
    }
    if !existed {
        std::fs::remove_dir_all(&home).unwrap();
    }
    results
}

fn results(worktree: &Path) -> BTreeMap<usize, String> {
    let Ok(entries) = std::fs::read_dir(worktree.join("notes/results")) else {
        return BTreeMap::new();
    };
    let numbered = entries.flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, String::from_utf8_lossy(&std::fs::read(entry.path()).ok()?).into_owned()))
    });
    numbered.collect()
}

/// The gate of the run, for a worktree that is not below `/tmp`, because some rules treat `/tmp` differently.
struct Gate {
    policy: Policy,
    place: TempDir,
}

impl Gate {
    fn of(scratch: &Scratch, worktree: &Path) -> Self {
        let json = std::fs::read(scratch.state().join("runs/one/policy.json")).unwrap();
        let mut policy = Policy::parse(&json).unwrap();
        policy.temporary = vec!["/tmp".to_owned(), "/var/tmp".to_owned()];
        let place = tempfile::tempdir_in(outside_tmp()).unwrap();
        let mut copying = Command::new("cp");
        let copied = copying.arg("-a").arg(worktree.join(".")).arg(place.path()).status().unwrap();
        assert!(copied.success());
        Self { policy, place }
    }

    fn denies(&self, command: &str, enforcement: Enforcement) -> bool {
        let payload = json!({"tool_name": "Bash", "tool_input": {"command": command}}).to_string();
        let host = HostContext::at(self.place.path(), self.place.path()).unwrap();
        let host = host.with_enforcement(enforcement);
        let dialect = (Dialect::Claude, &[][..]);
        let record = evaluate_call(&self.policy, "", dialect, payload.as_bytes(), &host);
        record.decision.outcome != Outcome::Allow
    }
}
