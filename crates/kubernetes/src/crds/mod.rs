//! The kinds as CustomResourceDefinitions.

mod columns;
mod limit;
mod rules;
mod structural;

use std::collections::BTreeMap;

use bailiwick_resources::{API_VERSION, Kind, object_schema};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceSubresourceStatus, CustomResourceSubresources,
    CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

pub use limit::LimitError;
pub use structural::{SchemaError, Unsupported};

use structural::{Defaults, Reader};

/// The category of all kinds: `kubectl get bailiwick`.
const CATEGORY: &str = "bailiwick";
/// The maximum length of a name, as in the embedded database.
const MAX_NAME_LENGTH: i64 = 128;

/// Where the objects of a kind are in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// They are custom resources.
    CustomResource,
    /// Kubernetes has this kind itself.
    Kubernetes,
    /// Only in the database: there are too many of them for etcd.
    Database,
}

/// Where the objects of a kind are in a cluster.
pub fn home(kind: Kind) -> Home {
    match kind {
        Kind::ServiceAccount | Kind::Role | Kind::RoleBinding | Kind::Secret | Kind::ConfigMap => {
            Home::Kubernetes
        }
        Kind::AgentTriggerExecution | Kind::WebhookDelivery => Home::Database,
        Kind::AgentStack
        | Kind::AgentSubagent
        | Kind::AgentToolProfile
        | Kind::AgentMcpServer
        | Kind::AgentSkill
        | Kind::AgentServiceAccount
        | Kind::AgentRoleBinding
        | Kind::AgentSecretGrant
        | Kind::AgentConfigGrant
        | Kind::AgentCapabilityRequirement
        | Kind::AgentTriggerRule
        | Kind::AgentDispatchRun
        | Kind::AgentDispatchAttempt
        | Kind::WorkItemSessionLink
        | Kind::WorkItemWorkspaceLink
        | Kind::AgentContextLabel
        | Kind::AgentWorkspacePolicy
        | Kind::AgentWorkspace
        | Kind::AgentSession
        | Kind::AgentApproval
        | Kind::AgentContextBundle
        | Kind::AgentArtifact
        | Kind::AgentReviewArtifact
        | Kind::Repository
        | Kind::RunnerPool => Home::CustomResource,
    }
}

/// The kinds that are custom resources.
pub fn custom_kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| home(*kind) == Home::CustomResource)
}

/// Why a kind cannot be written as a CustomResourceDefinition.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// Its schema has something that an API server does not accept.
    #[error("{kind}: {error}")]
    Schema {
        /// The kind.
        kind: Kind,
        /// What the schema has.
        error: SchemaError,
    },
    /// A limit or a column does not fit the fields of the kind.
    #[error("{kind}: {error}")]
    Limit {
        /// The kind.
        kind: Kind,
        /// What does not fit.
        error: LimitError,
    },
    /// The API version has no group.
    #[error("`{API_VERSION}` is not GROUP/VERSION")]
    Version,
    /// It cannot be written as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(serde_saphyr::SerializeError),
}

/// The CustomResourceDefinition of a kind.
pub fn definition(kind: Kind) -> Result<CustomResourceDefinition, DefinitionError> {
    let (group, version) = API_VERSION.split_once('/').ok_or(DefinitionError::Version)?;
    let name = format!("{}.{group}", kind.plural());
    let schema = schema(kind)?;
    let columns =
        columns::of(kind, &schema).map_err(|error| DefinitionError::Limit { kind, error })?;
    let labels = [("app.kubernetes.io/part-of".to_owned(), "bailiwick".to_owned())];
    Ok(CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from(labels)),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: group.to_owned(),
            names: names(kind),
            scope: "Namespaced".to_owned(),
            versions: vec![CustomResourceDefinitionVersion {
                name: version.to_owned(),
                served: true,
                storage: true,
                schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema) }),
                subresources: Some(CustomResourceSubresources {
                    status: Some(CustomResourceSubresourceStatus(Value::Object(Map::new()))),
                    scale: None,
                }),
                additional_printer_columns: Some(columns),
                ..CustomResourceDefinitionVersion::default()
            }],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    })
}

fn names(kind: Kind) -> CustomResourceDefinitionNames {
    CustomResourceDefinitionNames {
        kind: kind.to_string(),
        list_kind: Some(format!("{kind}List")),
        plural: kind.plural().to_owned(),
        singular: Some(kind.as_str().to_ascii_lowercase()),
        short_names: Some(kind.short_names()),
        categories: Some(vec![CATEGORY.to_owned()]),
    }
}

/// The schema of the objects of a kind.
fn schema(kind: Kind) -> Result<JSONSchemaProps, DefinitionError> {
    let mut generator = SchemaGenerator::default();
    // Only its definitions are used: the envelope is that of Kubernetes.
    object_schema(kind, &mut generator);
    let definitions = generator.take_definitions(true);
    let failed = |error| DefinitionError::Schema { kind, error };
    let envelope = definitions.get(&format!("Object_for_{kind}"));
    let envelope = envelope.or_else(|| definitions.get("Object"));
    let part = |name: &str, defaults| {
        let schema = envelope.and_then(|envelope| envelope.pointer(&format!("/properties/{name}")));
        let schema = schema.ok_or_else(|| SchemaError::at(name, Unsupported::Missing))?;
        Reader::new(&definitions, defaults).read(schema, name)
    };
    let mut spec = part("spec", Defaults::Kept).map_err(failed)?;
    for (at, limit) in rules::of(kind) {
        limit::apply(&mut spec, at, limit)
            .map_err(|error| DefinitionError::Limit { kind, error })?;
    }
    let mut status = part("status", Defaults::Dropped).map_err(failed)?;
    status.default = None;
    let name = JSONSchemaProps { max_length: Some(MAX_NAME_LENGTH), ..typed("string") };
    let metadata = JSONSchemaProps {
        properties: Some(BTreeMap::from([("name".to_owned(), name)])),
        ..typed("object")
    };
    let properties = [
        ("apiVersion", typed("string")),
        ("kind", typed("string")),
        ("metadata", metadata),
        ("spec", spec),
        ("status", status),
    ];
    Ok(JSONSchemaProps {
        description: definitions
            .get(kind.as_str())
            .and_then(|schema| schema.get("description"))
            .and_then(Value::as_str)
            .map(str::to_owned),
        properties: Some(properties.map(|(name, schema)| (name.to_owned(), schema)).into()),
        required: Some(vec!["spec".to_owned()]),
        ..typed("object")
    })
}

/// A schema of this type without limits.
fn typed(name: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(name.to_owned()), ..JSONSchemaProps::default() }
}

/// Definitions as YAML documents for `kubectl apply -f -`.
pub fn yaml(kinds: impl IntoIterator<Item = Kind>) -> Result<String, DefinitionError> {
    let definitions = kinds.into_iter().map(definition).collect::<Result<Vec<_>, _>>()?;
    let documents = definitions
        .iter()
        .map(|one| serde_saphyr::to_string(one).map_err(DefinitionError::Yaml))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(crate::documents(&documents))
}
