//! Definitions and manifests for a cluster, checked as an API server checks them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test helpers panic on failure"
)]

mod api_server;
mod definitions;
mod differences;
mod examples;
mod job;
mod job_grants;
mod job_outcomes;
mod job_plans;
mod manifests;
mod packages;
mod random_objects;
mod structural;

use std::path::{Path, PathBuf};

use bailiwick_kubernetes::crds::definition;
use bailiwick_resources::Kind;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The schema in the CustomResourceDefinition of a kind.
fn schema(kind: Kind) -> JSONSchemaProps {
    let version = definition(kind).unwrap().spec.versions.remove(0);
    version.schema.unwrap().open_api_v3_schema.unwrap()
}
