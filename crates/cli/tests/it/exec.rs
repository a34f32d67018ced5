//! An interactive agent: the tests open a terminal and type into it.

#![expect(clippy::string_slice, reason = "a helper of a test fails the test")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_runner::sandbox::Terminal;
use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::BAILIWICK;

/// The timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(300);

const ROWS: NonZero<u16> = NonZero::new(30).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(100).unwrap();

const SHELL: &str = r#"
[adapter]
name = "shell"
program = "sh"
version-arguments = ["-c", "echo shell 1.0"]
help-arguments = ["-c", "echo none"]
[launch]
arguments = ["-c", "{prompt}"]
[gate]
kind = "none"
"#;

/// A role whose shell calls need approvals.
const ROLE_WITH_APPROVALS: &str = r#"
[role]
name = "asking"
description = "asks"
spawnable = true
[capabilities]
required = ["policy::git-read-only", "scope::files-whitelist", "scope::files-denylist"]
[tools]
allowed = ["Read", "Write", "Edit", "Bash"]
ask = ["Bash"]
"#;

pub(crate) fn repository() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write("src/kept.txt", "kept\n");
    scratch.write(".bailiwick/adapters/shell.toml", SHELL);
    scratch.write(".bailiwick/roles/asking.toml", ROLE_WITH_APPROVALS);
    scratch.commit("Begin");
    scratch
}

/// The queries of programs to a terminal, and its responses: the cursor position, the status, the type, and
/// the colours.
const TERMINAL_RESPONSES: [(&str, &str); 5] = [
    ("\x1b[6n", "\x1b[1;1R"),
    ("\x1b[5n", "\x1b[0n"),
    ("\x1b[c", "\x1b[?62;22c"),
    ("\x1b]10;?", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    ("\x1b]11;?", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
];

/// A terminal, and the program that runs in it.
pub(crate) struct Console {
    person: File,
    /// `None` after its end.
    program: Option<OwnedFd>,
    child: Child,
    reader: JoinHandle<()>,
    printed: Arc<Mutex<Vec<u8>>>,
    /// A program draws only the cells that change, so a word may never be printed in one piece.
    screen: Arc<Mutex<vt100::Parser>>,
    before: String,
}

impl Console {
    /// Starts `bailiwick` with these arguments at a terminal that controls it.
    pub(crate) fn start(scratch: &Scratch, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_program(scratch, &[&[BAILIWICK], arguments].concat(), variables)
    }

    /// Starts a program with its arguments at a terminal that controls it.
    pub(crate) fn start_program(
        scratch: &Scratch,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let Terminal { person, program } = Terminal::open().unwrap();
        let before = attributes(&program);
        let stdio = || Stdio::from(program.try_clone().unwrap());
        tcsetwinsize(&person, size(ROWS.get(), COLUMNS.get())).unwrap();
        // The process that started the tests may ignore the signals of the keyboard, and this is inherited.
        let mut command: Command = scratch.command("env");
        command.args(["--default-signal=INT,QUIT,TERM,HUP,TSTP", "setsid", "--ctty", "--wait"]);
        command.args(words).env("TERM", "xterm-256color");
        command.envs(variables.iter().copied()).stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().unwrap();
        let person = File::from(person);
        let mut from = person.try_clone().unwrap();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let output_copy = Arc::clone(&printed);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let screen_copy = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut received = Vec::new();
            // Reading fails when the other side is closed.
            while let Ok(count) = from.read(&mut bytes) {
                output_copy.lock().unwrap().extend_from_slice(&bytes[..count]);
                screen_copy.lock().unwrap().process(&bytes[..count]);
                received.extend_from_slice(&bytes[..count]);
                for response in terminal_responses(&mut received) {
                    let _ = from.write_all(response.as_bytes());
                }
            }
        });
        Self { person, program: Some(program), child, reader, printed, screen, before }
    }

    pub(crate) fn enter(&mut self, text: &str) {
        self.person.write_all(text.as_bytes()).unwrap();
    }

    /// The output so far, without cursor movements.
    pub(crate) fn output(&self) -> String {
        let bytes = self.printed.lock().unwrap().clone();
        plain(&String::from_utf8_lossy(&bytes))
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(text, || self.shows(text));
    }

    /// Whether a text was printed in one piece or is on the screen now.
    fn shows(&self, text: &str) -> bool {
        self.output().contains(text)
            || self.screen.lock().unwrap().screen().contents().contains(text)
    }

    /// Answers a question with a key once it is drawn, and again if there is no reaction.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, key: &str, next: &str) {
        self.wait_for(question);
        let deadline = Instant::now() + TIMEOUT;
        while !self.shows(next) {
            assert!(Instant::now() < deadline, "{next} did not appear: {}", self.output());
            self.wait_for_idle();
            self.enter(key);
            let soon = Instant::now() + Duration::from_secs(20);
            while !self.shows(next) && Instant::now() < soon {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Waits until there was no output for a while.
    fn wait_for_idle(&self) {
        let length = || self.printed.lock().unwrap().len();
        // Some programs print continuously.
        for _ in 0..20 {
            let before = length();
            std::thread::sleep(Duration::from_millis(500));
            if length() == before {
                break;
            }
        }
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !condition() {
            assert!(Instant::now() < deadline, "{what} did not appear: {}", self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the terminal is in raw mode.
    fn is_raw(&self) -> bool {
        let program = self.program.as_ref().unwrap();
        !tcgetattr(program).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Sends the command that ends the program, and confirms it again if there is no reaction.
    #[track_caller]
    pub(crate) fn leave(&mut self, word: &str) -> i32 {
        type_and_send(self, word);
        for _ in 0..4 {
            let soon = Instant::now() + Duration::from_secs(15);
            while self.child.try_wait().unwrap().is_none() && Instant::now() < soon {
                std::thread::sleep(Duration::from_millis(50));
            }
            if self.child.try_wait().unwrap().is_none() {
                self.enter("\r");
            }
        }
        self.end()
    }

    /// Waits for the end and all output. Asserts that the terminal is restored, and returns the exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> i32 {
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it did not end: {}", self.output());
            std::thread::sleep(Duration::from_millis(20));
        };
        let program = self.program.take().unwrap();
        assert_eq!(attributes(&program), self.before, "the terminal is not restored");
        drop(program);
        self.wait_until("the end of the output", || self.reader.is_finished());
        status.code().unwrap_or(-1)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The responses of a terminal to the queries in `received`, which are removed from it.
fn terminal_responses(received: &mut Vec<u8>) -> Vec<&'static str> {
    let mut responses = Vec::new();
    loop {
        let found = |query: &str| {
            received.windows(query.len()).position(|window| window == query.as_bytes())
        };
        let first = TERMINAL_RESPONSES.iter().filter_map(|(query, response)| {
            found(query).map(|start| (start + query.len(), *response))
        });
        let Some((end, response)) = first.min() else { break };
        received.drain(..end);
        responses.push(response);
    }
    // The rest may be the start of a query.
    let rest = received.len().saturating_sub(8);
    received.drain(..rest);
    responses
}

fn attributes(terminal: &OwnedFd) -> String {
    let all = tcgetattr(terminal).unwrap();
    let keys = &all.special_codes;
    format!(
        "{:?} {:?} {:?} {:?} {keys:?}",
        all.input_modes, all.output_modes, all.control_modes, all.local_modes
    )
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// The text without escape sequences. Words may be separated by cursor movements instead of blanks.
fn plain(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, rest.peek()) {
            ('\x1b', Some('[')) => {
                rest.next();
                while rest.next().is_some_and(|next| !('@'..='~').contains(&next)) {}
                if !result.ends_with(' ') {
                    result.push(' ');
                }
            }
            ('\x1b', _) => drop(rest.next()),
            _ => result.push(character),
        }
    }
    result
}

/// The id of the session.
pub(crate) fn session_id(output: &str) -> String {
    let start = output.rfind("bailiwick logs exec-").unwrap_or_else(|| panic!("no id in {output}"));
    output[start + "bailiwick logs ".len()..].chars().take("exec-12345678".len()).collect()
}

const EXEC_SHELL: [&str; 9] =
    ["exec", "--cli", "shell", "--role", "developer", "--files", "src/**", "--", "sh"];

#[test]
fn program_gets_the_terminal_but_no_files_of_the_user() {
    let scratch = repository();
    std::fs::write(scratch.place().join("home/secret"), "of the person").unwrap();
    let mut console = Console::start(&scratch, &EXEC_SHELL, &[]);
    console.enter("stty size; echo begun-$((1+1))\n");
    console.wait_for("begun-2");
    assert!(console.output().contains("30 100"), "{}", console.output());
    assert!(console.is_raw());
    tcsetwinsize(&console.person, size(41, 123)).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while !console.output().contains("41 123") {
        assert!(Instant::now() < deadline, "the size did not arrive: {}", console.output());
        console.enter("stty size\n");
        std::thread::sleep(Duration::from_millis(200));
    }
    // An interrupt stops the command of the shell, but neither the shell nor `bailiwick`.
    console.enter("echo asleep-$((3+3)); sleep 1000\n");
    console.wait_for("asleep-6");
    let deadline = Instant::now() + TIMEOUT;
    // Repeated, because an interrupt between two commands has no effect.
    while !console.output().contains("alive-4") {
        assert!(Instant::now() < deadline, "it was not interrupted: {}", console.output());
        console.enter("\x03");
        console.enter("echo alive-$((2+2))\n");
        std::thread::sleep(Duration::from_millis(300));
    }
    // Nothing could continue a stopped program, so that it must not be able to stop itself.
    console.enter("kill -STOP $$; echo again-$((5+5))\n");
    console.wait_for("again-10");
    let home = scratch.place().join("home/secret").display().to_string();
    console.enter("echo written > src/new.txt; echo x > .git/mark; echo x > /tmp/mark\n");
    console.enter(&format!("cat {home}; echo at-home >> ~/mark && echo wrote-$((4+4))\n"));
    console.wait_for("wrote-8");
    console.enter("exit 7\n");
    assert_eq!(console.end(), 7, "{}", console.output());
    assert_eq!(scratch.read("src/new.txt"), "written\n");
    assert!(!scratch.root().join(".git/mark").exists(), "it wrote to .git");
    assert!(!std::path::Path::new("/tmp/mark").exists(), "it wrote to /tmp of the host");
    assert!(!scratch.place().join("home/mark").exists(), "it can write to the home of the user");
    assert!(!console.output().contains("of the person"), "{}", console.output());
    let logs = scratch.run(BAILIWICK, &["logs", &session_id(&console.output())]).expect_code(0);
    assert!(logs.out.contains("failed it ended with the code 7"), "{}", logs.out);
}

/// On many systems `/etc/profile` overwrites `PATH`, and agents run their commands in login shells.
#[test]
fn login_shells_have_the_path_of_the_user_with_and_without_a_sandbox() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = repository();
    let tools = scratch.place().join("tools of mine");
    std::fs::create_dir(&tools).unwrap();
    let tool = tools.join("own-tool");
    std::fs::write(&tool, "#!/bin/sh\necho found-$((20+1))\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", tools.display());
    for level in ["full", "off"] {
        let options = [&["exec", "--sandbox", level], &EXEC_SHELL[1..]].concat();
        let mut console = Console::start(&scratch, &options, &[("PATH", &path)]);
        console.enter("bash -lc own-tool; sh -lc own-tool; exit 7\n");
        assert_eq!(console.end(), 7, "{}", console.output());
        console.wait_until(level, || console.output().matches("found-21").count() == 2);
    }
}

#[test]
fn stopped_session_restores_the_terminal_and_leaves_no_process() {
    let scratch = repository();
    let mut console = Console::start(&scratch, &EXEC_SHELL, &[]);
    // The number is in no other command line.
    let number = std::process::id() as u64 * 100_000 + 77_777;
    let sleep_count = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| *line == format!("sleep\0{number}\0").as_bytes()).count()
    };
    console.enter(&format!("printf '\\033[?1049h\\033[?25l'; setsid sleep {number} &\n"));
    console.enter("echo begun-$((1+1))\n");
    console.wait_for("begun-2");
    console.wait_until("the sleeper", || sleep_count() == 1);
    assert!(console.is_raw());
    let supervisor = nix::unistd::Pid::from_raw(i32::try_from(console.child.id()).unwrap());
    nix::sys::signal::kill(supervisor, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(console.end(), 1, "{}", console.output());
    assert_eq!(sleep_count(), 0, "a process still runs");
    let printed = String::from_utf8_lossy(&console.printed.lock().unwrap()).into_owned();
    for reset in ["\x1b[?1049l", "\x1b[?25h"] {
        assert!(printed.contains(reset), "{reset:?} is not in {printed:?}");
    }
    assert!(console.output().contains("stopped by SIGTERM"), "{}", console.output());
}

#[test]
fn program_that_cannot_be_gated_is_refused_before_it_starts() {
    let scratch = repository();
    let model = ("ANTHROPIC_API_KEY", "dummy-dummy-dummy");
    let role = ["exec", "--role", "developer", "--"];
    let cases: [(&[&str], &str); 4] = [
        (&["claude", "--settings", "mine.json"], "--settings"),
        (&["claude", "--bare"], "it would not ask the gate"),
        (&["codex", "-c", "features.hooks=false"], "codex cannot be given `-c`"),
        (&["vi"], "`vi` is not a known agent program"),
    ];
    for (arguments, expected) in cases {
        let mut console = Console::start(&scratch, &[&role, arguments].concat(), &[model]);
        assert_eq!(console.end(), 2, "{arguments:?}: {}", console.output());
        let text = console.output().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    let ran: Ran = scratch.run(BAILIWICK, &[&role[..], &["claude"]].concat()).expect_code(2);
    assert!(ran.err.contains("exec needs a terminal"), "{}", ran.err);
    assert!(!scratch.state().join("runs").exists(), "a run was created");
}

#[test]
fn task_of_an_issue_is_refused_at_a_terminal() {
    let scratch = repository();
    let task = |issue: &str| {
        format!(
            "[task]\nrole = \"developer\"\nagent-id = \"one\"\n{issue}[scope]\nfiles-whitelist = [\"src/**\"]\n\
             files-denylist = []\n[verification]\ncommands = [\"true\"]\n[body]\ntext = \"Do it.\"\n"
        )
    };
    scratch.write("bound.toml", &task("issue = \"#1\"\n"));
    scratch.write("free.toml", &task(""));
    for (file, expected) in [
        ("bound.toml", "records no result on #1, which its task names"),
        // The control: the same task without an issue comes further.
        ("free.toml", "`vi` is not a known agent program"),
    ] {
        let mut console = Console::start(&scratch, &["exec", "--task", file, "--", "vi"], &[]);
        assert_eq!(console.end(), 2, "{file}: {}", console.output());
        let text = console.output().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{file}: {text}");
        assert_eq!(text.contains("start the task with `bailiwick run`"), file == "bound.toml");
    }
    assert!(!scratch.state().join("runs").exists(), "a run was created");
}

/// Claude Code at a terminal, with a scripted model behind the proxy.
fn claude(scratch: &Scratch, model: &ScriptedModel, role: &str) -> Console {
    let program = Cli::Claude.program().display().to_string();
    let url = model.base_url();
    let variables =
        [("ANTHROPIC_BASE_URL", url.as_str()), ("ANTHROPIC_API_KEY", "sk-of-the-person-1234")];
    let role = ["exec", "--role", role, "--files", "src/**", "--", &program];
    let claude_arguments = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
    let console = Console::start(scratch, &[&role[..], &claude_arguments].concat(), &variables);
    console.wait_for("for agents");
    console
}

/// Types a prompt, and sends it once it is shown. A key that arrives together with a text is taken as part of
/// it.
fn type_and_send(console: &mut Console, text: &str) {
    console.enter(text);
    console.wait_for(text);
    std::thread::sleep(Duration::from_millis(500));
    console.enter("\r");
}

/// Types and sends a prompt, and confirms it again if a busy machine took the key for a line break.
#[track_caller]
pub(crate) fn say_to_model(console: &mut Console, model: &ScriptedModel, text: &str) {
    type_and_send(console, text);
    let is_received =
        || model.requests().iter().any(|request| request.body.to_string().contains(text));
    let deadline = Instant::now() + TIMEOUT;
    while !is_received() {
        assert!(Instant::now() < deadline, "{text} was not received: {}", console.output());
        let soon = Instant::now() + Duration::from_secs(15);
        while !is_received() && Instant::now() < soon {
            std::thread::sleep(Duration::from_millis(50));
        }
        if !is_received() {
            console.enter("\r");
        }
    }
}

#[test]
fn interactive_claude_code_is_gated() {
    let scratch = repository();
    let remote = scratch.place().join("remote.git").display().to_string();
    scratch.git(&["init", "--quiet", "--bare", &remote]);
    scratch.git(&["remote", "add", "origin", &remote]);
    let root = scratch.root().canonicalize().unwrap().display().to_string();
    let turns = vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::Calls(vec![Call::write(format!("{root}/src/inside.txt"), "inside\n")]),
        Turn::Calls(vec![Call::write(format!("{root}/outside.txt"), "outside\n")]),
        Turn::say("All is finished."),
    ];
    let model = ScriptedModel::start(Script::new(turns));
    let mut console = claude(&scratch, &model, "developer");
    say_to_model(&mut console, &model, "Do the work.");
    console.wait_for("finished.");
    assert_eq!(console.leave("/exit"), 0, "{}", console.output());
    let results = model.results();
    assert_eq!(scratch.git(&["ls-remote", "origin"]), "", "it pushed: {results:#?}");
    assert_eq!(scratch.read("src/inside.txt"), "inside\n");
    assert!(!scratch.root().join("outside.txt").exists(), "{results:#?}");
    assert!(model.result("call_0_0_0").contains("policy::git-read-only"), "{results:#?}");
    assert!(model.result("call_0_2_0").contains("scope::files-whitelist"), "{results:#?}");
    let keys = model.requests().into_iter().flat_map(|request| request.headers);
    let keys: Vec<String> =
        keys.filter(|(name, _)| name == "x-api-key").map(|(_, value)| value).collect();
    assert!(keys.iter().all(|key| key == "sk-of-the-person-1234") && !keys.is_empty());
    let text = console.output();
    assert!(text.contains("2 of 3 tool calls were denied"), "{text}");
    let logs = scratch.run(BAILIWICK, &["logs", &session_id(&text)]).expect_code(0).out;
    for line in ["denies Bash git push", "allows Write", "completed the person has left it"] {
        assert!(logs.contains(line), "{line} is not in {logs}");
    }
    assert!(!logs.contains("sk-of-the-person"), "{logs}");
    let log = scratch.state().join("runs").join(session_id(&text)).join("decisions.jsonl");
    let log = log.display().to_string();
    let replayed = scratch.run(BAILIWICK, &["replay", &log, "-o", "json"]).expect_code(0);
    let replayed: serde_json::Value = serde_json::from_str(&replayed.out).unwrap();
    assert_eq!((&replayed["decisions"], &replayed["changed"]), (&3.into(), &0.into()));
}

#[test]
fn call_waits_for_an_approval_from_another_terminal() {
    let scratch = repository();
    let turns = vec![
        Turn::Calls(vec![Call::shell("echo approved > src/approved.txt")]),
        Turn::Calls(vec![Call::shell("echo refused > src/refused.txt")]),
        Turn::say("All is finished."),
    ];
    let model = ScriptedModel::start(Script::new(turns));
    let mut console = claude(&scratch, &model, "asking");
    say_to_model(&mut console, &model, "Do the work.");
    for (number, verb) in [("1", "approve"), ("2", "deny")] {
        let agent_with_question = || {
            let listed = scratch.run(BAILIWICK, &["approvals", "list", "-o", "json"]);
            let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
            let first = listed.pointer("/0").cloned()?;
            (first["question"] == number).then(|| first["agent_id"].as_str().unwrap().to_owned())
        };
        console.wait_until("a pending approval", || agent_with_question().is_some());
        scratch
            .run(BAILIWICK, &["approvals", verb, &agent_with_question().unwrap(), number])
            .expect_code(0);
    }
    console.wait_for("finished.");
    assert_eq!(console.leave("/exit"), 0, "{}", console.output());
    assert_eq!(scratch.read("src/approved.txt"), "approved\n");
    assert!(!scratch.root().join("src/refused.txt").exists());
}

#[test]
fn broken_check_is_reported_between_calls() {
    let scratch = repository();
    let check = "! ls src/one.txt src/two.txt || { echo seen-by-the-check; exit 3; }";
    crate::checks_between_calls::capability(&scratch, "per-tool-call", check);
    let role = ROLE_WITH_APPROVALS.replace("asking", "checked").replace("ask = [\"Bash\"]\n", "");
    let role =
        role.replace("\"scope::files-denylist\"", "\"scope::files-denylist\", \"quality::own\"");
    scratch.write(".bailiwick/roles/checked.toml", &role);
    scratch.commit("A check");
    // Earlier changes of the user do not count as the agent's.
    scratch.write("src/one.txt", "of the person\n");
    let turns = vec![
        Turn::Calls(vec![Call::shell("echo 2 > src/two.txt")]),
        Turn::Calls(vec![Call::shell("echo early > src/early.txt")]),
        Turn::Calls(vec![Call::shell("rm src/two.txt")]),
        Turn::Calls(vec![Call::shell("echo late > src/late.txt")]),
        Turn::say("All is finished."),
    ];
    let model = ScriptedModel::start(Script::new(turns));
    let mut console = claude(&scratch, &model, "checked");
    say_to_model(&mut console, &model, "Do the work.");
    console.wait_for("finished.");
    assert_eq!(console.leave("/exit"), 0, "{}", console.output());
    let results = model.results();
    assert!(model.result("call_0_1_0").contains("seen-by-the-check"), "{results:#?}");
    assert!(!scratch.root().join("src/early.txt").exists(), "{results:#?}");
    assert_eq!(scratch.read("src/late.txt"), "late\n");
    let logs = scratch.run(BAILIWICK, &["logs", &session_id(&console.output())]).expect_code(0).out;
    assert_eq!(logs.matches("fail quality::own").count(), 1, "{logs}");
}
