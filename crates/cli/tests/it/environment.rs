//! The environment of the project in runs and checks, with real npm, Python and Go.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;

use crate::BAILIWICK;
use crate::run::{events, kinds, shell, write};

const ROLE: &str = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"scope::files-whitelist\", \"quality::commands-green\"]\n[tools]\nallowed = \
                    [\"*\"]\n";

fn task(commands: &[&str], workspace: &str, steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("[[agent.script]]\n{step}\n")).collect();
    format!(
        "[task]\nrole = \"helper\"\n[scope]\nfiles-whitelist = [\"**\"]\n[verification]\ncommands = \
         {commands:?}\n{workspace}\n[body]\ntext = \"do it\"\n[agent]\ncli = \"script\"\n{steps}"
    )
}

fn scene(files: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/roles/helper.toml", ROLE);
    for (path, text) in files {
        scratch.write(path, text);
    }
    scratch
}

fn tool_output(scratch: &Scratch, agent: &str) -> String {
    let results = kinds(&events(scratch, agent), "tool-result");
    results.iter().map(|event| event["output"].as_str().unwrap_or_default()).collect()
}

/// A registry that responds to every request with this tarball, and counts the requests.
fn registry(tarball: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    registry_with_status("200 OK", tarball)
}

/// A registry that responds to every request with this status and body, and counts the requests.
fn registry_with_status(status: &'static str, tarball: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let request_count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&request_count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut header) = (stream.unwrap(), Vec::new());
            while !header.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                header.push(byte[0]);
            }
            counter.fetch_add(1, Ordering::SeqCst);
            let length = tarball.len();
            let header = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(header.as_bytes()).and_then(|()| stream.write_all(&tarball));
        }
    });
    (port, request_count)
}

fn package(directory: &Path) -> Vec<u8> {
    let package = directory.join("package");
    std::fs::create_dir(&package).unwrap();
    let manifest = r#"{"name":"hello","version":"1.0.0","bin":{"hello":"hello.js"}}"#;
    std::fs::write(package.join("package.json"), manifest).unwrap();
    let script = "#!/usr/bin/env node\nconsole.log('hello from the package')\n";
    std::fs::write(package.join("hello.js"), script).unwrap();
    let packed = Command::new("tar").args(["-czf", "-", "package"]).current_dir(directory).output();
    packed.unwrap().stdout
}

/// A project with one package from this registry.
fn npm_project(port: u16) -> [(&'static str, String); 4] {
    let manifest = r#"{"name":"x","version":"1.0.0","scripts":{"test":"hello"},"devDependencies":{"hello":"1.0.0"}}"#;
    let lock = format!(
        r#"{{"name":"x","version":"1.0.0","lockfileVersion":3,"packages":{{"":{{"name":"x","version":"1.0.0","devDependencies":{{"hello":"1.0.0"}}}},"node_modules/hello":{{"version":"1.0.0","resolved":"http://127.0.0.1:{port}/hello-1.0.0.tgz","dev":true,"bin":{{"hello":"hello.js"}}}}}}}}"#
    );
    [
        ("package.json", manifest.to_owned()),
        ("package-lock.json", lock),
        (".npmrc", format!("registry=http://127.0.0.1:{port}/\n")),
        (".gitignore", "node_modules\n".to_owned()),
    ]
}

fn npm_scene(port: u16) -> Scratch {
    let scratch = scene(&[]);
    for (path, text) in npm_project(port) {
        scratch.write(path, &text);
    }
    scratch
}

const NPM_CI: &str = "[workspace]\nsetup = [\"npm ci\"]";

#[test]
fn npm_ci_runs_once_and_agents_and_checks_get_node_modules() {
    let directory = tempfile::tempdir().unwrap();
    let (port, request_count) = registry(package(directory.path()));
    let scratch = npm_scene(port);
    let (run_tests, note) = (shell("npm test"), write("note.txt", "x\n"));
    scratch.write("task.toml", &task(&["npm test"], NPM_CI, &[&run_tests, &note]));
    let lock = scratch.read("package-lock.json");
    let bumped = lock.replace("/hello-1.0.0.tgz", "/other/hello-1.0.0.tgz");
    let change_lock = write("package-lock.json", &bumped);
    scratch.write("bump.toml", &task(&["npm test"], NPM_CI, &[&change_lock]));
    scratch.commit("start");
    for agent in ["one", "two"] {
        let ran = scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", agent]).expect_code(0);
        assert!(tool_output(&scratch, agent).contains("hello from the package"), "{}", ran.out);
    }
    assert_eq!(request_count.load(Ordering::SeqCst), 1, "the package was fetched once");
    // Changed dependencies are installed only if a person allows it.
    let ran = scratch.run(BAILIWICK, &["run", "bump.toml", "--agent-id", "three"]).expect_code(2);
    assert!(ran.out.contains("--allow-setup"), "{}", ran.out);
    assert_eq!(request_count.load(Ordering::SeqCst), 1);
    scratch.run(BAILIWICK, &["verify", "three", "--allow-setup"]).expect_code(0);
    assert_eq!(request_count.load(Ordering::SeqCst), 2);
    // An installed setup is deleted when no agent uses it.
    let setups = || -> Vec<(bool, String)> {
        let report = scratch.run(BAILIWICK, &["prune", "--dry-run", "-o", "json"]).expect_code(0);
        let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
        let items = report["items"].as_array().unwrap().iter();
        let setups = items.filter(|item| item["what"].as_str().unwrap().starts_with("setup "));
        let decisions =
            setups.map(|item| (item["remove"].as_bool().unwrap(), item["why"].to_string()));
        decisions.collect()
    };
    let mut prunable = setups();
    prunable.sort();
    assert_eq!(prunable.len(), 2, "{prunable:?}");
    assert!(!prunable[0].0 && prunable[0].1.contains("an open agent needs it"), "{prunable:?}");
    assert!(prunable[1].0, "the setup of a single check is not needed any more: {prunable:?}");
    for agent in ["one", "two", "three"] {
        scratch.run(BAILIWICK, &["reject", agent]).expect_code(0);
    }
    scratch.run(BAILIWICK, &["prune", "--yes"]).expect_code(0);
    assert_eq!(setups(), []);
}

#[test]
fn registry_that_needs_a_login_is_named_with_a_solution() {
    let (port, _) = registry_with_status("401 Unauthorized", Vec::new());
    let scratch = npm_scene(port);
    scratch.write("task.toml", &task(&["npm test"], NPM_CI, &[&write("a", "a\n")]));
    scratch.commit("start");
    let ran = scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "one"]).expect_code(1);
    assert!(ran.err.contains("127.0.0.1 wants a login"), "{}", ran.err);
    assert!(ran.err.contains("install the packages in your checkout"), "{}", ran.err);
}

/// A fork sets the registry of its packages, and no person has reviewed it.
#[test]
fn untrusted_base_commit_cannot_allow_network_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let (port, request_count) = registry(package(directory.path()));
    let scratch = scene(&[]);
    let trusted_commit = scratch.commit("ours");
    for (path, text) in npm_project(port) {
        scratch.write(path, &text);
    }
    let task_text = task(&["npm test"], NPM_CI, &[&write("note.txt", "x\n")]);
    scratch.write(
        "theirs.toml",
        &task_text.replace("[scope]", &format!("kit-commit = \"{trusted_commit}\"\n[scope]")),
    );
    scratch.write("ours.toml", &task_text);
    scratch.commit("theirs");
    let run = |task: &str| scratch.run(BAILIWICK, &["run", task]);
    let refused = run("theirs.toml").expect_code(1);
    assert!(refused.err.contains(&format!("cannot reach: 127.0.0.1:{port}")), "{}", refused.err);
    assert_eq!(request_count.load(Ordering::SeqCst), 0);
    run("ours.toml").expect_code(0);
    assert_eq!(request_count.load(Ordering::SeqCst), 1);
}

/// A setup runs third-party code, so it always runs in a sandbox, even if the agent does not.
#[test]
fn setup_runs_in_a_sandbox_even_if_the_agent_does_not() {
    let scratch = scene(&[(".gitignore", "installed\n")]);
    let secret = scratch.place().join("home/secret");
    std::fs::write(&secret, "hunter2").unwrap();
    let escaped = scratch.place().join("escaped");
    let command = format!(
        "mkdir installed; pwd > installed/at; {{ cat {}; printenv TOKEN; }} > installed/seen; touch {}; true",
        secret.display(),
        escaped.display()
    );
    let setup = format!("[workspace]\nsetup = [{command:?}]");
    let step = shell("cat installed/at");
    scratch
        .write("task.toml", &task(&["test -s installed/at"], &setup, &[&step, &write("a", "a\n")]));
    scratch.commit("start");
    let bailiwick = |arguments: &[&str]| {
        let mut command = scratch.command(BAILIWICK);
        Ran::from(command.env("TOKEN", "hunter2").args(arguments).output().unwrap())
    };
    bailiwick(&["spawn", "task.toml", "--agent-id", "by-hand"]).expect_code(0);
    bailiwick(&["run", "task.toml", "--agent-id", "open", "--sandbox", "off"]).expect_code(0);
    for agent in ["by-hand", "open"] {
        let worktree = scratch.state().join("worktrees").join(agent);
        let read =
            |file: &str| std::fs::read_to_string(worktree.join("installed").join(file)).unwrap();
        assert_eq!(read("seen"), "", "{agent}");
        let directory = read("at");
        assert_eq!(Path::new(directory.trim()), worktree, "the setup runs in the worktree");
    }
    assert!(tool_output(&scratch, "open").contains("worktrees/open"));
    assert!(!escaped.exists(), "a setup has written outside of its sandbox");
}

/// A virtual environment with a module and a program `hello`, and with the project's sources in editable
/// mode.
fn virtual_environment(place: &Path, sources: Option<&Path>) {
    let created = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(place)
        .output()
        .unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let packages = std::fs::read_dir(place.join("lib")).unwrap().next().unwrap().unwrap().path();
    let packages = packages.join("site-packages");
    std::fs::write(packages.join("hello.py"), "word = 'hello from the environment'\n").unwrap();
    if let Some(sources) = sources {
        std::fs::write(packages.join("x.pth"), sources.display().to_string()).unwrap();
    }
    let program = place.join("bin/hello");
    let python = place.join("bin/python");
    let text = format!("#!{}\nimport hello\nprint(hello.word)\n", python.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn virtual_environment_of_the_checkout_uses_the_sources_of_the_worktree() {
    let scratch = scene(&[(".gitignore", ".venv/\n"), ("src/pkg.py", "value = 1\n")]);
    let root = scratch.root().canonicalize().unwrap();
    virtual_environment(&root.join(".venv"), Some(&root.join("src")));
    let import = ".venv/bin/python -c 'import hello, pkg; assert pkg.value == 2'";
    let change = write("src/pkg.py", "value = 2\n");
    let (import_step, hello) = (shell(import), shell(".venv/bin/hello"));
    let commands = [import, ".venv/bin/hello", "touch .venv/written"];
    scratch.write("task.toml", &task(&commands, "", &[&change, &import_step, &hello]));
    scratch.commit("start");
    let ran = scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "one"]);
    let ran = ran.expect_code(0);
    let output = tool_output(&scratch, "one");
    assert!(output.contains("hello from the environment"), "{output}\n{}", ran.out);
    assert!(!output.contains("Error"), "{output}");
    assert!(
        !root.join(".venv/written").exists(),
        "a check has changed the virtual environment of the checkout"
    );
}

#[test]
fn active_virtual_environment_is_active_for_agents_and_checks() {
    let directory = tempfile::tempdir().unwrap();
    let environment = directory.path().join("environment");
    virtual_environment(&environment, None);
    let scratch = scene(&[]);
    let import = "python -c 'import hello, os; assert os.environ[\"VIRTUAL_ENV\"]' && hello";
    let step = shell(import);
    scratch.write("task.toml", &task(&[import], "", &[&step, &write("a.txt", "a\n")]));
    scratch.commit("start");
    let path = std::env::var("PATH").unwrap();
    let mut command = scratch.command(BAILIWICK);
    command
        .args(["run", "task.toml", "--agent-id", "one"])
        .env("VIRTUAL_ENV", &environment)
        .env("PATH", format!("{}:{path}", environment.join("bin").display()));
    Ran::from(command.output().unwrap()).expect_code(0);
    assert!(tool_output(&scratch, "one").contains("hello from the environment"));
}

#[test]
fn go_modules_downloaded_by_the_setup_are_available_offline() {
    if Command::new("go").arg("version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "go is missing: install golang-go");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let versions = directory.path().join("proxy/example.org/hello/@v");
    std::fs::create_dir_all(&versions).unwrap();
    let module = "module example.org/hello\n";
    for (name, text) in
        [("list", "v1.0.0\n"), ("v1.0.0.info", "{\"Version\":\"v1.0.0\"}"), ("v1.0.0.mod", module)]
    {
        std::fs::write(versions.join(name), text).unwrap();
    }
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n \
               z.writestr('example.org/hello@v1.0.0/go.mod', 'module example.org/hello\\n')\n \
               z.writestr('example.org/hello@v1.0.0/hello.go', 'package hello\\n')\n";
    let zipped = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .arg(versions.join("v1.0.0.zip"))
        .status();
    assert!(zipped.unwrap().success());
    let scratch = scene(&[
        ("go.mod", "module example.org/x\n\ngo 1.16\n\nrequire example.org/hello v1.0.0\n"),
        ("x.go", "package x\n\nimport _ \"example.org/hello\"\n"),
    ]);
    let proxy = format!("file://{}", directory.path().join("proxy").display());
    let variables = [("GOPROXY", proxy.as_str()), ("GONOSUMDB", "*"), ("GONOSUMCHECK", "1")];
    let sums = scratch
        .command("go")
        .args(["mod", "tidy"])
        .envs(variables)
        .env("GOMODCACHE", directory.path().join("own"))
        .env("GOFLAGS", "-modcacherw")
        .output()
        .unwrap();
    assert!(sums.status.success(), "{}", String::from_utf8_lossy(&sums.stderr));
    let list_module = "go list -deps . | grep -x example.org/hello";
    let setup = "[workspace]\nsetup = [\"go mod download\"]";
    scratch.write(
        "with.toml",
        &task(&[list_module], setup, &[&shell(list_module), &write("a", "a\n")]),
    );
    scratch.write("without.toml", &task(&[list_module], "", &[&write("a", "a\n")]));
    scratch.commit("start");
    let run = |task: &str, agent: &str| {
        let mut command = scratch.command(BAILIWICK);
        command.args(["run", task, "--agent-id", agent]).envs(variables);
        Ran::from(command.output().unwrap())
    };
    let missing = run("without.toml", "without").expect_code(2);
    assert!(
        missing.out.contains("go mod download"),
        "the message names no solution: {}",
        missing.out
    );
    run("with.toml", "with").expect_code(0);
    assert!(tool_output(&scratch, "with").contains("example.org/hello"));
}
