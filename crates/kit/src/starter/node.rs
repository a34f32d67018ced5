//! JavaScript and TypeScript projects: package.json with npm, pnpm, yarn or bun.

mod manager;
mod package;

use bailiwick_model::globs::Globs;

use self::manager::Manager;
use self::package::{Package, Script};
use super::files::Directory;
use super::stack::{Note, Stack};

/// Scripts that check a project without tests, the best first.
const INSTEAD_OF_TESTS: [&str; 7] =
    ["check", "typecheck", "type-check", "types", "tsc", "lint", "build"];

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let file = "package.json";
    let package =
        Package::parse(&directory.read(file).or_else(|| directory.has(file).then(String::new))?);
    let manager = Manager::of(directory, package.as_ref());
    let mut stack = Stack::new(manager.tool(), directory.path(), manager.evidence);
    stack.programs = vec![manager.command_name()];
    stack.artefacts = &["node_modules"];
    stack.standalone = manager.locked;
    let Some(package) = package else {
        stack.notes.push(Note::Malformed { file: directory.join(file) });
        stack.setup = manager.setup(true);
        return Some(stack);
    };
    let members = members(directory, &package, &mut stack);
    let needs_modules = package.has_dependencies || members.is_some() || manager.locked;
    stack.setup = manager.setup(needs_modules);
    stack.covers_below = members.is_some();
    stack.commands = commands(&manager, &package, members.as_deref().unwrap_or_default());
    Some(stack)
}

/// The packages of a workspace; none if this is a single package.
fn members(directory: Directory<'_>, package: &Package, stack: &mut Stack) -> Option<Vec<Package>> {
    let listed = match directory.read("pnpm-workspace.yaml") {
        Some(text) => package::pnpm_members(&text).unwrap_or_else(|| {
            stack.notes.push(Note::Malformed { file: directory.join("pnpm-workspace.yaml") });
            Vec::new()
        }),
        None => package.workspaces.clone()?,
    };
    let globs = Globs::parse(&listed.iter().map(|glob| plain(glob)).collect::<Vec<_>>());
    let member = |path: &str| {
        let place = path.strip_suffix("/package.json")?;
        let is_member = globs.matches(place, true) && !place.contains("node_modules");
        is_member.then(|| Package::parse(&directory.read(path)?)).flatten()
    };
    Some(directory.below().filter_map(member).collect())
}

/// `./packages/*/` is the same directory as `packages/*`.
fn plain(glob: &str) -> String {
    format!("/{}", glob.trim_start_matches("./").trim_matches('/'))
}

fn commands(manager: &Manager, package: &Package, members: &[Package]) -> Vec<String> {
    if let Some(script) = package.test_script() {
        return vec![runnable(manager, &script)];
    }
    let tested: Vec<&Package> =
        members.iter().filter(|member| member.test_script().is_some()).collect();
    if !tested.is_empty() {
        return manager.member_tests(&tested);
    }
    let instead = INSTEAD_OF_TESTS.iter().find(|name| package.has_script(name));
    instead.map(|name| manager.run(name)).into_iter().collect()
}

fn runnable(manager: &Manager, script: &Script<'_>) -> String {
    match script {
        Script::Once(name) => manager.run(name),
        // With CI set, test runners that watch for changes exit on their own.
        Script::Watching(name) => format!("CI=true {}", manager.run(name)),
    }
}
