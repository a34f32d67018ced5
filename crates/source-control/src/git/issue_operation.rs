//! One change of an issue, and the issue that all changes lead to.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_memory::{Comment, Issue, LabelEvent, SigningKey, StateEvent};
use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};

/// The bits of an id that come from the commit; the others are the place in the order.
const HASH_BITS: u32 = 24;

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub(crate) enum Change {
    Open {
        title: String,
        body: String,
    },
    Comment {
        body: String,
    },
    Body {
        body: String,
    },
    Labels {
        add: Vec<String>,
        remove: Vec<String>,
    },
    Assignee {
        assignee: Option<String>,
    },
    Milestone {
        milestone: Option<u64>,
    },
    Locked {
        is_locked: bool,
    },
    State {
        is_open: bool,
    },
    /// Joins what two clones did.
    Merge,
}

/// A change with who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operation {
    pub(crate) change: Change,
    pub(crate) by: String,
    pub(crate) at: Moment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
}

impl Operation {
    /// The message of the commit, signed for its repository, its issue and its parents, so that it cannot be moved
    /// elsewhere.
    pub(crate) fn message(
        mut self,
        key: &SigningKey,
        repository: &str,
        issue: u64,
        parents: &[String],
    ) -> String {
        self.signature = None;
        self.signature = key.sign_text(&self.signed_text(repository, issue, parents));
        serde_json::to_string(&self).unwrap_or_default()
    }

    fn signed_text(&self, repository: &str, issue: u64, parents: &[String]) -> String {
        let bare = Self { signature: None, ..self.clone() };
        let json = serde_json::to_string(&bare).unwrap_or_default();
        format!("{repository}#{issue}\n{}\n{json}", parents.join(" "))
    }

    fn is_signed(
        &self,
        key: &SigningKey,
        repository: &str,
        issue: u64,
        parents: &[String],
    ) -> bool {
        let signed = || self.signed_text(repository, issue, parents);
        self.signature.as_deref().is_some_and(|one| key.verifies_text(&signed(), one))
    }
}

/// A commit of an issue.
pub(crate) struct Stored {
    pub(crate) commit: String,
    pub(crate) tree: String,
    pub(crate) parents: Vec<String>,
    /// `None` if the message is no operation.
    pub(crate) operation: Option<Operation>,
}

impl Stored {
    /// Parses a commit as `git cat-file` prints it.
    pub(crate) fn parse(commit: &str, raw: &[u8]) -> Self {
        let text = String::from_utf8_lossy(raw);
        let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
        let parents = head.lines().filter_map(|line| line.strip_prefix("parent "));
        let tree = head.lines().find_map(|line| line.strip_prefix("tree "));
        Self {
            commit: commit.to_owned(),
            tree: tree.unwrap_or_default().to_owned(),
            parents: parents.map(str::to_owned).collect(),
            operation: serde_json::from_str(message.trim()).ok(),
        }
    }
}

/// An issue with its comments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folded {
    pub(crate) issue: Issue,
    pub(crate) body_version: u64,
    pub(crate) milestone: Option<u64>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) label_events: Vec<LabelEvent>,
    pub(crate) state_events: Vec<StateEvent>,
    /// Whether it was opened with our key, in this repository.
    pub(crate) is_opened: bool,
    /// Commits that are no operation, that changed something without a signature, or that only such a commit joined.
    pub(crate) ignored: Vec<String>,
}

/// The issue that these commits lead to; parents come before their children. Commits of different clones that do not
/// follow each other are ordered by how many commits they follow, so that everybody comes to the same order.
pub(crate) fn fold(number: u64, repository: &str, stored: &[Stored], key: &SigningKey) -> Folded {
    let mut folded = Folded {
        issue: Issue {
            number,
            repository: repository.to_owned(),
            is_open: true,
            ..Issue::default()
        },
        ..Folded::default()
    };
    let is_signed = |one: &Stored| {
        let operation = one.operation.as_ref();
        operation.is_some_and(|this| this.is_signed(key, repository, number, &one.parents))
    };
    let signed: BTreeSet<&str> =
        stored.iter().filter(|one| is_signed(one)).map(|one| one.commit.as_str()).collect();
    let joined = joined(stored, &signed);
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    let mut ordered: BTreeMap<(u64, &str), (&Stored, &Operation)> = BTreeMap::new();
    for one in stored {
        if !joined.contains(one.commit.as_str()) {
            folded.ignored.push(one.commit.clone());
            continue;
        }
        let before = one.parents.iter().filter_map(|parent| places.get(parent.as_str()));
        let place = before.max().map_or(1, |place| place.saturating_add(1));
        places.insert(&one.commit, place);
        match &one.operation {
            Some(operation) => {
                ordered.insert((place, &one.commit), (one, operation));
            }
            None => folded.ignored.push(one.commit.clone()),
        }
    }
    let mut last_id = 0;
    for ((place, commit), (one, operation)) in ordered {
        let hash = u64::from_str_radix(commit.get(..6).unwrap_or_default(), 16).unwrap_or_default();
        let id: u64 = (place << HASH_BITS | hash).max(last_id + 1);
        last_id = id;
        let is_signed = signed.contains(commit);
        // Anybody who can write to the repository can comment; only we change what binds agents.
        if !is_signed && !matches!(operation.change, Change::Comment { .. }) {
            folded.ignored.push(one.commit.clone());
            continue;
        }
        let by =
            if is_signed { operation.by.clone() } else { format!("{} (unsigned)", operation.by) };
        folded.apply(operation, id, by);
    }
    folded
}

/// The commits that count: a commit without our signature follows its first parent and joins nothing else.
fn joined<'a>(stored: &'a [Stored], signed: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let mut joined: BTreeSet<&str> =
        stored.last().map(|tip| tip.commit.as_str()).into_iter().collect();
    for one in stored.iter().rev() {
        if joined.contains(one.commit.as_str()) {
            let count = if signed.contains(one.commit.as_str()) { one.parents.len() } else { 1 };
            joined.extend(one.parents.iter().take(count).map(String::as_str));
        }
    }
    joined
}

/// Whether a commit, as `git cat-file` prints it, is an operation of an issue and has no files.
pub(crate) fn is_issue_commit(raw: &[u8], empty_tree: &str) -> bool {
    let stored = Stored::parse("", raw);
    stored.tree == empty_tree && stored.operation.is_some()
}

impl Folded {
    fn apply(&mut self, operation: &Operation, id: u64, by: String) {
        let at = operation.at;
        match &operation.change {
            Change::Open { title, body } if !self.is_opened => {
                self.is_opened = true;
                title.clone_into(&mut self.issue.title);
                body.clone_into(&mut self.issue.body);
                self.body_version = id;
            }
            // An issue is opened once.
            Change::Open { .. } | Change::Merge => {}
            Change::Comment { body } => self.comments.push(Comment {
                id,
                author: by,
                body: body.clone(),
                created_at: at,
                updated_at: at,
            }),
            Change::Body { body } => {
                body.clone_into(&mut self.issue.body);
                self.body_version = id;
            }
            Change::Labels { add, remove } => {
                let labels = &mut self.issue.labels;
                labels.retain(|label| !remove.contains(label) && !add.contains(label));
                labels.extend(add.iter().cloned());
                let event = |label: &String, is_added| LabelEvent {
                    label: label.clone(),
                    by: by.clone(),
                    at,
                    is_added,
                };
                self.label_events.extend(remove.iter().map(|label| event(label, false)));
                self.label_events.extend(add.iter().map(|label| event(label, true)));
            }
            Change::Assignee { assignee } => self.issue.assignee.clone_from(assignee),
            Change::Milestone { milestone } => self.milestone = *milestone,
            Change::Locked { is_locked } => self.issue.is_locked = *is_locked,
            Change::State { is_open } => {
                self.issue.is_open = *is_open;
                self.state_events.push(StateEvent { is_open: *is_open, by, at });
            }
        }
    }
}
