//! Real agent programs in the sandbox of an agent: they start, and reach a model through the supervisor's listener.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bailiwick_runner::process::{self, Capture, Limits};
use bailiwick_runner::sandbox::{Bind, Received, Report, Streams, Terminal};
use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use bailiwick_verify::job::Termination;

use crate::agent_fixture::AgentFixture;
use crate::lab::launcher;
use crate::sandbox_agent_processes::Person;

/// The directory in which a CLI is installed.
pub(crate) fn installed(cli: Cli) -> PathBuf {
    let (program, name) = (cli.program(), format!("{}-{}", cli.name(), cli.version()));
    let place = program.ancestors().find(|place| place.ends_with(&name)).unwrap();
    fs::canonicalize(place).unwrap()
}

fn fixture_for(cli: Cli) -> AgentFixture {
    let mut fixture = AgentFixture::new();
    fixture.places.programs.push(Bind::same(installed(cli)));
    fixture
}

fn argv(cli: Cli, arguments: &[&str]) -> Vec<String> {
    let program = cli.program().display().to_string();
    [program.as_str()].iter().chain(arguments).map(|one| (*one).to_owned()).collect()
}

#[test]
fn every_agent_program_starts() {
    for cli in Cli::ALL {
        let fixture = fixture_for(cli);
        let limits = Limits { time: Duration::from_mins(3), output: 1 << 20 };
        let argv = argv(cli, &["--version"]);
        let finished =
            process::run(&launcher(), &fixture.sandbox(), &argv, Capture::Separate, limits);
        let finished = finished.unwrap();
        let printed = String::from_utf8_lossy(&finished.output).into_owned();
        let errors = String::from_utf8_lossy(&finished.tail).into_owned();
        assert_eq!(finished.ended, Termination::Exit(0), "{cli:?}: {printed} {errors}");
        assert!(printed.contains(cli.version()), "{cli:?}: {printed} {errors}");
    }
}

/// Forwards every connection of this listener to the model, in both directions, until it is closed.
fn pass_on(listener: TcpListener, model: String) {
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let (Ok(caller), Ok(model)) = (caller, TcpStream::connect(&model)) else { return };
            let both = (caller.try_clone().unwrap(), model.try_clone().unwrap());
            for (mut from, mut to) in [(caller, model), (both.1, both.0)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
}

/// One turn of a CLI in a sandbox: the model asks for a shell command and gets its result.
fn turn(cli: Cli, command: &str) -> (AgentFixture, ScriptedModel) {
    let calls = vec![Turn::Calls(vec![Call::shell(command)]), Turn::say("finished")];
    let model = ScriptedModel::start(Script::new(calls));
    let mut fixture = fixture_for(cli);
    let mut run = CliRun::new(cli, &model, &fixture.places.worktree);
    if cli == Cli::Claude {
        run = run.argument("--allowedTools").argument("Bash");
    }
    let run = run.prepare();
    let address = model.base_url().trim_start_matches("http://").to_owned();
    // The port of the model on the host: the address that the CLI was given is valid inside too.
    fixture.places.listener_port = address.rsplit(':').next().unwrap().parse().ok();
    fixture.places.home = fs::canonicalize(run.home()).unwrap();
    fixture.places.environment = run.variables();
    let arguments = run.arguments("Do it.");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (log, errors) = (fixture.place().join("log"), fixture.place().join("errors"));
    let mut running = launcher()
        .start(
            &fixture.sandbox(),
            &argv(cli, &arguments),
            Stdio::from(fs::File::create(&log).unwrap()),
            Stdio::from(fs::File::create(&errors).unwrap()),
        )
        .unwrap();
    pass_on(running.take_listener(Duration::from_secs(60)).unwrap(), address);
    let output = || {
        format!(
            "{cli:?}: {}",
            [&log, &errors].map(|file| fs::read_to_string(file).unwrap()).join("\n")
        )
    };
    loop {
        match running.next_report(Duration::from_secs(180)) {
            Received::Report(Report::Confinement(_)) => {}
            Received::Report(ended) => {
                assert_eq!(ended, Report::Exit(0), "{}", output());
                return (fixture, model);
            }
            other @ (Received::TimedOut | Received::Closed) => panic!("{other:?}: {}", output()),
        }
    }
}

#[test]
fn agents_take_a_turn_through_the_listener() {
    for cli in Cli::ALL {
        let (fixture, model) = turn(cli, "echo made > made.txt; echo x > ~/../outside; id -u");
        let created = fs::read_to_string(fixture.places.worktree.join("made.txt"));
        assert_eq!(created.ok().as_deref(), Some("made\n"), "{cli:?}: {:?}", model.results());
        assert!(!fixture.places.home.join("../outside").exists());
        let user = nix::unistd::geteuid().as_raw().to_string();
        let result = model.result("call_0_0_0");
        assert!(result.contains(&user), "{cli:?}: {result}");
    }
}

/// A Landlock domain forbids mounts, and the filter forbids namespaces, so Codex's sandbox must be off.
#[test]
fn codex_sandbox_does_not_start_in_ours() {
    let fixture = fixture_for(Cli::Codex);
    let codex_sandbox = format!("TMPDIR=$HOME/own {} sandbox --", Cli::Codex.program().display());
    let line = format!("mkdir -p ~/own && {codex_sandbox} /bin/echo \"it\" \"runs\"");
    let finished = fixture.shell(&line);
    let output = String::from_utf8_lossy(&finished.tail).into_owned();
    assert_ne!(finished.ended, Termination::Exit(0), "{output}");
    assert!(!output.contains("it runs"), "{output}");
    assert!(output.contains("bwrap") && output.contains("namespace"), "{output}");
    let outside_run = fixture.run_outside(&line);
    assert!(String::from_utf8_lossy(&outside_run.stdout).contains("it runs"), "{outside_run:?}");
}

#[test]
fn agent_draws_at_its_terminal_and_receives_what_is_typed() {
    let mut fixture = fixture_for(Cli::Claude);
    let dummy = [("TERM", "xterm-256color"), ("ANTHROPIC_API_KEY", "dummy")];
    let quiet = [("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")];
    let all =
        dummy.into_iter().chain(quiet).chain([("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000")]);
    fixture.places.environment =
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    fixture.places.listener_port = Some(4000);
    // Otherwise it contacts its vendor first.
    let configuration = r#"{"hasCompletedOnboarding": true, "theme": "dark"}"#;
    fs::write(fixture.places.home.join(".claude.json"), configuration).unwrap();
    let Terminal { person, program } = Terminal::open().unwrap();
    let mut person = Person::at(person);
    let streams = Streams::at(program).unwrap();
    let mut running =
        launcher().start_with(&fixture.sandbox(), &argv(Cli::Claude, &[]), streams).unwrap();
    // Its first question is whether it may work here; Escape answers no.
    person.sees("cancel");
    person.types("\x1b");
    assert!(matches!(
        running.next_report(Duration::from_secs(60)),
        Received::Report(Report::Listener(4000))
    ));
    assert!(matches!(
        running.next_report(Duration::from_secs(60)),
        Received::Report(Report::Confinement(_))
    ));
    let report = running.next_report(Duration::from_secs(60));
    assert!(matches!(report, Received::Report(Report::Exit(_))), "{report:?}: {}", person.output);
}
