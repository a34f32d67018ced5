//! A control plane for tests with real git workspaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bailiwick_fleet::admission::conditions::StackFacts;
use bailiwick_fleet::admission::snapshot::FrozenStack;
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{
    ActionError, AttemptLaunch, Caller, Engine, EngineError, EngineEvent, FetchError, Fleet as _,
    FleetStore as _, ForgeError, Launched, LaunchedChild, LaunchedState, MemoryFleet, RunWorktree,
    Selection, TokenScope, WorkspaceAnswer, WorkspaceError, WorkspaceOperation, WorkspacePlace,
    WorkspaceReport, WorkspaceRequest, WorkspaceVerb, WorktreeOrigin, World, WorldError, Write,
};
use bailiwick_resources::{
    AgentDispatchRun, AgentWorkspace, AnyObject, ContextSource, ForgeKind, Metadata, Moment,
    Object, Repository, Resource, RunCost,
};
use bailiwick_source_control::forge::AnyForge;
use bailiwick_source_control::git::WorkspaceOperations;
use bailiwick_testkit::Scratch;
use serde_json::{Value, json};

pub(crate) const START: u64 = 1_794_000_000_000;

/// Agents with the states that the test sets.
#[derive(Default)]
pub(crate) struct Agents(pub(crate) Mutex<BTreeMap<String, LaunchedState>>);

impl Engine for Agents {
    async fn launch(&self, _: AttemptLaunch) -> Result<(), EngineError> {
        Err(EngineError("nothing is started here".to_owned()))
    }

    async fn state(&self, agent: &str) -> Result<Option<Launched>, EngineError> {
        let state = self.0.lock().unwrap().get(agent).copied();
        Ok(state.map(|state| Launched {
            state,
            session: Some("conversation".to_owned()),
            cost: RunCost::default(),
            attempts: 1,
            is_claimed: true,
            cursor: 1,
            detail: String::new(),
            questions: Vec::new(),
            work: None,
            pod_problem: None,
        }))
    }

    async fn children(&self, _: &str) -> Result<Vec<LaunchedChild>, EngineError> {
        Ok(Vec::new())
    }

    async fn answer(&self, _: &str, _: &str, _: bool) -> Result<bool, EngineError> {
        Ok(false)
    }

    async fn events(&self, _: &str, _: u64, _: usize) -> Result<Vec<EngineEvent>, EngineError> {
        Ok(Vec::new())
    }

    async fn cancel(&self, _: &str) -> Result<(), EngineError> {
        Ok(())
    }
}

/// A world with real git.
pub(crate) struct GitWorld {
    pub(crate) root: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) clock: AtomicU64,
    /// The operation is done, but its answer is lost.
    pub(crate) cut_off: AtomicBool,
}

impl World for GitWorld {
    type Forge = AnyForge;

    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn forge(&self, _: &Repository, _: Option<&[u8]>) -> Result<AnyForge, ForgeError> {
        Err(ForgeError::Refused("there is no forge here".to_owned()))
    }

    async fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        _: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        let found = bailiwick_source_control::Repository::discover(Path::new(&repository.checkout));
        found.unwrap().commit(reference).map_err(|error| FetchError::Failed(error.to_string()))
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
        StackFacts::default()
    }

    async fn source(
        &self,
        _: &Object<Repository>,
        _: &AgentDispatchRun,
        _: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        Ok(None)
    }

    async fn capabilities(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    async fn sleep(&self, _: u64) {}

    async fn ignored(&self, _: &Repository, _: &str) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn workspace_path(&self, name: &str) -> Option<String> {
        Some(self.root.join(name).display().to_string())
    }

    fn has_files(&self, path: &str) -> bool {
        Path::new(path).join(".git").exists()
    }

    async fn worktree(&self, agent: &str) -> Result<Option<RunWorktree>, WorldError> {
        let path = self.root.join(agent);
        let has_worktree = path.join(".git").exists() && agent.starts_with("adr-");
        Ok(has_worktree.then(|| RunWorktree {
            path: path.display().to_string(),
            branch: format!("agent/{agent}"),
            origin: WorktreeOrigin::New,
        }))
    }

    async fn work_on(
        &self,
        repository: &Repository,
        place: &WorkspacePlace,
        operation: WorkspaceOperation,
    ) -> Result<WorkspaceReport, WorkspaceError> {
        let operations =
            WorkspaceOperations::new(Path::new(&repository.checkout), &self.root, &self.state)
                .unwrap();
        let target = format!("refs/heads/{}", place.target);
        let target = self.fetch_commit(repository, &target, None).await.unwrap();
        let outcome = operations.perform(place, target.as_deref(), &operation)?;
        if operation != WorkspaceOperation::Look && self.cut_off.load(Ordering::Relaxed) {
            return Err(WorkspaceError::Failed("cut off".to_owned()));
        }
        Ok(outcome)
    }
}

/// A repository, and a control plane that knows it as `app`.
pub(crate) struct TestPlane {
    pub(crate) scratch: Scratch,
    pub(crate) control: ControlPlane<MemoryFleet, Agents, GitWorld>,
}

pub(crate) async fn test_plane() -> TestPlane {
    let scratch = Scratch::repository();
    scratch.write(".gitignore", "*.log\n");
    scratch.write("README.md", "first\n");
    scratch.commit("first");
    let root = scratch.state().join("worktrees");
    std::fs::create_dir_all(&root).unwrap();
    let world = GitWorld {
        root: std::fs::canonicalize(&root).unwrap(),
        state: scratch.state(),
        clock: AtomicU64::new(START),
        cut_off: AtomicBool::new(false),
    };
    let control = ControlPlane::new(
        Arc::new(MemoryFleet::default()),
        Arc::new(Agents::default()),
        Arc::new(world),
    );
    let repository: Repository = serde_json::from_value(json!({
        "fullName": "acme/app", "forge": ForgeKind::Gitea, "apiUrl": "http://127.0.0.1:1/api/v1",
        "checkout": scratch.root(), "defaultBranch": "main",
    }))
    .unwrap();
    let plane = TestPlane { scratch, control };
    plane.create(&Object::new(Metadata::named("app"), repository)).await;
    plane
}

pub(crate) fn of(verb: WorkspaceVerb) -> WorkspaceRequest {
    WorkspaceRequest::of(verb)
}

pub(crate) fn caller(actor: &str, scope: TokenScope) -> Caller {
    Caller {
        actor: actor.to_owned(),
        scope,
        token: "t".to_owned(),
        correlation: "c".to_owned(),
        request: "q".to_owned(),
        at: Moment::from_millis(START),
    }
}

/// The code and the message of a refusal.
#[track_caller]
pub(crate) fn refused(answer: Result<WorkspaceAnswer, ActionError>) -> (String, String) {
    match answer {
        Err(ActionError::Conflict { code, message }) => (code, message),
        other => panic!("the request was not refused: {other:?}"),
    }
}

impl TestPlane {
    pub(crate) async fn create<R: Resource>(&self, object: &Object<R>) {
        let writes = vec![Write::Create(AnyObject::of(object).unwrap())];
        self.control.store.commit(writes, Moment::from_millis(START)).await.unwrap();
    }

    pub(crate) async fn ask(
        &self,
        name: Option<&str>,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let caller = caller("ada", TokenScope::Operator);
        self.control.api.act_on_workspace(&caller, "default", name, request).await
    }

    /// Runs a verb on an existing workspace.
    pub(crate) async fn act(
        &self,
        name: &str,
        verb: WorkspaceVerb,
    ) -> Result<WorkspaceAnswer, ActionError> {
        self.ask(Some(name), of(verb)).await
    }

    /// A workspace with its own commit.
    pub(crate) async fn workspace(&self, name: &str) -> PathBuf {
        let request = WorkspaceRequest {
            name: Some(name.to_owned()),
            repository: Some("app".to_owned()),
            ..of(WorkspaceVerb::Provision)
        };
        self.ask(None, request).await.unwrap();
        let path = self.control.world.root.join(name);
        std::fs::write(path.join("own.txt"), "own\n").unwrap();
        self.git(&path, &["add", "--all"]);
        self.git(&path, &["commit", "--quiet", "-m", "own"]);
        path
    }

    pub(crate) fn git(&self, path: &Path, arguments: &[&str]) -> String {
        let mut command = self.scratch.command("git");
        let output = command.current_dir(path).args(arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) async fn all<R: Resource>(&self) -> Vec<Object<R>> {
        let page = self.control.store.list(&Selection::of(R::KIND)).await.unwrap();
        page.objects.iter().map(|object| object.typed::<R>().unwrap()).collect()
    }

    pub(crate) async fn known(&self, name: &str) -> Object<AgentWorkspace> {
        let all = self.all::<AgentWorkspace>().await;
        all.into_iter().find(|workspace| workspace.name() == name).unwrap()
    }

    /// Actor, event and detail of all audit entries.
    pub(crate) async fn audit(&self) -> Vec<(String, String, Value)> {
        let lines = self.control.store.audit(0, 1_000).await.unwrap();
        let entry = |(_, line): (u64, bailiwick_fleet::ports::AuditEntry)| {
            (line.actor, line.event, line.detail)
        };
        lines.into_iter().map(entry).collect()
    }

    /// Whether the last audit entry says that this verb was refused.
    pub(crate) async fn audited_refusal(&self, verb: &str) -> bool {
        let lines = self.audit().await;
        let (actor, event, detail) = lines.last().unwrap();
        actor == "ada" && event == "AgentWorkspaceActionRefused" && detail["verb"] == verb
    }

    pub(crate) async fn advance(&self) {
        let turn = self.control.advance().await;
        assert_eq!(turn.errors, []);
    }
}
