//! Native identities and bindings, synced from ours. Objects created here are updated and deleted; others are not
//! touched; foreign changes are drift.

use std::collections::BTreeSet;

use bailiwick_resources::{
    AgentRoleBinding, AgentServiceAccount, AnyObject, Kind, Object, Resource, Role, RoleBinding,
    ServiceAccount,
};

use super::inventory::{Found, Inventory, InventoryError};
use super::roles::{self, EscalationAnswer};

/// The annotation with the object that a native object was created for.
pub const MADE_FOR: &str = "bailiwick.dev/made-for";
/// The annotation with the digest of what we created.
pub const MADE_AS: &str = "bailiwick.dev/made-as";
/// The annotation with the digest of the reported drift.
pub const DRIFTED: &str = "bailiwick.dev/drifted";

/// Something that is to be done to the platform's objects.
#[derive(Debug, Clone, PartialEq)]
pub enum NativeStep {
    /// It is missing.
    Make(AnyObject),
    /// It is ours and not what it should be.
    Change(AnyObject),
    /// It was created here and is not needed or not permitted any more.
    Remove(AnyObject),
    /// It was created here and was changed by others: reported once.
    Tell(AnyObject),
}

/// The part of a native object that is synced.
trait Native: Resource + PartialEq + Clone {
    /// Without what is the platform's own.
    fn ours(&self) -> Self;
    /// The wanted object, with the fields that belong to the platform.
    fn following(&self, wanted: &Self) -> Self;
}

impl Native for ServiceAccount {
    fn ours(&self) -> Self {
        Self { forbid_token_projection: false, ..self.clone() }
    }

    fn following(&self, wanted: &Self) -> Self {
        Self { forbid_token_projection: self.forbid_token_projection, ..wanted.clone() }
    }
}

impl Native for RoleBinding {
    fn ours(&self) -> Self {
        self.clone()
    }

    fn following(&self, wanted: &Self) -> Self {
        wanted.clone()
    }
}

/// The steps to sync native objects; an error where a kind is unknown.
pub fn plan(inventory: &Inventory) -> Result<Vec<NativeStep>, InventoryError> {
    // A role that cannot be read is not one that is gone.
    inventory.all::<Role>()?;
    let accounts = inventory.all::<AgentServiceAccount>()?;
    let accounts = accounts.iter().map(|one| (owner(one), roles::native_account(one)));
    let bindings = inventory.all::<AgentRoleBinding>()?;
    let bindings = bindings.iter().filter(|binding| is_admitted(inventory, binding));
    let bindings = bindings.map(|one| (owner(one), roles::native_binding(one)));
    let mut steps = steps(accounts.collect(), inventory.all::<ServiceAccount>()?)?;
    steps.extend(self::steps(bindings.collect(), inventory.all::<RoleBinding>()?)?);
    Ok(steps)
}

fn owner<R: Resource>(object: &Object<R>) -> String {
    format!("{}/{}/{}", R::KIND, object.metadata.namespace, object.name())
}

/// Whether a binding can be created without a decision. One that needs an approval or an owner is not created: it is
/// decided for each run that relies on it.
fn is_admitted(inventory: &Inventory, binding: &Object<AgentRoleBinding>) -> bool {
    match roles::rules_of(inventory, binding) {
        Found::Missing | Found::Unknown(_) => false,
        Found::Here(role) => {
            let escalation = roles::escalation(&binding.spec, &role.spec);
            let policy = binding.spec.escalation_policy;
            roles::answer(policy, &escalation) == EscalationAnswer::Admitted
        }
    }
}

type Place = (String, String);

fn place<R: Resource>(object: &Object<R>) -> Place {
    (object.metadata.namespace.clone(), object.name().to_owned())
}

fn steps<R: Native>(
    wanted: Vec<(String, Object<R>)>,
    existing: Vec<Object<R>>,
) -> Result<Vec<NativeStep>, InventoryError> {
    let mut steps = Vec::new();
    let mut made: BTreeSet<Place> = BTreeSet::new();
    for (owner, object) in &wanted {
        let native = existing.iter().find(|native| place(native) == place(object));
        let step = match native {
            None if !made.insert(place(object)) => None,
            None => Some(NativeStep::Make(any(&marked(object.clone(), owner))?)),
            Some(native) => followed(owner, object, native, &wanted)?,
        };
        steps.extend(step);
    }
    for native in &existing {
        let ours = native.metadata.annotations.contains_key(MADE_FOR);
        if ours && !wanted.iter().any(|(_, object)| place(object) == place(native)) {
            steps.push(NativeStep::Remove(any(native)?));
        }
    }
    Ok(steps)
}

/// The step for an existing object.
fn followed<R: Native>(
    owner: &str,
    wanted: &Object<R>,
    native: &Object<R>,
    all: &[(String, Object<R>)],
) -> Result<Option<NativeStep>, InventoryError> {
    let Some(made_for) = native.metadata.annotations.get(MADE_FOR) else { return Ok(None) };
    // Two objects want the same name: it stays with the one for which it was created.
    let others = all.iter().any(|(other, object)| {
        other == made_for && other != owner && place(object) == place(wanted)
    });
    if others {
        return Ok(None);
    }
    let ours = Object::new(native.metadata.clone(), native.spec.ours());
    let digest = ours.spec_digest().to_string();
    let untouched = native.metadata.annotations.get(MADE_AS) == Some(&digest);
    if ours.spec == wanted.spec {
        let told = native.metadata.annotations.contains_key(DRIFTED);
        if made_for == owner && untouched && !told {
            return Ok(None);
        }
    } else if !untouched {
        if native.metadata.annotations.get(DRIFTED) == Some(&digest) {
            return Ok(None);
        }
        let mut told = native.clone();
        told.metadata.annotations.insert(DRIFTED.to_owned(), digest);
        return Ok(Some(NativeStep::Tell(any(&told)?)));
    }
    let mut changed = marked(wanted.clone(), owner);
    changed.spec = native.spec.following(&wanted.spec);
    let annotations = std::mem::take(&mut changed.metadata.annotations);
    changed.metadata = native.metadata.clone();
    changed.metadata.annotations.remove(DRIFTED);
    changed.metadata.annotations.extend(annotations);
    Ok(Some(NativeStep::Change(any(&changed)?)))
}

fn marked<R: Resource>(mut object: Object<R>, owner: &str) -> Object<R> {
    let digest = object.spec_digest().to_string();
    let annotations = &mut object.metadata.annotations;
    annotations.insert(MADE_FOR.to_owned(), owner.to_owned());
    annotations.insert(MADE_AS.to_owned(), digest);
    object
}

fn any<R: Resource>(object: &Object<R>) -> Result<AnyObject, InventoryError> {
    Ok(AnyObject::of(object)?)
}

impl NativeStep {
    /// The object that it is about.
    pub fn object(&self) -> &AnyObject {
        match self {
            Self::Make(object)
            | Self::Change(object)
            | Self::Remove(object)
            | Self::Tell(object) => object,
        }
    }

    /// Its event in the audit log.
    pub fn event(&self) -> &'static str {
        let binding = self.object().kind == Kind::RoleBinding;
        match self {
            Self::Make(_) | Self::Change(_) if binding => "AgentRoleBindingApplied",
            Self::Make(_) => "AgentServiceAccountCreated",
            Self::Change(_) => "AgentServiceAccountReplaced",
            Self::Remove(_) if binding => "AgentRoleBindingWithdrawn",
            Self::Remove(_) => "AgentServiceAccountWithdrawn",
            Self::Tell(_) => "NativeRbacDriftDetected",
        }
    }
}
