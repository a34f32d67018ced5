//! Path limits in a run: mounts stop writes that the command text does not show, and files that mounts cannot stop
//! are removed after the call. Scripted agents in the full sandbox.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use bailiwick_testkit::Scratch;

use crate::BAILIWICK;
use crate::run::{events, kinds, run, shell, wait_for, write};

/// A script of the agent, which the gate does not read.
const SCRIPT: &str = "echo evil > docs/guide.md\nmkdir -p build && echo built > build/out\n\
                      echo '{}' > src/package.json\necho fine > src/made.txt\n";

fn scene(whitelist: &str) -> Scratch {
    scene_with(whitelist, SCRIPT)
}

fn scene_with(whitelist: &str, script: &str) -> Scratch {
    let steps = [
        write("src/gen.sh", script),
        shell("sh src/gen.sh"),
        shell("cat build/out"),
        shell("cat build/out src/made.txt"),
    ];
    scene_of(whitelist, &steps)
}

fn scene_of(whitelist: &str, steps: &[String]) -> Scratch {
    let scratch = Scratch::repository();
    let role = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                [\"scope::files-whitelist\", \"safety::no-dep-bump\"]\n[tools]\nallowed = [\"*\"]\n";
    scratch.write(".bailiwick/roles/helper.toml", role);
    scratch.write("docs/guide.md", "guide\n");
    scratch.write("src/a.txt", "a\n");
    let steps: String = steps.iter().map(|step| format!("[[agent.script]]\n{step}\n")).collect();
    let task = format!(
        "[task]\nrole = \"helper\"\n[scope]\nfiles-whitelist = [{whitelist:?}]\n[body]\ntext = \"do \
         it\"\n[agent]\ncli = \"script\"\n{steps}"
    );
    scratch.write("task.toml", &task);
    scratch.commit("start");
    scratch
}

#[test]
fn script_changes_outside_the_scope_never_land() {
    let scratch = scene("src/**");
    let arguments = ["run", "task.toml", "--agent-id", "one", "--land", "auto"];
    run(&scratch, &arguments).expect_code(0);
    let landed = scratch.git(&["ls-tree", "-r", "--name-only", "HEAD", "docs", "src", "build"]);
    assert_eq!(landed, "docs/guide.md\nsrc/a.txt\nsrc/gen.sh\nsrc/made.txt\n");
    assert_eq!(scratch.git(&["show", "HEAD:docs/guide.md"]), "guide\n");
}

/// A command whose text is not enough to decide is allowed in the full sandbox, whose mounts enforce the limits;
/// otherwise it is denied.
#[test]
fn undecidable_command_runs_only_in_the_full_sandbox() {
    for (level, answer) in [("full", "allow"), ("partial", "deny")] {
        let plan = "echo evil > docs/guide.md; echo fine > src/made.txt";
        let steps = [write("src/plan.txt", plan), shell("sh -c \"$(cat src/plan.txt)\"")];
        let scratch = scene_of("src/**", &steps);
        let arguments =
            ["run", "task.toml", "--agent-id", "one", "--no-verify", "--sandbox", level];
        run(&scratch, &arguments);
        let decisions = kinds(&events(&scratch, "one"), "decision");
        assert_eq!(decisions[1]["answer"], answer, "{level}: {decisions:?}");
        let worktree = scratch.state().join("worktrees/one");
        let read = |path: &str| std::fs::read_to_string(worktree.join(path)).ok();
        assert_eq!(read("docs/guide.md").as_deref(), Some("guide\n"), "{level}");
        let expected = (answer == "allow").then_some("fine\n");
        assert_eq!(
            read("src/made.txt").as_deref(),
            expected,
            "the control: the command ran only if it was allowed"
        );
    }
}

#[test]
fn forbidden_new_file_is_removed_and_reported_once() {
    let scratch = scene("src/**");
    run(&scratch, &["run", "task.toml", "--agent-id", "one"]).expect_code(0);
    let events = events(&scratch, "one");
    let decisions = kinds(&events, "decision");
    let answers: Vec<_> = decisions.iter().map(|decision| decision["answer"].clone()).collect();
    assert_eq!(answers, ["allow", "allow", "deny", "allow"]);
    assert_eq!(decisions[2]["rule"], "safety::no-dep-bump");
    let result = kinds(&events, "tool-result")[2]["output"].as_str().unwrap().to_owned();
    assert!(result.contains("src/package.json") && result.contains("removed"), "{result}");
    let last = kinds(&events, "tool-result")[3]["output"].as_str().unwrap().to_owned();
    assert!(last.contains("built\nfine"), "the build output still exists: {last}");
    let run = scratch.state().join("runs/one");
    assert_eq!(std::fs::read_to_string(run.join("removed/1/package.json")).unwrap(), "{}\n");
    assert!(!scratch.state().join("worktrees/one/build").exists());
    let logged = kinds(&events, "error");
    assert!(logged[0]["message"].as_str().unwrap().contains("src/package.json"), "{logged:?}");
}

#[test]
fn pattern_at_the_root_does_not_unprotect_other_paths() {
    // It matches `src/gen.sh` and `src/made.txt`, and can match files directly below the root.
    let scratch = scene("**/*.[st]*");
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    let decisions = kinds(&events(&scratch, "one"), "decision");
    assert_eq!(decisions[1]["answer"], "allow", "the control: the script ran: {decisions:?}");
    assert_eq!(decisions[2]["rule"], "scope::files-whitelist", "{decisions:?}");
    let worktree = scratch.state().join("worktrees/one");
    let read = |path: &str| std::fs::read_to_string(worktree.join(path)).ok();
    assert_eq!(
        read("src/made.txt").as_deref(),
        Some("fine\n"),
        "the control: the script wrote a file"
    );
    assert_eq!(read("docs/guide.md").as_deref(), Some("guide\n"));
    assert_eq!((read("build/out"), read("src/package.json")), (None, None));
}

#[test]
fn forbidden_new_file_below_a_non_utf8_name_is_removed() {
    let script = "d=$(printf 'src/\\377')\nmkdir \"$d\" && echo '{}' > \"$d/package.json\"\n";
    let scratch = scene_with("src/**", script);
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    let file = OsStr::from_bytes(b"src/\xff/package.json");
    assert!(!scratch.state().join("worktrees/one").join(file).exists());
    assert!(scratch.state().join("runs/one/removed/1/package.json").exists());
}

#[test]
fn tracked_non_utf8_name_stops_the_run() {
    let scratch = scene("src/**");
    let directory = scratch.root().join(OsStr::from_bytes(b"src/\xff"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("package.json"), "{}\n").unwrap();
    scratch.commit("odd");
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one"]).expect_code(1);
    assert!(ran.err.contains("is not UTF-8"), "{}", ran.err);
}

#[test]
fn ignore_rules_and_pipes_hide_no_forbidden_file() {
    let script = "mkfifo src/.gitignore\nmkdir src/b && echo '*' > src/b/.gitignore\necho '{}' > \
                  src/b/package.json\ntrue\n";
    let scratch = scene_with("src/**", script);
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    let decisions = kinds(&events(&scratch, "one"), "decision");
    assert_eq!(decisions[2]["rule"], "safety::no-dep-bump", "{decisions:?}");
    assert!(!scratch.state().join("worktrees/one/src/b/package.json").exists());
}

#[test]
fn forbidden_file_of_a_killed_attempt_is_removed_by_the_next() {
    let scratch = scene_with(
        "src/**",
        "[ -e src/again ] && exit\ntouch src/again\necho '{}' > src/package.json\nsleep 100\n",
    );
    let mut command = scratch.command(BAILIWICK);
    let mut child = command.args(["run", "task.toml", "--agent-id", "one"]).spawn().unwrap();
    let file = scratch.state().join("worktrees/one/src/package.json");
    wait_for(|| file.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(file.exists(), "no process was left to remove it");
    run(&scratch, &["resume", "one"]);
    assert!(!file.exists());
}

#[test]
fn new_files_out_of_scope_are_reported_to_agent_and_person() {
    let script = "echo more > docs/more.md\nmkdir plan && echo x > plan/a\n\
                  mkdir -p build && echo built > build/out\necho fine > src/made.txt\n";
    let scratch = scene_with("src/**", script);
    let arguments = ["run", "task.toml", "--agent-id", "one", "--land", "never"];
    let ran = run(&scratch, &arguments).expect_code(0);
    let decisions = kinds(&events(&scratch, "one"), "decision");
    let answers: Vec<_> = decisions.iter().map(|decision| decision["answer"].clone()).collect();
    assert_eq!(answers, ["allow", "allow", "deny", "allow"], "reported once");
    assert_eq!(decisions[2]["rule"], "scope::files-whitelist");
    let reason = decisions[2]["reason"].as_str().unwrap();
    assert!(reason.contains("docs/more.md, plan/, outside of your scope"), "{reason}");
    let left_out: Vec<_> = kinds(&events(&scratch, "one"), "file-change")
        .into_iter()
        .filter(|change| change["change"] == "left-out")
        .map(|change| change["path"].clone())
        .collect();
    assert_eq!(left_out, ["docs/more.md", "plan/"], "known build output is not listed");
    let note = "left out: docs/more.md, plan/ (outside of the agent's scope";
    assert!(ran.err.contains(note), "{}", ran.err);
    let diff = run(&scratch, &["diff", "one", "--stat"]).expect_code(0);
    assert!(diff.err.contains(note) && diff.out.contains("src/made.txt"), "{}", diff.err);
    let respawned = run(&scratch, &["respawn", "one", "--reason", "no"]).expect_code(0);
    let prompt = scratch.root().join("tasks/one-2/prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap_or_else(|_| panic!("{}", respawned.out));
    assert!(prompt.contains("- `docs/more.md`"), "{prompt}");
}

#[test]
fn forbidden_names_that_git_does_not_list_are_removed() {
    let script = "mkfifo src/package.json\nmknod src/go.mod c 0 0\npython3 -c 'import socket; \
                  socket.socket(socket.AF_UNIX).bind(\"src/Cargo.toml\")'\nmkdir src/nested && cd src/nested && \
                  git init -q . && echo '{}' > package.json && mkfifo plain\ntrue\n";
    let scratch = scene_with("src/**", script);
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    let decisions = kinds(&events(&scratch, "one"), "decision");
    assert_eq!(decisions[2]["rule"], "safety::no-dep-bump", "{decisions:?}");
    let reason = decisions[2]["reason"].as_str().unwrap();
    let worktree = scratch.state().join("worktrees/one");
    for path in ["src/package.json", "src/go.mod", "src/Cargo.toml", "src/nested/package.json"] {
        assert!(reason.contains(path), "{path}: {reason}");
        assert!(worktree.join(path).symlink_metadata().is_err(), "{path}");
    }
    // The control: a file with another name stays.
    assert!(worktree.join("src/nested/plain").symlink_metadata().is_ok());
}

#[test]
fn file_replaced_by_a_directory_hides_no_forbidden_file() {
    let script = "rm src/a.txt && mkdir src/a.txt && echo '{}' > src/a.txt/package.json\ntouch src/a.txt/fine\n";
    let scratch = scene_with("src/**", script);
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    let decisions = kinds(&events(&scratch, "one"), "decision");
    assert_eq!(decisions[2]["rule"], "safety::no-dep-bump", "{decisions:?}");
    let worktree = scratch.state().join("worktrees/one");
    assert!(worktree.join("src/a.txt/fine").exists(), "the control: the script ran");
    assert!(!worktree.join("src/a.txt/package.json").exists());
}

#[test]
fn file_replaced_by_a_directory_does_not_widen_the_scope() {
    let command = "rm src/a.txt && mkdir src/a.txt && echo evil > src/a.txt/evil";
    for (whitelist, is_allowed) in [("src/a.txt", false), ("src/**", true)] {
        let scratch = scene_of(whitelist, &[shell(command), shell("true")]);
        run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
        let decisions = kinds(&events(&scratch, "one"), "decision");
        assert_eq!(decisions[0]["answer"], "allow", "the control: the command ran: {decisions:?}");
        let file = scratch.state().join("worktrees/one/src/a.txt/evil");
        assert_eq!(file.exists(), is_allowed, "{whitelist}: {decisions:?}");
    }
}

/// A rule file that is a dangling link has no effect until its target is created.
#[test]
fn target_of_a_dangling_rule_link_cannot_be_created() {
    let role = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                [\"scope::files-whitelist\", \"scope::no-rule-edits\"]\n[tools]\nallowed = [\"*\"]\n";
    let script =
        "mkdir -p src/hidden && echo obey > src/hidden/rules.md\necho fine > src/made.txt\n";
    let scratch = scene_with("src/**", script);
    scratch.write(".bailiwick/roles/helper.toml", role);
    scratch.write(".gitignore", "hidden/\n");
    std::os::unix::fs::symlink("src/hidden/rules.md", scratch.root().join("CLAUDE.md")).unwrap();
    scratch.commit("rules");
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    let decisions = kinds(&events(&scratch, "one"), "decision");
    let reason = decisions[2]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("your last call made src/hidden/rules.md"), "{decisions:?}");
    let worktree = scratch.state().join("worktrees/one");
    assert!(worktree.join("src/made.txt").exists(), "the control: the script ran");
    assert!(!worktree.join("src/hidden/rules.md").exists());
}

#[test]
fn run_ends_if_a_forbidden_file_is_created_repeatedly() {
    // The loop has no pause, because denied calls follow each other immediately.
    let script = "(while true; do echo '{}' > src/package.json; done) > /dev/null 2>&1 &\n";
    let mut steps = vec![write("src/gen.sh", script), shell("sh src/gen.sh")];
    steps.extend((0..12).map(|_| shell("sleep 0.3")));
    let scratch = scene_of("src/**", &steps);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]);
    assert_ne!(ran.code, 0, "{}", ran.out);
    let ended = kinds(&events(&scratch, "one"), "ended");
    let detail = ended[0]["detail"].as_str().unwrap();
    assert!(detail.contains("src/package.json was removed before 5 calls in a row"), "{ended:?}");
    assert!(!scratch.state().join("worktrees/one/src/package.json").exists());
}
