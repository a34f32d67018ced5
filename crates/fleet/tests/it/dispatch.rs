//! Passes of the control plane with an in-memory store, a scripted engine and a scripted world.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bailiwick_fleet::admission::conditions::{
    AdapterFacts, AdapterProbe, KitRole, ProgramFacts, RoleFacts, SkillProbe, StackFacts,
};
use bailiwick_fleet::admission::snapshot::FrozenStack;
use bailiwick_fleet::admission::{OwnerFacts, TeamMembers};
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{
    ActionError, AttemptLaunch, Caller, CheckRun, DecisionRequest, DispatchRequest, Engine,
    EngineError, EngineEvent, FetchError, FetchedCommit, FinishedWork, Fleet as _, FleetStore as _,
    Forge, ForgeError, Launched, LaunchedChild, LaunchedState, LifecycleRequest, LifecycleVerb,
    MemoryFleet, PullRequestState, Rebased, Rights, RunVerb, RunVerbRequest, RunWorktree,
    Selection, Target, TokenScope, Verdict, WorkspaceError, WorkspaceOperation, WorkspacePlace,
    WorkspaceReport, WorktreeOrigin, World, WorldError, WriteBack, Written,
};
use bailiwick_fleet::resources::apply;
use bailiwick_resources::{
    API_VERSION, AgentApproval, AgentDispatchRun, AgentTriggerExecution, AnyObject, ContextSource,
    ForgeKind, GitStatus, Kind, Metadata, Moment, Object, PatchCommit, Repository, Resource,
    RunCost, RunPhase, WriteBackState,
};
use serde_json::{Value, json};

mod cost;
mod delivery_filter;
mod long_queue;

pub(crate) const SHA: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const START: u64 = 1_794_000_000_000;

/// An engine that returns scripted states and records its calls.
#[derive(Default)]
pub(crate) struct ScriptedEngine {
    pub(crate) launched: Mutex<Vec<AttemptLaunch>>,
    pub(crate) states: Mutex<BTreeMap<String, Launched>>,
    pub(crate) cancelled: Mutex<Vec<String>>,
    pub(crate) answered: Mutex<Vec<(String, String, bool)>>,
    pub(crate) children: Mutex<BTreeMap<String, Vec<LaunchedChild>>>,
    /// How often the state of an attempt was requested.
    pub(crate) requests: AtomicU64,
    pub(crate) engine_events: Mutex<BTreeMap<String, Vec<EngineEvent>>>,
    /// The result of rebasing work onto a commit; without an entry the rebase is running.
    pub(crate) rebased: Mutex<BTreeMap<String, Rebased>>,
    /// The commits onto which work was to be rebased.
    pub(crate) rebased_on: Mutex<Vec<String>>,
}

pub(crate) fn in_state(state: LaunchedState) -> Launched {
    Launched {
        state,
        session: Some("conversation".to_owned()),
        cost: RunCost { tokens: 7, ..RunCost::default() },
        attempts: 1,
        is_claimed: false,
        cursor: 3,
        detail: "as it says".to_owned(),
        questions: Vec::new(),
        work: None,
        pod_problem: None,
    }
}

pub(crate) fn work() -> FinishedWork {
    FinishedWork {
        base: SHA.to_owned(),
        commit: "f".repeat(40),
        tree: "e".repeat(40),
        files: vec!["src/a.rs".to_owned()],
        patch: b"+a line\n".to_vec(),
        history: Some(Vec::new()),
        commits: vec![PatchCommit {
            sha: "f".repeat(40),
            author: "Agent <agent@example.org>".to_owned(),
            committer: None,
            message: "Add a line\n\nWith a reason.".to_owned(),
            files: vec!["src/a.rs".to_owned()],
        }],
        merges: true,
        verified: true,
        verdict: "all 3 hold".to_owned(),
        report: None,
    }
}

impl Engine for ScriptedEngine {
    async fn launch(&self, launch: AttemptLaunch) -> Result<(), EngineError> {
        let agent = launch.agent.clone();
        self.launched.lock().unwrap().push(launch);
        let mut states = self.states.lock().unwrap();
        states.entry(agent).or_insert_with(|| in_state(LaunchedState::Running));
        Ok(())
    }

    async fn state(&self, agent: &str) -> Result<Option<Launched>, EngineError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(self.states.lock().unwrap().get(agent).cloned())
    }

    async fn is_running(&self, agent: &str) -> Result<bool, EngineError> {
        let states = self.states.lock().unwrap();
        Ok(states.get(agent).is_some_and(|known| known.state == LaunchedState::Running))
    }

    async fn children(&self, agent: &str) -> Result<Vec<LaunchedChild>, EngineError> {
        Ok(self.children.lock().unwrap().get(agent).cloned().unwrap_or_default())
    }

    async fn answer(&self, agent: &str, question: &str, yes: bool) -> Result<bool, EngineError> {
        self.answered.lock().unwrap().push((agent.to_owned(), question.to_owned(), yes));
        Ok(true)
    }

    async fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EngineEvent>, EngineError> {
        let engine_events =
            self.engine_events.lock().unwrap().get(agent).cloned().unwrap_or_default();
        Ok(engine_events.into_iter().filter(|event| event.number > after).take(limit).collect())
    }

    async fn rebase(&self, _: &str, onto: &str) -> Result<Rebased, EngineError> {
        self.rebased_on.lock().unwrap().push(onto.to_owned());
        Ok(self.rebased.lock().unwrap().get(onto).cloned().unwrap_or(Rebased::Running))
    }

    async fn cancel(&self, agent: &str) -> Result<(), EngineError> {
        self.cancelled.lock().unwrap().push(agent.to_owned());
        self.states.lock().unwrap().insert(agent.to_owned(), in_state(LaunchedState::Stopped));
        Ok(())
    }
}

/// A forge that stores each write once per key and can be unavailable.
#[derive(Clone, Default)]
pub(crate) struct ScriptedForge {
    pub(crate) written: Arc<Mutex<BTreeMap<String, WriteBack>>>,
    pub(crate) sent: Arc<Mutex<Vec<WriteBack>>>,
    pub(crate) pulls: Arc<Mutex<BTreeMap<u64, PullRequestState>>>,
    pub(crate) faults: Arc<Mutex<VecDeque<ForgeError>>>,
    pub(crate) requests: Arc<AtomicU64>,
    /// The heads of branches that have moved.
    pub(crate) heads: Arc<Mutex<BTreeMap<String, String>>>,
    /// Branches that are protected from the account of the token.
    pub(crate) protected: Arc<Mutex<Vec<String>>>,
    /// The members of teams, or why the forge does not tell them.
    pub(crate) teams: Arc<Mutex<BTreeMap<String, Result<TeamMembers, ForgeError>>>>,
    /// The teams that were asked for, in order.
    pub(crate) requested_teams: Arc<Mutex<Vec<String>>>,
}

impl ScriptedForge {
    fn head(&self, branch: &str) -> Option<String> {
        let known = self.heads.lock().unwrap().get(branch).cloned();
        known.or_else(|| (branch == "main").then(|| SHA.to_owned()))
    }

    /// Moves a branch if it is at the expected commit.
    fn push(&self, branch: &str, commit: &str, from: Option<&str>) -> Result<(), ForgeError> {
        let head = self.head(branch);
        if let (Some(from), Some(head)) = (from, head)
            && from != head
            && commit != head
        {
            let (target, expected) = (format!("the branch {branch}"), from.to_owned());
            return Err(ForgeError::Moved { target, expected, found: head });
        }
        self.heads.lock().unwrap().insert(branch.to_owned(), commit.to_owned());
        Ok(())
    }
}

impl Forge for ScriptedForge {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let was_there = self.written.lock().unwrap().contains_key(key);
        self.written.lock().unwrap().insert(key.to_owned(), what.clone());
        if !was_there {
            self.sent.lock().unwrap().push(what.clone());
        }
        // The write was made, but its response was lost.
        if let Some(fault) = self.faults.lock().unwrap().pop_front() {
            return Err(fault);
        }
        if let WriteBack::Push { branch, commit, from } = what {
            self.push(branch, commit, from.as_deref())?;
        }
        Ok(Written { id: "1".to_owned(), url: None, was_there })
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        let known = self.pulls.lock().unwrap().get(&number).cloned();
        known.ok_or_else(|| ForgeError::Refused(format!("no pull request {number}")))
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        Ok(self.head(name))
    }

    async fn push_rights(&self, branch: &str) -> Result<Rights, ForgeError> {
        let is_protected = |name: &String| match name.strip_suffix('*') {
            Some(beginning) => branch.starts_with(beginning),
            None => name == branch,
        };
        let protected = self.protected.lock().unwrap().iter().any(is_protected);
        Ok(if protected { Rights::Read } else { Rights::Write })
    }

    async fn team_members(&self, team: &str) -> Result<TeamMembers, ForgeError> {
        self.requested_teams.lock().unwrap().push(team.to_owned());
        let known = self.teams.lock().unwrap().get(team).cloned();
        known.unwrap_or_else(|| Ok(TeamMembers::Unreadable("no such team".to_owned())))
    }

    async fn issue(&self, _: u64) -> Result<(String, String), ForgeError> {
        Err(ForgeError::Refused("no issue".to_owned()))
    }

    async fn job_log(&self, _: &str, _: usize) -> Result<String, ForgeError> {
        Ok(String::new())
    }

    async fn checks_since(
        &self,
        _: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        Ok((Vec::new(), None))
    }
}

#[derive(Default)]
pub(crate) struct ScriptedWorld {
    pub(crate) forge: ScriptedForge,
    pub(crate) clock: AtomicU64,
    /// Why the agent program cannot be probed.
    pub(crate) adapter_error: Mutex<Option<String>>,
    /// The agent program loses its sessions.
    pub(crate) loses_sessions: std::sync::atomic::AtomicBool,
    /// The facts that the agent program reports.
    pub(crate) program: Mutex<Option<ProgramFacts>>,
    /// The result of looking up each skill.
    pub(crate) skills: Mutex<BTreeMap<String, SkillProbe>>,
    pub(crate) fetched: Mutex<Vec<String>>,
    /// When a commit was fetched, if known.
    pub(crate) fetched_at: Mutex<BTreeMap<String, Moment>>,
    /// Commits that were requested by name.
    pub(crate) requested_commits: Mutex<Vec<String>>,
    /// How often all agent programs were probed.
    pub(crate) all_probed: AtomicU64,
    /// Whether agents have worktrees with files.
    pub(crate) has_worktrees: std::sync::atomic::AtomicBool,
    /// The agents that have a worktree; `None` means all.
    pub(crate) spawned: Mutex<Option<Vec<String>>>,
    /// Where the files of new worktrees come from, if not from the base.
    pub(crate) origin: Mutex<Option<WorktreeOrigin>>,
    /// The git status of every worktree.
    pub(crate) git: Mutex<GitStatus>,
    /// Why the list of secrets cannot be read.
    pub(crate) redaction_error: Mutex<Option<String>>,
    /// The text of the issue of a run.
    pub(crate) issue_text: Mutex<Option<String>>,
    /// The owners of the files at each commit.
    pub(crate) owners: Mutex<BTreeMap<String, OwnerFacts>>,
    /// The tips of branches that are not at the default commit.
    pub(crate) tips: Mutex<BTreeMap<String, String>>,
    /// Why branches cannot be fetched.
    pub(crate) unreachable: Mutex<Option<String>>,
}

impl World for ScriptedWorld {
    type Forge = ScriptedForge;

    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn forge(
        &self,
        repository: &Repository,
        _: Option<&[u8]>,
    ) -> Result<ScriptedForge, ForgeError> {
        match repository.forge {
            ForgeKind::Generic => Err(ForgeError::Unsupported("be written to".to_owned())),
            ForgeKind::Gitea | ForgeKind::Github | ForgeKind::Local => Ok(self.forge.clone()),
        }
    }

    async fn fetch_commit(
        &self,
        _: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        let unreachable = self.unreachable.lock().unwrap().clone().filter(|_| sha.is_none());
        if let Some(why) = unreachable {
            return Err(FetchError::Unavailable(why));
        }
        self.requested_commits.lock().unwrap().extend(sha.map(str::to_owned));
        let tip = self.tips.lock().unwrap().get(reference).cloned();
        let tip = tip.unwrap_or_else(|| SHA.to_owned());
        Ok(Some(sha.filter(|sha| sha.len() == 40).map_or(tip, str::to_owned)))
    }

    async fn fetched_commits(&self, _: &Repository) -> Result<Vec<FetchedCommit>, WorldError> {
        let fetched_at = self.fetched_at.lock().unwrap();
        let fetched = self.fetched.lock().unwrap();
        let fetched = fetched.iter().map(|name| FetchedCommit {
            name: name.clone(),
            at: fetched_at.get(name).copied(),
            by: name.clone(),
        });
        Ok(fetched.collect())
    }

    async fn release_commits(
        &self,
        _: &Repository,
        released: &[FetchedCommit],
    ) -> Result<(), WorldError> {
        let is_released = |name: &String| released.iter().any(|commit| commit.name == *name);
        self.fetched.lock().unwrap().retain(|name| !is_released(name));
        Ok(())
    }

    async fn changed_paths(
        &self,
        _: &Repository,
        _: &str,
        _: &str,
    ) -> Result<Vec<String>, WorldError> {
        Ok(Vec::new())
    }

    async fn stack_facts(&self, _: &FrozenStack, _: Option<(&Repository, &str)>) -> StackFacts {
        let seen = AdapterProbe::Seen(AdapterFacts {
            is_current: true,
            gates_tools: true,
            mcp: true,
            subagents: true,
            max_parallel: None,
            approval_modes: Vec::new(),
        });
        let adapter_error = self.adapter_error.lock().unwrap().clone();
        StackFacts {
            adapter: adapter_error.map_or(seen, AdapterProbe::Unavailable),
            role: KitRole::Found(RoleFacts {
                tools: vec!["*".to_owned()],
                accepted: vec!["files-whitelist".to_owned()],
            }),
            program: self.program.lock().unwrap().clone(),
            skills: self.skills.lock().unwrap().clone(),
            ..StackFacts::default()
        }
    }

    async fn source(
        &self,
        _: &Object<Repository>,
        _: &AgentDispatchRun,
        source: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        let text = self.issue_text.lock().unwrap().clone();
        let text = text.filter(|_| source == ContextSource::IssueSummary);
        let (name, provenance) = ("issue 7".to_owned(), "acme/app#7".to_owned());
        Ok(text.map(|text| SourcePart { source, name, provenance, text }))
    }

    async fn capabilities(&self) -> BTreeMap<String, Value> {
        self.all_probed.fetch_add(1, Ordering::Relaxed);
        let known = self.capability("claude-code").await;
        known.into_iter().map(|known| ("claude-code".to_owned(), known)).collect()
    }

    async fn capability(&self, adapter: &str) -> Option<Value> {
        let can_resume = !self.loses_sessions.load(Ordering::Relaxed);
        (adapter == "claude-code").then(|| json!({ "canResume": can_resume }))
    }

    async fn redactions(&self) -> Result<Vec<String>, WorldError> {
        self.redaction_error
            .lock()
            .unwrap()
            .clone()
            .map_or(Ok(Vec::new()), |why| Err(WorldError::Records(why)))
    }

    fn has_files(&self, _: &str) -> bool {
        self.has_worktrees.load(Ordering::Relaxed)
    }

    async fn worktree(&self, agent: &str) -> Result<Option<RunWorktree>, WorldError> {
        let origin = self.origin.lock().unwrap().clone();
        let found = || RunWorktree {
            path: format!("/trees/{agent}"),
            branch: format!("agent/{agent}"),
            origin: origin.unwrap_or(WorktreeOrigin::New),
        };
        let spawned = self.spawned.lock().unwrap().clone();
        let is_spawned = spawned.is_none_or(|agents| agents.iter().any(|one| one == agent));
        Ok((is_spawned && self.has_files(agent)).then(found))
    }

    async fn work_on(
        &self,
        _: &Repository,
        place: &WorkspacePlace,
        _: WorkspaceOperation,
    ) -> Result<WorkspaceReport, WorkspaceError> {
        if !self.has_files(&place.path) {
            return Err(WorkspaceError::Failed("there are no workspaces here".to_owned()));
        }
        let git = self.git.lock().unwrap().clone();
        Ok(WorkspaceReport { path: place.path.clone(), git, ..WorkspaceReport::default() })
    }

    async fn sleep(&self, _: u64) {}

    async fn code_owners(&self, _: &Repository, sha: &str) -> OwnerFacts {
        let known = self.owners.lock().unwrap().get(sha).cloned();
        known.unwrap_or_else(|| OwnerFacts::Unusable("no CODEOWNERS".to_owned()))
    }

    async fn ignored(&self, _: &Repository, _: &str) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

pub(crate) type Plane = ControlPlane<MemoryFleet, ScriptedEngine, ScriptedWorld>;

pub(crate) fn document(kind: Kind, name: &str, spec: Value) -> AnyObject {
    let (api_version, metadata) = (API_VERSION.to_owned(), Metadata::named(name));
    AnyObject { api_version, kind, metadata, spec, status: Value::Null }
}

pub(crate) fn fleet(change: impl Fn(&mut AnyObject)) -> Vec<AnyObject> {
    let account = |name: &str| {
        json!({
            "serviceAccountName": name, "owner": { "kind": "organization", "name": "acme" },
            "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["inside", "outside"],
        })
    };
    let pool =
        |tier: &str| json!({ "capacity": 1, "trustTier": tier, "serviceAccountRef": "runner" });
    let mut all = vec![
        document(Kind::AgentServiceAccount, "fixer", account("fixer")),
        document(Kind::AgentServiceAccount, "runner", account("runner")),
        document(Kind::RunnerPool, "inside", pool("trusted")),
        document(Kind::RunnerPool, "outside", pool("untrusted")),
        document(
            Kind::AgentToolProfile,
            "tools",
            json!({
                "nativeTools": { "shell": true, "filesystem": true },
                "filesystemPolicy": "workspace-write", "networkPolicy": { "mode": "deny" },
            }),
        ),
        document(
            Kind::AgentStack,
            "fixer",
            json!({
                "baseAgent": "claude-code", "role": "developer", "toolPolicy": "tools",
                "runnerPool": "inside", "runtimeIdentity": { "serviceAccountRef": "fixer" },
                "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
                "writeBackPolicy": { "allowedTargets": ["create-branch"] },
            }),
        ),
        document(
            Kind::Repository,
            "app",
            json!({
                "fullName": "acme/app", "forge": "gitea", "apiUrl": "http://127.0.0.1:1/api/v1",
                "checkout": "/nowhere",
            }),
        ),
    ];
    all.iter_mut().for_each(change);
    all
}

pub(crate) async fn start_plane(change: impl Fn(&mut AnyObject)) -> Plane {
    let store = Arc::new(MemoryFleet::default());
    let world = ScriptedWorld { clock: AtomicU64::new(START), ..ScriptedWorld::default() };
    let plane = ControlPlane::new(store, Arc::new(ScriptedEngine::default()), Arc::new(world));
    declare(&plane, &fleet(change)).await;
    let summary = plane.reconcile_statuses().await;
    assert_eq!(summary.errors, []);
    plane
}

pub(crate) async fn declare(plane: &Plane, documents: &[AnyObject]) {
    apply(plane.store.as_ref(), documents, "ada", plane.world.now(), false).await.unwrap();
}

pub(crate) fn caller(actor: &str) -> Caller {
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    Caller {
        request: format!("q{}", REQUESTS.fetch_add(1, Ordering::Relaxed)),
        actor: actor.to_owned(),
        scope: TokenScope::Approver,
        token: "t".to_owned(),
        correlation: "c".to_owned(),
        at: Moment::from_millis(START + 1_000),
    }
}

pub(crate) fn request(id: &str) -> DispatchRequest {
    DispatchRequest {
        repository: "app".to_owned(),
        agent_stack: "fixer".to_owned(),
        task_kind: "repair".to_owned(),
        task: "Mend it.".to_owned(),
        reference: None,
        sha: None,
        source_refs: Default::default(),
        runner_pool: None,
        context_labels: Vec::new(),
        request_id: Some(id.to_owned()),
    }
}

pub(crate) async fn all<R: Resource>(plane: &Plane) -> Vec<Object<R>> {
    let page = plane.store.list(&Selection::of(R::KIND)).await.unwrap();
    page.objects.iter().map(|object| object.typed::<R>().unwrap()).collect()
}

pub(crate) async fn only_run(plane: &Plane) -> Object<AgentDispatchRun> {
    let mut runs = all::<AgentDispatchRun>(plane).await;
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

pub(crate) async fn reconcile(plane: &Plane) {
    for _ in 0..6 {
        let summary = plane.advance().await;
        assert_eq!(summary.errors, []);
    }
}

pub(crate) fn set_state(plane: &Plane, agent: &str, launched: Launched) {
    plane.engine.states.lock().unwrap().insert(agent.to_owned(), launched);
}

pub(crate) fn agent(plane: &Plane) -> String {
    plane.engine.launched.lock().unwrap().last().unwrap().agent.clone()
}

#[tokio::test]
async fn run_in_an_unknown_namespace_is_refused() {
    let plane = start_plane(|_| {}).await;
    let refused = plane.api.dispatch(&caller("ada"), "team-a", request("r")).await;
    let Err(ActionError::Invalid(faults)) = refused else { panic!("{refused:?}") };
    assert!(faults[0].message.contains("`team-a`"), "{faults:?}");
    assert!(all::<AgentDispatchRun>(&plane).await.is_empty());
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
}

#[tokio::test]
async fn repeated_request_starts_one_run() {
    let plane = start_plane(|_| {}).await;
    let first = plane.api.dispatch(&caller("ada"), "default", request("r1")).await.unwrap();
    let repeated = plane.api.dispatch(&caller("ada"), "default", request("r1")).await.unwrap();
    assert_eq!(first.run, repeated.run);
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    assert!(launch.context.contains("Mend it."), "{}", launch.context);
    assert!(launch.task.contains("developer"), "{}", launch.task);
    let other = plane.api.dispatch(&caller("ada"), "default", request("r2")).await.unwrap();
    assert_ne!(first.run, other.run);
}

/// The client's trace id is not a request id: many requests can have the same trace id.
#[tokio::test]
async fn requests_without_an_id_are_different_even_in_one_trace() {
    let plane = start_plane(|_| {}).await;
    let mut names = std::collections::BTreeSet::new();
    for task in ["Mend it.", "Paint it.", "Paint it."] {
        let dispatch_request =
            DispatchRequest { task: task.to_owned(), request_id: None, ..request("unused") };
        let ada = caller("ada");
        assert_eq!(ada.correlation, "c");
        names.insert(plane.api.dispatch(&ada, "default", dispatch_request).await.unwrap().run);
    }
    assert_eq!(names.len(), 3);
    let target = Target { namespace: "default".to_owned(), name: names.first().unwrap().clone() };
    for _ in 0..2 {
        let fork = RunVerbRequest::default();
        let fork =
            plane.api.act_on_run(&caller("ada"), &target, RunVerb::Fork, fork).await.unwrap();
        assert!(names.insert(fork.run), "two forks are two runs");
    }
}

#[tokio::test]
async fn request_id_stands_for_one_request_and_another_is_refused() {
    let plane = start_plane(|_| {}).await;
    let first = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    for other in [
        DispatchRequest { task: "Paint it.".to_owned(), ..request("r") },
        DispatchRequest { reference: Some("refs/heads/other".to_owned()), ..request("r") },
        DispatchRequest { context_labels: vec!["short".to_owned()], ..request("r") },
    ] {
        let taken = plane.api.dispatch(&caller("ada"), "default", other).await;
        let Err(ActionError::Conflict { code, message }) = taken else { panic!("{taken:?}") };
        assert_eq!(code, "RequestIdTaken");
        assert!(message.contains(&first.run) && message.contains("`r`"), "{message}");
    }
    let repeated = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    assert_eq!(repeated.run, first.run);
    // Request ids of another person are separate.
    let theirs = DispatchRequest { task: "Paint it.".to_owned(), ..request("r") };
    assert_ne!(plane.api.dispatch(&caller("bob"), "default", theirs).await.unwrap().run, first.run);
}

#[tokio::test]
async fn pool_runs_as_many_as_its_capacity() {
    let plane = start_plane(|_| {}).await;
    for id in ["a", "b", "c"] {
        plane.api.dispatch(&caller("ada"), "default", request(id)).await.unwrap();
    }
    reconcile(&plane).await;
    let count = async |phase: RunPhase| {
        let runs = all::<AgentDispatchRun>(&plane).await;
        runs.iter().filter(|run| run.status.phase == phase).count()
    };
    assert_eq!((count(RunPhase::Running).await, count(RunPhase::Queued).await), (1, 2));
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!((count(RunPhase::Running).await, count(RunPhase::Queued).await), (1, 1));
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 2);
}

/// Faults 11, 18 and 19 of the public attempt: everything is stored, decided once, and really cancelled.
#[tokio::test]
async fn work_is_written_only_after_approval_of_exactly_this_work() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 0);
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let approve = |digest: &str| DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: digest.to_owned(),
    };
    // Refused: another digest, a person without the permission, the agent itself.
    let wrong = plane.api.decide(&caller("bob"), &target, approve("0")).await;
    assert!(matches!(wrong, Err(ActionError::Conflict { .. })), "{wrong:?}");
    // A part of the artifact cannot be approved.
    let part = DecisionRequest {
        approved_action_subset: vec!["half".to_owned()],
        ..approve(&approval.spec.artifact_digest)
    };
    assert!(plane.api.decide(&caller("bob"), &target, part).await.is_err());
    let viewer = Caller { scope: TokenScope::Viewer, ..caller("bob") };
    assert!(
        plane.api.decide(&viewer, &target, approve(&approval.spec.artifact_digest)).await.is_err()
    );
    let itself = caller(&approval.spec.requested_by.name);
    assert!(
        plane.api.decide(&itself, &target, approve(&approval.spec.artifact_digest)).await.is_err()
    );
    reconcile(&plane).await;
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 0);
    // The response of the forge is lost: the write is repeated with the same key and stored once.
    let lost = ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.faults.lock().unwrap().push_back(lost);
    plane
        .api
        .decide(&caller("bob"), &target, approve(&approval.spec.artifact_digest))
        .await
        .unwrap();
    let first = plane.advance().await;
    assert_eq!(first.errors.len(), 1, "{first:?}");
    // Not before its backoff ends.
    reconcile(&plane).await;
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 1);
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!(run.status.write_backs[0].state, WriteBackState::Written);
    assert_eq!(plane.world.forge.written.lock().unwrap().len(), 1);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 2);
    let second =
        plane.api.decide(&caller("bob"), &target, approve(&approval.spec.artifact_digest)).await;
    assert!(matches!(second, Err(ActionError::Conflict { .. })), "{second:?}");
}

#[tokio::test]
async fn cancelled_run_ends_its_agent_and_a_retry_has_the_same_launch() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let target = Target { namespace: "default".to_owned(), name: answer.run.clone() };
    let verb = async |verb: RunVerb| {
        plane.api.act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default()).await
    };
    // The run is active: it can only be cancelled.
    assert!(verb(RunVerb::Retry).await.is_err());
    verb(RunVerb::Cancel).await.unwrap();
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Cancelled);
    assert_eq!(plane.engine.cancelled.lock().unwrap().len(), 1);
    assert!(verb(RunVerb::Cancel).await.is_err());
    verb(RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 2);
    assert_ne!(launched[0].agent, launched[1].agent);
    let same = |one: &AttemptLaunch| {
        (one.task.clone(), one.context.clone(), one.limits.clone(), one.base.clone())
    };
    assert_eq!(same(&launched[0]), same(&launched[1]));
    assert_eq!(only_run(&plane).await.status.attempts.len(), 2);
}

#[tokio::test]
async fn question_of_the_agent_becomes_an_approval_and_gets_the_answer() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let questions = vec![("q1".to_owned(), "may it push?".to_owned())];
    let asking = Launched { questions, ..in_state(LaunchedState::WaitingForApproval) };
    set_state(&plane, &agent(&plane), asking);
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    assert!(plane.engine.answered.lock().unwrap().is_empty());
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let reject = DecisionRequest {
        decision: Verdict::Reject,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target, reject).await.unwrap();
    reconcile(&plane).await;
    let answered = plane.engine.answered.lock().unwrap().clone();
    assert!(answered.iter().all(|(_, question, yes)| question == "q1" && !yes), "{answered:?}");
    assert!(!answered.is_empty());
}

#[tokio::test]
async fn stack_that_is_not_allowed_here_starts_nothing() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["policy"] = json!({ "allowedStacks": ["another"] });
        }
    })
    .await;
    let refused = plane.api.dispatch(&caller("ada"), "default", request("r")).await;
    let Err(ActionError::Denied { reasons, .. }) = refused else { panic!("{refused:?}") };
    assert!(!reasons.is_empty());
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 0);
    reconcile(&plane).await;
    assert!(plane.engine.launched.lock().unwrap().is_empty());
}

#[tokio::test]
async fn schedule_fires_once_for_each_time_and_not_while_it_is_paused() {
    let plane = start_plane(|_| {}).await;
    let rule = document(
        Kind::AgentTriggerRule,
        "nightly",
        json!({
            "lifecycleState": "active", "sources": ["schedule"], "agentStack": "fixer",
            "taskKind": "tend", "promptTemplate": "Tend it.",
            "schedule": { "cron": "*/5 * * * *", "repository": "acme/app" },
        }),
    );
    declare(&plane, &[rule]).await;
    reconcile(&plane).await;
    assert_eq!(all::<AgentTriggerExecution>(&plane).await.len(), 0, "past times do not fire");
    let five = 5 * 60 * 1_000;
    plane.world.clock.fetch_add(five, Ordering::Relaxed);
    reconcile(&plane).await;
    reconcile(&plane).await;
    assert_eq!(all::<AgentTriggerExecution>(&plane).await.len(), 1);
    let target = Target { namespace: "default".to_owned(), name: "nightly".to_owned() };
    let request =
        |action| LifecycleRequest { action, reason: String::new(), expected_generation: None };
    plane.api.set_lifecycle(&caller("ada"), &target, request(LifecycleVerb::Pause)).await.unwrap();
    plane.world.clock.fetch_add(five, Ordering::Relaxed);
    reconcile(&plane).await;
    assert_eq!(all::<AgentTriggerExecution>(&plane).await.len(), 1);
    let repeated =
        plane.api.set_lifecycle(&caller("ada"), &target, request(LifecycleVerb::Pause)).await;
    assert!(matches!(repeated, Err(ActionError::Conflict { .. })), "{repeated:?}");
}

/// A generic repository has no API for its branch; git knows the branch.
#[tokio::test]
async fn schedule_on_a_generic_repository_starts_a_run() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["forge"] = json!("generic");
            object.spec.as_object_mut().unwrap().remove("apiUrl");
        }
    })
    .await;
    let rule = document(
        Kind::AgentTriggerRule,
        "nightly",
        json!({
            "lifecycleState": "active", "sources": ["schedule"], "agentStack": "fixer",
            "taskKind": "tend", "promptTemplate": "Tend it.",
            "schedule": { "cron": "*/5 * * * *", "repository": "acme/app" },
        }),
    );
    declare(&plane, &[rule]).await;
    reconcile(&plane).await;
    plane.world.clock.fetch_add(5 * 60 * 1_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!((run.spec.sha.as_str(), run.spec.branch.as_deref()), (SHA, Some("main")));
    assert_eq!(run.status.phase, RunPhase::Running, "{:?}", run.status);
}

#[tokio::test]
async fn approval_that_expires_is_a_denial() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    plane.world.clock.fetch_add(25 * 3_600_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.write_backs[0].state, WriteBackState::Denied, "{:?}", run.status);
    assert!(run.status.phase.is_final(), "{:?}", run.status);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn run_cancelled_while_it_waits_for_approval_writes_nothing() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    let target = Target { namespace: "default".to_owned(), name: answer.run };
    let cancel = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Cancel, cancel).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn run_that_lost_its_permissions_in_the_queue_is_not_launched() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let mut changed = fleet(|object| {
        if object.kind == Kind::AgentServiceAccount {
            object.spec["allowedRepositories"] = json!(["others/*"]);
        }
    });
    changed.retain(|object| object.kind == Kind::AgentServiceAccount);
    declare(&plane, &changed).await;
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("PermissionsChanged"), "{why}");
}

/// The message of a continuation reaches the agent once, even if the server is killed before it records that.
#[tokio::test]
async fn conversation_is_continued_once() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let first = agent(&plane);
    set_state(&plane, &first, in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let target = Target { namespace: "default".to_owned(), name: answer.run };
    let more = RunVerbRequest { message: "Add a test.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Continue, more).await.unwrap();
    // The server that launched it was killed: the conversation has continued, but this is not recorded.
    let continued = Launched { attempts: 2, ..in_state(LaunchedState::Running) };
    set_state(&plane, &first, continued);
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    // If it has not continued yet, it continues once, with the message.
    set_state(&plane, &first, Launched { attempts: 2, ..in_state(LaunchedState::Failed) });
    reconcile(&plane).await;
    let more = RunVerbRequest { message: "And one more.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Continue, more).await.unwrap();
    reconcile(&plane).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 2);
    assert_eq!(launched[1].agent, first);
    assert_eq!(launched[1].resume.as_deref(), Some("And one more."));
}

/// A run that a person rejected cannot be started with a retry.
#[tokio::test]
async fn run_that_was_not_approved_cannot_be_retried() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let spec = json!({
        "dispatchRun": answer.run, "requestedBy": { "kind": "agent-stack", "name": "x" },
        "action": { "type": { "class": "secret-access" }, "target": "x" },
        "artifactDigest": "d", "expiresAt": "2027-01-01T00:00:00Z",
    });
    let mut approval = document(Kind::AgentApproval, "aap-1", spec);
    approval.status = json!({ "phase": "rejected" });
    let write = bailiwick_fleet::ports::Write::Create(approval);
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let target = Target { namespace: "default".to_owned(), name: answer.run };
    let act = async |verb| {
        plane.api.act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default()).await
    };
    act(RunVerb::Cancel).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
    let retry = act(RunVerb::Retry).await;
    assert!(
        matches!(&retry, Err(ActionError::Conflict { code, .. }) if code == "NotApproved"),
        "{retry:?}"
    );
}

/// A commit named by hand can be a commit of a fork, whatever its ref is.
#[tokio::test]
async fn commit_named_by_hand_is_not_trusted() {
    let plane = start_plane(|_| {}).await;
    let mut dispatch_request = request("r");
    dispatch_request.sha = Some("a".repeat(40));
    plane.api.dispatch(&caller("ada"), "default", dispatch_request).await.unwrap();
    let run = only_run(&plane).await;
    assert_eq!(run.spec.trust_tier, bailiwick_resources::TrustTier::Untrusted);
    assert_eq!(run.spec.runner_pool, "outside");
}

/// A fork of a run with a narrow policy cannot write more than that run.
#[tokio::test]
async fn fork_can_write_no_more_than_the_run_it_comes_from() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let mut run = only_run(&plane).await;
    assert!(!run.spec.write_back_policy.allowed_targets.is_empty());
    run.spec.write_back_policy.allowed_targets.clear();
    let narrower = bailiwick_fleet::ports::Write::Replace(AnyObject::of(&run).unwrap());
    plane.store.commit(vec![narrower], plane.world.now()).await.unwrap();
    let target = Target { namespace: "default".to_owned(), name: answer.run.clone() };
    let fork = RunVerbRequest::default();
    let fork = plane.api.act_on_run(&caller("ada"), &target, RunVerb::Fork, fork).await.unwrap();
    assert_ne!(fork.run, answer.run);
    let all = all::<AgentDispatchRun>(&plane).await;
    let forked = all.iter().find(|one| one.name() == fork.run).unwrap();
    assert_eq!(forked.spec.write_back_policy.allowed_targets, []);
}

#[tokio::test]
async fn run_whose_work_could_not_be_stored_fails() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Verified));
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
}
