//! The fleet of docs/guides/serve.md with a scripted agent, for guides that build on it.

use bailiwick_testkit::forge::StandIn;

use super::guide::Guide;
use super::place::Place;
use super::shell::Shell;

pub(crate) const WEBHOOK_SECRET: &str = "the-webhook-secret";

/// A place with a declared fleet, and its forge.
pub(crate) struct Fleet {
    pub(crate) place: Place,
    pub(crate) forge: StandIn,
    /// The documents as they were applied.
    pub(crate) documents: String,
}

impl Fleet {
    /// With a stack whose agent waits until it is cancelled.
    pub(crate) fn declare() -> Self {
        Self::declare_with_script("[{ do: wait, milliseconds: 600000 }]")
    }

    /// With a stack whose agent runs this script.
    pub(crate) fn declare_with_script(script: &str) -> Self {
        let place = Place::new();
        let forge = StandIn::gitea("acme/app");
        forge.take(&place.scratch.root(), "main");
        let mut guide = Guide::read("docs/guides/serve.md");
        guide.fill("https://forge.example/api/v1", forge.api_url());
        guide.fill("/srv/app", place.scratch.root().display().to_string());
        let script = format!("baseAgent: script\n  script: {script}");
        guide.fill("baseAgent: claude-code", script);
        // The repository of these tests has no build.
        guide.fill("sh src/build.sh", "test -d src");
        let documents = guide.later_text("yaml");
        let fleet = Self { place, forge, documents };
        fleet.run_with_input("bailiwick secrets set forge token", &fleet.forge.token());
        fleet.run_with_input("bailiwick secrets set webhook key", WEBHOOK_SECRET);
        fleet.run_with_input("bailiwick apply -f -", &fleet.documents);
        fleet
    }

    /// Runs a command with this standard input. It must succeed.
    #[track_caller]
    pub(crate) fn run_with_input(&self, command: &str, input: &str) {
        let file = self.place.scratch.place().join("input");
        std::fs::write(&file, input).unwrap();
        self.place.shell().run(&format!("{command} < {}", file.display())).expect_code(0);
    }

    /// Starts the server, which runs until the shell ends. Returns its address.
    pub(crate) fn serve(&self, shell: &mut Shell) -> String {
        shell.start_background("bailiwick serve --listen 127.0.0.1:0");
        let address = shell.wait_for_background("listening on http://");
        shell.run("bailiwick wait stack/fixer --for condition=Ready").expect_code(0);
        address
    }

    /// Starts a run, and waits until its agent runs.
    pub(crate) fn start_run(&self) -> String {
        let output = self.place.json(&["runs", "start", "app", "fixer", "--task", "Wait."]);
        let run = output["run"].as_str().unwrap().to_owned();
        self.place.wait_for("a running agent", || {
            let found = self.place.json(&["get", "runs", &run]);
            (found["status"]["phase"] == "running").then_some(())
        });
        run
    }
}
