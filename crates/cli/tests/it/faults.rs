//! Faults of an earlier implementation, tested through the commands.

use bailiwick_testkit::Scratch;

use crate::{BAILIWICK, KEI_AGENT_RUNTIME, KEI_LEDGER};

/// A role that only documents who may use git was accepted by `spawn` and `compose`.
#[test]
fn role_git_ops_is_refused_by_every_command_with_its_rule() {
    let scratch = Scratch::repository();
    scratch.write("task.toml", "[task]\nrole = \"git-ops\"\n[body]\ntext = \"push\"\n");
    scratch.commit("start");
    for program in [BAILIWICK, KEI_AGENT_RUNTIME] {
        for verb in ["prepare", "compose", "spawn"] {
            let ran = scratch.run(program, &[verb, "task.toml"]).expect_code(1);
            assert!(ran.err.contains("RULE 0.13"), "{program} {verb}: {}", ran.err);
        }
    }
    assert!(!scratch.root().join("prompt.md").exists() && !scratch.root().join("tasks").exists());
    let list = scratch.run(KEI_LEDGER, &["list"]).expect_code(0);
    assert_eq!(list.out, "(no agents)\n");
    scratch.write("task.toml", "[task]\nrole = \"read-only\"\n[body]\ntext = \"look\"\n");
    scratch.run(KEI_AGENT_RUNTIME, &["spawn", "task.toml"]).expect_code(0);
}

/// A capability without code was accepted silently; a forked one could not be used.
#[test]
fn forked_capability_can_be_used_and_an_empty_one_cannot() {
    let scratch = Scratch::repository();
    let fork = ["capabilities", "fork", "policy::no-git-ops", "--as", "policy::no-git-ops-lax"];
    scratch.run(BAILIWICK, &fork).expect_code(0);
    let role = "[role]\nname = \"lax\"\ndescription = \"d\"\n[capabilities]\nrequired = [\"policy::no-git-ops-lax\"]\n[tools]\nallowed = [\"Read\"]\n";
    scratch.write(".bailiwick/roles/lax.toml", role);
    scratch.write("task.toml", "[task]\nrole = \"lax\"\n[body]\ntext = \"go\"\n");
    scratch.commit("start");
    let ran = scratch.run(BAILIWICK, &["prepare", "task.toml", "-o", "json"]).expect_code(0);
    assert!(ran.out.contains("lax::??::"), "the unknown code is not shown: {}", ran.out);
    let lint = scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    assert!(lint.out.contains("1 warning"), "no warning about the unchanged text: {}", lint.out);
    scratch.run(BAILIWICK, &["spawn", "task.toml"]).expect_code(0);

    let empty =
        "[capability]\nname = \"policy::empty\"\ncategory = \"policy\"\ndescription = \"d\"\n";
    scratch.write(".bailiwick/capabilities/policy/empty/capability.toml", empty);
    scratch.write(".bailiwick/capabilities/policy/empty/text.md", "You MUST NOT do it.\n");
    let lint = scratch.run(BAILIWICK, &["lint"]).expect_code(1);
    assert!(lint.out.contains("nothing enforces `policy::empty`"), "{}", lint.out);
}

/// A run whose agent program is unknown was accepted.
#[test]
fn run_without_an_agent_program_fails() {
    let scratch = Scratch::repository();
    scratch.write("task.toml", "[task]\nrole = \"read-only\"\n[agent]\ncli = \"nobody\"\n");
    scratch.commit("start");
    let ran = scratch.run(KEI_AGENT_RUNTIME, &["run", "task.toml"]).expect_code(2);
    assert!(ran.err.contains("there is no agent program `nobody`"), "{}", ran.err);
    assert_eq!(ran.out, "");
}

/// Ids such as `../x` and the empty id were accepted; any status could follow any other.
#[test]
fn ledger_refuses_invalid_ids_and_transitions() {
    let scratch = Scratch::bare();
    for id in ["../x", "", ".x", "a/b", "a..b", "ü"] {
        let ran = scratch.run(KEI_LEDGER, &["fork", id, "b", "--spec-sha", "s"]).expect_code(2);
        assert!(ran.err.contains("is not an agent id"), "{id:?}: {}", ran.err);
    }
    scratch.run(KEI_LEDGER, &["fork", "a", "agent/a", "--spec-sha", "any"]).expect_code(0);
    let again = scratch.run(KEI_LEDGER, &["fork", "a", "b", "--spec-sha", "s"]).expect_code(1);
    assert!(again.err.contains("there is a run `a` already"), "{}", again.err);
    let early = scratch.run(KEI_LEDGER, &["merged", "a"]).expect_code(1);
    assert!(early.err.contains("it may become done, failed, rejected"), "{}", early.err);
    scratch.run(KEI_LEDGER, &["done", "a", "--summary", "ok"]).expect_code(0);
    scratch.run(KEI_LEDGER, &["fail", "a", "--reason", "no"]).expect_code(1);
    scratch.run(KEI_LEDGER, &["merged", "a"]).expect_code(0);
    scratch.run(KEI_LEDGER, &["done", "a", "--summary", "again"]).expect_code(1);
    let unknown = scratch.run(KEI_LEDGER, &["done", "aa", "--summary", "x"]).expect_code(1);
    assert!(unknown.err.contains("did you mean `a`?"), "{}", unknown.err);
}

/// Warnings about `relaxes` were never printed; unknown keys were ignored silently.
#[test]
fn warnings_are_printed_and_unknown_keys_are_errors() {
    let scratch = Scratch::repository();
    let role = "[role]\nname = \"odd\"\ndescription = \"d\"\n[capabilities]\nextends = \"read-only\"\nrelaxes = [\"quality::tests-green\"]\nrequired = [\"tools::read-only\"]\n";
    scratch.write(".bailiwick/roles/odd.toml", role);
    scratch.write("task.toml", "[task]\nrole = \"odd\"\n[body]\ntext = \"go\"\n");
    scratch.commit("start");
    for arguments in [&["prepare", "task.toml"][..], &["spawn", "task.toml"]] {
        let ran = scratch.run(BAILIWICK, arguments).expect_code(0);
        let expected = "relaxes `quality::tests-green`, which it does not inherit";
        assert_eq!(ran.err.matches(expected).count(), 1, "{arguments:?}: {}", ran.err);
        assert_eq!(
            ran.err.matches("uses the old name `tools::read-only`").count(),
            1,
            "{}",
            ran.err
        );
    }
    scratch.write("task.toml", "[task]\nrole = \"odd\"\n[scope]\nfiles_whitelist = [\"**\"]\n");
    for verb in ["prepare", "compose", "spawn", "lint"] {
        let ran = scratch.run(BAILIWICK, &[verb, "task.toml"]).expect_code(1);
        let output = format!("{}{}", ran.out, ran.err);
        assert!(output.contains("unknown key `files_whitelist`"), "{verb}: {output}");
        assert!(
            output.contains("task.toml:4:1") && output.contains("did you mean `files-whitelist`?"),
            "{output}"
        );
    }
}

/// A gate that matches none of the tools that it forbids was accepted.
#[test]
fn gate_that_can_never_match_is_an_error() {
    let scratch = Scratch::repository();
    let capability = |event: &str| {
        format!(
            "[capability]\nname = \"policy::x\"\ncategory = \"policy\"\ndescription = \"d\"\n[restricts]\ntool-patterns = ['^foo']\ntools-denied = [\"Edit\"]\n[gate]\nevent = \"{event}\"\n"
        )
    };
    let path = ".bailiwick/capabilities/policy/x/capability.toml";
    scratch.write(".bailiwick/capabilities/policy/x/text.md", "You MUST NOT do it.\n");
    for (event, code, errors) in [
        ("PreToolUse:Read", 1, 2),
        ("PreToolUse:Bash", 1, 1),
        ("PreToolUse:Bash|Edit", 0, 0),
        ("PreToolUse:*", 0, 0),
        ("PreToolUse:B?sh|Ed*", 0, 0),
    ] {
        scratch.write(path, &capability(event));
        let ran = scratch.run(BAILIWICK, &["lint"]).expect_code(code);
        assert_eq!(ran.out.matches("never-fires").count(), errors, "{event}: {}", ran.out);
    }
}

/// A role that extends one that is not spawnable was spawnable, with all its tools and no limit.
#[test]
fn role_that_extends_an_unspawnable_one_is_not_spawnable() {
    let scratch = Scratch::repository();
    let role = |extra: &str| {
        format!(
            "[role]\nname = \"sneaky\"\ndescription = \"d\"\n{extra}[capabilities]\nextends = \"git-ops\"\n"
        )
    };
    scratch.write("task.toml", "[task]\nrole = \"sneaky\"\n[body]\ntext = \"go\"\n");
    scratch.write(".bailiwick/roles/sneaky.toml", &role(""));
    let ran = scratch.run(BAILIWICK, &["prepare", "task.toml"]).expect_code(1);
    assert!(ran.err.contains("RULE 0.13"), "{}", ran.err);
    scratch.write(".bailiwick/roles/sneaky.toml", &role("spawnable = true\n"));
    scratch.run(BAILIWICK, &["prepare", "task.toml"]).expect_code(0);
    let lint = scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    assert!(lint.out.contains("nothing limits its agent"), "{}", lint.out);
    let child =
        "[role]\nname = \"child\"\ndescription = \"d\"\n[capabilities]\nextends = \"edit-local\"\n";
    scratch.write(".bailiwick/roles/child.toml", child);
    let shown =
        scratch.run(BAILIWICK, &["roles", "show", "child", "-o", "json"]).expect_code(0).out;
    assert!(shown.contains("\"code-implementer\"") && shown.contains("\"worktree\""), "{shown}");
}

/// Values that could be read as an option or as another line were accepted.
#[test]
fn values_that_could_be_read_as_options_are_refused() {
    let scratch = Scratch::repository();
    for (key, invalid, valid) in [
        ("[verification]\ncargo-check-crates = [\"@\"]", "--config=x", "parser"),
        ("[output]\nreport-fields-required = [\"@\"]", "", "files"),
        ("[agent]\nmodel = \"@\"", " ", "sonnet"),
    ] {
        for (text, code) in [(invalid, 1), (valid, 0)] {
            let task = format!(
                "[task]\nrole = \"edit-local\"\n{}\n[body]\ntext = \"go\"\n",
                key.replace('@', text)
            );
            scratch.write("task.toml", &task);
            scratch.run(BAILIWICK, &["prepare", "task.toml"]).expect_code(code);
        }
    }
    scratch.write(
        "task.toml",
        "[task]\nrole = \"read-only\"\nclaude-subagent-type = \"x\\nisolation: none\"\n",
    );
    let ran = scratch.run(BAILIWICK, &["prepare", "task.toml"]).expect_code(1);
    assert!(ran.err.contains("line break"), "{}", ran.err);
}
