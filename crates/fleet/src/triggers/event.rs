//! An event as rules see it, from any forge, clock or person.

use std::sync::Arc;

use bailiwick_resources::{EventSource, ForgeKind, Moment, SourceRefs, TrustTier};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::labels::LabelChange;
use crate::ports::{PullRequestState, Rights};

/// How what we write to forges begins, where people do not see it.
pub const OUR_MARK: &str = "<!-- bailiwick:";

/// An event. A field that was not sent is empty, and a rule that requires it does not match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceEvent {
    /// Which of the ten sources.
    pub source: EventSource,
    /// The most specific source of the same delivery, which determines its trust.
    pub telling: EventSource,
    /// The ID that identifies a repetition: of the occurrence if the forge identifies it, else of the delivery, the
    /// tick or the request.
    pub uid: String,
    /// When it was received; unchanged by a replay.
    pub at: Moment,
    /// The forge that sent it.
    pub forge: ForgeKind,
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The kind of event, as its sender names it (`check_run`, `push`, …).
    pub event: String,
    /// The action (`completed`, `opened`, `created`, …).
    pub action: Option<String>,
    /// The account that did it.
    pub actor: Option<String>,
    /// The person who replayed it.
    #[serde(default)]
    pub asked_by: Option<String>,
    /// The association of the actor with the repository, if the forge sends it.
    pub association: Association,
    /// Whether the actor is one of our own accounts.
    pub by_agent: bool,
    /// The ref, as `refs/heads/main`.
    pub reference: Option<String>,
    pub branch: Option<String>,
    pub tag: Option<String>,
    /// The commit.
    pub sha: Option<String>,
    /// The commit before it, or the one that a pull request goes to.
    pub base_sha: Option<String>,
    pub pull_request: Option<u64>,
    /// The repository of the commit, as `owner/name`.
    pub head_repository: Option<String>,
    pub issue: Option<u64>,
    /// The label that was added or removed, or all labels of the object.
    pub labels: Vec<String>,
    /// Which labels were put on, where the forge sends only those that there are now.
    #[serde(skip)]
    pub label_change: LabelChange,
    /// The title of the issue or pull request.
    pub title: Option<String>,
    /// The comment, or the text of what it is about.
    pub body: Option<String>,
    pub workflow: Option<String>,
    pub job: Option<String>,
    /// The forge's id of the job, by which its log is fetched.
    pub job_id: Option<String>,
    /// The step that failed.
    pub step: Option<String>,
    pub check: Option<String>,
    /// How it ended.
    pub conclusion: Option<String>,
    /// The paths that were changed, where they are known.
    pub changed_paths: Option<Vec<String>>,
    /// The end of the failing log, where it is known.
    pub failure_log: Option<String>,
    /// How much it is trusted.
    pub trust_tier: TrustTier,
    /// Why it is not trusted.
    pub distrust: Option<String>,
    pub source_refs: SourceRefs,
    /// The whole payload. It may be large, so all rules share it.
    #[serde(with = "shared")]
    pub payload: Arc<Value>,
    /// The digest of the request, for an event from a person's request.
    #[serde(skip)]
    pub request_digest: Option<String>,
}

/// A shared value is written as the value that it is.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(value: &Arc<Value>, out: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Arc<Value>, D::Error> {
        Value::deserialize(input).map(Arc::new)
    }
}

/// The association of an actor with a repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Association {
    /// An account with write permission.
    Writer,
    /// Another account.
    Stranger,
    #[default]
    Unknown,
}

impl SourceEvent {
    /// An untrusted event with nothing but its source.
    pub fn new(source: EventSource, forge: ForgeKind, uid: &str, repository: &str) -> Self {
        Self {
            source,
            telling: source,
            uid: uid.to_owned(),
            at: Moment::default(),
            forge,
            repository: repository.to_owned(),
            event: source.as_str().to_owned(),
            action: None,
            actor: None,
            association: Association::Unknown,
            asked_by: None,
            by_agent: false,
            reference: None,
            branch: None,
            tag: None,
            sha: None,
            base_sha: None,
            pull_request: None,
            head_repository: None,
            issue: None,
            labels: Vec::new(),
            label_change: LabelChange::Named,
            title: None,
            body: None,
            workflow: None,
            job: None,
            job_id: None,
            step: None,
            check: None,
            conclusion: None,
            changed_paths: None,
            failure_log: None,
            trust_tier: TrustTier::Untrusted,
            distrust: Some("nothing says where it comes from".to_owned()),
            source_refs: SourceRefs::default(),
            payload: Arc::new(Value::Null),
            request_digest: None,
        }
    }

    /// The request of an authenticated person, which is trusted unless it is about a fork.
    pub fn manual(uid: &str, at: Moment, repository: &str, actor: &str, payload: Value) -> Self {
        let mut event = Self::new(EventSource::Manual, ForgeKind::Local, uid, repository);
        event.at = at;
        event.actor = Some(actor.to_owned());
        event.association = Association::Writer;
        event.payload = Arc::new(payload);
        event.trust();
        event
    }

    /// A replay: another event with the same content.
    #[must_use]
    pub fn replayed(&self, request: &str, by: &str) -> Self {
        let uid = format!("{}/replay/{request}", self.uid);
        Self { uid, asked_by: Some(by.to_owned()), ..self.clone() }
    }

    /// Works out how much it is trusted, from what is known of it. Unknown counts as untrusted.
    pub fn trust(&mut self) {
        self.distrust = self.objection();
        self.trust_tier =
            if self.distrust.is_some() { TrustTier::Untrusted } else { TrustTier::Trusted };
    }

    fn objection(&self) -> Option<String> {
        if self.forge == ForgeKind::Generic && self.association != Association::Writer {
            return Some("its sender does not vouch for it".to_owned());
        }
        match &self.head_repository {
            Some(head) if !head.eq_ignore_ascii_case(&self.repository) => {
                return Some(format!("its commit comes from `{head}`, a fork"));
            }
            // Checks run on commits of forks too.
            None if self.pull_request.is_some()
                || (self.telling == EventSource::Ci && self.forge != ForgeKind::Generic) =>
            {
                return Some("it is not known which repository its commit comes from".to_owned());
            }
            Some(_) | None => {}
        }
        let actor = self.actor.as_deref().unwrap_or("somebody");
        match (self.telling, self.association) {
            // Only who may write can push, run a workflow of the repository's own branch, or ask us.
            (
                EventSource::Push
                | EventSource::Tag
                | EventSource::Ci
                | EventSource::Schedule
                | EventSource::Manual
                | EventSource::RepositoryDispatch,
                Association::Writer | Association::Unknown,
            )
            | (
                EventSource::Webhook
                | EventSource::IssueComment
                | EventSource::PrComment
                | EventSource::Label,
                Association::Writer,
            ) => None,
            (_, Association::Stranger) => Some(format!("{actor} may not write to the repository")),
            (_, Association::Unknown) => {
                Some(format!("nothing says that {actor} may write to the repository"))
            }
        }
    }

    /// Adds the forge's data about its pull request, and determines its trust again.
    pub fn learn_pull_request(&mut self, state: &PullRequestState) {
        self.pull_request = Some(state.number);
        // The data of a pull request in the repository itself is about its head alone: another commit may come from
        // anyone.
        let is_head = self.sha.as_ref().is_none_or(|sha| *sha == state.head_sha);
        let head = state.head_repository.as_ref();
        let ours = head.is_some_and(|head| head.eq_ignore_ascii_case(&self.repository));
        if is_head || !ours {
            self.head_repository = state.head_repository.clone();
        }
        self.branch = self.branch.take().or_else(|| Some(state.head_branch.clone()));
        self.sha = self.sha.take().or_else(|| Some(state.head_sha.clone()));
        self.title = self.title.take().or_else(|| Some(state.title.clone()));
        self.changed_paths = self.changed_paths.take().or_else(|| Some(state.files.clone()));
        self.source_refs.pull_request = Some(state.number);
        self.trust();
    }

    /// Adds where a branch of the repository itself is. A commit that it is at is the repository's own.
    pub fn learn_branch(&mut self, branch: &str, head: &str) {
        if self.sha.is_none() && self.pull_request.is_none() {
            self.sha = Some(head.to_owned());
        }
        let about_it = self.branch.as_deref().is_none_or(|known| known == branch);
        if about_it && self.sha.as_deref() == Some(head) && self.head_repository.is_none() {
            self.head_repository = Some(self.repository.clone());
            self.trust();
        }
    }

    /// Adds the forge's data about the rights of its actor, unless the event had them.
    pub fn learn_rights(&mut self, rights: Rights) {
        self.association = match (self.association, rights) {
            (Association::Unknown, Rights::Write) => Association::Writer,
            (Association::Unknown, Rights::Read) => Association::Stranger,
            (known, Rights::Write | Rights::Read | Rights::Unknown) => known,
        };
        self.trust();
    }

    /// Marks events of our own accounts. Anyone can copy our marker, so it counts only if our accounts are not
    /// known: otherwise our own comments could start runs without end.
    pub fn mark_agent(&mut self, own_accounts: &[String]) {
        let is_own =
            |actor: &String| own_accounts.iter().any(|own| own.eq_ignore_ascii_case(actor));
        self.by_agent = match own_accounts.is_empty() {
            true => self.is_marked(),
            false => self.actor.as_ref().is_some_and(is_own),
        };
    }

    /// Whether its text has the mark of what we write.
    pub(super) fn is_marked(&self) -> bool {
        self.body.as_deref().is_some_and(|body| body.contains(OUR_MARK))
    }

    /// The ref that work on it starts from, in full.
    pub fn full_reference(&self, default_branch: &str) -> String {
        match (self.pull_request, &self.tag, &self.branch, &self.reference) {
            (Some(number), _, _, _) => format!("refs/pull/{number}/head"),
            (None, Some(tag), _, _) => format!("refs/tags/{tag}"),
            (None, None, _, Some(reference)) if reference.starts_with("refs/") => reference.clone(),
            (None, None, Some(branch), _) => format!("refs/heads/{branch}"),
            (None, None, None, Some(_) | None) => format!("refs/heads/{default_branch}"),
        }
    }
}
