//! A small world in which every check passes; tests change one thing at a time.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::admission::admit::{PoolUse, Request};
use bailiwick_fleet::admission::conditions::{
    AdapterFacts, AdapterProbe, KitRole, McpProbe, RoleFacts, StackFacts, StackInput,
    stack_conditions,
};
use bailiwick_fleet::admission::review::{ReviewInput, Scope};
use bailiwick_fleet::admission::{
    Admission, Admitted, FrozenStack, Inventory, OwnerFacts, Refused, Review, Situation,
    TeamMembers, admit, collect, review, roles, snapshot,
};
use bailiwick_fleet::bundle::{RedactionRules, StackTexts};
use bailiwick_resources::{
    API_VERSION, AgentRoleBinding, AnyObject, ApprovalPolicy, DiscoveredTool, EventSource, Finding,
    Kind, LabelSource, Metadata, Moment, Object, Repository, RunPhase, RunnerPool, SourceEventRef,
    SourceRefs, TrustTier,
};
use serde_json::{Value, json};

use crate::embedded_kit::bound;

pub(crate) const NOW: u64 = 1_794_000_000_000;

pub(crate) fn now() -> Moment {
    Moment::from_millis(NOW)
}

pub(crate) fn object(kind: Kind, name: &str, spec: Value) -> AnyObject {
    let metadata = Metadata { generation: 3, ..Metadata::named(name) };
    AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status: Value::Null }
}

/// Objects, facts and a situation.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<(Kind, String), AnyObject>,
    pub(crate) unlistable: BTreeSet<Kind>,
    pub(crate) facts: StackFacts,
    pub(crate) situation: Situation,
    pub(crate) pool: String,
    pub(crate) pools: BTreeMap<String, PoolUse>,
    pub(crate) approval_policy: ApprovalPolicy,
    pub(crate) texts: StackTexts,
    pub(crate) redaction: RedactionRules,
    pub(crate) refs: SourceRefs,
    pub(crate) owners: Option<OwnerFacts>,
    pub(crate) teams: BTreeMap<String, TeamMembers>,
}

/// Whether a run can start without an approval.
pub(crate) fn may_launch(admitted: &Admitted) -> bool {
    admitted.approvals.is_empty() && admitted.run.status.phase == RunPhase::Queued
}

impl World {
    pub(crate) fn good() -> Self {
        let mut world = Self {
            objects: BTreeMap::new(),
            unlistable: BTreeSet::new(),
            facts: facts(),
            situation: situation(),
            pool: "trusted".to_owned(),
            pools: BTreeMap::new(),
            approval_policy: ApprovalPolicy::default(),
            texts: StackTexts {
                about: Some(LabelSource::Job),
                trigger: Some(("AgentTriggerRule/ci@1".into(), "A job failed.".into())),
                task: Some(("ada".into(), "Mend it.".into())),
                breadcrumbs: "acme/web refs/heads/main job 17".into(),
                ..StackTexts::default()
            },
            redaction: RedactionRules::default(),
            refs: SourceRefs::default(),
            owners: None,
            teams: BTreeMap::new(),
        };
        for object in objects() {
            world.put(object);
        }
        world.sync();
        world
    }

    pub(crate) fn put(&mut self, object: AnyObject) {
        self.objects.insert((object.kind, object.metadata.name.clone()), object);
    }

    pub(crate) fn add(&mut self, kind: Kind, name: &str, spec: Value) {
        self.put(object(kind, name, spec));
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        assert!(self.objects.remove(&(kind, name.to_owned())).is_some(), "{kind} {name}");
    }

    pub(crate) fn spec(&mut self, kind: Kind, name: &str) -> &mut Value {
        &mut self.objects.get_mut(&(kind, name.to_owned())).unwrap().spec
    }

    pub(crate) fn set(&mut self, kind: Kind, name: &str, pointer: &str, value: Value) {
        let spec = self.spec(kind, name);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = if parent.is_empty() { spec } else { spec.pointer_mut(parent).unwrap() };
        parent[key] = value;
    }

    pub(crate) fn set_stack(&mut self, pointer: &str, value: Value) {
        self.set(Kind::AgentStack, "fixer", pointer, value);
    }

    /// Updates the native bindings of the platform.
    pub(crate) fn sync(&mut self) {
        let bindings: Vec<AnyObject> = self
            .objects
            .values()
            .filter(|one| one.kind == Kind::AgentRoleBinding)
            .cloned()
            .collect();
        for binding in bindings {
            let typed: Object<AgentRoleBinding> = binding.typed().unwrap();
            self.put(AnyObject::of(&roles::native_binding(&typed)).unwrap());
        }
    }

    pub(crate) fn inventory(&self) -> Inventory {
        let mut inventory = Inventory::new(self.objects.values().cloned());
        for kind in &self.unlistable {
            inventory = inventory.unlistable(*kind, "the platform does not answer");
        }
        if let Some(owners) = &self.owners {
            inventory.set_owners("acme/web", owners.clone());
            for (team, members) in &self.teams {
                inventory.set_team_members("acme/web", team, members.clone());
            }
        }
        inventory
    }

    pub(crate) fn frozen(&self) -> FrozenStack {
        snapshot(&self.inventory(), "default", "fixer", &[]).unwrap()
    }

    pub(crate) fn typed_pool(&self) -> Option<Object<RunnerPool>> {
        let pool = self.objects.get(&(Kind::RunnerPool, self.pool.clone()))?;
        Some(pool.typed().unwrap())
    }

    pub(crate) fn repository(&self) -> Object<Repository> {
        self.objects[&(Kind::Repository, "web".to_owned())].typed().unwrap()
    }

    pub(crate) fn review(&self) -> Review {
        self.review_in(Scope::Run(&self.situation))
    }

    pub(crate) fn review_in(&self, scope: Scope<'_>) -> Review {
        let frozen = self.frozen();
        let pool = self.typed_pool();
        review(&ReviewInput {
            frozen: &frozen,
            requirements: &collect(&frozen),
            inventory: &self.inventory(),
            scope,
            pool: pool.as_ref(),
            approval_policy: &self.approval_policy,
            now: now(),
        })
    }

    pub(crate) fn stack_conditions(&self) -> Vec<Finding> {
        stack_conditions(&StackInput {
            frozen: &self.frozen(),
            inventory: &self.inventory(),
            facts: &self.facts,
            repositories: &[self.repository()],
            reviews: &[self.review()],
        })
    }

    pub(crate) fn admit(&self) -> Result<Admitted, Box<Refused>> {
        let inventory = self.inventory();
        admit(&Admission {
            inventory: &inventory,
            namespace: "default",
            repository: "web",
            situation: &self.situation,
            request: self.request(),
            facts: &self.facts,
            texts: self.texts.clone(),
            redaction: self.redaction.clone(),
            pools: &self.pools,
            ignored: Some(&[]),
            now: now(),
        })
    }

    pub(crate) fn request(&self) -> Request<'static> {
        Request {
            run: "adr-1".into(),
            attempt: "ada-1-1".into(),
            rule: None,
            stack: "fixer".into(),
            sha: "0123456789abcdef0123456789abcdef01234567".into(),
            branch: Some("main".into()),
            source_event: SourceEventRef {
                source: self.situation.source,
                uid: "e-1".into(),
                actor: self.situation.actor.clone(),
                asked_by: None,
            },
            source_refs: self.refs.clone(),
            labels: Vec::new(),
            task: "Mend it.".into(),
            runner_pool: None,
            approval_policy: self.approval_policy.clone(),
            parent_run: None,
            concurrency_group: None,
            kit_commit: (self.situation.trust_tier == TrustTier::Untrusted).then(|| "d".repeat(40)),
        }
    }

    /// The same work from a fork.
    pub(crate) fn fork(&mut self) {
        self.situation.trust_tier = TrustTier::Untrusted;
        self.situation.reference = "refs/pull/7/head".to_owned();
        self.pool = "untrusted".to_owned();
        if self.objects.contains_key(&(Kind::AgentMcpServer, "docs".to_owned())) {
            self.set(Kind::AgentMcpServer, "docs", "/allowUntrusted", json!(true));
        }
    }
}

fn situation() -> Situation {
    Situation {
        repository: "acme/web".into(),
        reference: "refs/heads/main".into(),
        trust_tier: TrustTier::Trusted,
        actor: Some("ada".into()),
        memberships: Vec::new(),
        source: EventSource::Ci,
        workflow: Some("build".into()),
        job: Some("17".into()),
        task_kind: "repair".into(),
    }
}

pub(crate) fn facts() -> StackFacts {
    let bound = bound("[task]\nrole = \"developer\"\n");
    StackFacts {
        agents_doc: bailiwick_fleet::admission::conditions::SkillProbe::NotYet,
        adapter: AdapterProbe::Seen(AdapterFacts {
            is_current: true,
            gates_tools: true,
            mcp: true,
            subagents: true,
            max_parallel: Some(4),
            approval_modes: Vec::new(),
        }),
        program: None,
        mcp: BTreeMap::from([(
            "docs".to_owned(),
            McpProbe::Answered(vec![
                DiscoveredTool { name: "search".into(), read_only: true },
                DiscoveredTool { name: "post".into(), read_only: false },
            ]),
        )]),
        skills: BTreeMap::new(),
        role: KitRole::Found(RoleFacts::of(&bound)),
    }
}

fn objects() -> Vec<AnyObject> {
    let set_at = "2026-11-01T00:00:00Z";
    vec![
        object(
            Kind::AgentStack,
            "fixer",
            json!({
                "baseAgent": "claude-code",
                "role": "developer",
                "prompt": { "system": "You mend builds.", "developer": "Look first.", "task": "" },
                "toolPolicy": "tools",
                "mcpServerRefs": ["docs"],
                "skillRefs": ["runbook"],
                "subagentRefs": ["reviewer"],
                "maxParallelSubagents": 2,
                "contextLabelRefs": [{ "name": "careful" }],
                "workspacePolicy": "per-run",
                "runnerPool": "trusted",
                "secretPolicy": { "allowOnForks": false, "allowedSecretRefs": ["model", "docs-key"] },
                "runtimeIdentity": { "serviceAccountRef": "fixer" },
                "permissionRefs": {
                    "roleBindings": ["fixer-reads"], "secretGrants": ["fixer-model"], "configGrants": []
                },
                "requiredSecretRefs": [{ "name": "model", "keys": ["api-key"] }],
                "requiredConfigRefs": [{ "name": "runner", "keys": ["region"] }],
                "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
                "budget": { "tokens": 1000, "microUsd": 2_500_000 },
            }),
        ),
        object(
            Kind::AgentToolProfile,
            "tools",
            json!({
                "nativeTools": { "shell": true, "filesystem": true, "mcp": true, "subagents": true },
                "allowedCommands": ["cargo test", "cargo check", "ls"],
                "deniedCommands": [],
                "filesystemPolicy": "workspace-write",
                "networkPolicy": { "mode": "deny" },
                "approvalPolicyByTool": { "shell": "allow" },
            }),
        ),
        object(
            Kind::AgentMcpServer,
            "docs",
            json!({
                "transport": "stdio",
                "command": "docs-mcp",
                "envFrom": [{ "name": "DOCS_KEY", "secretRef": { "name": "docs-key", "key": "key" } }],
                "scope": "global",
                "approvalPolicy": "readonly-auto-write-prompt",
            }),
        ),
        object(
            Kind::AgentSkill,
            "runbook",
            json!({
                "format": "inline",
                "sourceRef": { "inline": "Read the log from its first error on." },
                "requiredTools": ["Read"],
                "promptFragment": "Follow the runbook.",
            }),
        ),
        object(
            Kind::AgentSubagent,
            "reviewer",
            json!({
                "rolePrompt": "You look over changes.",
                "taskKinds": ["review"],
                "outputContract": { "format": "summary", "requiredSections": ["Findings"] },
            }),
        ),
        object(
            Kind::AgentContextLabel,
            "careful",
            json!({
                "promptFragment": "Take small steps.", "allowedSources": ["job", "manual"],
            }),
        ),
        object(
            Kind::AgentWorkspacePolicy,
            "per-run",
            json!({
                "mode": "per-run", "retentionPolicy": { "keepFor": "7d" },
            }),
        ),
        object(
            Kind::AgentServiceAccount,
            "fixer",
            json!({
                "serviceAccountName": "fixer",
                "owner": { "kind": "agent-stack", "name": "fixer" },
                "allowedRepositories": ["acme/*"],
                "allowedRunnerPools": ["trusted", "untrusted"],
            }),
        ),
        object(Kind::ServiceAccount, "fixer", json!({})),
        object(
            Kind::AgentServiceAccount,
            "runner",
            json!({
                "serviceAccountName": "runner", "owner": { "kind": "organization", "name": "acme" },
            }),
        ),
        object(Kind::ServiceAccount, "runner", json!({})),
        object(
            Kind::AgentRoleBinding,
            "fixer-reads",
            json!({
                "subject": { "kind": "service-account", "name": "fixer" },
                "scope": { "kind": "namespace", "name": "default" },
                "roleRef": { "kind": "RoleTemplate", "name": "agent-readonly" },
            }),
        ),
        object(
            Kind::Secret,
            "model",
            json!({
                "keys": { "api-key": { "setAt": set_at, "version": 1 } },
            }),
        ),
        object(
            Kind::Secret,
            "docs-key",
            json!({
                "keys": { "key": { "setAt": set_at, "version": 4 } },
            }),
        ),
        object(
            Kind::AgentSecretGrant,
            "fixer-model",
            json!({
                "subject": { "kind": "agent-stack", "name": "fixer" },
                "secretRef": { "name": "model", "keys": ["api-key"] },
                "purpose": "model-provider-token",
                "allowedRepositories": ["acme/*"],
            }),
        ),
        object(
            Kind::AgentSecretGrant,
            "docs-key",
            json!({
                "subject": { "kind": "mcp-server", "name": "docs" },
                "secretRef": { "name": "docs-key", "keys": ["key"] },
                "purpose": "mcp-server",
                "allowedRepositories": ["acme/*"],
                "mountPolicy": "env",
            }),
        ),
        object(Kind::ConfigMap, "runner", json!({ "data": { "region": "eu" } })),
        object(
            Kind::AgentConfigGrant,
            "fixer-region",
            json!({
                "subject": { "kind": "service-account", "name": "fixer" },
                "configMapRef": { "name": "runner", "keys": ["region"] },
                "purpose": "runner-config",
                "allowedRepositories": ["acme/*"],
            }),
        ),
        object(
            Kind::Repository,
            "web",
            json!({
                "fullName": "acme/web", "forge": "local", "checkout": "/srv/web", "policy": {},
            }),
        ),
        object(
            Kind::RunnerPool,
            "trusted",
            json!({
                "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "runner",
            }),
        ),
        object(
            Kind::RunnerPool,
            "untrusted",
            json!({
                "capacity": 1, "trustTier": "untrusted", "serviceAccountRef": "runner",
            }),
        ),
    ]
}
