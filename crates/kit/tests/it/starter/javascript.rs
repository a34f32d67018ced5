//! npm, pnpm, yarn and bun, with the scripts that package.json really has.

use super::{assert_project, malformed, recognise, shown};

const TESTED: &str = r#"{"scripts": {"test": "node --test"}, "devDependencies": {"a": "1"}}"#;

#[test]
fn lock_file_selects_the_install_command() {
    for (lock, text, stack, setup, test) in [
        ("package-lock.json", "", "npm (package-lock.json)", "npm ci", "npm test"),
        ("npm-shrinkwrap.json", "", "npm (npm-shrinkwrap.json)", "npm ci", "npm test"),
        (
            "pnpm-lock.yaml",
            "",
            "pnpm (pnpm-lock.yaml)",
            "pnpm install --frozen-lockfile",
            "pnpm test",
        ),
        ("yarn.lock", "__metadata:\n", "yarn (yarn.lock)", "yarn install --immutable", "yarn test"),
        (
            "yarn.lock",
            "# yarn lockfile v1\n",
            "yarn 1 (yarn.lock)",
            "yarn install --frozen-lockfile",
            "yarn test",
        ),
        ("bun.lock", "", "bun (bun.lock)", "bun install --frozen-lockfile", "bun run test"),
        ("README.md", "", "npm (package.json)", "npm install --no-package-lock", "npm test"),
    ] {
        let project = recognise(&[("package.json", TESTED), (lock, text), ("src/index.ts", "")]);
        assert_project(&project, stack, &[setup], &[test], &["src/**"]);
    }
    let berry = [("package.json", TESTED), ("yarn.lock", ""), (".yarnrc.yml", "")];
    assert_eq!(recognise(&berry).setup, ["yarn install --immutable"]);
}

#[test]
fn package_manager_overrides_a_lock_file() {
    let named = |field: &str| {
        let package = TESTED
            .replace("{\"scripts\"", &format!("{{\"packageManager\": \"{field}\", \"scripts\""));
        let files =
            [("package.json", package.as_str()), ("package-lock.json", ""), ("yarn.lock", "")];
        recognise(&files).setup
    };
    assert_eq!(named("yarn@4.5.0"), ["yarn install --immutable"]);
    assert_eq!(named("yarn@1.22.22"), ["yarn install --frozen-lockfile"]);
    assert_eq!(named("npm@11.0.0"), ["npm ci"]);
    assert_eq!(named("pnpm@9.1.0+sha512.abc"), ["pnpm install --no-lockfile"]);
    assert_eq!(named("unknown@1"), ["yarn install --frozen-lockfile"], "the lock file decides");
}

#[test]
fn only_scripts_that_exist_are_run() {
    let commands = |scripts: &str| {
        recognise(&[("package.json", &format!("{{\"scripts\": {scripts}}}")), ("a.js", "")])
            .commands
    };
    let stub = r#"{"test": "echo \"Error: no test specified\" && exit 1"}"#;
    assert_eq!(commands(stub), [""; 0]);
    assert_eq!(commands("{}"), [""; 0]);
    assert_eq!(commands(r#"{"test": ""}"#), [""; 0]);
    assert_eq!(commands(r#"{"test": ["not", "text"], "build": "tsc"}"#), ["npm run build"]);
    assert_eq!(commands(r#"{"lint": "eslint .", "build": "tsc"}"#), ["npm run lint"]);
    assert_eq!(commands(r#"{"test": "react-scripts test"}"#), ["CI=true npm test"]);
    assert_eq!(commands(r#"{"test": "jest --watch", "test:ci": "jest"}"#), ["npm run test:ci"]);
    assert_eq!(commands(r#"{"test": "ng test --watch=false"}"#), ["npm test"]);
}

#[test]
fn nothing_is_installed_for_a_package_without_dependencies() {
    let project = recognise(&[("package.json", r#"{"scripts": {"test": "node --test"}}"#)]);
    assert_eq!((project.setup, project.commands), (vec![], vec!["npm test".to_owned()]));
}

#[test]
fn malformed_package_is_recognised_by_its_name() {
    for text in ["", "{", "[]", "null", "{\"scripts\": }", "\u{0}"] {
        let project = recognise(&[("package.json", text), ("package-lock.json", ""), ("a.js", "")]);
        assert_eq!(shown(&project), ["npm (package-lock.json)"]);
        assert_eq!(malformed(&project), ["package.json"]);
        assert_eq!((project.setup, project.commands), (vec!["npm ci".to_owned()], vec![]));
    }
    let odd = r#"{"scripts": 7, "workspaces": "x", "packageManager": {}, "dependencies": []}"#;
    let project = recognise(&[("package.json", odd), ("a.js", "")]);
    assert_eq!((malformed(&project).len(), project.commands.len()), (0, 0));
    let with_mark = format!("\u{feff}{TESTED}");
    assert_eq!(recognise(&[("package.json", &with_mark)]).commands, ["npm test"]);
}

#[test]
fn configuration_at_the_top_is_not_source() {
    let project = recognise(&[
        ("package.json", TESTED),
        ("eslint.config.js", ""),
        ("lib/a.js", ""),
        ("dist/a.js", ""),
        ("docs/a.js", ""),
        (".storybook/main.js", ""),
    ]);
    assert_eq!(project.whitelist, ["lib/**"]);
    let flat = recognise(&[("package.json", TESTED), ("index.js", ""), ("eslint.config.js", "")]);
    assert_eq!(flat.whitelist, ["/*.js"]);
}
