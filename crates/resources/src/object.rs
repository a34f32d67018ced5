//! The envelope of every resource.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{API_VERSION, Condition, Kind, Moment};
use bailiwick_model::digest::Sha256Hex;

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The maximum length of a name.
const MAX_NAME_LENGTH: usize = 128;
/// The maximum length of a name of a namespace of Kubernetes.
const MAX_NAMESPACE_LENGTH: usize = 63;
/// The maximum length of a label or its value.
const MAX_LABEL_LENGTH: usize = 256;
/// The maximum number of labels and annotations.
const MAX_LABELS: usize = 64;

/// The spec of a kind.
pub trait Resource: Serialize + DeserializeOwned + JsonSchema + Clone + Send + Sync {
    /// The kind.
    const KIND: Kind;
    /// The type of its status.
    type Status: Serialize + DeserializeOwned + JsonSchema + Default + Clone + Send + Sync;

    /// The errors that the schema cannot express.
    fn faults(&self) -> Vec<Fault>;
}

/// An error in one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fault {
    /// The path of the field, such as `spec.match.paths`.
    pub field: String,
    /// What is wrong and how to fix it.
    pub message: String,
}

impl Fault {
    /// An error in this field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// The metadata of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The name. It is unique for the kind and the namespace.
    pub name: String,
    /// The namespace. The default is `default`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Labels by which objects can be selected.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations. They cannot be used for selection.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// A unique ID that is set on creation and never reused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The generation. It increases with every change of the spec.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// The resource version. It increases with every change; a write that names an older one is rejected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resource_version: u64,
    /// When the object was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Moment>,
}

fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Metadata {
    /// Metadata with this name, in the default namespace.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: default_namespace(), ..Self::default() }
    }

    /// The errors in the metadata.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (field, name) in
            [("metadata.name", &self.name), ("metadata.namespace", &self.namespace)]
        {
            if !is_object_name(name) {
                let message = format!(
                    "`{name}` is no name: use a-z, 0-9, `-` and `.`, at most {MAX_NAME_LENGTH}, \
                     beginning and ending with a letter or a digit"
                );
                faults.push(Fault::new(field, message));
            }
        }
        for (field, words) in
            [("metadata.labels", &self.labels), ("metadata.annotations", &self.annotations)]
        {
            if words.len() > MAX_LABELS {
                faults.push(Fault::new(field, format!("there may be {MAX_LABELS} at most")));
            }
            let long = |text: &&String| text.len() > MAX_LABEL_LENGTH;
            let short_values = field == "metadata.labels";
            for key in words.keys().filter(|key| key.is_empty() || key.len() > MAX_LABEL_LENGTH) {
                faults.push(Fault::new(field, format!("`{key}` is empty or too long a key")));
            }
            if short_values && words.values().any(|value| long(&value)) {
                faults
                    .push(Fault::new(field, format!("a value is longer than {MAX_LABEL_LENGTH}")));
            }
        }
        faults
    }
}

/// Whether a text is a valid object name.
pub fn is_object_name(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !text.is_empty()
        && text.len() <= MAX_NAME_LENGTH
        && text.bytes().all(|byte| inside(byte) || matches!(byte, b'-' | b'.'))
        && text.bytes().next().is_some_and(inside)
        && text.bytes().last().is_some_and(inside)
        && !text.contains("..")
}

/// Whether a text is a valid name of a namespace of Kubernetes. It has no dots, unlike names of other objects.
pub fn is_namespace_name(text: &str) -> bool {
    text.len() <= MAX_NAMESPACE_LENGTH && !text.contains('.') && is_object_name(text)
}

/// An object of a kind that is known at compile time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound(deserialize = ""))]
pub struct Object<R: Resource> {
    /// `bailiwick.dev/v1alpha1`.
    pub api_version: String,
    /// The kind.
    pub kind: Kind,
    /// The metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: R,
    /// The observed state.
    #[serde(default)]
    pub status: R::Status,
}

impl<R: Resource> Object<R> {
    /// A new object.
    pub fn new(metadata: Metadata, spec: R) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: R::KIND,
            metadata,
            spec,
            status: R::Status::default(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The digest of kind, name and spec. Admissions are bound to it.
    pub fn spec_digest(&self) -> Sha256Hex {
        let spec = serde_json::to_value(&self.spec).unwrap_or(Value::Null);
        digest(self.kind, &self.metadata, &spec)
    }
}

fn digest(kind: Kind, metadata: &Metadata, spec: &Value) -> Sha256Hex {
    // serde_json keeps the keys of a `Value` sorted, so that equal specs have equal digests.
    Sha256Hex::of(format!("{kind}/{}/{}\n{spec}", metadata.namespace, metadata.name))
}

/// An object of any kind, as it is stored and sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnyObject {
    /// `bailiwick.dev/v1alpha1`.
    pub api_version: String,
    /// The kind.
    pub kind: Kind,
    /// The metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: Value,
    /// The observed state.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
}

/// Why an object cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// Another API version.
    #[error("apiVersion `{found}` is not known; write `{API_VERSION}`")]
    Version {
        /// The version that was found.
        found: String,
    },
    /// Another kind than the expected one.
    #[error("{found} is not the kind that was asked for, {wanted}")]
    Kind {
        /// The kind that was found.
        found: Kind,
        /// The kind that was expected.
        wanted: Kind,
    },
    /// The spec or status does not match the schema of the kind.
    #[error("{kind} `{name}` {field}: {why}")]
    Shape {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
        /// The path of the field, such as `spec.source.role`.
        field: String,
        /// What is wrong.
        why: String,
    },
}

type PathError = serde_path_to_error::Error<serde_json::Error>;

/// The path of a field below a part of an object.
fn field_below(part: &str, path: &serde_path_to_error::Path) -> String {
    match path.iter().next() {
        None => part.to_owned(),
        Some(_) => format!("{part}.{path}"),
    }
}

impl AnyObject {
    /// The object as the type of its kind.
    pub fn typed<R: Resource>(&self) -> Result<Object<R>, ObjectError> {
        if self.api_version != API_VERSION {
            return Err(ObjectError::Version { found: self.api_version.clone() });
        }
        if self.kind != R::KIND {
            return Err(ObjectError::Kind { found: self.kind, wanted: R::KIND });
        }
        let shape = |part: &str, error: PathError| ObjectError::Shape {
            kind: self.kind,
            name: self.metadata.name.clone(),
            field: field_below(part, error.path()),
            why: error.inner().to_string(),
        };
        let spec =
            serde_path_to_error::deserialize(&self.spec).map_err(|error| shape("spec", error))?;
        let status = if self.status.is_null() {
            R::Status::default()
        } else {
            serde_path_to_error::deserialize(&self.status)
                .map_err(|error| shape("status", error))?
        };
        let metadata = self.metadata.clone();
        Ok(Object {
            api_version: self.api_version.clone(),
            kind: self.kind,
            metadata,
            spec,
            status,
        })
    }

    /// From a typed object.
    pub fn of<R: Resource>(object: &Object<R>) -> Result<Self, ObjectError> {
        let shape = |field: &str, error: serde_json::Error| ObjectError::Shape {
            kind: R::KIND,
            name: object.metadata.name.clone(),
            field: field.to_owned(),
            why: error.to_string(),
        };
        Ok(Self {
            api_version: API_VERSION.to_owned(),
            kind: R::KIND,
            metadata: object.metadata.clone(),
            spec: serde_json::to_value(&object.spec).map_err(|error| shape("spec", error))?,
            status: serde_json::to_value(&object.status).map_err(|error| shape("status", error))?,
        })
    }

    /// The digest of kind, name and spec.
    pub fn spec_digest(&self) -> Sha256Hex {
        digest(self.kind, &self.metadata, &self.spec)
    }

    /// The conditions in the status.
    pub fn conditions(&self) -> Vec<Condition> {
        self.status
            .get("conditions")
            .and_then(|conditions| Vec::<Condition>::deserialize(conditions).ok())
            .unwrap_or_default()
    }

    /// The spec with all defaults filled in.
    pub fn canonical_spec(&self) -> Result<Value, ObjectError> {
        crate::kind_check::canonical(self)
    }

    /// Checks the object: first the schema of its kind, then what the schema cannot express.
    pub fn check(&self) -> Result<Vec<Fault>, ObjectError> {
        let mut faults = self.metadata.faults();
        faults.extend(crate::kind_check::faults(self)?);
        Ok(faults)
    }
}
