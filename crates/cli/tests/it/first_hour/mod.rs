//! The first hour of a new user: from `init` to a landed change with only the README's commands, in small
//! repositories of several languages, with every agent CLI.

mod managers;
mod repositories;

use std::process::{Command, Stdio};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::figure;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::conformance::stage::Stage;
use repositories::{ALL, Project};

const TASK: &str = ".bailiwick/tasks/example.toml";

/// One CLI for each repository; at full depth every CLI in every repository.
fn clis(project: &Project) -> Vec<Cli> {
    match Depth::from_env() {
        Depth::Full => Cli::ALL.to_vec(),
        Depth::Ci => {
            let index = ALL.iter().position(|other| other.name == project.name).unwrap();
            vec![Cli::ALL[index % Cli::ALL.len()]]
        }
    }
}

fn lands_in(project: &Project) {
    for cli in clis(project) {
        lands(project, cli, User::Current);
    }
}

/// At full depth, if the program of its package manager is installed; npm and pip install theirs.
fn lands_with(project: &Project, program: &str) {
    match Depth::from_env() {
        Depth::Full if managers::has(program) => lands(project, Cli::Claude, User::Current),
        Depth::Full => figure(&format!("skipped: {} needs {program}", project.name)),
        Depth::Ci => {}
    }
}

/// The user that runs the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// The user that runs the tests.
    Current,
    /// A user without root privileges.
    Ordinary,
}

impl User {
    /// The same command, run by this user.
    fn command_as(self, command: Command) -> Command {
        if self == Self::Current {
            return command;
        }
        let mut wrapped = Command::new("unshare");
        wrapped.args(["--user", "--map-user=1000", "--map-group=1000", "--"]);
        wrapped.arg(command.get_program()).args(command.get_args());
        wrapped
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = command.get_current_dir() {
            wrapped.current_dir(directory);
        }
        wrapped
    }
}

/// The steps of the README.
fn lands(project: &Project, cli: Cli, user: User) {
    let context = format!("{} with {} by {user:?}", project.name, cli.name());
    let stage = Stage::empty(cli);
    let scratch = &stage.scratch;
    (project.write)(scratch);
    scratch.commit("Begin");

    let step = |arguments: &[&str]| {
        let mut command = stage.command(None, None);
        (project.environment)(scratch, &mut command);
        command.args(arguments);
        let ran = Ran::from(user.command_as(command).output().unwrap());
        assert_eq!(ran.code, 0, "{context}: {arguments:?}: {}{}", ran.out, ran.err);
        ran
    };
    step(&["init"]);
    let task = scratch.read(TASK);
    let (name, model) = agent(cli);
    let agent_section = format!("[agent]\ncli = \"{name}\"\nmodel = \"{model}\"\n\n[body]");
    scratch.write(TASK, &task.replace("[body]", &agent_section));
    step(&["lint"]);
    step(&["prepare", TASK]);
    scratch.commit("Say what agents may do here");

    let (ran, results) = run(&stage, project, user);
    assert_eq!(ran.code, 0, "{context}: {}{}\n{results:#?}", ran.out, ran.err);
    assert!(
        results.iter().any(|result| result.contains(project.proof)),
        "{context}: the agent could not run the project's tests: {results:#?}"
    );
    let before = scratch.git(&["rev-parse", "main"]);
    step(&["land", "fix-42"]);
    assert_ne!(scratch.git(&["rev-parse", "main"]), before, "{context}: main did not move");
    let changed = scratch.git(&["diff", "--name-only", before.trim(), "main"]);
    assert_eq!(changed.trim(), project.file, "{context}: other files landed");
    assert_eq!(scratch.git(&["status", "--porcelain=v1"]), "", "{context}");
}

/// `bailiwick run`, with a model that makes the change, runs the tests and reports.
fn run(stage: &Stage, project: &Project, user: User) -> (Ran, Vec<String>) {
    let report = format!(
        "The greeting is friendlier now.\n\nfiles-touched: {}\ncommands: pass\n",
        project.file
    );
    let turns = vec![
        Turn::Calls(vec![Call::shell(project.change)]),
        Turn::Calls(vec![Call::shell(project.test)]),
        Turn::say(report),
    ];
    let model = ScriptedModel::start(Script::new(turns));
    let mut command = stage.command(Some(&model), None);
    (project.environment)(&stage.scratch, &mut command);
    command.args(["run", TASK, "--agent-id", "fix-42"]);
    let ran = Ran::from(user.command_as(command).stdin(Stdio::null()).output().unwrap());
    let results = model.results().into_iter().map(|result| result.text);
    (ran, results.collect())
}

/// A CLI's name in a task, and a model of it.
fn agent(cli: Cli) -> (&'static str, &'static str) {
    match cli {
        Cli::Claude => ("claude-code", "claude-opus-4-8"),
        Cli::Codex => ("codex", "gpt-5.5"),
        Cli::Gemini => ("gemini", "gemini-2.5-flash"),
        Cli::OpenCode => ("opencode", "scripted"),
    }
}

#[test]
fn change_lands_in_a_rust_repository() {
    lands_in(&repositories::RUST);
}

#[test]
fn change_lands_in_a_python_repository() {
    lands_in(&repositories::PYTHON);
}

#[test]
fn change_lands_in_a_typescript_repository() {
    lands_in(&repositories::TYPESCRIPT);
}

#[test]
fn change_lands_in_a_go_repository() {
    lands_in(&repositories::GO);
}

#[test]
fn change_lands_in_a_shell_repository() {
    lands_in(&repositories::SHELL);
}

#[test]
fn change_lands_in_a_repository_with_a_makefile() {
    lands(&managers::MAKE, Cli::Claude, User::Current);
}

#[test]
fn change_lands_in_repositories_of_other_package_managers() {
    for (project, program) in [
        (&managers::YARN, "npm"),
        (&managers::PNPM, "npm"),
        (&managers::UV, "python3"),
        (&managers::POETRY, "python3"),
        (&managers::MONOREPO, "npm"),
        (&managers::BUNDLER, "bundle"),
        (&managers::MAVEN, "mvn"),
        (&managers::GRADLE, "gradle"),
    ] {
        lands_with(project, program);
    }
}

/// The tests may run as root, but users do not.
#[test]
fn change_lands_for_an_ordinary_user() {
    let mut user_id = Command::new("id");
    user_id.arg("-u").env("PATH", "/usr/bin:/bin");
    let user_id = Ran::from(User::Ordinary.command_as(user_id).output().unwrap()).expect_code(0);
    assert_eq!(user_id.out, "1000\n");
    lands(&repositories::PYTHON, Cli::Claude, User::Ordinary);
}
