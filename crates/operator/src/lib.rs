//! The operator of a cluster: connects the API server of Kubernetes with the control plane of Bailiwick.

pub mod jobs;
pub mod sync;
