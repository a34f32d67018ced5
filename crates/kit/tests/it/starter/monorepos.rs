//! Several stacks in one repository, and workspaces that one tool handles.

use bailiwick_kit::starter::Note;

use super::{assert_project, recognise, shown};

const TESTED: &str = r#"{"name": "@shop/a", "scripts": {"test": "vitest run"}}"#;

#[test]
fn stacks_in_directories_run_there() {
    let project = recognise(&[
        ("README.md", ""),
        ("backend/go.mod", "module a\n"),
        ("backend/main.go", ""),
        ("web app/package.json", TESTED),
        ("web app/package-lock.json", ""),
        ("web app/src/a.ts", ""),
        ("web app/node_modules/x/package.json", TESTED),
        ("examples/hello/package.json", TESTED),
    ]);
    assert_eq!(shown(&project), ["go in backend (go.mod)", "npm in web app (package-lock.json)"]);
    assert_eq!(project.setup, ["cd 'web app' && npm ci"]);
    assert_eq!(
        project.commands,
        ["cd backend && go vet ./...", "cd backend && go test ./...", "cd 'web app' && npm test"]
    );
    assert_eq!(project.whitelist, ["backend/*.go", "web app/src/**"]);
}

#[test]
fn only_checked_stacks_are_installed() {
    let untested =
        [("a/requirements.txt", "x\n"), ("b/package.json", r#"{"dependencies": {"x": "1"}}"#)];
    let with_script = [&untested[..], &[("run.sh", "")]].concat();
    assert_eq!(recognise(&with_script).setup, [""; 0]);
    let root = [("requirements.txt", "x\n"), ("Makefile", "test:\n\ttrue\n")];
    assert_eq!(recognise(&root).setup.len(), 1, "`make test` may need it");
    assert_eq!(recognise(&untested[1..]).setup, ["cd b && npm install --no-package-lock"]);
}

#[test]
fn two_stacks_in_the_root() {
    let project = recognise(&[
        ("Cargo.toml", "[package]\n"),
        ("src/lib.rs", ""),
        ("pyproject.toml", "[build-system]\n[project]\n"),
        ("python/a.py", ""),
        ("tests/test_a.py", "import pytest"),
        ("package.json", r#"{"devDependencies": {"prettier": "3"}}"#),
    ]);
    let stacks = ["cargo (Cargo.toml)", "npm (package.json)", "Python venv (pyproject.toml)"];
    assert_eq!(shown(&project), stacks);
    assert_eq!(project.commands.len(), 3);
    assert_eq!(
        project.setup.len(),
        1,
        "a stack without a check was installed: {:?}",
        project.setup
    );
    assert_eq!(project.whitelist, ["src/**", "python/**", "tests/**"]);
}

#[test]
fn cargo_workspace_is_one_stack() {
    let project = recognise(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/a/Cargo.toml", "[package]\n"),
        ("crates/a/src/lib.rs", ""),
        ("crates/b/Cargo.toml", "[package]\n"),
        ("crates/b/src/lib.rs", ""),
        ("crates/b/tests/it.rs", ""),
    ]);
    let commands = ["cargo check --workspace --all-targets", "cargo test --workspace"];
    let globs = ["crates/*/src/**", "crates/*/tests/**"];
    assert_project(&project, "cargo (Cargo.toml)", &[], &commands, &globs);
}

#[test]
fn npm_pnpm_and_yarn_workspaces_are_one_stack() {
    let root = r#"{"workspaces": ["packages/*"]}"#;
    let members = [("packages/a/package.json", TESTED), ("packages/a/src/a.ts", "")];
    let globs = ["packages/*/src/**"];
    let npm = [&[("package.json", root), ("package-lock.json", "")][..], &members].concat();
    let tests = ["npm test --workspaces --if-present"];
    assert_project(&recognise(&npm), "npm (package-lock.json)", &["npm ci"], &tests, &globs);

    let listed = ("pnpm-workspace.yaml", "packages:\n  - './packages/*/'\n  - '!packages/x'\n");
    let pnpm = [&[("package.json", "{}"), ("pnpm-lock.yaml", ""), listed][..], &members].concat();
    let (setup, tests) = (["pnpm install --frozen-lockfile"], ["pnpm -r --if-present run test"]);
    assert_project(&recognise(&pnpm), "pnpm (pnpm-lock.yaml)", &setup, &tests, &globs);

    let root = r#"{"workspaces": {"packages": ["packages/a"]}, "packageManager": "yarn@4.1.0"}"#;
    let yarn = [&[("package.json", root), ("yarn.lock", "")][..], &members].concat();
    let (setup, tests) = (["yarn install --immutable"], ["yarn workspace @shop/a test"]);
    assert_project(&recognise(&yarn), "yarn (yarn.lock)", &setup, &tests, &globs);
}

#[test]
fn package_with_its_own_lock_file_is_not_a_member() {
    let project = recognise(&[
        ("package.json", r#"{"workspaces": ["packages/*"], "scripts": {"test": "turbo test"}}"#),
        ("pnpm-lock.yaml", ""),
        ("packages/a/package.json", TESTED),
        ("site/package.json", TESTED),
        ("site/yarn.lock", ""),
    ]);
    assert_eq!(shown(&project), ["pnpm (pnpm-lock.yaml)", "yarn 1 in site (yarn.lock)"]);
    assert_eq!(project.commands, ["pnpm test", "cd site && yarn test"]);
}

#[test]
fn go_workspace_names_its_modules() {
    let work = "go 1.24\n\nuse (\n\t./api // served\n\t\"./tools\"\n\t../elsewhere\n)\nuse .\n";
    let project = recognise(&[
        ("go.work", work),
        ("go.mod", ""),
        ("api/go.mod", ""),
        ("api/go.sum", ""),
        ("api/main.go", ""),
        ("tools/go.mod", ""),
        ("tools/main.go", ""),
    ]);
    let packages = "./api/... ./tools/... ./...";
    let commands = [&*format!("go vet {packages}"), &*format!("go test {packages}")];
    let globs = ["api/**", "tools/**"];
    assert_project(&project, "go (go.work)", &["go mod download"], &commands, &globs);
    let separate = recognise(&[("go.mod", ""), ("tools/go.mod", ""), ("tools/a.go", "")]);
    assert_eq!(shown(&separate), ["go (go.mod)", "go in tools (go.mod)"]);
}

#[test]
fn uv_workspace_is_one_stack() {
    let project = recognise(&[
        ("pyproject.toml", "[tool.uv.workspace]\nmembers = [\"packages/*\"]\n"),
        ("uv.lock", ""),
        ("packages/a/pyproject.toml", "[project]\n"),
        ("packages/a/src/a.py", ""),
    ]);
    assert_eq!(shown(&project), ["uv (uv.lock)"]);
}

#[test]
fn more_stacks_than_a_task_can_name_are_counted() {
    let names: Vec<String> =
        (0..11).map(|number| format!("services/s{number:02}/go.mod")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let project = recognise(&files);
    assert_eq!(project.stacks.len(), 8);
    assert_eq!(project.notes, [Note::MoreStacks { count: 3 }]);
}
