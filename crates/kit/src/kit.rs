//! A kit: layers of capabilities and roles, the higher over the lower.

use std::collections::BTreeMap;

use bailiwick_model::nearest::nearest;
use bailiwick_model::{Capability, CapabilityName, Problem, Role, RoleName, Source};

use crate::layer::{Layer, Origin};
use crate::{capability_file, embedded, role_file};

/// A capability with its files.
#[derive(Debug, Clone)]
pub struct FoundCapability {
    /// The content of capability.toml.
    pub declared: Capability,
    /// capability.toml itself.
    pub source: Source,
    /// The text for the agent.
    pub text: Source,
    pub origin: Origin,
}

/// A role with its file.
#[derive(Debug, Clone)]
pub struct FoundRole {
    /// The content of the file.
    pub declared: Role,
    /// The file itself.
    pub source: Source,
    pub origin: Origin,
}

/// Layers of capabilities and roles; the embedded ones are always the lowest.
pub struct Kit {
    layers: Vec<Layer>,
}

impl Kit {
    /// The given layers, highest first, on top of the embedded kit.
    pub fn over_embedded(layers: Vec<Layer>) -> Self {
        let mut layers = layers;
        layers.push(embedded::layer());
        Self { layers }
    }

    /// All layers, highest first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Finds a capability. A broken one in a higher layer is an error; the lower layers are not searched.
    pub fn capability(
        &self,
        name: &CapabilityName,
    ) -> Result<Option<FoundCapability>, Vec<Problem>> {
        for layer in &self.layers {
            if let Some((declared, source, text)) = capability_file::find(layer, name)? {
                let origin = layer.origin;
                return Ok(Some(FoundCapability { declared, source, text, origin }));
            }
        }
        Ok(None)
    }

    /// Finds a role; a broken one is an error, not a reason to look further down.
    pub fn role(&self, name: &RoleName) -> Result<Option<FoundRole>, Vec<Problem>> {
        for layer in &self.layers {
            let Some(source) = layer.source(&layer.layout.role(name))? else { continue };
            let declared = role_file::read(name, &source)?;
            return Ok(Some(FoundRole { declared, source, origin: layer.origin }));
        }
        Ok(None)
    }

    /// The layers below the highest that have a capability of this name as well.
    pub fn overridden_capabilities(&self, name: &CapabilityName) -> Vec<Origin> {
        let names: Vec<CapabilityName> =
            [name.clone()].into_iter().chain(name.old_names()).collect();
        self.below_the_highest(|layer| {
            let mut directories = names.iter().map(|name| layer.layout.capability(name));
            directories.any(|path| layer.list(&path).is_ok_and(|files| !files.is_empty()))
        })
    }

    /// The layers below the highest that have a role of this name as well.
    pub fn overridden_roles(&self, name: &RoleName) -> Vec<Origin> {
        self.below_the_highest(|layer| {
            layer.source(&layer.layout.role(name)).is_ok_and(|file| file.is_some())
        })
    }

    fn below_the_highest(&self, has: impl Fn(&&Layer) -> bool) -> Vec<Origin> {
        self.layers.iter().filter(has).map(|layer| layer.origin).skip(1).collect()
    }

    /// The names of all capabilities, and of directories that should have been one.
    pub fn capability_names(&self) -> Result<Vec<CapabilityName>, Vec<Problem>> {
        let mut names = BTreeMap::new();
        for layer in &self.layers {
            for name in capability_file::names(layer)?.0 {
                names.insert(name, ());
            }
        }
        Ok(names.into_keys().collect())
    }

    /// The names of all roles.
    pub fn role_names(&self) -> Result<Vec<RoleName>, Vec<Problem>> {
        let mut names = BTreeMap::new();
        for layer in &self.layers {
            for name in role_file::names(layer)?.0 {
                names.insert(name, ());
            }
        }
        Ok(names.into_keys().collect())
    }

    /// The role that someone probably meant.
    pub fn nearest_role(&self, text: &str) -> Option<String> {
        let names = self.role_names().ok()?;
        nearest(text, names.iter().map(RoleName::as_str)).map(str::to_owned)
    }

    /// The capability that someone probably meant.
    pub fn nearest_capability(&self, text: &str) -> Option<String> {
        let names = self.capability_names().ok()?;
        let names: Vec<String> = names.iter().map(CapabilityName::to_string).collect();
        nearest(text, names.iter().map(String::as_str)).map(str::to_owned)
    }
}
