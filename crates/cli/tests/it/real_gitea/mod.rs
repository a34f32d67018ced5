//! The control plane on a real Gitea, whose address and administrator are given:
//!
//! `GITEA_URL=http://127.0.0.1:3000 GITEA_ADMIN=NAME:PASSWORD cargo test -p bailiwick-cli --test it real_gitea
//! -- --ignored --nocapture`
//!
//! `DOWNTIME=600` sets how many seconds the control plane, or the server, is unavailable in the tests of a downtime
//! (the default is 0). Each test creates its own accounts, organization and repository, and connects
//! them as in the guides. The server must be allowed to send webhooks to loopback (`[webhook] ALLOWED_HOST_LIST =
//! loopback`).

mod chain;
pub(crate) mod events;
mod faults;
mod rights;
mod site;
mod writes;
