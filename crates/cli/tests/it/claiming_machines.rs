//! Several machines, each with its own database, start a run on the same paths at once: one run starts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::forge::StandIn;
use bailiwick_testkit::gitea_server::GiteaServer;
use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use crate::BAILIWICK;

/// Where the claims are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claims {
    /// On a reference of this repository.
    Local,
    /// On a reference of the forge.
    Reference,
    /// In comments on the forge, whose token may write no references; comments appear late.
    Comments,
}

pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    pub(crate) forge: StandIn,
    pub(crate) issue: String,
    /// The state of a machine that has not run anything yet.
    template: PathBuf,
}

impl Place {
    pub(crate) fn new(claims: Claims) -> Self {
        let scratch = Scratch::repository();
        scratch.write("src/kept.txt", "kept\n");
        scratch.write(".bailiwick/settings.toml", "[claims]\n");
        scratch.commit("Begin");
        let forge = StandIn::gitea("acme/app");
        forge.take(&scratch.root(), "main");
        forge.permit(forge.account(), "write");
        let template = scratch.place().join("template");
        std::fs::create_dir_all(&template).unwrap();
        let place = Self { scratch, forge, issue: String::new(), template };
        let issue = match claims {
            Claims::Local => {
                let created = place.on(&place.template, &["memory", "new", "Parser"]);
                created.expect_code(0);
                "#1".to_owned()
            }
            Claims::Reference | Claims::Comments => {
                let issue = place.forge.add_issue("Parser", "Please.");
                let claims_issue = (claims == Claims::Comments).then(|| {
                    place.forge.show_comments_late(Duration::from_millis(900));
                    place.forge.revoke_scope("write:repository");
                    place.forge.add_issue("Claims of runs", "")
                });
                let (url, token) = (place.forge.api_url(), place.forge.token());
                place.declare("acme/app", &url, &token, claims_issue);
                format!("acme/app#{issue}")
            }
        };
        place.on(&place.template, &["memory", "budget", &issue, "1000"]).expect_code(0);
        Self { issue, ..place }
    }

    /// On a real Gitea, with a new account and repository. Where the claims are comments, its token may write
    /// no references.
    pub(crate) fn on_a_real_gitea(claims: Claims) -> Self {
        let server = GiteaServer::from_environment();
        let scratch = Scratch::repository();
        scratch.write("src/kept.txt", "kept\n");
        scratch.write(".bailiwick/settings.toml", "[claims]\n");
        scratch.commit("Begin");
        let tag = GiteaServer::unique_name();
        let (org, bot) = (format!("org-{tag}"), format!("bot-{tag}"));
        server.account(&bot);
        server.admin("POST", "/orgs", &json!({ "username": org }));
        let repository = json!({ "name": "app", "auto_init": true, "default_branch": "main" });
        server.admin("POST", &format!("/orgs/{org}/repos"), &repository);
        let full_name = format!("{org}/app");
        let path = format!("/repos/{full_name}/collaborators/{bot}");
        server.admin("PUT", &path, &json!({ "permission": "write" }));
        let open = |title: &str| {
            let path = format!("/repos/{full_name}/issues");
            let opened = server.admin("POST", &path, &json!({ "title": title, "body": "" }));
            opened["number"].as_u64().unwrap()
        };
        let issue = open("Parser");
        let claims_issue = (claims == Claims::Comments).then(|| open("Claims of runs"));
        let for_code = if claims_issue.is_some() { "read:repository" } else { "write:repository" };
        let token = server.token(&bot, "machines", &[for_code, "write:issue", "read:user"]);
        let template = scratch.place().join("template");
        std::fs::create_dir_all(&template).unwrap();
        let forge = StandIn::gitea("acme/app");
        let issue = format!("{full_name}#{issue}");
        let place = Self { scratch, forge, issue, template };
        place.declare(&full_name, &server.api_url(), &token, claims_issue);
        place.on(&place.template, &["memory", "budget", &place.issue, "1000"]).expect_code(0);
        place
    }

    fn declare(&self, full_name: &str, api_url: &str, token: &str, claims_issue: Option<u64>) {
        let mut repository = json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "Repository",
            "metadata": { "name": "app" },
            "spec": {
                "fullName": full_name, "forge": "gitea", "apiUrl": api_url,
                "checkout": self.scratch.root(),
                "credentialRef": { "name": "forge", "key": "token" },
            },
        });
        if let Some(number) = claims_issue {
            repository["spec"]["claimsIssue"] = json!(number);
        }
        self.run_with_input(&["secrets", "set", "forge", "token"], token);
        self.run_with_input(&["apply", "-f", "-"], &repository.to_string());
    }

    fn run_with_input(&self, arguments: &[&str], input: &str) {
        let mut command = self.scratch.command(BAILIWICK);
        command.env("BAILIWICK_STATE", &self.template).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::from(child.wait_with_output().unwrap()).expect_code(0);
    }

    pub(crate) fn on(&self, state: &Path, arguments: &[&str]) -> Ran {
        Ran::from(self.command(state, arguments).output().unwrap())
    }

    /// A command on the machine with this state.
    pub(crate) fn command(&self, state: &Path, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(BAILIWICK);
        command.env("BAILIWICK_STATE", state).args(arguments);
        command
    }

    fn task(&self, id: &str) {
        self.task_with(id, "", "test -d src", "");
    }

    /// A task whose agent writes a file, and then runs more steps.
    pub(crate) fn task_with(&self, id: &str, header: &str, check: &str, steps: &str) {
        let text = format!(
            "[task]\nrole = \"developer\"\nagent-id = \"{id}\"\n{header}[scope]\nfiles-whitelist = [\"src/**\"]\n\
             files-denylist = []\n[verification]\ncommands = [\"{check}\"]\n[body]\ntext = \"Do it.\"\n[agent]\n\
             cli = \"script\"\nallowed-subagents = [\"reviewer\"]\n[[agent.script]]\ndo = \"write\"\n\
             path = \"src/{id}.txt\"\ntext = \"made\\n\"\n{steps}"
        );
        self.scratch.write(&format!("{id}.toml"), &text);
    }

    /// A machine whose database has only the declared objects.
    pub(crate) fn machine(&self, name: &str) -> PathBuf {
        let state = self.scratch.place().join("machines").join(name);
        copy_directory(&self.template, &state);
        state
    }

    /// Starts a run that is bound to the issue.
    pub(crate) fn start(&self, state: &Path, id: &str) -> Child {
        let arguments = ["run", &format!("{id}.toml"), "--issue", &self.issue];
        let mut command = self.command(state, &arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let into = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &into);
        } else {
            std::fs::copy(entry.path(), into).unwrap();
        }
    }
}

/// Starts a run on each machine at once. Returns the one that started; the others are refused.
fn start_on_machines_at_once(place: &Place, machines: usize) -> String {
    let ids: Vec<String> = (0..machines).map(|number| format!("m{machines}-{number}")).collect();
    ids.iter().for_each(|id| place.task(id));
    place.scratch.commit("Add tasks");
    let states: Vec<PathBuf> = ids.iter().map(|id| place.machine(id)).collect();
    let started: Vec<Child> =
        ids.iter().zip(&states).map(|(id, state)| place.start(state, id)).collect();
    let ended = started.into_iter().map(|child| Ran::from(child.wait_with_output().unwrap()));
    let mut winners = Vec::new();
    for (id, ran) in ids.into_iter().zip(ended) {
        if ran.code == 0 {
            winners.push(id);
        } else {
            assert_eq!(ran.code, 2, "{}", ran.err);
            assert!(ran.err.contains("has file src/**"), "{}", ran.err);
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    winners.remove(0)
}

fn claims_have_one_winner(claims: Claims) {
    let rounds: &[usize] = match Depth::from_env() {
        Depth::Ci => &[2, 8],
        Depth::Full => &[2, 8, 64],
    };
    let place = Place::new(claims);
    for &machines in rounds {
        let winner = start_on_machines_at_once(&place, machines);
        let state = place.scratch.place().join("machines").join(&winner);
        if claims == Claims::Local || machines > 2 {
            // It lands with its fence, and releases its claim.
            place.on(&state, &["land", &winner]).expect_code(0);
        } else {
            // After its lease has expired, another machine claims the paths: the old fence cannot land.
            place.forge.advance_clock(Duration::from_secs(5 * 60 * 60));
            place.task("next");
            place.scratch.commit("Add the next task");
            let other = place.machine("next");
            let ran = place.start(&other, "next").wait_with_output().unwrap();
            Ran::from(ran).expect_code(0);
            let refused = place.on(&state, &["land", &winner]).expect_code(2);
            assert!(refused.err.contains("has taken its paths since"), "{}", refused.err);
            place.on(&other, &["land", "next"]).expect_code(0);
        }
    }
    if claims == Claims::Comments {
        let shown = place.on(&place.template, &["memory", "show", "acme/app#2", "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown.expect_code(0).out).unwrap();
        assert_eq!(shown["problems"], json!([]), "{shown:#}");
        let comments = place.forge.comments(2);
        for heading in ["## 🔒 Task Claim\n", "## 🔓 Task Claim Release\n"] {
            assert!(comments.iter().any(|comment| comment.starts_with(heading)), "{comments:?}");
        }
    }
}

#[test]
fn machines_exclude_each_other_in_one_repository() {
    claims_have_one_winner(Claims::Local);
}

#[test]
fn machines_exclude_each_other_by_a_reference_of_the_forge() {
    claims_have_one_winner(Claims::Reference);
}

#[test]
fn machines_without_references_exclude_each_other_by_comments() {
    claims_have_one_winner(Claims::Comments);
}

/// `GITEA_URL=http://127.0.0.1:3000 GITEA_ADMIN=NAME:PASSWORD cargo test -p bailiwick-cli --test it real_gitea --
/// --ignored --nocapture`
#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn machines_exclude_each_other_on_a_real_gitea() {
    for claims in [Claims::Reference, Claims::Comments] {
        let place = Place::on_a_real_gitea(claims);
        for machines in [2, 8] {
            let winner = start_on_machines_at_once(&place, machines);
            let state = place.scratch.place().join("machines").join(&winner);
            place.on(&state, &["land", &winner]).expect_code(0);
        }
        let verified = place.on(&place.template, &["memory", "verify", &place.issue]);
        verified.expect_code(0);
    }
}
