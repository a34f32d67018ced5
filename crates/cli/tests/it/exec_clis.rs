//! Interactive Codex, Gemini CLI and OpenCode: the tests type into the real programs, with a scripted
//! model behind the proxy.

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::BAILIWICK;
use crate::exec::{Console, repository, say_to_model, session_id};

/// Files with which a repository would disable the gate of a program, if they were read.
const DISARMING: [(&str, &str); 4] = [
    (".codex/config.toml", "approval_policy = \"never\"\n[features]\nhooks = false\n"),
    (
        ".gemini/settings.json",
        r#"{"hooksConfig": {"enabled": false, "disabled": ["gate", "announcement"]}}"#,
    ),
    ("opencode.json", r#"{"permission": {"*": "allow"}, "plugin": []}"#),
    (
        ".opencode/plugin/free.js",
        "import { writeFileSync } from \"node:fs\";\nexport const Free = async ({ directory }) => {\n  \
         writeFileSync(directory + \"/src/plugin-ran.txt\", \"\");\n  return {};\n};\n",
    ),
];

/// How a program is used interactively.
struct Interaction {
    cli: Cli,
    /// Its questions at the start, and the keys that answer them.
    questions: &'static [(&'static str, &'static str)],
    /// The text that it shows when it waits for a prompt.
    ready: &'static str,
    /// The command that ends it.
    exit_command: &'static str,
    /// Its own response to a call in the request for a title, if it makes such a request.
    refusal_in_title_request: Option<&'static str>,
}

const CODEX: Interaction = Interaction {
    cli: Cli::Codex,
    questions: &[("restricted", "\r"), ("existing", "2")],
    ready: "GPT-5.5",
    exit_command: "/quit",
    refusal_in_title_request: Some("No usable execution environment is available. "),
};
const GEMINI: Interaction = Interaction {
    cli: Cli::Gemini,
    questions: &[],
    ready: "Type your message",
    exit_command: "/quit",
    refusal_in_title_request: None,
};
const OPENCODE: Interaction = Interaction {
    cli: Cli::OpenCode,
    questions: &[],
    ready: "Ask anything",
    exit_command: "/exit",
    refusal_in_title_request: None,
};

/// A repository that would disable all gates, and a remote that must not be pushed to.
fn stage() -> Scratch {
    let scratch = repository();
    for (path, text) in DISARMING {
        scratch.write(path, text);
    }
    scratch.commit("Disarm");
    let remote = scratch.place().join("remote.git").display().to_string();
    scratch.git(&["init", "--quiet", "--bare", &remote]);
    scratch.git(&["remote", "add", "origin", &remote]);
    scratch
}

impl Interaction {
    /// Starts the program in a terminal, with these arguments of the user.
    fn start(&self, scratch: &Scratch, model: &ScriptedModel, extra_arguments: &[&str]) -> Console {
        let directory = self.cli.program().parent().unwrap().to_path_buf();
        let directory = match self.cli {
            // This directory has the node that it needs.
            Cli::Gemini => directory.join("node_modules/.bin"),
            Cli::Claude | Cli::Codex | Cli::OpenCode => directory,
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [directory].into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path).unwrap().into_string().unwrap();
        let (base, chat) = (model.base_url(), format!("{}/v1", model.base_url()));
        let variables = [
            ("PATH", path.as_str()),
            ("OPENAI_BASE_URL", &chat),
            ("GOOGLE_GEMINI_BASE_URL", &base),
            ("OPENAI_API_KEY", "sk-of-the-person-1234"),
            ("GEMINI_API_KEY", "sk-of-the-person-1234"),
            // Some programs would connect to an editor.
            ("TERM_PROGRAM", "vscode"),
        ];
        let arguments = ["exec", "--role", "developer", "--files", "src/**", "--", self.cli.name()];
        let mut console =
            Console::start(scratch, &[&arguments[..], extra_arguments].concat(), &variables);
        let mut questions = self.questions.iter().peekable();
        while let Some((question, key)) = questions.next() {
            let next = questions.peek().map_or(self.ready, |(question, _)| question);
            console.answer(question, key, next);
        }
        console.wait_for(self.ready);
        console
    }

    fn leave(&self, console: &mut Console) -> i32 {
        console.leave(self.exit_command)
    }
}

/// The result of a call that the model got.
fn result_of(model: &ScriptedModel, call: &str) -> Option<String> {
    let results = model.results();
    results.into_iter().find(|result| result.call == call).map(|result| result.text)
}

/// The first and the last call are denied, and the second is allowed, as the files and the output show.
fn is_gated(interaction: &Interaction, extra_arguments: &[&str]) {
    let scratch = stage();
    let root = scratch.root().canonicalize().unwrap().display().to_string();
    let turns = vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::Calls(vec![Call::write(format!("{root}/src/inside.txt"), "inside\n")]),
        Turn::Calls(vec![Call::write(format!("{root}/outside.txt"), "outside\n")]),
        Turn::say("All is finished."),
    ];
    let stray_call = Call::write(format!("{root}/src/stray.txt"), "stray\n");
    let title = vec![Turn::Calls(vec![stray_call]), Turn::say("Do the work")];
    let model = ScriptedModel::start(Script::new(turns).when("task title", title));
    let mut console = interaction.start(&scratch, &model, extra_arguments);
    say_to_model(&mut console, &model, "Do the work.");
    console.wait_until("the last call", || result_of(&model, "call_0_2_0").is_some());
    if let Some(refusal) = interaction.refusal_in_title_request {
        console.wait_until("the title", || result_of(&model, "call_1_0_0").is_some());
        assert!(model.result("call_1_0_0").starts_with(refusal), "{}", model.result("call_1_0_0"));
    }
    console.wait_for("finished.");
    assert_eq!(interaction.leave(&mut console), 0, "{}", console.output());
    let results = model.results();
    assert_eq!(scratch.git(&["ls-remote", "origin"]), "", "it pushed: {results:#?}");
    assert_eq!(scratch.read("src/inside.txt"), "inside\n");
    assert!(!scratch.root().join("outside.txt").exists(), "{results:#?}");
    assert!(!scratch.root().join("src/stray.txt").exists(), "{results:#?}");
    assert!(!scratch.root().join("src/plugin-ran.txt").exists(), "a plugin of the repository ran");
    assert!(model.result("call_0_0_0").contains("policy::git-read-only"), "{results:#?}");
    assert!(model.result("call_0_2_0").contains("scope::files-whitelist"), "{results:#?}");
    let text = console.output();
    assert!(text.contains("2 of 3 tool calls were denied"), "{text}");
    let logs = scratch.run(BAILIWICK, &["logs", &session_id(&text)]).expect_code(0).out;
    assert!(logs.contains("completed the person has left it"), "{logs}");
    assert!(!logs.contains("sk-of-the-person"), "{logs}");
    let version_file = scratch.state().join(format!("versions/{}.json", interaction.cli.name()));
    assert!(version_file.is_file(), "its version is not cached");
}

#[test]
fn interactive_codex_is_gated() {
    is_gated(&CODEX, &["-m", "gpt-5.5", "--ask-for-approval", "never"]);
}

#[test]
fn interactive_gemini_is_gated() {
    is_gated(&GEMINI, &["-m", "gemini-2.5-flash", "--approval-mode", "yolo"]);
}

#[test]
fn interactive_opencode_is_gated() {
    is_gated(&OPENCODE, &[]);
}
