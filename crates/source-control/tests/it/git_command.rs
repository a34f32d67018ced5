//! Running git: its errors, its input and its environment.

use std::path::Path;
use std::process::Command;

use bailiwick_source_control::git::Input;
use bailiwick_source_control::{Git, GitError, Repository};
use bailiwick_testkit::Scratch;

#[test]
fn failure_has_the_command_the_exit_code_and_the_message_of_git() {
    let scratch = Scratch::repository();
    let git = Git::at(scratch.root());
    match git.run(["rev-parse", "--verify", "no such thing"]) {
        Err(GitError::Failed { command, exit_code, stderr }) => {
            assert_eq!(command, "rev-parse --verify no such thing");
            assert_eq!(exit_code, Some(128));
            assert_eq!(stderr, "fatal: Needed a single revision");
        }
        other => panic!("{other:?}"),
    }
    let text = git.line(["no-such-command"]).unwrap_err().to_string();
    assert!(text.starts_with("git no-such-command failed: "), "{text}");
    assert!(text.contains("'no-such-command' is not a git command"), "{text}");
    let silent = git.run(["config", "--get", "no.such"]).unwrap_err().to_string();
    assert!(
        silent.ends_with("failed: exit code 1"),
        "without a message of git, the error has the exit code: {silent}"
    );
}

#[test]
fn error_outside_of_a_repository_names_the_cause() {
    let scratch = Scratch::bare();
    let text = Git::at(scratch.root()).run(["status"]).unwrap_err().to_string();
    assert!(text.contains("not a git repository"), "{text}");
    let deleted = scratch.place().join("gone");
    let text = Git::at(&deleted).run(["status"]).unwrap_err().to_string();
    assert!(text.contains(deleted.to_str().unwrap()), "{text}");
}

#[test]
fn success_and_failure_are_distinguished() {
    let scratch = Scratch::repository();
    scratch.commit("first");
    let git = Git::at(scratch.root());
    assert!(git.succeeds(["rev-parse", "--verify", "--quiet", "HEAD"]).unwrap());
    assert!(!git.succeeds(["rev-parse", "--verify", "--quiet", "nothing"]).unwrap());
    assert_eq!(git.line(["rev-parse", "--abbrev-ref", "HEAD"]).unwrap(), "main");
}

#[test]
fn input_is_passed_completely_and_is_empty_without_bytes() {
    let scratch = Scratch::repository();
    let git = Git::at(scratch.root());
    let large = vec![b'x'; 3_000_000];
    let blob = git.run_with_input(["hash-object", "-w", "--stdin"], Input::Bytes(&large)).unwrap();
    let object = String::from_utf8(blob).unwrap().trim().to_owned();
    assert_eq!(git.run(["cat-file", "blob", &object]).unwrap(), large);
    let empty = git.line(["hash-object", "--stdin"]).unwrap();
    assert_eq!(empty, scratch.git(&["hash-object", "-t", "blob", "/dev/null"]).trim());
    // Git may ignore its input.
    assert!(git.run_with_input(["rev-parse", "--git-dir"], Input::Bytes(&large)).is_ok());
}

#[test]
fn no_editor_is_opened() {
    let scratch = Scratch::repository();
    let opened = scratch.place().join("opened");
    let editor = format!("touch '{}'; false", opened.display());
    scratch.git(&["config", "core.editor", &editor]);
    scratch.git(&["config", "user.name", "A Person"]);
    scratch.git(&["config", "user.email", "person@example.org"]);
    let git = Git::at(scratch.root());
    let text = git.run(["commit", "--allow-empty"]).unwrap_err().to_string();
    assert!(text.contains("editor"), "{text}");
    assert!(!opened.exists());
    scratch.run("git", &["commit", "--allow-empty"]);
    assert!(opened.exists(), "the control: plain git opens it");
}

const REQUEST_VARIABLE: &str = "BAILIWICK_TEST_COMMIT_OF";

/// The part of the tests below that needs another environment: it runs in its own process.
#[test]
fn prints_the_commit_that_another_test_requests() {
    let Some(root) = std::env::var_os(REQUEST_VARIABLE) else { return };
    let repository = Repository::discover(Path::new(&root)).unwrap();
    match repository.commit("HEAD") {
        Ok(commit) => println!("answer: {commit:?}"),
        Err(error) => println!("answer: {error}"),
    }
}

/// The commit of the scratch repository, as a process with this environment finds it.
fn answer(scratch: &Scratch, environment: &[(&str, &Path)]) -> String {
    let mut command = scratch.command(std::env::current_exe().unwrap());
    let name = "git_command::prints_the_commit_that_another_test_requests";
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(REQUEST_VARIABLE, scratch.root());
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = text.lines().find_map(|line| line.split_once("answer: "));
    match answer {
        Some((_, answer)) => answer.to_owned(),
        None => panic!("no answer: {text}"),
    }
}

#[test]
fn git_environment_variables_are_ignored() {
    let (scratch, other) = (Scratch::repository(), Scratch::repository());
    let commit = scratch.commit("ours");
    other.commit("theirs, with another message");
    let (directory, tree) = (other.root().join(".git"), other.root());
    let elsewhere = [
        ("GIT_DIR", directory.as_path()),
        ("GIT_WORK_TREE", tree.as_path()),
        ("GIT_INDEX_FILE", Path::new("/nowhere/index")),
        ("GIT_OBJECT_DIRECTORY", Path::new("/nowhere/objects")),
        ("GIT_NAMESPACE", Path::new("other")),
        ("GIT_CEILING_DIRECTORIES", Path::new("/")),
    ];
    assert_eq!(answer(&scratch, &elsewhere), format!("Some({commit:?})"));
    let mut plain = scratch.command("git");
    let plain = plain.env("GIT_DIR", &directory).args(["rev-parse", "HEAD"]).output().unwrap();
    let followed = String::from_utf8(plain.stdout).unwrap();
    assert_ne!(followed.trim(), commit, "the control: plain git follows them");
}

/// Changes the owner of the repository to another user; false if that is not permitted.
fn change_owner(scratch: &Scratch) -> bool {
    let root = scratch.root();
    let chown = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(&root).output();
        output.is_ok_and(|output| output.status.success())
    };
    chown("chown", &["-R", "12345"]) || chown("sudo", &["-n", "chown", "-R", "12345"])
}

fn trust_directory(scratch: &Scratch, path: &str) {
    let text = format!("[safe]\n\tdirectory = /somewhere/else\n\tdirectory = {path}\n");
    std::fs::write(scratch.place().join("home/.gitconfig"), text).unwrap();
}

#[test]
fn repository_of_another_user_needs_safe_directory() {
    let scratch = Scratch::repository();
    let commit = scratch.commit("first");
    if !change_owner(&scratch) {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "CI must be able to change an owner"
        );
        println!("skipped: changing the owner of a directory needs root or sudo");
        return;
    }
    let refused = answer(&scratch, &[]);
    assert!(refused.contains("dubious ownership"), "{refused}");
    let trusted_result = |path: &str| {
        trust_directory(&scratch, path);
        answer(&scratch, &[])
    };
    assert!(trusted_result("/another/place").contains("dubious ownership"));
    assert_eq!(trusted_result(scratch.root().to_str().unwrap()), format!("Some({commit:?})"));
    assert_eq!(trusted_result("*"), format!("Some({commit:?})"));
}
