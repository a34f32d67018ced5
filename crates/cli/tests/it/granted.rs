//! Values that are granted as files: only their agent can read them, and they are deleted when its attempt ends,
//! even by a kill.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;

use crate::BAILIWICK;
use crate::run::{is_alive, run, scene, shell, wait_for, write};

const SECRET: &str = "the-first-line-of-a-key\nthe-second-line-of-a-key\n";

/// A task whose agent runs these steps, and is granted a secret and settings, as files and as variables.
fn scene_with_grants(steps: &[&str]) -> Scratch {
    let scratch = scene(steps);
    let granted = "secret-files = [\"DEPLOY_KEY\"]\nconfigs = [\"REGION\"]\n\
                   config-files = [\"RULES\"]\ncli =";
    let text = scratch.read("task.toml").replace("cli =", granted);
    scratch.write("task.toml", &text);
    scratch
}

fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = scratch.command(BAILIWICK);
    command.args(arguments);
    command.env("DEPLOY_KEY", SECRET).env("REGION", "").env("RULES", "be-kind\n");
    command
}

fn grant_directory(scratch: &Scratch, id: &str) -> PathBuf {
    scratch.state().join("runs").join(id).join("granted")
}

fn worktree_file(scratch: &Scratch, id: &str, file: &str) -> String {
    let path = scratch.state().join("worktrees").join(id).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn granted_file_is_readable_for_its_agent_and_not_recorded() {
    // In a script, which the gate does not read, so that only the sandbox limits it.
    let script = "cat -n \"$DEPLOY_KEY_FILE\" > src/seen.txt\ncat -n \"$DEPLOY_KEY_FILE\"\n\
                  cat \"$RULES_FILE\"\nstat -c %a \"$DEPLOY_KEY_FILE\" > src/mode.txt\n\
                  echo \"[${DEPLOY_KEY-none}] [${REGION-none}]\" > src/variables.txt\n\
                  (echo x > \"$DEPLOY_KEY_FILE\") || rm -f \"$DEPLOY_KEY_FILE\" || echo HELD > src/held.txt\n";
    let scratch = scene_with_grants(&[&write("src/try.sh", script), &shell("sh src/try.sh")]);
    let missing = run(&scratch, &["run", "task.toml", "--agent-id", "none"]).expect_code(1);
    assert!(missing.err.contains("DEPLOY_KEY, which is not set"), "{}", missing.err);
    let ran = command(&scratch, &["run", "task.toml", "--agent-id", "one"]).output().unwrap();
    let ran = Ran::from(ran).expect_code(0);
    let expected = "     1\tthe-first-line-of-a-key\n     2\tthe-second-line-of-a-key\n";
    assert_eq!(worktree_file(&scratch, "one", "src/seen.txt"), expected);
    assert_eq!(worktree_file(&scratch, "one", "src/mode.txt"), "600\n");
    // No variable has the value itself; settings may be empty.
    assert_eq!(worktree_file(&scratch, "one", "src/variables.txt"), "[none] []\n");
    assert_eq!(
        worktree_file(&scratch, "one", "src/held.txt"),
        "HELD\n",
        "the file is not read-only"
    );
    assert!(!grant_directory(&scratch, "one").exists(), "the directory exists after the attempt");
    let logs = run(&scratch, &["logs", "one", "-o", "json"]).out;
    assert!(logs.contains("[secret]") && logs.contains("be-kind"), "{logs}");
    for text in [&logs, &ran.out, &ran.err] {
        assert!(!text.contains("-line-of-a-key"), "{text}");
    }
    // No other file of the run has it. The worktree is excluded, because the agent wrote it there.
    let mut grep = Command::new("grep");
    grep.args(["-rlaI", "-e", "line-of-a-key"]).arg(scratch.state().join("runs"));
    let found = grep.stdout(Stdio::piped()).output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&found), "");
    let database = std::fs::read(scratch.state().join("bailiwick.db")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains("line-of-a-key"));
}

#[test]
fn granted_file_is_invisible_to_other_runs_and_deleted_after_a_kill() {
    let scratch = scene_with_grants(&[&shell("echo here > src/here.txt; sleep 600")]);
    let mut running =
        command(&scratch, &["run", "task.toml", "--agent-id", "one"]).spawn().unwrap();
    let file = grant_directory(&scratch, "one").join("DEPLOY_KEY");
    wait_for(|| scratch.state().join("worktrees/one/src/here.txt").exists());
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        SECRET,
        "positive control: the file exists"
    );
    assert_eq!(
        grant_directory(&scratch, "one").metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    // Another run of the same user on the same machine.
    let script = format!(
        "cat {0} > src/stolen.txt || echo NOTHING > src/none.txt\nls {1} > src/runs.txt\n",
        file.display(),
        scratch.state().join("runs").display()
    );
    let other = scene_with_grants(&[&write("src/try.sh", &script), &shell("sh src/try.sh")]);
    std::fs::copy(other.root().join("task.toml"), scratch.root().join("other.toml")).unwrap();
    let ran = command(&scratch, &["run", "other.toml", "--agent-id", "two"]).output().unwrap();
    Ran::from(ran).expect_code(0);
    assert_eq!(worktree_file(&scratch, "two", "src/none.txt"), "NOTHING\n");
    assert_eq!(worktree_file(&scratch, "two", "src/stolen.txt"), "");
    assert_eq!(worktree_file(&scratch, "two", "src/runs.txt"), "two\n", "it can see other runs");

    running.kill().unwrap();
    running.wait().unwrap();
    wait_for(|| !is_alive(&scratch, "one"));
    assert!(file.exists(), "positive control: the file was not deleted yet");
    run(&scratch, &["ps"]).expect_code(0);
    assert!(!grant_directory(&scratch, "one").exists(), "the next command did not delete it");
    // A resumed run needs the grant again.
    let refused = run(&scratch, &["resume", "one"]).expect_code(1);
    assert!(refused.err.contains("DEPLOY_KEY, which is not set"), "{}", refused.err);
}
