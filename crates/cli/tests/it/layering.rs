//! The import table of docs/architecture.md: which crate may import which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bailiwick_model::module::{CheckModule, GateModule};

use crate::workspace;

/// The workspace crates that each crate may import. Tests may also import the test kit, and nothing else.
const ALLOWED_IMPORTS: [(&str, &[&str]); 20] = [
    ("model", &[]),
    ("resources", &["model"]),
    ("kit", &["model"]),
    ("policy", &["model"]),
    ("verify", &["model"]),
    ("lifecycle", &["kit", "model", "policy", "verify"]),
    ("fleet", &["kit", "model", "policy", "resources"]),
    ("memory", &["model", "resources"]),
    ("kubernetes", &["model", "resources"]),
    ("gate", &["policy"]),
    ("store", &["fleet", "lifecycle", "model", "resources"]),
    ("source-control", &["fleet", "kit", "lifecycle", "memory", "model", "resources", "verify"]),
    ("runner", &["gate", "lifecycle", "model", "policy", "verify"]),
    ("server", &["fleet", "model", "resources"]),
    ("client", &["fleet", "model", "resources", "server"]),
    ("web", &["fleet", "model", "resources", "server"]),
    (
        "engine",
        &[
            "fleet",
            "gate",
            "kit",
            "lifecycle",
            "memory",
            "model",
            "policy",
            "resources",
            "runner",
            "source-control",
            "store",
            "verify",
        ],
    ),
    (
        "cli",
        &[
            "client",
            "engine",
            "fleet",
            "gate",
            "kit",
            "lifecycle",
            "memory",
            "model",
            "policy",
            "resources",
            "runner",
            "server",
            "source-control",
            "store",
            "verify",
            "web",
        ],
    ),
    ("operator", &["client", "fleet", "kubernetes", "model", "resources", "server", "store"]),
    ("testkit", &[]),
];

/// The crates that read no file, clock, environment or network.
const PURE: [&str; 9] =
    ["model", "resources", "kit", "policy", "verify", "lifecycle", "fleet", "memory", "kubernetes"];

/// Crates that a pure crate must not import.
const IMPURE: [&str; 8] =
    ["tokio", "sqlx", "reqwest", "tempfile", "getrandom", "rand", "clap", "anstream"];

#[test]
fn crates_import_only_allowed_crates() {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(workspace().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .unwrap();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED_IMPORTS.into_iter().collect();
    let mut checked = BTreeSet::new();
    for package in &metadata.packages {
        let name =
            package.name.strip_prefix("bailiwick-").expect("names of our crates have this prefix");
        let allowed =
            allowed.get(name).unwrap_or_else(|| panic!("{name} is missing in ALLOWED_IMPORTS"));
        checked.insert(name.to_owned());
        for dependency in &package.dependencies {
            let other = dependency.name.as_str();
            if let Some(ours) = other.strip_prefix("bailiwick-") {
                let for_tests = dependency.kind == cargo_metadata::DependencyKind::Development;
                let is_allowed = allowed.contains(&ours) || (for_tests && ours == "testkit");
                assert!(is_allowed, "{name} must not import {ours}");
            } else if PURE.contains(&name)
                && dependency.kind == cargo_metadata::DependencyKind::Normal
            {
                assert!(!IMPURE.contains(&other), "{name} is pure and must not import {other}");
            }
        }
    }
    assert_eq!(checked.len(), ALLOWED_IMPORTS.len(), "a crate was added or removed");
}

#[test]
fn architecture_page_has_the_same_import_table() {
    let page = std::fs::read_to_string(workspace().join("docs/architecture.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != "| crate | imports |").skip(2);
    let shown: Vec<(String, Vec<String>)> = rows
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix('|'))
        .map(|row| {
            let (name, imports) = row.split_once('|').unwrap();
            let imports = imports.split(',').map(str::trim).filter(|name| !name.is_empty());
            (name.trim().to_owned(), imports.map(str::to_owned).collect())
        })
        .collect();
    let expected = ALLOWED_IMPORTS.map(|(name, imports)| {
        (name.to_owned(), imports.iter().map(|import| (*import).to_owned()).collect())
    });
    assert_eq!(shown, expected);
}

#[test]
fn adapters_do_not_import_each_other() {
    const ADAPTERS: [&str; 4] = ["store", "source-control", "runner", "server"];
    for (name, imports) in ALLOWED_IMPORTS {
        if ADAPTERS.contains(&name) {
            assert!(!imports.iter().any(|import| ADAPTERS.contains(import)), "{name}: {imports:?}");
        }
    }
}

#[test]
fn pure_crates_have_the_same_clippy_bans() {
    let bans = |name: &str| {
        let file = workspace().join("crates").join(name).join("clippy.toml");
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    let model = bans("model");
    for call in
        ["std::fs::read", "std::env::var", "std::time::SystemTime::now", "std::process::Command"]
    {
        assert!(model.contains(&format!("\"{call}\"")), "{call} is not banned");
    }
    for name in PURE {
        assert_eq!(bans(name), model, "{name}");
    }
}

#[test]
fn top_level_modules_have_no_import_cycle() {
    for (name, _) in ALLOWED_IMPORTS {
        let found = cycles(&imports_between_modules(&workspace().join("crates").join(name)));
        assert_eq!(found, BTreeSet::new(), "{name}: import cycle");
    }
}

/// The modules of the supervisor import each other in one direction.
#[test]
fn supervisor_modules_have_no_import_cycle() {
    let source = workspace().join("crates/runner/src/supervisor");
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in rust_files(&source) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if name != "mod" {
            let paths = paths_after("super::", &std::fs::read_to_string(&file).unwrap());
            graph.insert(name, paths);
        }
    }
    assert!(graph["program"].contains("gate"), "imports are found: {:?}", graph["program"]);
    assert_eq!(cycles(&graph), BTreeSet::new());
}

#[test]
fn import_cycle_between_modules_is_found() {
    let edges = |all: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in all {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        cycles(&graph).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(edges(&[("a", "b"), ("b", "c"), ("a", "c")]), Vec::<String>::new());
    assert_eq!(edges(&[("a", "b"), ("b", "c"), ("c", "b")]), ["b", "c"]);
    assert_eq!(edges(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]), ["a", "b", "c"]);
    let text = "use crate::{a::B, c};\n// use crate::x;\nfn f() { crate::d::e(); }\n\
                use crate::outer::{inner::{Deep, self}, Other};\n#[cfg(test)]\nmod tests {\n\
                use crate::t;\n}\n";
    assert_eq!(
        paths_after("crate::", text),
        BTreeSet::from(["a", "c", "d", "outer"].map(str::to_owned))
    );
}

/// Arguments and terminals belong to the CLI.
#[test]
fn engine_does_not_parse_arguments_or_print() {
    let root = workspace().join("crates/engine");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for banned in ["clap", "anstream", "anstyle", "terminal_size", "annotate-snippets"] {
        assert!(!manifest.contains(banned), "the engine must not depend on {banned}");
    }
    assert!(manifest.contains("[lints]\nworkspace = true"), "printing is denied by its lints");
    let lints = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    for lint in ["print_stdout = \"deny\"", "print_stderr = \"deny\""] {
        assert!(lints.contains(lint), "{lint}");
    }
    for file in rust_files(&root.join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for banned in ["io::stdout()", "io::stderr()", "io::stdin()"] {
            assert!(!text.contains(banned), "{}: {banned}", file.display());
        }
    }
    // The control: the CLI does print.
    let output = workspace().join("crates/cli/src/output/mod.rs");
    assert!(std::fs::read_to_string(output).unwrap().contains("io::stdout()"));
}

/// The crates that print, and the files of others that pass standard streams on: the terminal of `exec`, and the
/// output of a setup command.
#[test]
fn only_cli_operator_and_gate_print() {
    const PRINTING: [&str; 3] = ["cli", "operator", "gate"];
    const STREAMS: [&str; 2] =
        ["runner/src/supervisor/terminal.rs", "source-control/src/git/workspaces.rs"];
    const CALLS: [&str; 5] = ["println!(", "print!(", "io::stdout()", "io::stderr()", "anstream::"];
    let crates = workspace().join("crates");
    let (mut printing, mut passing) = (BTreeSet::new(), BTreeSet::new());
    for (name, _) in ALLOWED_IMPORTS.into_iter().filter(|(name, _)| *name != "testkit") {
        for file in rust_files(&crates.join(name).join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            let path = file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
            let prints = CALLS.iter().any(|call| text.contains(call));
            if prints && PRINTING.contains(&name) {
                printing.insert(name);
            } else if prints {
                passing.insert(path);
            }
        }
    }
    assert_eq!(printing, BTreeSet::from(PRINTING), "these print, which is the control");
    assert_eq!(passing, BTreeSet::from(STREAMS.map(str::to_owned)));
    let page = std::fs::read_to_string(workspace().join("docs/architecture.md")).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("printing outside `cli`, `operator` and `gate`"));
}

/// The table of commands that other crates know by name: each name is in the module of its row, the program has the
/// command, and no other file of `engine` starts the program itself.
#[test]
fn commands_known_by_name_are_those_of_the_page() {
    let page = std::fs::read_to_string(workspace().join("docs/architecture.md")).unwrap();
    let rows =
        page.lines().skip_while(|line| *line != "| command | named in | started by |").skip(2);
    let rows: Vec<(String, String)> = rows
        .map_while(|line| line.strip_prefix("| `bailiwick "))
        .map(|row| {
            let mut spans = row.split('`');
            let command = spans.next().unwrap().to_owned();
            (command, spans.nth(1).unwrap().to_owned())
        })
        .collect();
    let commands: Vec<&str> = rows.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, ["supervise", "gate", "mcp", "sandbox-init", "script-agent"]);
    let cli = source_of("cli");
    let plumbing = std::fs::read_to_string(cli.join("plumbing.rs")).unwrap();
    let mut known = BTreeSet::new();
    for (command, module) in &rows {
        let parts: Vec<&str> = module.split("::").collect();
        let place = source_of(parts[0]).join(parts[1..].join("/"));
        let file = if place.is_dir() { place.join("mod.rs") } else { place.with_extension("rs") };
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(&format!("\"{command}\"")), "{module} does not name {command}");
        let is_command = plumbing.contains(&format!("Some(\"{command}\")"))
            || cli.join("commands").join(command).with_extension("rs").is_file();
        assert!(is_command, "there is no command {command}");
        known.insert(file);
    }
    let engine = source_of("engine");
    for file in rust_files(&engine) {
        let text = std::fs::read_to_string(&file).unwrap();
        let starts_itself = text.contains("own_program()?");
        assert!(!starts_itself || known.contains(&file), "{}", file.display());
    }
}

/// A capability has the same name in the kit, as a gate, and as a check.
#[test]
fn capability_has_one_name_everywhere() {
    let crates = workspace().join("crates");
    let embedded = crates.join("kit/embedded/capabilities");
    let mut capabilities = BTreeSet::new();
    for category in std::fs::read_dir(&embedded).unwrap() {
        let category = category.unwrap();
        for capability in std::fs::read_dir(category.path()).unwrap() {
            let parts = [category.file_name(), capability.unwrap().file_name()];
            capabilities
                .insert(parts.map(|part| part.into_string().unwrap()).join("_").replace('-', "_"));
        }
    }
    assert!(capabilities.contains("scope_files_whitelist"), "{capabilities:?}");
    let gates = GateModule::ALL.iter().map(|module| (module.path(), "gates::", "policy/src/gates"));
    let checks =
        CheckModule::ALL.iter().map(|module| (module.path(), "verifies::", "verify/src/checks"));
    for (path, prefix, directory) in gates.chain(checks) {
        let name = path.strip_prefix(prefix).unwrap();
        assert!(capabilities.contains(name), "no capability has the module {path}");
        let place = crates.join(directory).join(name);
        assert!(place.is_dir() || place.with_extension("rs").is_file(), "{}", place.display());
        let (category, rest) = name.split_once('_').unwrap();
        let manifest = embedded.join(category).join(rest.replace('_', "-")).join("capability.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        assert!(text.contains(&format!("\"{path}\"")), "{}: {path}", manifest.display());
    }
}

/// Which top-level modules of a crate import which others. Tests do not count.
fn imports_between_modules(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let source = root.join("src");
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in rust_files(&source) {
        let inside = file.strip_prefix(&source).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let module = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
        let is_test = file.file_name().is_some_and(|name| name == "tests.rs");
        if !is_test && !matches!(module.as_str(), "lib" | "main" | "bin") {
            let mut paths = paths_after("crate::", &std::fs::read_to_string(&file).unwrap());
            paths.remove(&module);
            graph.entry(module).or_default().extend(paths);
        }
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for imports in graph.values_mut() {
        imports.retain(|import| modules.contains(import));
    }
    graph
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}

/// The first parts of all paths behind a prefix such as `crate::`.
fn paths_after(prefix: &str, text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = code.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code.get(..at).unwrap().chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = code.get(at + prefix.len()..).unwrap();
        match rest.strip_prefix('{') {
            None => found.extend(first_name(rest)),
            Some(group) => found.extend(names_of_group(group)),
        }
    }
    found
}

fn first_name(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The first part of each path in a group; nested groups are skipped, because they are below such a part.
fn names_of_group(group: &str) -> Vec<String> {
    let (mut depth, mut begins, mut names) = (0_usize, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && depth == 0 && !c.is_whitespace() => {
                names.extend(first_name(group.get(at..).unwrap()));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// The modules that import themselves, directly or indirectly.
fn cycles(graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let reaches_itself = |start: &String| {
        let mut visited = BTreeSet::new();
        let mut next: Vec<&String> = graph.get(start).into_iter().flatten().collect();
        while let Some(module) = next.pop() {
            if module == start {
                return true;
            }
            if visited.insert(module) {
                next.extend(graph.get(module).into_iter().flatten());
            }
        }
        false
    };
    graph.keys().filter(|module| reaches_itself(module)).cloned().collect()
}

/// Modules, types and functions that the page names by their path from the crate.
#[test]
fn architecture_page_names_only_existing_items() {
    let page = std::fs::read_to_string(workspace().join("docs/architecture.md")).unwrap();
    let crates: BTreeSet<String> = ALLOWED_IMPORTS.map(|(name, _)| name.replace('-', "_")).into();
    let mut checked = 0;
    for span in page.split('`').skip(1).step_by(2) {
        let mut parts = span.split("::");
        let Some(name) = parts.next().filter(|name| crates.contains(*name)) else { continue };
        let root = workspace().join("crates").join(name.replace('_', "-")).join("src");
        let parts: Vec<&str> = parts.collect();
        // Capabilities have hyphens in their names, code has none.
        if !parts.is_empty() && !span.contains('-') {
            assert!(exists(&root, &parts), "docs/architecture.md names `{span}`");
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} names were found");
    let sources: Vec<PathBuf> = crates.iter().map(|name| source_of(name)).collect();
    let mut without_crate = 0;
    for span in page.split('`').skip(1).step_by(2).filter(|span| is_name_in_code(span)) {
        let parts: Vec<&str> = span.split('(').next().unwrap().split("::").collect();
        if !crates.contains(parts[0]) && !NAMES_OF_OTHERS.contains(&span) {
            assert!(exists_somewhere(&sources, &parts), "docs/architecture.md names `{span}`");
            without_crate += 1;
        }
    }
    assert!(without_crate > 40, "only {without_crate} names were found");
    let engine = workspace().join("crates/engine/src");
    assert!(exists(&engine, &["running", "LockedRun", "attempt"]));
    assert!(!exists(&engine, &["running", "interrupt"]) && !exists(&engine, &["wire"]));
    for missing in ["supervisor::talk", "Observer::called_by_nobody", "NoSuchType"] {
        let parts: Vec<&str> = missing.split("::").collect();
        assert!(is_name_in_code(missing) && !exists_somewhere(&sources, &parts), "{missing}");
    }
}

/// Names in the page that are not names of items in our code: variants of enums, and an event of Claude Code.
const NAMES_OF_OTHERS: [&str; 3] = ["Kernel", "TextOnly", "UserPromptSubmit"];

/// Whether a span is a path such as `a::b`, or the name of a type. Capabilities have hyphens or stars in their paths.
fn is_name_in_code(span: &str) -> bool {
    let is_plain = span.chars().all(|c| c.is_alphanumeric() || "_:()".contains(c));
    let is_type = span.starts_with(|c: char| c.is_uppercase())
        && span.contains(|c: char| c.is_lowercase())
        && !span.contains('_');
    is_plain && (span.contains("::") || is_type)
}

fn source_of(name: &str) -> PathBuf {
    workspace().join("crates").join(name.replace('_', "-")).join("src")
}

/// Whether a path without its crate names a module or an item below any of these directories.
fn exists_somewhere(sources: &[PathBuf], parts: &[&str]) -> bool {
    let (first, rest) = parts.split_first().unwrap();
    if first.starts_with(|c: char| c.is_uppercase()) {
        return sources.iter().any(|source| exists(source, parts));
    }
    let files = sources.iter().flat_map(|source| rust_files(source));
    let directories: BTreeSet<PathBuf> = files
        .flat_map(|file| file.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>())
        .filter(|directory| directory.file_name().is_some_and(|name| name == *first))
        .collect();
    let in_directory = directories.iter().any(|directory| exists(directory, rest));
    let file = format!("{first}.rs");
    let mut files = sources.iter().flat_map(|source| rust_files(source));
    in_directory
        || files.any(|path| {
            path.file_name().is_some_and(|name| name == file.as_str())
                && exists(path.parent().unwrap(), parts)
        })
}

/// Whether a path below a module names a module, or items that its files declare.
fn exists(directory: &Path, parts: &[&str]) -> bool {
    let [first, rest @ ..] = parts else { return true };
    let file = directory.join(format!("{first}.rs"));
    if directory.join(first).is_dir() {
        let is_below = exists(&directory.join(first), rest);
        if is_below || !file.is_file() {
            return is_below;
        }
    }
    let files = match file.is_file() {
        true => vec![file.clone()],
        false if directory.is_dir() => rust_files(directory),
        false => vec![directory.to_owned()],
    };
    let words = if file.is_file() { rest } else { parts };
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let declares = |word: &str| {
        let keywords = ["fn ", "mod ", "struct ", "enum ", "trait ", "type ", "pub ", "const "];
        keywords.iter().any(|keyword| {
            let declared = format!("{keyword}{word}");
            text.match_indices(&declared).any(|(at, _)| {
                let after = text.get(at + declared.len()..).unwrap().chars().next();
                after.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            })
        })
    };
    let named =
        words.iter().flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'));
    named.filter(|word| !word.is_empty() && *word != "name").all(declares)
}
