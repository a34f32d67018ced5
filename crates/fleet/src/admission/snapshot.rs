//! A stack with all that it names, frozen: what was admitted is what runs, however the objects change.

use std::collections::BTreeSet;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    API_VERSION, AgentConfigGrant, AgentContextLabel, AgentMcpServer, AgentRoleBinding,
    AgentSecretGrant, AgentServiceAccount, AgentSkill, AgentStack, AgentSubagent, AgentToolProfile,
    AgentWorkspacePolicy, AnyObject, Kind, LabelRef, Metadata, Object, ObjectRef, Resource,
    SnapshotObject, StackSnapshot,
};
use serde::{Deserialize, Serialize};

use super::inventory::{Found, Inventory};

/// An object that a stack names and that is not at hand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MissingObject {
    /// Which one.
    pub object: ObjectRef,
    /// The object that names it.
    pub named_by: String,
    /// Whether it is not known to exist, rather than known not to.
    pub unknown: bool,
    /// Why it is not at hand.
    pub why: String,
}

/// A stack with everything it names, as typed objects beside the stored snapshot.
#[derive(Debug, Clone)]
pub struct FrozenStack {
    /// The stored snapshot.
    pub snapshot: StackSnapshot,
    pub stack: Object<AgentStack>,
    pub tool_profile: Option<Object<AgentToolProfile>>,
    /// Its MCP servers, with those that its skills need.
    pub mcp_servers: Vec<Object<AgentMcpServer>>,
    pub skills: Vec<Object<AgentSkill>>,
    /// Its sub-agents.
    pub subagents: Vec<Object<AgentSubagent>>,
    /// Its labels and those of the rule, in order.
    pub labels: Vec<Object<AgentContextLabel>>,
    pub workspace_policy: Option<Object<AgentWorkspacePolicy>>,
    /// Its identity.
    pub service_account: Option<Object<AgentServiceAccount>>,
    /// The bindings it relies on.
    pub role_bindings: Vec<Object<AgentRoleBinding>>,
    /// The grants it names.
    pub secret_grants: Vec<Object<AgentSecretGrant>>,
    /// The grants it names.
    pub config_grants: Vec<Object<AgentConfigGrant>>,
    /// The requested labels, the stack's first, with the digests that they were pinned to.
    pub label_refs: Vec<LabelRef>,
    /// Named objects that were not found.
    pub missing: Vec<MissingObject>,
}

/// Why there is nothing to freeze.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stack `{name}` cannot be used: {why}")]
pub struct NoStack {
    pub name: String,
    pub why: String,
    /// Whether it is not known to exist.
    pub unknown: bool,
}

/// Freezes a stack with the labels that a rule adds.
pub fn snapshot(
    inventory: &Inventory,
    namespace: &str,
    stack: &str,
    more_labels: &[LabelRef],
) -> Result<FrozenStack, NoStack> {
    freeze(inventory, namespace, stack, Labels::Besides(more_labels))
}

/// The labels that are frozen with a stack.
enum Labels<'a> {
    /// The stack's own and these.
    Besides(&'a [LabelRef]),
    /// Exactly these.
    Exactly(&'a [LabelRef]),
}

fn freeze(
    inventory: &Inventory,
    namespace: &str,
    stack: &str,
    labels: Labels<'_>,
) -> Result<FrozenStack, NoStack> {
    let found = match inventory.get::<AgentStack>(namespace, stack) {
        Found::Here(object) => *object,
        Found::Missing => {
            let why = "there is no such stack".to_owned();
            return Err(NoStack { name: stack.to_owned(), why, unknown: false });
        }
        Found::Unknown(why) => return Err(NoStack { name: stack.to_owned(), why, unknown: true }),
    };
    let mut freezer = Freezer::new(inventory, namespace);
    freezer.keep(&found);
    let spec = found.spec.clone();
    let by = format!("AgentStack/{stack}");
    let tool_profile = spec.tool_policy.as_deref().and_then(|name| freezer.take(name, &by));
    let service_account = freezer.take(&spec.runtime_identity.service_account_ref, &by);
    let mut skills: Vec<Object<AgentSkill>> = freezer.take_all(&spec.skill_refs, &by);
    let subagents: Vec<Object<AgentSubagent>> = freezer.take_all(&spec.subagent_refs, &by);
    for child in &subagents {
        let by = format!("AgentSubagent/{}", child.name());
        skills.extend(freezer.take_all(&child.spec.skill_refs, &by));
    }
    let mut mcp_servers: Vec<Object<AgentMcpServer>> = freezer.take_all(&spec.mcp_server_refs, &by);
    for child in &subagents {
        let by = format!("AgentSubagent/{}", child.name());
        mcp_servers.extend(freezer.take_all(&child.spec.mcp_server_refs, &by));
        if let Some(identity) = &child.spec.runtime_identity_override {
            freezer.take::<AgentServiceAccount>(identity, &by);
        }
    }
    for skill in &skills {
        let by = format!("AgentSkill/{}", skill.name());
        mcp_servers.extend(freezer.take_all(&skill.spec.required_mcp_servers, &by));
    }
    let label_refs: Vec<LabelRef> = match labels {
        Labels::Besides(more) => spec.context_label_refs.iter().chain(more).cloned().collect(),
        Labels::Exactly(all) => all.to_vec(),
    };
    let names: Vec<String> = label_refs.iter().map(|label| label.name.clone()).collect();
    let labels = freezer.take_all(&names, &by);
    let workspace_policy =
        spec.workspace_policy.as_deref().and_then(|name| freezer.take(name, &by));
    let role_bindings = freezer.take_all(&spec.permission_refs.role_bindings, &by);
    let secret_grants = freezer.take_all(&spec.permission_refs.secret_grants, &by);
    let config_grants = freezer.take_all(&spec.permission_refs.config_grants, &by);
    let snapshot = freezer.snapshot(&label_refs);
    Ok(FrozenStack {
        snapshot,
        stack: found,
        tool_profile,
        mcp_servers,
        skills,
        subagents,
        labels,
        workspace_policy,
        service_account,
        role_bindings,
        secret_grants,
        config_grants,
        label_refs,
        missing: freezer.missing,
    })
}

/// Restores the objects of a snapshot, for a later attempt. `more_labels` are for a snapshot that does not record
/// its labels.
pub fn restore_snapshot(
    snapshot: &StackSnapshot,
    more_labels: &[LabelRef],
) -> Result<FrozenStack, NoStack> {
    let first = first_of(snapshot)?;
    let objects = snapshot.objects.iter().map(recorded_object);
    let frozen = freeze_again(snapshot, first, &Inventory::new(objects), more_labels)?;
    if frozen.snapshot.digest != snapshot.digest {
        let why = "the snapshot does not have the digest that it was kept under".to_owned();
        return Err(NoStack { name: first.object.name.clone(), why, unknown: true });
    }
    Ok(frozen)
}

/// The kinds whose current version counts after a change.
const REFRESHED_KINDS: [Kind; 2] = [Kind::AgentMcpServer, Kind::AgentSubagent];

/// Freezes a stack again, as it was, with its MCP servers and sub-agents as they are now.
pub fn refreshed(
    snapshot: &StackSnapshot,
    more_labels: &[LabelRef],
    inventory: &Inventory,
) -> Result<FrozenStack, NoStack> {
    restore_snapshot(snapshot, more_labels)?;
    let first = first_of(snapshot)?;
    let mut objects: Vec<AnyObject> = snapshot
        .objects
        .iter()
        .filter(|kept| !REFRESHED_KINDS.contains(&kept.object.kind))
        .map(recorded_object)
        .collect();
    let is_known = |one: &AnyObject, objects: &[AnyObject]| {
        objects.iter().any(|kept| kept.kind == one.kind && kept.metadata.name == one.metadata.name)
    };
    for one in inventory.objects() {
        // A sub-agent may name a skill now that it did not name then.
        let new_skill = one.kind == Kind::AgentSkill && !is_known(one, &objects);
        if REFRESHED_KINDS.contains(&one.kind) || new_skill {
            objects.push(one.clone());
        }
    }
    freeze_again(snapshot, first, &Inventory::new(objects), more_labels)
}

/// The stack that a snapshot is of.
fn first_of(snapshot: &StackSnapshot) -> Result<&SnapshotObject, NoStack> {
    let first = snapshot.objects.first().filter(|first| first.object.kind == Kind::AgentStack);
    first.ok_or_else(|| {
        let why = "the snapshot does not begin with a stack".to_owned();
        NoStack { name: String::new(), why, unknown: true }
    })
}

fn recorded_object(kept: &SnapshotObject) -> AnyObject {
    AnyObject {
        api_version: API_VERSION.to_owned(),
        kind: kept.object.kind,
        metadata: Metadata {
            name: kept.object.name.clone(),
            namespace: kept.object.namespace.clone().unwrap_or_default(),
            generation: kept.generation,
            ..Metadata::default()
        },
        spec: kept.spec.clone(),
        status: serde_json::Value::Null,
    }
}

fn freeze_again(
    snapshot: &StackSnapshot,
    first: &SnapshotObject,
    inventory: &Inventory,
    more_labels: &[LabelRef],
) -> Result<FrozenStack, NoStack> {
    let labels = match snapshot.labels.is_empty() {
        true => Labels::Besides(more_labels),
        false => Labels::Exactly(&snapshot.labels),
    };
    let namespace = first.object.namespace.clone().unwrap_or_default();
    freeze(inventory, &namespace, &first.object.name, labels)
}

impl FrozenStack {
    /// The namespace of its names.
    pub fn namespace(&self) -> &str {
        &self.stack.metadata.namespace
    }

    /// The missing objects of a kind.
    pub fn missing_of(&self, kind: Kind) -> impl Iterator<Item = &MissingObject> {
        self.missing.iter().filter(move |missing| missing.object.kind == kind)
    }
}

struct Freezer<'a> {
    inventory: &'a Inventory,
    namespace: &'a str,
    kept: Vec<SnapshotObject>,
    seen: BTreeSet<(Kind, String)>,
    missing: Vec<MissingObject>,
}

impl<'a> Freezer<'a> {
    fn new(inventory: &'a Inventory, namespace: &'a str) -> Self {
        let (kept, seen, missing) = (Vec::new(), BTreeSet::new(), Vec::new());
        Self { inventory, namespace, kept, seen, missing }
    }

    /// Adds an object, unless it was added before; a missing one is recorded.
    fn take<R: Resource>(&mut self, name: &str, by: &str) -> Option<Object<R>> {
        if !self.seen.insert((R::KIND, name.to_owned())) {
            return None;
        }
        let found = self.inventory.get::<R>(self.namespace, name);
        if let Some(why) = found.absence() {
            let namespace = Some(self.namespace.to_owned());
            let object = ObjectRef { kind: R::KIND, name: name.to_owned(), namespace };
            let unknown = found.is_unknown();
            self.missing.push(MissingObject { object, named_by: by.to_owned(), unknown, why });
        }
        let object = found.ok()?;
        self.keep(&object);
        Some(object)
    }

    fn take_all<R: Resource>(&mut self, names: &[String], by: &str) -> Vec<Object<R>> {
        names.iter().filter_map(|name| self.take(name, by)).collect()
    }

    fn keep<R: Resource>(&mut self, object: &Object<R>) {
        let spec = serde_json::to_value(&object.spec).unwrap_or(serde_json::Value::Null);
        self.kept.push(SnapshotObject {
            object: ObjectRef {
                kind: R::KIND,
                name: object.metadata.name.clone(),
                namespace: Some(object.metadata.namespace.clone()),
            },
            generation: object.metadata.generation,
            digest: object.spec_digest().to_string(),
            spec,
        });
    }

    fn snapshot(&self, labels: &[LabelRef]) -> StackSnapshot {
        let mut text = String::new();
        for object in &self.kept {
            text.push_str(&format!("{} {}\n", object.object.kind, object.digest));
        }
        for missing in &self.missing {
            text.push_str(&format!("missing {} {}\n", missing.object.kind, missing.object.name));
        }
        for label in labels {
            let digest = label.digest.as_deref().unwrap_or("-");
            text.push_str(&format!("label {} {digest}\n", label.name));
        }
        let digest = Sha256Hex::of(text).to_string();
        StackSnapshot { digest, objects: self.kept.clone(), labels: labels.to_vec() }
    }
}
