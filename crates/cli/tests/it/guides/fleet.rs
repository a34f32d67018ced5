//! The fleet of docs/guides/serve.md with an agent that needs no model, for guides that build on it.

use bailiwick_testkit::forge::StandIn;

use super::guide::Guide;
use super::place::Place;
use super::shell::Shell;

pub(crate) const WEBHOOK_SECRET: &str = "the-webhook-secret";

/// A place whose fleet is declared, and its forge.
pub(crate) struct Fleet {
    pub(crate) place: Place,
    pub(crate) forge: StandIn,
    /// The documents as they were applied.
    pub(crate) documents: String,
}

impl Fleet {
    /// Its stack plays a script that waits until somebody ends it.
    pub(crate) fn declared() -> Self {
        Self::declared_with("[{ do: wait, milliseconds: 600000 }]")
    }

    /// The same with another script.
    pub(crate) fn declared_with(script: &str) -> Self {
        let place = Place::new();
        let forge = StandIn::gitea("acme/app");
        forge.take(&place.scratch.root(), "main");
        let mut guide = Guide::read("docs/guides/serve.md");
        guide.fill("https://forge.example/api/v1", forge.api_url());
        guide.fill("/srv/app", place.scratch.root().display().to_string());
        let script = format!("baseAgent: script\n  script: {script}");
        guide.fill("baseAgent: claude-code", script);
        // The repository of these scenes has no build.
        guide.fill("sh src/build.sh", "test -d src");
        let documents = guide.later_text("yaml");
        let fleet = Self { place, forge, documents };
        fleet.given("bailiwick secrets set forge token", &fleet.forge.token());
        fleet.given("bailiwick secrets set webhook key", WEBHOOK_SECRET);
        fleet.given("bailiwick apply -f -", &fleet.documents);
        fleet
    }

    /// Runs a command with a text on its standard input; it must succeed.
    #[track_caller]
    pub(crate) fn given(&self, command: &str, input: &str) {
        let file = self.place.scratch.place().join("input");
        std::fs::write(&file, input).unwrap();
        self.place.shell().run(&format!("{command} < {}", file.display())).expect_code(0);
    }

    /// Serves it until the shell ends; gives where.
    pub(crate) fn serve(&self, shell: &mut Shell) -> String {
        shell.start_background("bailiwick serve --listen 127.0.0.1:0");
        let address = shell.wait_for_background("listening on http://");
        shell.run("bailiwick wait stack/fixer --for condition=Ready").expect_code(0);
        address
    }

    /// A run that a person starts, once its agent is at work.
    pub(crate) fn running(&self) -> String {
        let said = self.place.json(&["runs", "start", "app", "fixer", "--task", "Wait."]);
        let run = said["run"].as_str().unwrap().to_owned();
        self.place.until("a run at work", || {
            let found = self.place.json(&["get", "runs", &run]);
            (found["status"]["phase"] == "running").then_some(())
        });
        run
    }
}
