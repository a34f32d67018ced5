//! Which changes of a manifest are changes of dependencies.

mod random;

use super::*;

fn differ(path: &str, before: &str, after: &str) -> Vec<String> {
    let data = |text: &str| match read(path, text.as_bytes()) {
        Ok(Manifest::Parsed(data)) => data,
        Ok(Manifest::Opaque) => panic!("{path} is not read as data"),
        Err(why) => panic!("{path}: {why}\n{text}"),
    };
    data(before).differences(&data(after))
}

fn assert_same(path: &str, before: &str, after: &str) {
    assert_eq!(differ(path, before, after), Vec::<String>::new(), "{path}\n{before}\n{after}");
}

fn assert_one_difference(path: &str, before: &str, after: &str, line: &str) {
    assert_eq!(differ(path, before, after), [line], "{path}\n{before}\n{after}");
}

#[test]
fn cargo_manifests_differ_only_by_dependencies() {
    let file = "Cargo.toml";
    assert_same(file, "[package]\nversion = \"1.0.0\"", "[package]\nversion = \"2.0.0\"");
    assert_same(
        file,
        "",
        "[features]\nx = [\"dep:serde\"]\n[profile.dev]\ndebug = 1\n[lib]\nname = \"y\"",
    );
    assert_same(
        file,
        "[dependencies]\na = \"1\"\nb.path = \"b\"",
        "dependencies = { b = { path = \"b\" }, a = { version = \"1\" } }",
    );
    assert_same(
        file,
        "[dependencies]\na = { version = \"1\", features = [\"x\", \"y\"], default_features = false }",
        "[dependencies.a]\ndefault-features = false\nfeatures = [\"y\", \"x\"]\nversion = \"1\"",
    );
    assert_same(file, "[dev_dependencies]\na = \"1\"", "[dev-dependencies]\na = \"1\"");
    for table in [
        "dependencies",
        "dev-dependencies",
        "build-dependencies",
        "target.'cfg(unix)'.dependencies",
        "workspace.dependencies",
        "patch.crates-io",
        "replace",
    ] {
        let with = |version: &str| format!("[{table}]\na = \"{version}\"");
        let name = table.replace('\'', "");
        assert_one_difference(file, &with("1"), &with("2"), &format!("{name}.a: 1 → 2"));
        assert_one_difference(file, "", &with("1"), &format!("{name}.a: nothing → 1"));
        assert_one_difference(file, &with("1"), "", &format!("{name}.a: 1 → nothing"));
    }
    let moved = differ(file, "[dependencies]\na = \"1\"", "[dev-dependencies]\na = \"1\"");
    assert_eq!(moved.len(), 2);
    for other in ["git = \"https://x\"", "optional = true", "package = \"b\"", "registry = \"r\""] {
        let after = format!("[dependencies]\na = {{ version = \"1\", {other} }}");
        assert_eq!(differ(file, "[dependencies]\na = \"1\"", &after).len(), 1, "{other}");
    }
}

#[test]
fn cargo_lock_files_differ_only_by_external_packages() {
    let package = |name: &str, version: &str, more: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{more}\n")
    };
    let source = "source = \"registry+x\"\nchecksum = \"c\"";
    let file = "Cargo.lock";
    let serde = package("serde", "1.0.0", source);
    assert_same(
        file,
        &format!("version = 3\n{serde}"),
        &format!("# by hand\nversion = 4\n\n{serde}"),
    );
    assert_same(
        file,
        &(package("own", "0.1.0", "") + &serde),
        &(serde.clone() + &package("own", "0.2.0", "dependencies = [\"serde\"]")),
    );
    assert_one_difference(
        file,
        &serde,
        &package("serde", "1.0.1", source),
        "serde: 1.0.0 registry+x c → 1.0.1 registry+x c",
    );
    let both = serde.clone() + &package("serde", "2.0.0", source);
    assert_one_difference(file, &serde, &both, "serde: the rest → 2.0.0 registry+x c");
    assert_eq!(differ(file, &serde, &serde.replace("\"c\"", "\"d\"")).len(), 1, "a checksum");
    assert_eq!(differ(file, &serde, &serde.replace("registry+x", "git+y")).len(), 1, "a source");
}

#[test]
fn package_json_differs_only_by_dependencies() {
    let file = "web/package.json";
    assert_same(
        file,
        r#"{"name":"a","version":"1.0.0","dependencies":{"x":"^1","y":"2"},"scripts":{}}"#,
        "{\n \"dependencies\": {\"y\": \"2\", \"x\": \"^1\"},\n \"version\": \"2.0.0\", \"scripts\": {\"t\": \"u\"}}",
    );
    for key in [
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "optionalDependencies",
        "overrides",
        "resolutions",
    ] {
        let with = |version: &str| format!("{{\"{key}\":{{\"x\":\"{version}\"}}}}");
        assert_one_difference(file, &with("1"), &with("2"), &format!("{key}.x: 1 → 2"));
    }
    assert_eq!(
        differ(file, r#"{"packageManager":"npm@1"}"#, r#"{"packageManager":"npm@2"}"#).len(),
        1
    );
    assert_same(
        file,
        r#"{"bundledDependencies":["a","b"]}"#,
        r#"{"bundleDependencies":["b","a"]}"#,
    );
    assert_eq!(differ(file, "{}", r#"{"bundleDependencies":["b"]}"#).len(), 1);
    assert!(read(file, b"[]").is_err() && read(file, b"{,}").is_err());
}

#[test]
fn npm_lock_files_differ_only_by_installed_packages() {
    let file = "package-lock.json";
    let lock = |root: &str, version: &str| {
        format!(
            "{{\"version\":\"{root}\",\"lockfileVersion\":3,\"packages\":{{\"\":{{\"version\":\"{root}\"}},\
             \"packages/own\":{{\"version\":\"{root}\"}},\"node_modules/own\":{{\"link\":true,\"resolved\":\"packages/own\"}},\
             \"node_modules/x\":{{\"version\":\"{version}\",\"integrity\":\"i\"}}}}}}"
        )
    };
    assert_same(file, &lock("1", "1"), &lock("2", "1"));
    assert_eq!(differ(file, &lock("1", "1"), &lock("1", "2")).len(), 1);
    assert_eq!(differ(file, &lock("1", "1"), &lock("1", "1").replace("\"i\"", "\"j\"")).len(), 1);
    let nested = |version: &str| {
        format!(
            "{{\"version\":\"0\",\"dependencies\":{{\"a\":{{\"version\":\"1\",\"dependencies\":{{\"b\":{{\"version\":\"{version}\"}}}}}}}}}}"
        )
    };
    let lines = differ(file, &nested("1"), &nested("2"));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("a > b: 1 "), "{lines:?}");
    assert_eq!(differ("npm-shrinkwrap.json", "{}", &nested("1")).len(), 2);
}

#[test]
fn pyproject_differs_only_by_dependencies() {
    let file = "pyproject.toml";
    assert_same(
        file,
        "[project]\nversion = \"1\"\ndependencies = [\"A_b >= 1 , <2\"]",
        "[project]\nversion = \"2\"\ndependencies = [\"a-b<2,>=1\"]",
    );
    assert_same(
        file,
        "",
        "[tool.coverage.run]\nsource = [\"x\"]\n[tool.black]\nline-length = 3\n[project]\nrequires-python = \">3\"",
    );
    assert_one_difference(
        file,
        "[project]\ndependencies = [\"a>=1\"]",
        "[project]\ndependencies = [\"a>=2\"]",
        "dependencies.a: >=1 → >=2",
    );
    for (text, old) in [
        ("[project.optional-dependencies]\nx = [\"a>=1\"]", "1"),
        ("[dependency-groups]\nx = [\"a>=1\", {include-group = \"y\"}]", "1"),
        ("[build-system]\nrequires = [\"a>=1\"]", "1"),
        ("[tool.poetry.dependencies]\na = \"^1\"", "1"),
        ("[tool.poetry.dev-dependencies]\na = {version = \"^1\", extras = [\"x\"]}", "1"),
        ("[tool.poetry.group.test.dependencies]\na = \"^1\"", "1"),
        ("[[tool.poetry.source]]\nname = \"1\"", "1"),
        ("[tool.uv]\ndev-dependencies = [\"a==1\"]", "1"),
        ("[tool.uv.sources]\na = { git = \"1\" }", "1"),
        ("[tool.uv]\noverride-dependencies = [\"a==1\"]", "1"),
        ("[tool.pdm.dev-dependencies]\ntest = [\"a==1\"]", "1"),
        ("[tool.hatch.envs.x]\nextra-dependencies = [\"a==1\"]", "1"),
    ] {
        assert_eq!(differ(file, text, &text.replace(old, "2")).len(), 1, "{text}");
        assert!(!differ(file, "", text).is_empty(), "{text}");
    }
    assert_same(
        file,
        "[tool.poetry.dependencies]\na = \"^1\"",
        "[tool.poetry.dependencies.a]\nversion = \"^1\"",
    );
}

#[test]
fn requirements_and_python_lock_files_differ_only_by_dependencies() {
    let file = "requirements-dev.txt";
    assert_same(file, "a==1\nB>=2,<3 # why\n\n", "# all\nb <3, >=2\r\n  a == 1\n");
    assert_same(file, "a==1 \\\n  --hash=sha256:x\n", "a==1 --hash=sha256:x");
    assert_one_difference(file, "a==1", "a==2", "a: ==1 → ==2");
    assert_one_difference(
        file,
        "a==1; python_version<'3'",
        "a==1",
        "a: ==1;python_version<'3' → ==1",
    );
    for (before, after) in [
        ("a", "a\n-r other.txt"),
        ("--index-url https://x", "--index-url https://y"),
        ("a[x]", "a[y]"),
        ("./local", "./other"),
        ("a @ https://x/1", "a @ https://x/2"),
        ("https://x/#a", "https://x/#b"),
        ("a==1 --hash=sha256:x", "a==1 --hash=sha256:y"),
    ] {
        assert!(!differ(file, before, after).is_empty(), "{before} {after}");
    }
    let lock = |own: &str, version: &str| {
        format!(
            "[[package]]\nname = \"own\"\nversion = \"{own}\"\nsource = {{ editable = \".\" }}\n[[package]]\nname = \"a\"\nversion = \"{version}\"\n"
        )
    };
    for file in ["uv.lock", "poetry.lock", "pdm.lock"] {
        assert_same(file, &lock("1", "1"), &lock("2", "1"));
        assert_eq!(differ(file, &lock("1", "1"), &lock("1", "2")).len(), 1);
    }
    assert_same(
        "Pipfile",
        "[packages]\na = \"*\"",
        "[scripts]\nx = \"y\"\n[packages.a]\nversion = \"*\"",
    );
    assert_one_difference(
        "Pipfile",
        "[packages]\na = \"1\"",
        "[packages]\na = \"2\"",
        "packages.a: 1 → 2",
    );
    let lock = |hash: &str, version: &str| {
        format!(
            "{{\"_meta\":{{\"hash\":\"{hash}\",\"sources\":[]}},\"default\":{{\"a\":{{\"version\":\"{version}\"}}}}}}"
        )
    };
    assert_same("Pipfile.lock", &lock("1", "1"), &lock("2", "1"));
    assert_eq!(differ("Pipfile.lock", &lock("1", "1"), &lock("1", "2")).len(), 1);
}

#[test]
fn setup_cfg_differs_only_by_requirements() {
    let file = "setup.cfg";
    assert_same(
        file,
        "[metadata]\nversion = 1\n[options]\ninstall_requires =\n    a>=1\n    b\n",
        "[metadata]\nversion = 2\n[options]\npackages = x\ninstall_requires =\n  # c\n  B\n  a >= 1",
    );
    assert_eq!(
        differ(file, "[options]\ninstall_requires = a", "[options]\ninstall_requires = a>1").len(),
        1
    );
    assert_eq!(
        differ(file, "[options.extras_require]\nx = a", "[options.extras_require]\nx = b").len(),
        2
    );
    assert!(read(file, b"[options]\ngarbage\n").is_err());
}

#[test]
fn go_modules_differ_only_by_dependencies() {
    let file = "go.mod";
    assert_same(
        file,
        "module m\n\ngo 1.20\n\nrequire (\n\ta v1 // indirect\n\tb v2\n)\n",
        "module other\ngo 1.21\nrequire b v2\nrequire a v1\nretract v0.1.0\n",
    );
    assert_one_difference(file, "require a v1", "require a v2", "require a: v1 → v2");
    for (before, after) in [
        ("", "replace a => ../a"),
        ("exclude a v1", ""),
        ("", "toolchain go1.22"),
        ("", "tool x/y"),
        ("", "unheard of"),
    ] {
        assert_eq!(differ(file, before, after).len(), 1, "{after}");
    }
    assert_same("go.work", "go 1.20\nuse ./a", "go 1.20\nuse (\n./a\n./b\n)");
    assert!(read(file, b"require (\n").is_err() && read(file, b")\n").is_err());
    assert_same("go.sum", "a v1 h1:x\nb v1 h1:y\n", "b v1 h1:y\na v1 h1:x\n");
    assert_eq!(differ("go.sum", "a v1 h1:x", "a v1 h1:z").len(), 1);
}

#[test]
fn composer_and_deno_are_parsed_and_other_formats_are_opaque() {
    assert_same(
        "composer.json",
        r#"{"version":"1","require":{"a":"1"}}"#,
        r#"{"require":{"a":"1"}}"#,
    );
    assert_eq!(differ("composer.json", "{}", r#"{"require-dev":{"a":"1"}}"#).len(), 1);
    assert_eq!(
        differ("composer.lock", "{}", r#"{"packages":[{"name":"a","version":"1"}]}"#).len(),
        1
    );
    assert_same("deno.json", "{}", r#"{"tasks":{}}"#);
    assert_eq!(differ("deno.json", "{}", r#"{"imports":{"a":"1"}}"#).len(), 1);
    assert_eq!(differ("deno.lock", "{}", r#"{"npm":{"a":"1"}}"#).len(), 1);
    for path in ["yarn.lock", "pnpm-lock.yaml", "setup.py", "Gemfile", "pom.xml", "bun.lockb"] {
        assert_eq!(read(path, b"\xff"), Ok(Manifest::Opaque), "{path}");
        assert!(is_manifest(path));
    }
}

#[test]
fn deeply_nested_texts_are_refused() {
    for path in ["Cargo.toml", "uv.lock", "package.json", "package-lock.json", "pyproject.toml"] {
        let name = if path == "pyproject.toml" { "tool" } else { "dependencies" };
        for text in [
            format!("{name} = {}", "[".repeat(100_000)),
            format!("{name} = {}", "{a=".repeat(100_000)),
            format!("{name}.{}a = 1", "a.".repeat(100_000)),
            format!("[{name}.{}a]", "a.".repeat(100_000)),
            "{\"dependencies\":".repeat(100_000),
            "[".repeat(100_000),
        ] {
            assert!(read(path, text.as_bytes()).is_err(), "{path}");
        }
    }
}
