//! A forge on loopback that speaks Gitea's API, or GitHub's as far as we use it, over a state in
//! memory and a real git repository, and that fails when it is told to.
//!
//! In Gitea's language every request and every answer is held to [`contract`]; whoever asked for
//! something that is not in it finds it in [`StandIn::breaches`].

mod actions;
mod answer;
pub mod contract;
mod git;
mod routes;
mod show;
mod state;
mod webhook;

use std::io::BufReader;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use serde_json::Value;
use tempfile::TempDir;

use crate::scripted_model::http::{Incoming, Server, receive};

use answer::Answer;
use routes::Asked;
use state::State;
pub use state::{
    Comment, Fault, Flavour, Item, Job, PullParts, Release, Review, Run, Seen, Status,
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
        let server = Server::serve(move |stream| converse(stream, &shared, &root));
        lock(&state).base_url = format!("http://{}", server.address());
        Self { server, state, place }
    }

    /// Where it listens, with nothing behind it.
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

    /// Where git fetches from and pushes to.
    pub fn clone_url(&self) -> String {
        let name = self.state().full_name.clone();
        format!("{}/{name}.git", self.base_url())
    }

    /// The token that it wants to see.
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

    /// Takes a branch of a repository on this machine over, as a push would.
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

    /// A new issue.
    pub fn add_issue(&self, title: &str, body: &str) -> u64 {
        self.add(title, body, None)
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
        let number = state.id();
        let (title, body) = (title.to_owned(), body.to_owned());
        let item = Item { title, body, labels: Vec::new(), open: true, pull };
        state.items.insert(number, item);
        number
    }

    /// A comment that somebody wrote.
    pub fn add_comment(&self, number: u64, body: &str) -> u64 {
        let mut state = self.state();
        let comment = Comment { id: state.id(), number, body: body.to_owned() };
        let id = comment.id;
        state.comments.push(comment);
        id
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

    /// What the comments on an issue or pull request say.
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

    /// Puts a release there that somebody else made.
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

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// What was asked or answered that is not in Gitea's contract.
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
    /// What the job printed.
    pub log: &'a str,
    /// The fork that it runs for.
    pub fork: Option<&'a str>,
    /// The pull request that it runs for.
    pub pull: Option<u64>,
    /// Environments that wait for a yes.
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

fn converse(stream: &TcpStream, shared: &Mutex<State>, root: &Path) -> std::io::Result<()> {
    let Some(incoming) = receive(&mut BufReader::new(stream))? else { return Ok(()) };
    let body = serde_json::from_slice(&incoming.body).unwrap_or(Value::Null);
    let request = format!("{} {}", incoming.method, incoming.path);
    let (place, fault) = {
        let mut state = lock(shared);
        let (method, path) = (incoming.method.clone(), incoming.path.clone());
        let headers = incoming.headers.clone();
        state.seen.push(Seen { method, path, headers, body: body.clone(), status: 0 });
        (state.seen.len() - 1, state.fault(&request))
    };
    let mut silent = false;
    let answer = match fault {
        Some(Fault::DropBeforeApplying) => return Ok(()),
        Some(Fault::Status(status, message)) => Answer::no(status, &message),
        Some(Fault::Redirect(place)) => Answer::text(302, "").with("Location", place),
        Some(Fault::DropAfterApplying) => {
            silent = true;
            respond(shared, root, &incoming, body)
        }
        Some(Fault::Slow(time)) => {
            let answer = respond(shared, root, &incoming, body);
            std::thread::sleep(time);
            answer
        }
        Some(Fault::MoveBranch { branch, to }) => {
            let bare = lock(shared).bare.clone();
            let name = format!("refs/heads/{branch}");
            git::git(&bare, &["update-ref", &name, &to]).expect("the branch moves");
            respond(shared, root, &incoming, body)
        }
        None => respond(shared, root, &incoming, body),
    };
    if silent {
        return Ok(());
    }
    let date = {
        let mut state = lock(shared);
        state.seen[place].status = answer.status;
        jiff::fmt::rfc2822::to_string(&state.clock.to_zoned(jiff::tz::TimeZone::UTC))
    };
    let date = date.expect("a date").replace("+0000", "GMT");
    answer.with("Date", date).send(stream, incoming.method == "HEAD")
}

fn respond(shared: &Mutex<State>, root: &Path, incoming: &Incoming, body: Value) -> Answer {
    let (path, query) = incoming.path.split_once('?').unwrap_or((&incoming.path, ""));
    if path.contains(".git/") {
        let token = lock(shared).token.clone();
        if !knows_token(incoming, &token) {
            return Answer::no(401, "Unauthorized").with("WWW-Authenticate", "Basic realm=\"git\"");
        }
        // Without the lock: a push may take its time.
        return git::serve(root, path, query, incoming);
    }
    let mut state = lock(shared);
    if let Some(id) = path.strip_prefix("/kept-logs/") {
        if incoming.headers.iter().any(|(name, _)| name == "authorization") {
            state.breaches.push("the token went to where logs are kept".to_owned());
        }
        let job = state.jobs.iter().find(|job| job.id.to_string() == id);
        return job.map_or_else(|| Answer::text(404, ""), |job| Answer::text(200, &job.log));
    }
    let (prefix, scheme) = match state.flavour {
        Flavour::Gitea => ("/api/v1", "token"),
        Flavour::Github => ("", "Bearer"),
    };
    let wanted = format!("{scheme} {}", state.token);
    let who = incoming.headers.iter().find(|(name, _)| name == "authorization");
    if who.map(|(_, value)| value) != Some(&wanted) {
        return Answer::no(401, "token is required");
    }
    let begin = format!("{prefix}/repos/{}", state.full_name);
    let rest = path.strip_prefix(&begin);
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return Answer::no(404, "The target couldn't be found.");
    };
    let decoded: Vec<String> =
        rest.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    let asked = Asked {
        method: &incoming.method,
        path: decoded.iter().map(String::as_str).collect(),
        query: query.map(|(name, value)| (decode(name), decode(value))).collect(),
        body,
    };
    let known = contract::find(asked.method, &asked.path);
    let answer = routes::answer(&mut state, &asked);
    if state.flavour == Flavour::Gitea {
        let breaches = breaches(known, &asked, &answer);
        state.breaches.extend(breaches);
    }
    answer
}

/// What of this is not in Gitea's contract.
fn breaches(known: Option<contract::Known>, asked: &Asked<'_>, answer: &Answer) -> Vec<String> {
    let what = format!("{} /{}", asked.method, asked.path.join("/"));
    let Some(known) = known else { return vec![format!("{what} is not in the contract")] };
    let mut found = Vec::new();
    for (name, _) in &asked.query {
        if !known.query.contains(name) {
            found.push(format!("{what} has no {name} in its query"));
        }
    }
    match &known.body {
        Some(shape) => found.extend(contract::faults(shape, &asked.body)),
        None if asked.body.is_null() || asked.body == serde_json::json!({}) => {}
        None => found.push(format!("{what} takes no body")),
    }
    if answer.status < 400 {
        if answer.status != known.status {
            found.push(format!("{what} is answered with {}", answer.status));
        }
        if let Some(shape) = &known.answer {
            let value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
            found.extend(contract::faults(shape, &value));
        }
    }
    found
}

/// Whether git has shown the token, as a password.
fn knows_token(incoming: &Incoming, token: &str) -> bool {
    let who = incoming.headers.iter().find(|(name, _)| name == "authorization");
    let basic = who.and_then(|(_, value)| value.strip_prefix("Basic "));
    let both = basic.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    let both = both.and_then(|both| String::from_utf8(both).ok()).unwrap_or_default();
    both.split_once(':').is_some_and(|(_, password)| password == token)
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| char::from(byte.unwrap_or(b'0')).to_digit(16).unwrap_or(0);
        match byte {
            b'%' => {
                let value = hex(rest.next()) * 16 + hex(rest.next());
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
