//! The state of a stand-in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The API of a stand-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Gitea's, compared with its contract.
    Gitea,
    /// GitHub's, as far as we use it.
    Github,
}

/// An injected fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is done, and the connection ends without an answer.
    DropAfterApplying,
    /// It is not done, and the connection ends without an answer.
    DropBeforeApplying,
    /// It is not done; the answer has this status and this message.
    Status(u16, String),
    /// It is not performed; the response has this status and a `Retry-After` in seconds.
    Later(u16, u64),
    /// It is done, but late.
    Slow(Duration),
    /// Before it is performed, another account moves a branch.
    MoveBranch {
        /// The branch.
        branch: String,
        /// To where.
        to: String,
    },
    /// Before it is done, a person adds a label.
    Label {
        /// The issue.
        number: u64,
        /// The label.
        label: String,
    },
    /// It is not done; the answer leads to another address.
    Redirect(String),
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body; null if it was no JSON.
    pub body: Value,
    /// The status that it was answered with; 0 if it was not answered.
    pub status: u16,
}

/// An issue or a pull request.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Whether it is open.
    pub open: bool,
    /// The parts of a pull request.
    pub pull: Option<PullParts>,
    /// Its author.
    pub by: String,
    /// When it was opened.
    pub created: Timestamp,
    /// When it, or something on it, changed last.
    pub updated: Timestamp,
    /// Whether it is locked.
    pub locked: bool,
    /// Its assignee.
    pub assignee: Option<String>,
    /// Its milestone.
    pub milestone: Option<u64>,
    /// How often its text was edited.
    pub content_version: u64,
}

/// The parts of a pull request.
#[derive(Debug, Clone)]
pub struct PullParts {
    /// Its branch.
    pub head: String,
    /// The branch it goes to.
    pub base: String,
    /// Its fork, if there is one.
    pub fork: Option<String>,
    /// The commit it is at, where its branch is not in this repository.
    pub sha: Option<String>,
}

/// A comment.
#[derive(Debug, Clone)]
pub struct Comment {
    /// Its id.
    pub id: u64,
    /// The issue or pull request.
    pub number: u64,
    /// Its text.
    pub body: String,
    /// Its author.
    pub by: String,
    /// When it was written.
    pub created: Timestamp,
    /// When it was changed, if it was.
    pub edited: Option<Timestamp>,
}

/// A label that was added to an issue or a pull request, or removed.
#[derive(Debug, Clone)]
pub struct LabelChange {
    /// The id of its entry in the timeline.
    pub id: u64,
    /// The issue or pull request.
    pub number: u64,
    /// The label.
    pub label: String,
    /// The account.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether it was put on.
    pub added: bool,
}

/// An issue that was closed or opened again.
#[derive(Debug, Clone)]
pub struct StateChange {
    /// The id of its entry in the timeline.
    pub id: u64,
    /// The issue.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Whether it was opened.
    pub is_open: bool,
}

/// A push as the list of activities has it.
#[derive(Debug, Clone)]
pub struct Activity {
    /// Its id.
    pub id: u64,
    /// The ref, as `refs/heads/main`.
    pub reference: String,
    /// The commit before; nothing if the ref is new.
    pub before: Option<String>,
    /// The commit.
    pub after: String,
    /// The account.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A team of the organization that owns the repository.
#[derive(Debug, Clone)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Its permission: `none`, `read`, `write`, `admin` or `owner`.
    pub permission: String,
    /// Its access to each unit, such as `repo.code`.
    pub units: Vec<(String, String)>,
    /// Its members.
    pub members: Vec<String>,
}

impl Team {
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member == name)
    }
}

/// A review.
#[derive(Debug, Clone)]
pub struct Review {
    /// Its id.
    pub id: u64,
    /// The pull request.
    pub number: u64,
    /// Its author.
    pub by: String,
    /// When.
    pub created: Timestamp,
    /// As it was sent.
    pub sent: Value,
    /// Whether it was dismissed.
    pub dismissed: bool,
}

/// A status of a commit.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its id.
    pub id: u64,
    /// The commit.
    pub sha: String,
    /// As it was sent.
    pub sent: Value,
}

/// A release.
#[derive(Debug, Clone)]
pub struct Release {
    /// Its id.
    pub id: u64,
    /// Its tag.
    pub tag: String,
    /// Its title.
    pub name: String,
    /// Its notes.
    pub body: String,
}

/// A run of a workflow.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its id.
    pub id: u64,
    /// The file of its workflow.
    pub workflow: String,
    /// The branch.
    pub branch: String,
    /// The commit.
    pub sha: String,
    /// The fork that it runs for, if it does.
    pub fork: Option<String>,
    /// How often it was tried.
    pub attempt: u64,
    /// How it ended, if it has.
    pub conclusion: Option<String>,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The pull request it runs for.
    pub pull: Option<u64>,
    /// Environments that wait for an approval.
    pub waits_for: Vec<String>,
    /// The yeses, with their comments.
    pub approvals: Vec<(String, String)>,
}

/// A job of a run.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its id.
    pub id: u64,
    /// Its run.
    pub run: u64,
    /// Its name.
    pub name: String,
    /// How it ended, if it has.
    pub conclusion: Option<String>,
    /// Its output.
    pub log: String,
    /// The step that failed, if one did.
    pub failed_step: Option<String>,
}

pub(super) struct State {
    pub(super) flavour: Flavour,
    pub(super) full_name: String,
    pub(super) base_url: String,
    pub(super) token: String,
    pub(super) bare: PathBuf,
    /// Moves on with everything that happens, or with the time.
    pub(super) clock: Timestamp,
    /// When the clock started to run, and its time then.
    pub(super) began: Option<(Instant, Timestamp)>,
    pub(super) next_id: u64,
    pub(super) page_limit: usize,
    /// The permissions of accounts, by name.
    pub(super) permissions: BTreeMap<String, String>,
    /// Whether our token can only write: it must not read the rights of others.
    pub(super) is_writer_token: bool,
    pub(super) items: BTreeMap<u64, Item>,
    pub(super) comments: Vec<Comment>,
    /// Comments that lists do not show yet, and for how many lists.
    pub(super) hidden_comments: Vec<(u64, u32)>,
    /// For how many lists new comments are hidden.
    pub(super) hides_comments: u32,
    /// When late comments appear, and the maximum delay of a new one.
    pub(super) late_comments: Vec<(u64, Instant)>,
    pub(super) lateness: Duration,
    /// Labels that no issue needs to have.
    pub(super) created_labels: Vec<String>,
    pub(super) label_changes: Vec<LabelChange>,
    /// Comments on lines of pull requests.
    pub(super) review_comments: Vec<Comment>,
    /// Refs that the list of events does not show yet.
    pub(super) late_events: Vec<String>,
    pub(super) state_changes: Vec<StateChange>,
    pub(super) activities: Vec<Activity>,
    /// The teams; nothing if a user owns the repository.
    pub(super) teams: Option<Vec<Team>>,
    /// Whether our token must not read who is in the teams.
    pub(super) hides_team_members: bool,
    /// The version that the server reports.
    pub(super) version: String,
    /// Scopes that the token does not have, such as `write:issue`.
    pub(super) missing_scopes: Vec<String>,
    /// The scopes of the token, if it is a classic one of GitHub.
    pub(super) oauth_scopes: Option<String>,
    /// The types of the rules of each branch on GitHub.
    pub(super) branch_rules: BTreeMap<String, Vec<String>>,
    /// Branches that the account of the token may not push to.
    pub(super) protected: Vec<String>,
    /// Whether the account of the token may read the rules that protect branches.
    pub(super) shows_protections: bool,
    pub(super) reviews: Vec<Review>,
    pub(super) statuses: Vec<Status>,
    pub(super) releases: Vec<Release>,
    pub(super) runs: Vec<Run>,
    pub(super) jobs: Vec<Job>,
    pub(super) faults: Vec<(String, Fault)>,
    pub(super) seen: Vec<Seen>,
    pub(super) breaches: Vec<String>,
}

impl State {
    pub(super) fn new(flavour: Flavour, full_name: &str, bare: PathBuf) -> Self {
        Self {
            flavour,
            full_name: full_name.to_owned(),
            base_url: String::new(),
            token: "0123456789stand1n4567890token3456789abcd".to_owned(),
            bare,
            clock: Timestamp::from_second(1_790_000_000).expect("a time"),
            began: None,
            next_id: 0,
            page_limit: 50,
            permissions: BTreeMap::new(),
            is_writer_token: false,
            items: BTreeMap::new(),
            comments: Vec::new(),
            hidden_comments: Vec::new(),
            hides_comments: 0,
            late_comments: Vec::new(),
            lateness: Duration::ZERO,
            created_labels: Vec::new(),
            label_changes: Vec::new(),
            review_comments: Vec::new(),
            late_events: Vec::new(),
            state_changes: Vec::new(),
            activities: Vec::new(),
            teams: None,
            hides_team_members: false,
            version: "1.27.2".to_owned(),
            missing_scopes: Vec::new(),
            oauth_scopes: None,
            branch_rules: BTreeMap::new(),
            protected: Vec::new(),
            shows_protections: false,
            reviews: Vec::new(),
            statuses: Vec::new(),
            releases: Vec::new(),
            runs: Vec::new(),
            jobs: Vec::new(),
            faults: Vec::new(),
            seen: Vec::new(),
            breaches: Vec::new(),
        }
    }

    /// A number that nothing else has, a second later.
    pub(super) fn id(&mut self) -> u64 {
        self.tick();
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn tick(&mut self) -> Timestamp {
        if self.began.is_none() {
            self.clock += SignedDuration::from_secs(1);
        }
        self.now()
    }

    pub(super) fn now(&mut self) -> Timestamp {
        if let Some((since, clock)) = self.began {
            let elapsed = SignedDuration::try_from(since.elapsed()).expect("a short test");
            self.clock = clock + elapsed;
        }
        self.clock
    }

    /// Adds or removes a label.
    pub(super) fn change_label(&mut self, number: u64, label: &str, by: &str, added: bool) {
        let (id, at) = (self.id(), self.clock);
        let item = self.items.get_mut(&number).expect("an issue or a pull request");
        item.labels.retain(|is| is != label);
        if added {
            item.labels.push(label.to_owned());
        }
        item.updated = at;
        let (label, by) = (label.to_owned(), by.to_owned());
        self.label_changes.push(LabelChange { id, number, label, by, at, added });
    }

    /// Adds a comment.
    pub(super) fn write_comment(&mut self, number: u64, body: &str, by: &str) -> Comment {
        let (id, created) = (self.id(), self.clock);
        let (body, by) = (body.to_owned(), by.to_owned());
        let comment = Comment { id, number, body, by, created, edited: None };
        if let Some(item) = self.items.get_mut(&number) {
            item.updated = created;
        }
        self.comments.push(comment.clone());
        if !self.lateness.is_zero() {
            // The next one may be there before.
            let late = self.lateness * u32::try_from(3 - id % 4).expect("a small number") / 3;
            self.late_comments.push((id, Instant::now() + late));
        }
        if self.hides_comments > 0 {
            self.hidden_comments.push((id, self.hides_comments));
        }
        comment
    }

    /// Adds a review of a pull request.
    pub(super) fn write_review(&mut self, number: u64, by: &str, sent: Value) -> Review {
        let (id, created) = (self.id(), self.clock);
        let review = Review { id, number, by: by.to_owned(), created, sent, dismissed: false };
        if let Some(item) = self.items.get_mut(&number) {
            item.updated = created;
        }
        self.reviews.push(review.clone());
        review
    }

    /// The comments in a list now: some become visible after later ones.
    pub(super) fn listed_comments(&mut self, number: u64) -> Vec<Comment> {
        let now = Instant::now();
        self.late_comments.retain(|(_, visible_at)| *visible_at > now);
        let hidden = self.hidden_comments.iter().map(|(id, _)| *id);
        let hidden: Vec<u64> = hidden.chain(self.late_comments.iter().map(|(id, _)| *id)).collect();
        for (_, lists) in &mut self.hidden_comments {
            *lists -= 1;
        }
        self.hidden_comments.retain(|(_, lists)| *lists > 0);
        let ours = self.comments.iter().filter(|comment| comment.number == number);
        ours.filter(|comment| !hidden.contains(&comment.id)).cloned().collect()
    }

    /// The labels of the repository.
    pub(super) fn all_labels(&self) -> std::collections::BTreeSet<String> {
        let used = self.items.values().flat_map(|item| &item.labels);
        used.chain(&self.created_labels).cloned().collect()
    }

    /// Whether the text of an issue has a version: Gitea from 1.26 on.
    pub(super) fn has_versions(&self) -> bool {
        self.flavour == Flavour::Gitea && self.minor_version() >= 26
    }

    /// Whether issues can be locked: Gitea from 1.24 on.
    pub(super) fn has_locks(&self) -> bool {
        self.flavour == Flavour::Github || self.minor_version() >= 24
    }

    fn minor_version(&self) -> u32 {
        let minor = self.version.split('.').nth(1);
        minor.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The fault for this request, once.
    pub(super) fn fault(&mut self, request: &str) -> Option<Fault> {
        let place = self.faults.iter().position(|(part, _)| request.contains(part.as_str()))?;
        Some(self.faults.remove(place).1)
    }

    /// The commit of a branch or tag.
    pub(super) fn reference(&self, name: &str) -> Option<String> {
        let output = super::git::git(&self.bare, &["rev-parse", "--verify", "--quiet", name]);
        output.ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The commit that a pull request is at.
    pub(super) fn head_of(&self, pull: &PullParts) -> String {
        let ours = || self.reference(&format!("refs/heads/{}", pull.head));
        pull.sha.clone().or_else(ours).unwrap_or_default()
    }

    /// The files that a pull request changes.
    pub(super) fn files_of(&self, pull: &PullParts) -> Vec<String> {
        let range = format!("refs/heads/{}...{}", pull.base, self.head_of(pull));
        let listed = super::git::git(&self.bare, &["diff", "--name-only", &range]);
        listed.unwrap_or_default().lines().map(str::to_owned).collect()
    }
}
