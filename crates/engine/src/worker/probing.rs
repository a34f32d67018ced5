//! What the machine of a worker offers, found by trying.

use std::sync::Arc;

use bailiwick_fleet::ports::World as _;
use bailiwick_fleet::workers::WorkerCapabilities;
use bailiwick_runner::sandbox::{level, probe};
use bailiwick_store::Store;
use serde_json::Value;

use crate::context::Context;
use crate::fleet::world::LocalWorld;

/// The maximum length of a version, in characters. The server refuses longer ones.
const MAX_TEXT: usize = 200;

/// What is offered; with a slot for each attempt or check that runs at the same time.
pub(super) async fn capabilities(
    context: &Context,
    store: &Arc<Store>,
    slots: usize,
) -> WorkerCapabilities {
    let world = LocalWorld::new(context.clone(), Arc::clone(store));
    let found = world.capabilities().await;
    let programs = found.into_iter().filter_map(|(name, told)| {
        let is_installed = told.get("installed").and_then(Value::as_bool) == Some(true);
        let version = told.get("version").and_then(Value::as_str).unwrap_or_default();
        let version: String =
            version.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT).collect();
        is_installed.then_some((name, version))
    });
    let programs = programs.collect();
    let sandbox = tokio::task::spawn_blocking(|| level(&probe()).as_str()).await;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    WorkerCapabilities {
        programs,
        // Commands of others run in a full sandbox only.
        checks: matches!(sandbox, Ok("full")),
        sandbox: sandbox.unwrap_or("off").to_owned(),
        cores: u64::try_from(cores).unwrap_or(1),
        slots: u64::try_from(slots).unwrap_or(1),
    }
}
