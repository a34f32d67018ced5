//! The kei tools: verbs, arguments, output, exit codes.

use bailiwick_testkit::Scratch;

use crate::{BAILIWICK, KEI_AGENT_RUNTIME, KEI_CAPABILITY, KEI_LEDGER};

const TASK: &str = "[task]\nrole = \"edit-local\"\nagent-id = \"abc-123-def\"\nparent-agent = null\n\n\
    [scope]\nfiles-whitelist = [\"kei-forge/**\"]\nfiles-denylist = [\"Cargo.toml\"]\n\n\
    [verification]\ncargo-check-crates = [\"kei-forge\"]\ncargo-test-crates = [\"kei-forge\"]\ntest-count-min = 44\n\n\
    [output]\nreport-fields-required = [\"files-touched\", \"cargo-check\"]\n\n\
    [body]\ntext = \"\"\"\nReplace shell-out with pure-Rust templating.\n\"\"\"\n";

fn kei_repository() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write("task.toml", TASK);
    scratch.commit("start");
    scratch
}

#[test]
fn prepare_prints_the_block_of_the_kei_tools() {
    let scratch = kei_repository();
    let ran = scratch.run(KEI_AGENT_RUNTIME, &["prepare", "task.toml"]).expect_code(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "=== AGENT SUBSTRATE v1 — PREPARED SPAWN ===");
    assert_eq!(lines[1], "agent-id: abc-123-def");
    let dna = lines[2].strip_prefix("dna: ").unwrap();
    assert!(dna.starts_with("edit-local::NG-FW-FD-CP-CG-TG-ND-RF::"), "{dna}");
    assert_eq!(bailiwick_model::Dna::parse(dna).unwrap().to_string(), dna);
    assert_eq!(lines[3], "subagent_type: code-implementer");
    assert_eq!(lines[4], "isolation: worktree");
    assert_eq!(lines[5], "description: edit-local agent abc-123");
    assert_eq!(&lines[6..8], ["", "--- PROMPT (copy into Agent tool `prompt` param) ---"]);
    let end = lines.iter().position(|line| *line == "--- END PROMPT ---").unwrap();
    assert_eq!(lines[end - 1], "Replace shell-out with pure-Rust templating.");
    assert_eq!(
        &lines[end + 1..],
        [
            "",
            "on return:",
            "  kei-agent-runtime verify tasks/abc-123-def/task.toml --worktree <path-from-harness>",
            "  (orchestrator harness returns worktree path in the task-notification)",
            "",
            "ledger: running agent-id=abc-123-def role=edit-local parent=none",
        ]
    );
    assert!(!scratch.root().join("tasks").exists(), "prepare created `tasks`");
    assert!(!scratch.state().join("bailiwick.db").exists(), "prepare created a ledger");
}

#[test]
fn prepare_prints_json_and_toml_with_the_same_keys() {
    let scratch = kei_repository();
    let keys = [
        "agent_id",
        "description",
        "dna",
        "isolation",
        "ledger_row",
        "prompt",
        "role",
        "subagent_type",
        "verify_command",
    ];
    let json = scratch
        .run(KEI_AGENT_RUNTIME, &["prepare", "task.toml", "--format", "json"])
        .expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let mut found: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, keys);
    let toml = scratch
        .run(KEI_AGENT_RUNTIME, &["prepare", "task.toml", "--format", "toml"])
        .expect_code(0);
    let toml: toml::Table = toml::from_str(&toml.out).unwrap();
    assert_eq!(toml["prompt"].as_str(), json["prompt"].as_str());
    scratch.run(KEI_AGENT_RUNTIME, &["prepare", "task.toml", "--format", "xml"]).expect_code(2);
}

#[test]
fn compose_writes_prompt_md_beside_the_task() {
    let scratch = kei_repository();
    scratch.run(KEI_AGENT_RUNTIME, &["compose", "task.toml"]).expect_code(0);
    let prompt = scratch.read("prompt.md");
    assert!(prompt.starts_with("## "), "{prompt}");
    assert!(prompt.contains("\n\n---\n\n## Your task's scope (resolved from task.toml)\n"));
    assert!(
        prompt.ends_with("\n\n---\n\n\nReplace shell-out with pure-Rust templating.\n")
            || prompt.ends_with("\n\n---\n\nReplace shell-out with pure-Rust templating.\n")
    );
    let printed = scratch.run(BAILIWICK, &["compose", "task.toml", "--stdout"]).expect_code(0);
    assert_eq!(printed.out, prompt);
}

#[test]
fn kit_in_the_layout_of_the_kei_tools_is_read() {
    let scratch = Scratch::repository();
    let capability = "[capability]\nname = \"policy::quiet\"\ncategory = \"policy\"\nversion = \"1.0\"\ndescription = \"d\"\nrationale = \"r\"\n[restricts]\ntool-patterns = ['^say( |$)']\n";
    scratch.write("kit/_capabilities/policy/quiet/capability.toml", capability);
    scratch.write("kit/_capabilities/policy/quiet/text.md", "## Quiet\n\nYou MUST NOT shout.\n");
    let role = "[role]\nname = \"quiet\"\n[capabilities]\nextends = \"read-only\"\nrequired = [\"policy::quiet\"]\n";
    scratch.write("kit/_roles/quiet.toml", role);
    scratch.write("kit/task.toml", "[task]\nrole = \"quiet\"\n[body]\ntext = \"go\"\n");
    let arguments = ["prepare", "kit/task.toml", "--kit-root", "kit"];
    let early = scratch.run(KEI_AGENT_RUNTIME, &["prepare", "kit/task.toml"]).expect_code(1);
    assert!(early.err.contains("there is no role `quiet`"), "positive control: {}", early.err);
    for program in [BAILIWICK, KEI_AGENT_RUNTIME] {
        let ran = scratch.run(program, &arguments).expect_code(0);
        assert!(ran.err.contains("git add kit/_capabilities kit/_roles"), "{}", ran.err);
        assert!(ran.err.contains("run kit/task.toml --kit-root kit"), "{}", ran.err);
        assert!(ran.out.contains("You MUST NOT shout."), "{}", ran.out);
        assert!(ran.out.contains(" quiet::DT-RF-SG-??::"), "{}", ran.out);
    }
    let mut inside = scratch.command(KEI_AGENT_RUNTIME);
    inside.current_dir(scratch.root().join("kit")).args(["prepare", "task.toml"]);
    assert!(
        inside.output().unwrap().status.success(),
        "the default of the kei tools is the directory itself"
    );
    let spawn = ["spawn", "kit/task.toml", "--kit-root", "kit"];
    scratch.git(&["commit", "--quiet", "--allow-empty", "-m", "start"]);
    let early = scratch.run(KEI_AGENT_RUNTIME, &spawn).expect_code(1);
    assert!(early.err.contains("committed"), "an agent needs a committed kit: {}", early.err);
    scratch.commit("kit");
    let ran = scratch.run(KEI_AGENT_RUNTIME, &spawn).expect_code(0);
    let line = |key: &str| {
        ran.out
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_else(|| panic!("{}", ran.out))
    };
    let prompt = std::fs::read_to_string(line("prompt=")).unwrap();
    assert!(prompt.contains("You MUST NOT shout."), "{prompt}");
    assert!(line("agent_id=").starts_with("ag-quiet-"));
}

#[test]
fn fork_works_as_in_the_kei_tools() {
    let scratch = Scratch::repository();
    scratch.write("_capabilities/policy/quiet/capability.toml", "[capability]\nname = \"policy::quiet\" # n\ncategory = \"policy\"\ndescription = \"d\"\n[restricts]\ntools-denied = [\"Say\"]\n");
    scratch.write("_capabilities/policy/quiet/text.md", "You MUST NOT shout.\n\n");
    let mut command = scratch.command(KEI_CAPABILITY);
    command.args(["fork", "policy::quiet", "--as", "safety::hush"]).env("KEI_CREATOR_ID", "me");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("forked policy::quiet → safety::hush\n"), "{text}");
    assert!(text.contains("fields rewritten: 6") && text.contains("edit text.md"), "{text}");
    let toml = scratch.read("_capabilities/safety/hush/capability.toml");
    let table: toml::Table = toml::from_str(&toml).unwrap();
    let text =
        |section: &str, key: &str| table[section][key].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("capability", "name"), "safety::hush");
    assert_eq!(text("capability", "category"), "safety");
    assert_eq!(text("lineage", "fork_from"), "policy::quiet");
    assert_eq!(table["lineage"]["parents"].as_array().unwrap().len(), 1);
    assert_eq!(text("lineage", "creator"), "me");
    let created = text("lineage", "created");
    assert!(created.len() == 20 && created.ends_with('Z') && created.contains('T'), "{created}");
    assert!(toml.contains("name = \"safety::hush\" # n"), "the comment was lost: {toml}");
    assert_eq!(scratch.read("_capabilities/safety/hush/text.md"), "You MUST NOT shout.\n\n");

    let before = scratch.git(&["status", "--porcelain=v1", "-uall"]);
    for (source, target) in [
        ("policy::quiet", "safety::hush"),
        ("policy::quiet", "safety::Hush"),
        ("policy::quiet", "../x::y"),
        ("policy::quiet", "noqualifier"),
        ("policy::missing", "policy::new"),
        ("policy::../quiet", "policy::new"),
    ] {
        scratch.run(KEI_CAPABILITY, &["fork", source, "--as", target]).expect_code(2);
    }
    assert_eq!(
        before,
        scratch.git(&["status", "--porcelain=v1", "-uall"]),
        "a refused fork wrote files"
    );
    let ran = scratch.run(
        KEI_CAPABILITY,
        &["fork", "policy::no-git-ops", "--as", "policy::lax", "--kit-root", "."],
    );
    assert!(
        ran.expect_code(0).out.contains("forked policy::no-git-ops"),
        "the embedded kit can be forked"
    );
    scratch.run(KEI_LEDGER, &["list"]).expect_code(0);
    assert_eq!(scratch.run(KEI_LEDGER, &["list"]).out, "(no agents)\n", "no ledger row is written");
}

#[test]
fn ledger_prints_the_lines_of_the_kei_tools() {
    let scratch = Scratch::bare();
    let database = scratch.place().join("l.db").display().to_string();
    let ledger = |arguments: &[&str]| {
        let all = [&["--db", &database], arguments].concat();
        scratch.run(KEI_LEDGER, &all)
    };
    let init = ledger(&["init"]).expect_code(0);
    assert_eq!(init.out, format!("initialised {database}\n"));
    let dna = "edit-local::NG::A7B2::C9F1-xa7c";
    let sha = "0123456789abcdef0123456789abcdef";
    let fork =
        ledger(&["fork", "root", "agent/root", "--spec-sha", sha, "--dna", dna]).expect_code(0);
    assert_eq!(fork.out, "forked root -> agent/root\n");
    ledger(&[
        "fork",
        "kid",
        "agent/kid",
        "--spec-sha",
        "x",
        "--parent",
        "agent/root",
        "--creator",
        dna,
    ])
    .expect_code(0);
    ledger(&[
        "fork",
        "grandkid",
        "agent/grandkid",
        "--spec-sha",
        "x",
        "--parent",
        "kid",
        "--fork-parent",
        dna,
        "--worktree",
        "/w",
    ])
    .expect_code(0);
    let list = ledger(&["list"]).expect_code(0);
    let first: Vec<&str> =
        list.out.lines().find(|line| line.starts_with("root\t")).unwrap().split('\t').collect();
    assert_eq!((first[0], first[1], first[2]), ("root", "running", "agent/root"));
    assert!(first[3].parse::<i64>().is_ok_and(|ts| ts > 1_700_000_000), "{first:?}");
    assert_eq!((first[4], first[5]), ("parent=-", "spec=0123456789ab"));
    assert!(list.out.contains("\tparent=agent/root\tspec=x\n"), "{}", list.out);
    let tree = ledger(&["tree", "root"]).expect_code(0);
    assert_eq!(
        tree.out,
        "root [running] branch=agent/root\n  kid [running] branch=agent/kid\n    grandkid [running] branch=agent/grandkid\n"
    );
    let descendants = ledger(&["descendants", dna]).expect_code(0);
    let mut lines: Vec<&str> = descendants.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["grandkid\tfork\trunning\tagent/grandkid", "kid\tspawn\trunning\tagent/kid"]
    );
    assert_eq!(ledger(&["descendants", "none"]).out, "(no descendants for none)\n");
    let cost = ledger(&["record-cost", "kid", "--cents", "30", "--provider", "p", "--model", "m"])
        .expect_code(0);
    assert_eq!(cost.out, "{\"agent_id\":\"kid\",\"ok\":true,\"total_cost_cents\":30}\n");
    let cost = ledger(&["record-cost", "kid", "--cents", "12", "--provider", "p", "--model", "m"]);
    assert!(cost.out.contains(":42}"), "{}", cost.out);
    let cost = ledger(&[
        "record-cost",
        "kid",
        "--cents",
        "5",
        "--provider",
        "p",
        "--model",
        "m",
        "--replace",
    ]);
    assert!(cost.out.contains(":5}"), "{}", cost.out);
    ledger(&["record-cost", "nobody", "--cents", "5", "--provider", "p", "--model", "m"])
        .expect_code(1);
    ledger(&["fail", "kid", "--reason", "no"]).expect_code(0);
    assert_eq!(ledger(&["list", "--status", "failed"]).out.lines().count(), 1);
    ledger(&["list", "--status", "fialed"]).expect_code(2);
    ledger(&["tree", "nobody"]).expect_code(1);
    ledger(&["validate", "agent/root"]).expect_code(2);
    ledger(&["validate", "agent/nobody"]).expect_code(2);
    ledger(&["fork", "bad", "b", "--spec-sha", "x", "--dna", "nonsense"]).expect_code(2);
}

#[test]
fn command_line_takes_precedence_over_the_environment() {
    let scratch = Scratch::bare();
    let other = scratch.place().join("other.db");
    let mut by_environment = scratch.command(KEI_LEDGER);
    by_environment.args(["fork", "e", "b", "--spec-sha", "s"]).env("KEI_LEDGER_DB", &other);
    assert!(by_environment.status().unwrap().success());
    assert!(other.exists());
    let named = scratch.place().join("named.db").display().to_string();
    let mut by_line = scratch.command(KEI_LEDGER);
    by_line.args(["list", "--db", &named]).env("KEI_LEDGER_DB", &other);
    assert_eq!(String::from_utf8(by_line.output().unwrap().stdout).unwrap(), "(no agents)\n");
    assert_eq!(
        scratch.run(KEI_LEDGER, &["list"]).out,
        "(no agents)\n",
        "the default is another database"
    );
    assert!(scratch.state().join("bailiwick.db").exists());
}

#[test]
fn revoked_lock_is_a_row_with_reason_and_time() {
    let scratch = Scratch::bare();
    let none = scratch.run(BAILIWICK, &["ledger", "locks"]).expect_code(0);
    assert_eq!(none.out, "(the lock was never revoked)\n");
    scratch.run(BAILIWICK, &["ledger", "revoke-lock", "--reason", " "]).expect_code(2);
    scratch.run(BAILIWICK, &["ledger", "revoke-lock", "--reason", "a new shape"]).expect_code(0);
    let rows = scratch.run(BAILIWICK, &["ledger", "locks", "-o", "json"]).expect_code(0).out;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["detail"], "a new shape");
    assert!(rows[0]["at"].as_i64().is_some_and(|at| at > 1_700_000_000_000));
}

#[test]
fn unreadable_database_name_is_an_error() {
    use std::os::unix::ffi::OsStrExt as _;
    let scratch = Scratch::bare();
    let mut command = scratch.command(KEI_LEDGER);
    command.arg("list").env("KEI_LEDGER_DB", std::ffi::OsStr::from_bytes(b"/tmp/\xff.db"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("KEI_LEDGER_DB is not UTF-8"));
    assert!(!scratch.state().join("bailiwick.db").exists(), "another database was used");
}
