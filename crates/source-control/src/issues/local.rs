//! Issues of a repository on this machine.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_memory::{
    BodyEdit, Comment, IssueMemory, LabelChange, LabelEvent, MemoryError, ReadIssue, RefContent,
    RefSwap, SigningKey, StateEvent,
};
use bailiwick_resources::Moment;

use crate::git::issue_operation::{Change, Folded, Operation, Stored, fold};
use crate::git::{Batch, Git, GitError, ISSUE_REFS, Input, committer, retain_commit};

/// Before the name that local issues are signed for.
const NAME_PREFIX: &str = "local/";
/// How often a change is made again after somebody else was faster.
const MAX_ATTEMPTS: u32 = 200;

/// The issues of a repository on this machine.
pub struct LocalIssues {
    git: Git,
    /// What all clones of the repository have in common, so that an issue of another one cannot be moved here.
    name: String,
    by: String,
    key: SigningKey,
    empty_tree: OnceLock<String>,
}

/// An issue to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
}

impl LocalIssues {
    /// The issues that this git has. `by` is the author of what is written.
    pub fn new(git: Git, by: &str, key: SigningKey) -> Result<Self, MemoryError> {
        let git = committer(git, by);
        let shallow = git.line(["rev-parse", "--is-shallow-repository"]).map_err(failed)?;
        if shallow == "true" {
            return Err(MemoryError::Refused(
                "issues are signed for the repository's first commit, which a shallow clone lacks; fetch it: git fetch \
                 --unshallow"
                    .to_owned(),
            ));
        }
        // Of several first commits the one of the checked-out line counts: merging another history changes nothing.
        let arguments = ["rev-list", "--first-parent", "--max-parents=0", "HEAD"];
        let first = git.line(arguments).map_err(|_| {
            MemoryError::Refused("issues need a repository with a first commit".to_owned())
        })?;
        let name = format!("{NAME_PREFIX}{first}");
        Ok(Self { git, name, by: by.to_owned(), key, empty_tree: OnceLock::new() })
    }

    /// All issues, by number.
    pub fn numbers(&self) -> Result<Vec<u64>, MemoryError> {
        let format = "--format=%(objecttype) %(refname)";
        let listed = self.git.run(["for-each-ref", format, ISSUE_REFS]).map_err(failed)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        // `007`, or a reference to a file, is no issue.
        let number = |line: &str| {
            let name = line.strip_prefix("commit ")?.strip_prefix(ISSUE_REFS)?;
            name.parse().ok().filter(|number: &u64| number.to_string() == name)
        };
        let mut numbers: Vec<u64> = listed.lines().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Those that were opened with our key in this repository.
    pub fn opened(&self) -> Result<Vec<u64>, MemoryError> {
        let mut opened = Vec::new();
        for number in self.numbers()? {
            if self.read_any(number)?.0.is_opened {
                opened.push(number);
            }
        }
        Ok(opened)
    }

    /// Opens an issue under the next free number.
    pub fn open(&self, new: &NewIssue) -> Result<u64, MemoryError> {
        if new.title.trim().is_empty() {
            return Err(MemoryError::Refused("an issue needs a title".to_owned()));
        }
        // A reference that is no issue of ours takes its own number and no other one.
        let mut number = self.opened()?.last().map_or(1, |last| last.saturating_add(1));
        for _ in 0..MAX_ATTEMPTS {
            let taken = self.numbers()?;
            while taken.binary_search(&number).is_ok() {
                number = number.saturating_add(1);
            }
            let (title, body) = (new.title.trim().to_owned(), new.body.clone());
            let change = Change::Open { title, body };
            let commit = self.commit(number, change, &[])?;
            if self.move_ref(&reference(number), None, &commit)? {
                if !new.labels.is_empty() {
                    self.change(number, |_| {
                        Some(Change::Labels { add: new.labels.clone(), remove: Vec::new() })
                    })?;
                }
                return Ok(number);
            }
        }
        Err(busy())
    }

    /// Commits that do not count: what they changed was not signed with our key.
    pub fn ignored(&self, number: u64) -> Result<Vec<String>, MemoryError> {
        Ok(self.read_any(number)?.0.ignored)
    }

    /// Whether this commit is the last one of an issue that was opened with our key in this repository.
    pub(super) fn is_ours(&self, number: u64, commit: &str) -> Result<bool, MemoryError> {
        let stored = self.stored(commit)?;
        Ok(fold(number, &self.name, &stored, &self.key).is_opened)
    }

    /// The last commit of an issue; nothing if there is none.
    pub fn last_commit(&self, number: u64) -> Result<Option<String>, MemoryError> {
        self.tip(&reference(number))
    }

    /// Whether an issue still has a commit. One that git does not know any more is missing.
    pub fn has_commit(&self, number: u64, commit: &str) -> Result<bool, MemoryError> {
        let name = reference(number);
        let arguments = ["merge-base", "--is-ancestor", commit, &name];
        let output = self.git.output(arguments, Input::Nothing).map_err(failed)?;
        Ok(output.exit_code == Some(0))
    }

    /// The issue and its last commit.
    fn read(&self, number: u64) -> Result<(Folded, String), MemoryError> {
        let (folded, tip) = self.read_any(number)?;
        if folded.is_opened {
            return Ok((folded, tip));
        }
        Err(MemoryError::Refused(format!(
            "issue #{number} was opened with another key or in another repository; copy memory.key from the machine \
             that opened it"
        )))
    }

    /// The same, whether or not it was opened by us.
    fn read_any(&self, number: u64) -> Result<(Folded, String), MemoryError> {
        let tip = self.require_tip(number)?;
        let stored = self.stored(&tip)?;
        Ok((fold(number, &self.name, &stored, &self.key), tip))
    }

    fn require_tip(&self, number: u64) -> Result<String, MemoryError> {
        let tip = self.tip(&reference(number))?;
        tip.ok_or_else(|| MemoryError::Missing(format!("issue #{number}")))
    }

    fn stored(&self, tip: &str) -> Result<Vec<Stored>, MemoryError> {
        let listed =
            self.git.run(["rev-list", "--topo-order", "--reverse", tip]).map_err(failed)?;
        let raw = self
            .git
            .run_with_input(["cat-file", "--batch"], Input::Bytes(&listed))
            .map_err(failed)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut batch = Batch::new(&raw);
        let mut stored = Vec::new();
        for commit in listed.lines() {
            stored.push(Stored::parse(commit, &batch.next().map_err(failed)?));
        }
        Ok(stored)
    }

    fn tip(&self, name: &str) -> Result<Option<String>, MemoryError> {
        crate::git::resolve_ref(&self.git, name).map_err(failed)
    }

    /// Adds a change that depends on what the issue is; `None` changes nothing.
    fn change(
        &self,
        number: u64,
        change: impl Fn(&Folded) -> Option<Change>,
    ) -> Result<bool, MemoryError> {
        for _ in 0..MAX_ATTEMPTS {
            let (folded, tip) = self.read(number)?;
            let Some(change) = change(&folded) else { return Ok(false) };
            let commit = self.commit(number, change, std::slice::from_ref(&tip))?;
            if self.move_ref(&reference(number), Some(&tip), &commit)? {
                return Ok(true);
            }
        }
        Err(busy())
    }

    pub(super) fn commit(
        &self,
        number: u64,
        change: Change,
        parents: &[String],
    ) -> Result<String, MemoryError> {
        let operation = Operation { change, by: self.by.clone(), at: now(), signature: None };
        let message = operation.message(&self.key, &self.name, number, parents);
        self.commit_text(&message, parents)
    }

    fn commit_text(&self, message: &str, parents: &[String]) -> Result<String, MemoryError> {
        let tree = match self.empty_tree.get() {
            Some(tree) => tree.clone(),
            None => {
                let made =
                    self.git.run_with_input(["mktree"], Input::Bytes(b"")).map_err(failed)?;
                let made = String::from_utf8_lossy(&made).trim().to_owned();
                self.empty_tree.get_or_init(|| made).clone()
            }
        };
        let mut arguments = vec!["commit-tree", "--no-gpg-sign", tree.as_str(), "-F", "-"];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        let made =
            self.git.run_with_input(arguments, Input::Bytes(message.as_bytes())).map_err(failed)?;
        Ok(String::from_utf8_lossy(&made).trim().to_owned())
    }

    /// Moves a reference; false if it was not where it was expected.
    pub(super) fn move_ref(
        &self,
        name: &str,
        expected: Option<&str>,
        commit: &str,
    ) -> Result<bool, MemoryError> {
        let zero = "0".repeat(commit.len());
        let expected = expected.unwrap_or(&zero);
        let arguments = ["update-ref", "--no-deref", name, commit, expected];
        let output = self.git.output(arguments, Input::Nothing).map_err(failed)?;
        if output.exit_code == Some(0) {
            return Ok(true);
        }
        // A lock of somebody else or another value: both mean that somebody is faster. Anything else stays.
        match self.tip(name)? {
            Some(found) if found == expected => {
                std::thread::sleep(Duration::from_millis(2));
                Ok(false)
            }
            None if expected == zero => Err(failed(output.into_error())),
            Some(_) | None => Ok(false),
        }
    }

    /// Keeps the files of a run in this repository.
    pub(super) async fn keep_work(&self, _: u64, commit: &str) -> Result<(), MemoryError> {
        retain_commit(&self.git, commit).map_err(failed)
    }

    pub(super) async fn fetch_work(&self, _: u64, commit: &str) -> Result<bool, MemoryError> {
        let name = format!("{commit}^{{commit}}");
        self.git.succeeds(["cat-file", "-e", &name]).map_err(failed)
    }

    pub(super) fn git(&self) -> &Git {
        &self.git
    }
}

impl IssueMemory for LocalIssues {
    fn repository(&self) -> &str {
        &self.name
    }

    async fn read_issue(&self, number: u64) -> Result<ReadIssue, MemoryError> {
        let (folded, _) = self.read(number)?;
        let body_version = Some(folded.body_version);
        Ok(ReadIssue { issue: folded.issue, body_version, is_body_cut: false, now: now() })
    }

    async fn comments(
        &self,
        number: u64,
        _since: Option<Moment>,
    ) -> Result<Vec<Comment>, MemoryError> {
        Ok(self.read(number)?.0.comments)
    }

    async fn label_events(&self, number: u64) -> Result<Vec<LabelEvent>, MemoryError> {
        Ok(self.read(number)?.0.label_events)
    }

    async fn state_events(
        &self,
        number: u64,
        _since: Option<Moment>,
    ) -> Result<Vec<StateEvent>, MemoryError> {
        Ok(self.read(number)?.0.state_events)
    }

    async fn post_comment(&self, number: u64, body: &str) -> Result<Comment, MemoryError> {
        let mut attempts = 0;
        loop {
            let tip = self.require_tip(number)?;
            let change = Change::Comment { body: body.to_owned() };
            let commit = self.commit(number, change, std::slice::from_ref(&tip))?;
            if self.move_ref(&reference(number), Some(&tip), &commit)? {
                let stored = self.stored(&commit)?;
                let written = fold(number, &self.name, &stored, &self.key).comments.pop();
                let unreadable =
                    || MemoryError::Unavailable("the comment cannot be read".to_owned());
                return written.ok_or_else(unreadable);
            }
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                return Err(busy());
            }
        }
    }

    async fn edit_body(
        &self,
        number: u64,
        version: Option<u64>,
        body: &str,
    ) -> Result<BodyEdit, MemoryError> {
        let is_written = self.change(number, |folded| {
            let is_expected = version.is_none_or(|version| version == folded.body_version);
            is_expected.then(|| Change::Body { body: body.to_owned() })
        })?;
        Ok(if is_written { BodyEdit::Written } else { BodyEdit::Conflict })
    }

    async fn change_labels(&self, number: u64, change: &LabelChange) -> Result<(), MemoryError> {
        let changed = |folded: &Folded| {
            let current = &folded.issue.labels;
            let missing = |label: &&String| !current.contains(label);
            let add: Vec<String> = change.add.iter().filter(missing).cloned().collect();
            let present = |label: &&String| current.contains(label);
            let remove: Vec<String> = change.remove.iter().filter(present).cloned().collect();
            (!add.is_empty() || !remove.is_empty()).then_some(Change::Labels { add, remove })
        };
        self.change(number, changed).map(drop)
    }

    async fn set_assignee(&self, number: u64, assignee: Option<&str>) -> Result<(), MemoryError> {
        let assignee = assignee.map(str::to_owned);
        self.change(number, |folded| {
            (folded.issue.assignee != assignee)
                .then(|| Change::Assignee { assignee: assignee.clone() })
        })
        .map(drop)
    }

    async fn set_milestone(&self, number: u64, milestone: Option<u64>) -> Result<(), MemoryError> {
        self.change(number, |folded| {
            (folded.milestone != milestone).then_some(Change::Milestone { milestone })
        })
        .map(drop)
    }

    async fn set_locked(&self, number: u64, is_locked: bool) -> Result<(), MemoryError> {
        self.change(number, |folded| {
            (folded.issue.is_locked != is_locked).then_some(Change::Locked { is_locked })
        })
        .map(drop)
    }

    async fn set_open(&self, number: u64, is_open: bool) -> Result<(), MemoryError> {
        self.change(number, |folded| {
            (folded.issue.is_open != is_open).then_some(Change::State { is_open })
        })
        .map(drop)
    }

    async fn open_issues(&self) -> Result<Vec<u64>, MemoryError> {
        let mut open = Vec::new();
        for number in self.numbers()? {
            let folded = self.read_any(number)?.0;
            if folded.is_opened && folded.issue.is_open {
                open.push(number);
            }
        }
        Ok(open)
    }

    /// Every author: the signature alone counts.
    async fn account(&self) -> Result<Option<String>, MemoryError> {
        Ok(None)
    }

    async fn read_ref(&self, name: &str) -> Result<Option<RefContent>, MemoryError> {
        let Some(version) = self.tip(name)? else { return Ok(None) };
        let raw = self.git.run(["cat-file", "commit", &version]).map_err(failed)?;
        let text = String::from_utf8_lossy(&raw);
        let (_, message) = text.split_once("\n\n").unwrap_or_default();
        Ok(Some(RefContent { version, text: message.trim_end().to_owned() }))
    }

    async fn swap_ref(
        &self,
        name: &str,
        expected: Option<&str>,
        text: &str,
    ) -> Result<RefSwap, MemoryError> {
        let commit = self.commit_text(text, &[])?;
        let is_moved = self.move_ref(name, expected, &commit)?;
        Ok(if is_moved { RefSwap::Done(commit) } else { RefSwap::Moved })
    }

    async fn wait(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn back_off(&self, attempt: u32) {
        crate::back_off::back_off(attempt).await;
    }
}

pub(super) fn reference(number: u64) -> String {
    format!("{ISSUE_REFS}{number}")
}

fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn failed(error: GitError) -> MemoryError {
    MemoryError::Refused(error.to_string())
}

fn busy() -> MemoryError {
    MemoryError::Unavailable("others change the issue at the same time".to_owned())
}
