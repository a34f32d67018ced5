//! Converts the numbers of the model to the names of the code, and back.

use bailiwick_kit::resolve::{FlattenedRole, ResolveWarning};
use bailiwick_model::role::Capabilities;
use bailiwick_model::{CapabilityName, RoleName};
use serde_spanned::Spanned;

use super::model::{POOL, Resolved, Written, today};
use super::random_graph::{MAX_ROLES, MISSING};

/// The names of the numbers. Roles are numbered out of order, so that nothing depends on it.
pub(super) struct Names {
    pub(super) roles: Vec<RoleName>,
    pub(super) capabilities: Vec<CapabilityName>,
}

impl Names {
    pub(super) fn new() -> Self {
        let role = |number: usize| format!("role-{}", (number * 7) % 23).parse().expect("a name");
        Self {
            roles: (0..MAX_ROLES + MISSING).map(role).collect(),
            capabilities: POOL.iter().map(|name| name.parse().expect("a name")).collect(),
        }
    }

    pub(super) fn role(&self, name: &RoleName) -> usize {
        self.roles.iter().position(|known| known == name).expect("a role of the graph")
    }

    pub(super) fn capability(&self, name: &CapabilityName) -> usize {
        self.capabilities.iter().position(|known| known == name).expect("a capability of the pool")
    }

    pub(super) fn declare(&self, written: &Written) -> Capabilities {
        let names = |list: &[usize]| {
            list.iter()
                .map(|number| Spanned::new(0..0, self.capabilities[*number].clone()))
                .collect()
        };
        Capabilities {
            extends: written.extends.map(|role| Spanned::new(0..0, self.roles[role].clone())),
            required: names(&written.required),
            relaxes: names(&written.relaxes),
        }
    }

    /// The result of `flatten`, in numbers.
    pub(super) fn read_flat(&self, flat: &FlattenedRole) -> Resolved {
        let mut resolved = Resolved {
            capabilities: flat.capabilities.iter().map(|name| self.capability(name)).collect(),
            chain: flat.chain.iter().map(|name| self.role(name)).collect(),
            ..Resolved::default()
        };
        for warning in &flat.warnings {
            match warning {
                ResolveWarning::NotInherited { role, capability } => {
                    let capability = today(self.capability(capability));
                    resolved.not_inherited.insert((self.role(role), capability));
                }
                ResolveWarning::OldName { role, old: old_name, new } => {
                    let old_name = self.capability(old_name);
                    assert_eq!(self.capability(new), today(old_name), "the wrong current name");
                    resolved.old_names.insert((self.role(role), old_name));
                }
            }
        }
        resolved
    }

    pub(super) fn path(&self, path: &[RoleName]) -> Vec<usize> {
        path.iter().map(|name| self.role(name)).collect()
    }
}
