//! What a Kubernetes cluster is given: the kinds of the control plane as custom resources, and what runs its server.
//!
//! Everything here is a pure function from our types to objects of Kubernetes.

pub mod crds;
pub mod election;
pub mod jobs;
pub mod manifests;
pub mod review;
pub mod sync;

pub use manifests::access;

/// One text of several documents, for `kubectl apply -f -`.
fn documents(documents: &[String]) -> String {
    documents.iter().map(|document| format!("---\n{}\n", document.trim_end())).collect()
}
