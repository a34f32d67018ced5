//! A forge on loopback with the API of Gitea, or the used part of GitHub's, over a state in memory and a real git
//! repository. It fails on request.
//!
//! As Gitea, every request and every response is compared with [`contract`]; violations are in
//! [`StandIn::breaches`].

mod actions;
mod answer;
pub mod contract;
mod git;
mod github;
mod memory;
mod routes;
mod serving;
mod show;
mod state;
mod webhook;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted_model::http::Server;

use state::State;
pub use state::{
    Activity, Comment, Fault, Flavour, Item, Job, LabelChange, PullParts, Release, Review, Run,
    Seen, Status, Team,
};
pub use webhook::{Told, Webhook};

/// A forge with one repository, until it is dropped.
pub struct StandIn {
    // First the server ends, then its files go.
    server: Server,
    state: Arc<Mutex<State>>,
    place: TempDir,
}

impl StandIn {
    /// A Gitea with the empty repository `owner/name`.
    pub fn gitea(full_name: &str) -> Self {
        Self::start(Flavour::Gitea, full_name)
    }

    /// A GitHub with the empty repository `owner/name`.
    pub fn github(full_name: &str) -> Self {
        Self::start(Flavour::Github, full_name)
    }

    /// A forge with the empty repository `owner/name`.
    pub fn start(flavour: Flavour, full_name: &str) -> Self {
        let place = tempfile::Builder::new().prefix("bailiwick-forge-").tempdir();
        let place = place.expect("a temporary directory");
        let bare = place.path().join(format!("{full_name}.git"));
        git::make(&bare);
        let state = Arc::new(Mutex::new(State::new(flavour, full_name, bare)));
        let (shared, root) = (Arc::clone(&state), place.path().to_owned());
        let server = Server::serve(move |stream| serving::converse(stream, &shared, &root));
        lock(&state).base_url = format!("http://{}", server.address());
        Self { server, state, place }
    }

    /// Its base URL, without a path.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The address of its API.
    pub fn api_url(&self) -> String {
        match self.state().flavour {
            Flavour::Gitea => format!("{}/api/v1", self.base_url()),
            Flavour::Github => self.base_url(),
        }
    }

    /// The URL for fetch and push.
    pub fn clone_url(&self) -> String {
        let name = self.state().full_name.clone();
        format!("{}/{name}.git", self.base_url())
    }

    /// The token that it accepts.
    pub fn token(&self) -> String {
        self.state().token.clone()
    }

    /// The bare repository that it serves.
    pub fn repository(&self) -> PathBuf {
        self.state().bare.clone()
    }

    /// The directory that holds everything.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// Runs git in the bare repository; it must succeed.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = git::git(&self.repository(), arguments);
        output.unwrap_or_else(|error| panic!("git {arguments:?}: {error}"))
    }

    /// Copies a branch from a repository on this machine, like a push.
    pub fn take(&self, repository: &Path, branch: &str) {
        let refspec = format!("+refs/heads/{branch}:refs/heads/{branch}");
        self.git(&["fetch", "--quiet", &repository.display().to_string(), &refspec]);
    }

    /// The next request whose `METHOD path` has this in it goes wrong.
    pub fn fail_next(&self, part: &str, fault: Fault) {
        self.state().faults.push((part.to_owned(), fault));
    }

    /// No page has more than this.
    pub fn limit_pages(&self, most: usize) {
        self.state().page_limit = most;
    }

    /// Gives an account a permission: `read`, `write`, `admin`, in the forge's own words.
    pub fn permit(&self, name: &str, permission: &str) {
        self.state().permissions.insert(name.to_owned(), permission.to_owned());
    }

    /// Events from now on have the current time; earlier ones are long ago.
    pub fn use_present_time(&self) {
        self.state().clock = jiff::Timestamp::now();
    }

    /// The account that the token belongs to.
    pub fn account(&self) -> &'static str {
        show::OUR_LOGIN
    }

    /// The texts of the pull requests.
    pub fn pull_bodies(&self) -> Vec<String> {
        let state = self.state();
        let pulls = state.items.values().filter(|item| item.pull.is_some());
        pulls.map(|item| item.body.clone()).collect()
    }

    /// The labels of an issue or a pull request.
    pub fn labels(&self, number: u64) -> Vec<String> {
        self.state().items.get(&number).map(|item| item.labels.clone()).unwrap_or_default()
    }

    /// From now on the token is that of a writer, who must not read the rights of others.
    pub fn make_token_writer(&self) {
        self.state().is_writer_token = true;
    }

    /// A new issue.
    pub fn add_issue(&self, title: &str, body: &str) -> u64 {
        self.add(title, body, None)
    }

    /// A label on an issue or a pull request.
    pub fn put_label(&self, number: u64, label: &str) {
        self.state().change_label(number, label, "labeller", true);
    }

    /// Several labels in one request, as one account's.
    pub fn put_labels(&self, number: u64, labels: &[&str], by: &str) {
        let mut state = self.state();
        let at = state.tick();
        for label in labels {
            state.change_label(number, label, by, true);
            if let Some(change) = state.label_changes.last_mut() {
                change.at = at;
            }
        }
    }

    /// Removes a label.
    pub fn take_label(&self, number: u64, label: &str, by: &str) {
        self.state().change_label(number, label, by, false);
    }

    /// The repository belongs to an organization with these teams.
    pub fn set_teams(&self, teams: &[Team]) {
        self.state().teams = Some(teams.to_vec());
    }

    /// From now on the token must not read who is in the teams.
    pub fn hide_team_members(&self) {
        self.state().hides_team_members = true;
    }

    /// Sets the version that the server reports.
    pub fn set_version(&self, version: &str) {
        version.clone_into(&mut self.state().version);
    }

    /// The token no longer has this scope, such as `write:issue`.
    pub fn revoke_scope(&self, scope: &str) {
        self.state().missing_scopes.push(scope.to_owned());
    }

    /// From now on another token is right.
    pub fn rotate_token(&self, token: &str) {
        token.clone_into(&mut self.state().token);
    }

    /// A push that the list of activities has.
    pub fn add_activity(&self, reference: &str, before: Option<&str>, after: &str, by: &str) {
        let mut state = self.state();
        let (id, at) = (state.id(), state.clock);
        state.activities.push(Activity {
            id,
            reference: reference.to_owned(),
            before: before.map(str::to_owned),
            after: after.to_owned(),
            by: by.to_owned(),
            at,
        });
    }

    /// Makes the token a classic one of GitHub with these scopes.
    pub fn set_oauth_scopes(&self, scopes: &str) {
        self.state().oauth_scopes = Some(scopes.to_owned());
    }

    /// Sets the types of the rules of a branch on GitHub.
    pub fn set_branch_rules(&self, branch: &str, kinds: &[&str]) {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        self.state().branch_rules.insert(branch.to_owned(), kinds);
    }

    /// Protects a branch from the account of the token.
    pub fn protect(&self, branch: &str) {
        self.state().protected.push(branch.to_owned());
    }

    /// Makes the account of the token an administrator, who may read branch protections.
    pub fn show_protections(&self) {
        self.state().shows_protections = true;
    }

    /// A new pull request from a branch of the repository.
    pub fn add_pull(&self, title: &str, head: &str, base: &str) -> u64 {
        let (head, base) = (head.to_owned(), base.to_owned());
        self.add(title, "", Some(PullParts { head, base, fork: None, sha: None }))
    }

    /// A new pull request from a fork.
    pub fn add_fork_pull(&self, title: &str, fork: &str, head: &str, sha: &str) -> u64 {
        let pull = PullParts {
            head: head.to_owned(),
            base: "main".to_owned(),
            fork: Some(fork.to_owned()),
            sha: Some(sha.to_owned()),
        };
        self.add(title, "", Some(pull))
    }

    fn add(&self, title: &str, body: &str, pull: Option<PullParts>) -> u64 {
        let mut state = self.state();
        let (number, created) = (state.id(), state.clock);
        let by = if pull.is_some() { "contributor" } else { "reporter" };
        let item = Item {
            title: title.to_owned(),
            body: body.to_owned(),
            labels: Vec::new(),
            open: true,
            pull,
            by: by.to_owned(),
            created,
            updated: created,
            locked: false,
            assignee: None,
            milestone: None,
            content_version: 0,
        };
        state.items.insert(number, item);
        number
    }

    /// Adds a comment of an account.
    pub fn add_comment(&self, number: u64, body: &str) -> u64 {
        self.state().write_comment(number, body, "commenter").id
    }

    /// A comment on a line of a pull request, on GitHub.
    pub fn add_review_comment(&self, number: u64, body: &str) -> u64 {
        let mut state = self.state();
        let (id, created) = (state.id(), state.clock);
        let (body, by) = (body.to_owned(), "commenter".to_owned());
        state.review_comments.push(Comment { id, number, body, by, created, edited: None });
        id
    }

    /// The list of events on GitHub does not show this ref yet, or shows it from now on.
    pub fn delay_event(&self, reference: &str, is_late: bool) {
        let mut state = self.state();
        state.late_events.retain(|late| late != reference);
        if is_late {
            state.late_events.push(reference.to_owned());
        }
    }

    /// Adds a review of a pull request, as sent to the API.
    pub fn add_review(&self, number: u64, by: &str, sent: Value) -> u64 {
        self.state().write_review(number, by, sent).id
    }

    /// Dismisses a review.
    pub fn dismiss_review(&self, id: u64) {
        let mut state = self.state();
        let at = state.tick();
        let Some(review) = state.reviews.iter_mut().find(|review| review.id == id) else { return };
        review.dismissed = true;
        let number = review.number;
        if let Some(item) = state.items.get_mut(&number) {
            item.updated = at;
        }
    }

    /// A run of a workflow with one job that has ended in this way; gives run and job.
    pub fn add_run(&self, seed: &RunSeed<'_>) -> (u64, u64) {
        let mut state = self.state();
        let (run, job) = (state.id(), state.id());
        let began = state.clock;
        let ended = seed.conclusion.is_some().then(|| state.tick());
        let conclusion = seed.conclusion.map(str::to_owned);
        let (branch, sha) = (seed.branch.to_owned(), seed.sha.to_owned());
        let failed = seed.conclusion == Some("failure");
        state.runs.push(Run {
            id: run,
            workflow: seed.workflow.to_owned(),
            branch,
            sha,
            fork: seed.fork.map(str::to_owned),
            attempt: 1,
            conclusion: conclusion.clone(),
            began,
            ended,
            pull: seed.pull,
            waits_for: seed.waits_for.iter().map(|&name| name.to_owned()).collect(),
            approvals: Vec::new(),
        });
        state.jobs.push(Job {
            id: job,
            run,
            name: seed.job.to_owned(),
            conclusion,
            log: seed.log.to_owned(),
            failed_step: failed.then(|| "test".to_owned()),
        });
        (run, job)
    }

    /// A run and its jobs end.
    pub fn end_run(&self, run: u64, conclusion: &str) {
        let mut state = self.state();
        let ended = state.tick();
        for one in state.runs.iter_mut().filter(|one| one.id == run) {
            one.ended = Some(ended);
            one.conclusion = Some(conclusion.to_owned());
        }
        for job in state.jobs.iter_mut().filter(|job| job.run == run) {
            job.conclusion = Some(conclusion.to_owned());
        }
    }

    /// Lists show each new comment only after this many other lists.
    pub fn hide_new_comments(&self, lists: u32) {
        self.state().hides_comments = lists;
    }

    /// The clock runs, and each new comment becomes visible up to this much later: one with a larger ID may be
    /// visible before.
    pub fn show_comments_late(&self, lateness: Duration) {
        let mut state = self.state();
        state.began = Some((Instant::now(), state.clock));
        state.lateness = lateness;
    }

    /// Advances the clock.
    pub fn advance_clock(&self, time: Duration) {
        let mut state = self.state();
        state.clock += time;
        if let Some((_, clock)) = &mut state.began {
            *clock += time;
        }
    }

    /// Edits a comment.
    pub fn edit_comment(&self, id: u64, body: &str) {
        let mut state = self.state();
        let edited = state.tick();
        for comment in state.comments.iter_mut().filter(|comment| comment.id == id) {
            body.clone_into(&mut comment.body);
            comment.edited = Some(edited);
        }
    }

    /// The texts of the comments on an issue or pull request.
    pub fn comments(&self, number: u64) -> Vec<String> {
        let state = self.state();
        let ours = state.comments.iter().filter(|comment| comment.number == number);
        ours.map(|comment| comment.body.clone()).collect()
    }

    /// The reviews of a pull request, as they were sent.
    pub fn reviews(&self, number: u64) -> Vec<Value> {
        let state = self.state();
        let ours = state.reviews.iter().filter(|review| review.number == number);
        ours.map(|review| review.sent.clone()).collect()
    }

    /// The statuses of a commit, as they were sent, the oldest first.
    pub fn statuses(&self, sha: &str) -> Vec<Value> {
        let state = self.state();
        let ours = state.statuses.iter().filter(|status| status.sha == sha);
        ours.map(|status| status.sent.clone()).collect()
    }

    /// The releases.
    pub fn releases(&self) -> Vec<Release> {
        self.state().releases.clone()
    }

    /// Adds a release of another account.
    pub fn add_release(&self, tag: &str, body: &str) {
        let mut state = self.state();
        let (tag, body) = (tag.to_owned(), body.to_owned());
        let release = Release { id: state.id(), name: tag.clone(), tag, body };
        state.releases.push(release);
    }

    /// The issues and pull requests.
    pub fn items(&self) -> Vec<(u64, Item)> {
        self.state().items.iter().map(|(number, item)| (*number, item.clone())).collect()
    }

    /// The runs of workflows.
    pub fn runs(&self) -> Vec<Run> {
        self.state().runs.clone()
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The violations of Gitea's contract.
    pub fn breaches(&self) -> Vec<String> {
        self.state().breaches.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A run that is to be there.
#[derive(Debug, Clone, Copy)]
pub struct RunSeed<'a> {
    /// The file of the workflow.
    pub workflow: &'a str,
    /// The name of the job.
    pub job: &'a str,
    /// The branch.
    pub branch: &'a str,
    /// The commit.
    pub sha: &'a str,
    /// How it ended; nothing if it is at work.
    pub conclusion: Option<&'a str>,
    /// The output of the job.
    pub log: &'a str,
    /// The fork that it runs for.
    pub fork: Option<&'a str>,
    /// The pull request that it runs for.
    pub pull: Option<u64>,
    /// Environments that wait for an approval.
    pub waits_for: &'a [&'a str],
}

impl Default for RunSeed<'_> {
    fn default() -> Self {
        Self {
            workflow: "ci.yml",
            job: "test",
            branch: "main",
            sha: "",
            conclusion: Some("failure"),
            log: "running 1 test\nerror: it failed\n",
            fork: None,
            pull: None,
            waits_for: &[],
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
