//! What a commit requires of an object that it does not write.

use std::fmt;
use std::str::FromStr;

use bailiwick_resources::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::FleetError;

/// An object must have this version, or must not exist. Otherwise nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Requirement {
    /// The kind.
    pub kind: Kind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The version that it must have; 0 if it must not exist.
    pub resource_version: u64,
}

impl Requirement {
    /// Fails unless the object has this version; `found` is its version if it exists.
    pub fn check(&self, found: Option<u64>) -> Result<(), FleetError> {
        let given = self.resource_version;
        let (kind, namespace, name) = (self.kind, self.namespace.clone(), self.name.clone());
        match found {
            None if given == 0 => Ok(()),
            Some(_) if given == 0 => Err(FleetError::AlreadyExists { kind, namespace, name }),
            Some(found) if found == given => Ok(()),
            None | Some(_) => {
                let found = found.unwrap_or_default();
                Err(FleetError::Conflict { kind, namespace, name, given, found })
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}@{}", self.kind, self.namespace, self.name, self.resource_version)
    }
}

/// The text is not a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("write KIND/NAMESPACE/NAME@VERSION")]
pub struct MalformedRequirement;

impl FromStr for Requirement {
    type Err = MalformedRequirement;

    fn from_str(text: &str) -> Result<Self, MalformedRequirement> {
        let (object, version) = text.rsplit_once('@').ok_or(MalformedRequirement)?;
        let mut parts = object.split('/');
        let (Some(kind), Some(namespace), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(MalformedRequirement);
        };
        Ok(Self {
            kind: kind.parse().map_err(|_| MalformedRequirement)?,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            resource_version: version.parse().map_err(|_| MalformedRequirement)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::{MalformedRequirement, Requirement};

    #[test]
    fn requirement_survives_a_round_trip() {
        let (namespace, name) = ("default".to_owned(), "fence".to_owned());
        let requirement =
            Requirement { kind: Kind::ConfigMap, namespace, name, resource_version: 7 };
        assert_eq!(requirement.to_string(), "ConfigMap/default/fence@7");
        assert_eq!(requirement.to_string().parse(), Ok(requirement));
        for malformed in
            ["", "ConfigMap/default/fence", "ConfigMap/fence@7", "X/a/b@1", "Role/a/b@-1"]
        {
            assert_eq!(malformed.parse::<Requirement>(), Err(MalformedRequirement), "{malformed}");
        }
    }
}
