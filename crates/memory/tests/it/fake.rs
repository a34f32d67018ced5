//! An issue in memory that fails, loses writes and delays comments like a forge.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bailiwick_memory::{
    BodyEdit, Comment, Issue, IssueMemory, LabelChange, LabelEvent, MemoryError, ReadIssue,
    RefContent, RefSwap, StateEvent,
};
use bailiwick_resources::Moment;
use bailiwick_testkit::random::Random;

/// The number of bytes that are read of a text, as from a forge.
const MAX_READ_BYTES: usize = 64 * 1024;
/// The longest text that GitHub accepts.
const MAX_WRITTEN_CHARS: usize = 65_536;

/// A concurrent action of somebody else.
type Hook = Box<dyn FnOnce(&Fake) + Send>;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call has no effect and no answer.
    Before,
    /// The call has its effect, but no answer.
    After,
}

#[derive(Default)]
struct Inner {
    issue: Issue,
    milestone: Option<u64>,
    /// The server fails if this milestone is set.
    unknown_milestone: Option<u64>,
    version: u64,
    /// With the issue of each comment.
    comments: Vec<(u64, Comment)>,
    /// When a comment becomes visible, by its id.
    visible_at: BTreeMap<u64, u64>,
    /// The delay of the next comment.
    lateness: u64,
    references: BTreeMap<String, RefContent>,
    /// When the issue for claims was closed and opened.
    claims_states: Vec<StateEvent>,
    /// The text of the issue for claims.
    claims_body: String,
    /// The number of comments in the last list.
    last_listed: usize,
    now: u64,
    calls: u64,
    fault: Option<(u64, Fault)>,
    /// After the call with this number there is no answer, as if the caller was killed.
    killed_after: Option<u64>,
    loses_edits: Option<Random>,
    after_post: Option<Hook>,
}

/// The issue with the claims.
pub(crate) const CLAIMS_ISSUE: u64 = 9;

impl Inner {
    fn add_comment(&mut self, issue: u64, author: &str, body: &str) -> Comment {
        let id = u64::try_from(self.comments.len()).unwrap() + 1;
        let at = Moment::from_millis(self.now);
        let (author, body) = (author.to_owned(), body.to_owned());
        let comment = Comment { id, author, body, created_at: at, updated_at: at };
        self.comments.push((issue, comment.clone()));
        comment
    }
}

/// Refuses a text that is too long, as GitHub does.
fn require_length(body: &str) -> Result<(), MemoryError> {
    match body.chars().count() > MAX_WRITTEN_CHARS {
        true => Err(MemoryError::Refused("body is too long (status 422)".to_owned())),
        false => Ok(()),
    }
}

/// The text as it is read from a forge: a long one is cut.
fn cut(body: &str) -> String {
    match body.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_READ_BYTES) {
        Some(at) => {
            let (beginning, dropped) = body.split_at(at);
            format!("{beginning}\n[cut here: {} more bytes]", dropped.len())
        }
        None => body.to_owned(),
    }
}

/// An issue with the number 7, and one for claims.
pub(crate) struct Fake {
    inner: Mutex<Inner>,
    has_versions: bool,
}

impl Fake {
    pub(crate) fn new(has_versions: bool) -> Self {
        let issue = Issue {
            repository: "acme/app".to_owned(),
            number: 7,
            title: "Parser".to_owned(),
            body: "Please.".to_owned(),
            is_open: true,
            ..Issue::default()
        };
        let inner = Inner { issue, now: 1_700_000_000_000, ..Inner::default() };
        Self { inner: Mutex::new(inner), has_versions }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(crate) fn calls(&self) -> u64 {
        self.inner().calls
    }

    /// The call after this many others fails.
    pub(crate) fn fail(&self, after: u64, fault: Fault) {
        let mut inner = self.inner();
        inner.fault = Some((inner.calls + after, fault));
    }

    /// From the call after this many others, no call has an effect.
    pub(crate) fn kill(&self, after: u64) {
        let mut inner = self.inner();
        inner.killed_after = Some(inner.calls + after);
    }

    pub(crate) fn restart(&self) {
        let mut inner = self.inner();
        (inner.killed_after, inner.fault) = (None, None);
    }

    /// Edits of the body are sometimes lost, as between two writers on an old server.
    pub(crate) fn lose_edits(&self, random: Random) {
        self.inner().loses_edits = Some(random);
    }

    pub(crate) fn issue(&self) -> Issue {
        self.inner().issue.clone()
    }

    pub(crate) fn claims_body(&self) -> String {
        self.inner().claims_body.clone()
    }

    pub(crate) fn set_claims_body(&self, body: &str) {
        let mut inner = self.inner();
        inner.version += 1;
        body.clone_into(&mut inner.claims_body);
    }

    /// Runs after the next comment is written, before its author continues.
    pub(crate) fn after_next_post(&self, hook: impl FnOnce(&Self) + Send + 'static) {
        self.inner().after_post = Some(Box::new(hook));
    }

    /// Another account comments on the issue for claims.
    pub(crate) fn comment_by(&self, author: &str, body: &str) -> u64 {
        self.inner().add_comment(CLAIMS_ISSUE, author, body).id
    }

    /// The number of comments in the last list.
    pub(crate) fn last_listed(&self) -> usize {
        self.inner().last_listed
    }

    /// Somebody edits a comment.
    pub(crate) fn edit_comment(&self, id: u64) {
        let mut inner = self.inner();
        let now = Moment::from_millis(inner.now);
        let edited = inner.comments.iter_mut().find(|(_, comment)| comment.id == id).unwrap();
        edited.1.updated_at = now;
    }

    pub(crate) fn milestone(&self) -> Option<u64> {
        self.inner().milestone
    }

    /// This milestone does not exist; the server fails if it is set, as Gitea does.
    pub(crate) fn without_milestone(&self, id: u64) {
        self.inner().unknown_milestone = Some(id);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Issue)) {
        change(&mut self.inner().issue);
    }

    pub(crate) fn all_comments(&self) -> Vec<Comment> {
        self.inner().comments.iter().map(|(_, comment)| comment.clone()).collect()
    }

    /// The next comment becomes visible after this many milliseconds; others may appear before it.
    pub(crate) fn delay_next_comment(&self, millis: u64) {
        self.inner().lateness = millis;
    }

    fn call<T>(&self, action: impl FnOnce(&mut Inner) -> T) -> Result<T, MemoryError> {
        let mut inner = self.inner();
        inner.calls += 1;
        inner.now += 1000;
        let number = inner.calls;
        if inner.killed_after.is_some_and(|last| number > last) {
            return Err(MemoryError::Refused("killed".to_owned()));
        }
        let silent = || MemoryError::Unavailable("silence".to_owned());
        match inner.fault.take_if(|(at, _)| *at < number) {
            Some((_, Fault::Before)) => Err(silent()),
            Some((_, Fault::After)) => {
                action(&mut inner);
                Err(silent())
            }
            None => Ok(action(&mut inner)),
        }
    }
}

impl IssueMemory for Fake {
    fn repository(&self) -> &str {
        "acme/app"
    }

    async fn read_issue(&self, number: u64) -> Result<ReadIssue, MemoryError> {
        let claims = |inner: &Inner| Issue {
            repository: "acme/app".to_owned(),
            number: CLAIMS_ISSUE,
            body: inner.claims_body.clone(),
            is_open: inner.claims_states.last().is_none_or(|state| state.is_open),
            ..Issue::default()
        };
        self.call(|inner| {
            let mut issue =
                if number == CLAIMS_ISSUE { claims(inner) } else { inner.issue.clone() };
            issue.body = cut(&issue.body);
            ReadIssue {
                is_body_cut: issue.body.len() > MAX_READ_BYTES,
                issue,
                body_version: self.has_versions.then_some(inner.version),
                now: Moment::from_millis(inner.now),
            }
        })
    }

    async fn comments(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> Result<Vec<Comment>, MemoryError> {
        self.call(|inner| {
            let is_visible = |id: u64| {
                inner.visible_at.get(&id).is_none_or(|visible_at| *visible_at <= inner.now)
            };
            let listed = inner.comments.iter().filter(|(issue, _)| *issue == number);
            let is_wanted = |comment: &Comment| {
                is_visible(comment.id) && since.is_none_or(|since| comment.updated_at >= since)
            };
            let listed: Vec<Comment> =
                listed.map(|(_, comment)| comment.clone()).filter(is_wanted).collect();
            inner.last_listed = listed.len();
            listed
        })
    }

    async fn label_events(&self, _: u64) -> Result<Vec<LabelEvent>, MemoryError> {
        self.call(|_| Vec::new())
    }

    async fn state_events(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> Result<Vec<StateEvent>, MemoryError> {
        let is_wanted = |state: &&StateEvent| {
            number == CLAIMS_ISSUE && since.is_none_or(|since| state.at >= since)
        };
        self.call(|inner| inner.claims_states.iter().filter(is_wanted).cloned().collect())
    }

    async fn post_comment(&self, number: u64, body: &str) -> Result<Comment, MemoryError> {
        require_length(body)?;
        let posted = self.call(|inner| {
            let comment = inner.add_comment(number, "bot", body);
            let late = std::mem::take(&mut inner.lateness);
            inner.visible_at.insert(comment.id, inner.now + late);
            comment
        });
        let hook = self.inner().after_post.take();
        if let Some(hook) = hook {
            hook(self);
        }
        posted
    }

    async fn edit_body(
        &self,
        number: u64,
        version: Option<u64>,
        body: &str,
    ) -> Result<BodyEdit, MemoryError> {
        require_length(body)?;
        self.call(|inner| {
            if version.is_some_and(|version| version != inner.version) {
                return BodyEdit::Conflict;
            }
            if inner.loses_edits.as_mut().is_some_and(|random| random.once_in(3)) {
                return BodyEdit::Written;
            }
            inner.version += 1;
            let edited =
                if number == CLAIMS_ISSUE { &mut inner.claims_body } else { &mut inner.issue.body };
            body.clone_into(edited);
            BodyEdit::Written
        })
    }

    async fn change_labels(&self, _: u64, change: &LabelChange) -> Result<(), MemoryError> {
        self.call(|inner| {
            let labels = &mut inner.issue.labels;
            labels.retain(|label| !change.remove.contains(label) && !change.add.contains(label));
            labels.extend(change.add.iter().cloned());
        })
    }

    async fn set_assignee(&self, _: u64, assignee: Option<&str>) -> Result<(), MemoryError> {
        self.call(|inner| inner.issue.assignee = assignee.map(str::to_owned))
    }

    async fn set_milestone(&self, _: u64, milestone: Option<u64>) -> Result<(), MemoryError> {
        self.call(|inner| {
            if milestone.is_some() && milestone == inner.unknown_milestone {
                return Err(MemoryError::Unavailable("status 500".to_owned()));
            }
            inner.milestone = milestone;
            Ok(())
        })?
    }

    async fn set_locked(&self, _: u64, is_locked: bool) -> Result<(), MemoryError> {
        self.call(|inner| inner.issue.is_locked = is_locked)
    }

    async fn set_open(&self, number: u64, is_open: bool) -> Result<(), MemoryError> {
        self.call(|inner| {
            if number == CLAIMS_ISSUE {
                let at = Moment::from_millis(inner.now);
                inner.claims_states.push(StateEvent { is_open, by: "ada".to_owned(), at });
            } else {
                inner.issue.is_open = is_open;
            }
        })
    }

    async fn open_issues(&self) -> Result<Vec<u64>, MemoryError> {
        Ok(vec![7])
    }

    async fn account(&self) -> Result<Option<String>, MemoryError> {
        Ok(Some("bot".to_owned()))
    }

    async fn read_ref(&self, name: &str) -> Result<Option<RefContent>, MemoryError> {
        self.call(|inner| inner.references.get(name).cloned())
    }

    async fn swap_ref(
        &self,
        name: &str,
        expected: Option<&str>,
        text: &str,
    ) -> Result<RefSwap, MemoryError> {
        self.call(|inner| {
            let found = inner.references.get(name).map(|content| content.version.clone());
            if found.as_deref() != expected {
                return RefSwap::Moved;
            }
            let version = inner.calls.to_string();
            let content = RefContent { version: version.clone(), text: text.to_owned() };
            inner.references.insert(name.to_owned(), content);
            RefSwap::Done(version)
        })
    }

    async fn wait(&self, millis: u64) {
        self.inner().now += millis;
    }

    async fn back_off(&self, _: u32) {}
}

/// Runs a future that never waits.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let ready = match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    };
    ready.unwrap()
}
