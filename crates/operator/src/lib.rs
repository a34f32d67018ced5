//! The operator of a cluster: connects the API server of Kubernetes with the control plane of Bailiwick.

#![expect(missing_docs, reason = "not published: names say what an item is, comments say why")]

pub mod jobs;
pub mod sync;
