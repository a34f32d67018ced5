//! The templates of the two operators, which are off until a value turns them on.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::ChartError;
use super::template::{
    ADDRESS, JOB_NAMESPACE, MODEL_NETWORK, NAMESPACE, QUOTA_PODS, SERVER_NETWORK, for_each,
    for_each_argument, template, when,
};
use crate::manifests::{JOB_OPERATOR, JobOperator, ManifestFile, OPERATOR, Operator, Place};

/// The value with the namespaces for Jobs.
const JOB_NAMESPACES: &str = "jobs.namespaces";
/// The lists in the command of the operator for Jobs, and what stands for an item.
const ARGUMENTS: [(&str, &str); 3] = [
    (JOB_NAMESPACES, JOB_NAMESPACE),
    ("jobs.serverNetworks", SERVER_NETWORK),
    ("jobs.modelNetworks", MODEL_NETWORK),
];

/// What keeps a namespace in step.
pub(super) fn operator() -> Result<Vec<ManifestFile>, ChartError> {
    let operator = Operator {
        place: Place::without_volume("values-operator-namespace".parse()?, OPERATOR)?,
        image: "values-operator-image".to_owned(),
        server: ADDRESS.parse()?,
        token: "values-token-secret/values-token-key".parse()?,
    };
    let files = operator.files()?.into_iter().map(|file| {
        let file = file.inside("operator");
        template(&file.path, &when("operator.enabled", &file.text, None))
    });
    Ok(files.collect())
}

/// What runs attempts in Jobs.
pub(super) fn jobs() -> Result<Vec<ManifestFile>, ChartError> {
    let operator = JobOperator {
        place: Place::without_volume(NAMESPACE.parse()?, JOB_OPERATOR)?,
        image: "values-jobs-image".to_owned(),
        database: "values-database-secret/values-database-key".parse()?,
        server: ADDRESS.parse()?,
        installation: "values-installation".parse()?,
        server_networks: vec![SERVER_NETWORK.parse()?],
        model_networks: vec![MODEL_NETWORK.parse()?],
        attempts: vec![JOB_NAMESPACE.parse()?],
        quota_pods: Some(Quantity(QUOTA_PODS.to_owned())),
    };
    let files = operator.manifests().files()?.into_iter().map(|file| {
        let text = match file.path.as_str() {
            "namespace.yaml" => {
                when("jobs.createNamespaces", &for_each(JOB_NAMESPACES, &file.text), None)
            }
            "resourcequota.yaml" => {
                when("jobs.quotaPods", &for_each(JOB_NAMESPACES, &file.text), None)
            }
            "role.yaml" | "rolebinding.yaml" => for_each(JOB_NAMESPACES, &file.text),
            "deployment.yaml" => ARGUMENTS
                .into_iter()
                .fold(file.text.clone(), |text, (list, item)| for_each_argument(list, item, &text)),
            _ => file.text.clone(),
        };
        template(&file.inside("jobs").path, &when("jobs.enabled", &text, None))
    });
    Ok(files.collect())
}
