//! What the machine of a worker offers, found by trying.

use std::sync::Arc;

use bailiwick_fleet::ports::World as _;
use bailiwick_fleet::workers::WorkerCapabilities;
use bailiwick_runner::sandbox::{Level, Part, has_landlock, level, probe};
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
    let found = tokio::task::spawn_blocking(|| (probe(), has_landlock())).await;
    let (parts, has_landlock) = found.unwrap_or_default();
    let sandbox = level(&parts);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    WorkerCapabilities {
        programs,
        // Commands of others run in a full sandbox only.
        checks: sandbox == Level::Full,
        sandbox: sandbox.as_str().to_owned(),
        confinement: confinement(sandbox, has_landlock, is_in_pod()).to_owned(),
        lacks: lacks(sandbox, &parts),
        cores: u64::try_from(cores).unwrap_or(1),
        slots: u64::try_from(slots).unwrap_or(1),
    }
}

/// Kubernetes sets this variable in every container.
fn is_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

fn confinement(sandbox: Level, has_landlock: bool, is_in_pod: bool) -> &'static str {
    match (sandbox, has_landlock, is_in_pod) {
        (Level::Full | Level::Partial, _, false) => "machine",
        (Level::Full | Level::Partial, _, true) => "nested",
        (Level::Off, true, _) => "landlock-only",
        (Level::Off, false, _) => "none",
    }
}

/// The parts that do not work. Where a namespace cannot be made, what comes after it was not tried.
fn lacks(sandbox: Level, parts: &[Part]) -> Vec<String> {
    let count = if sandbox == Level::Off { 1 } else { usize::MAX };
    let broken = parts.iter().filter(|part| !part.works).take(count);
    let shown = |part: &Part| {
        let text = format!("{} ({})", part.name, part.seen);
        text.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT).collect()
    };
    broken.map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_in_a_pod_is_reported_as_nested() {
        for (level, has_landlock, is_in_pod, shown) in [
            (Level::Full, true, false, "machine"),
            (Level::Full, true, true, "nested"),
            (Level::Partial, false, true, "nested"),
            (Level::Off, true, true, "landlock-only"),
            (Level::Off, false, true, "none"),
        ] {
            assert_eq!(confinement(level, has_landlock, is_in_pod), shown);
        }
        let parts = [
            Part { name: "user namespace", works: false, seen: "EPERM".to_owned() },
            Part { name: "seccomp", works: false, seen: "no".to_owned() },
            Part { name: "layers", works: true, seen: "yes".to_owned() },
        ];
        assert_eq!(lacks(Level::Off, &parts), ["user namespace (EPERM)"]);
        assert_eq!(lacks(Level::Partial, &parts), ["user namespace (EPERM)", "seccomp (no)"]);
    }
}
