//! The control plane over HTTP: API, webhooks, events, metrics.
//!
//! It knows HTTP and nothing of SQL, git or agents: those come in by the ports of `control`.
