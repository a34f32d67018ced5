//! `agents assemble`: files for each program, printed or written.

use bailiwick_testkit::Scratch;
use serde_json::Value;

use crate::BAILIWICK;

fn scene() -> Scratch {
    let scratch = Scratch::repository();
    scratch.commit("start");
    scratch
}

#[test]
fn printed_manifest_equals_the_written_file() {
    let scratch = scene();
    let printed = scratch.run(BAILIWICK, &["agents", "assemble", "critic"]).expect_code(0).out;
    assert!(printed.starts_with("---\n# Assembled from the manifest critic"), "{printed}");
    assert!(printed.contains("\n# AGENT SUBSTRATE — role read-only\n"), "{printed}");
    scratch.run(BAILIWICK, &["agents", "assemble", "critic", "--out", "made"]).expect_code(0);
    assert_eq!(scratch.read("made/critic.md"), printed);
}

#[test]
fn assembled_agents_can_be_imported_again() {
    let scratch = scene();
    for program in ["claude", "codex", "gemini", "opencode"] {
        let out = format!(".{program}/agents");
        let arguments = ["agents", "assemble", "--for", program, "--out", &out];
        scratch.run(BAILIWICK, &arguments).expect_code(0);
        let arguments = ["agents", "import", "--dry-run", "--from", program, "-o", "json"];
        let ran = scratch.run(BAILIWICK, &arguments).expect_code(0);
        let value: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(value["imported"].as_array().unwrap().len(), 5, "{program}");
        let critic = &value["imported"][2]["template"];
        assert_eq!(critic["agent_type"], "critic", "{program}");
        let list = serde_json::json!(["Read", "Glob", "Grep", "WebFetch"]);
        assert_eq!(critic["tools"]["allow_list"], list, "{program}");
    }
}

#[test]
fn only_generated_files_are_overwritten_without_force() {
    let scratch = scene();
    scratch.write("made/critic.md", "mine\n");
    let assemble = ["agents", "assemble", "critic", "validator", "--out", "made"];
    let ran = scratch.run(BAILIWICK, &assemble).expect_code(2);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(scratch.read("made/critic.md"), "mine\n");
    assert!(
        !scratch.root().join("made/validator.md").exists(),
        "if one file is refused, none is written"
    );
    scratch.run(BAILIWICK, &[&assemble[..], &["--force"]].concat()).expect_code(0);
    let generated = scratch.read("made/critic.md");
    scratch.run(BAILIWICK, &assemble).expect_code(0);
    assert_eq!(scratch.read("made/critic.md"), generated);
}

#[test]
fn manifests_and_roles_of_the_repository_are_used() {
    let scratch = scene();
    scratch.write(
        ".bailiwick/manifests/critic.toml",
        "name = \"critic\"\ndescription = \"Mine.\"\nsubstrate_role = \"red-only\"\n\
         tools = [\"Read\"]\nrole = \"You look.\"\n",
    );
    let ran = scratch.run(BAILIWICK, &["agents", "assemble", "critic"]).expect_code(1);
    assert!(ran.err.contains("there is no role `red-only`"), "{}", ran.err);
    assert!(ran.err.contains("did you mean `read-only`?"), "{}", ran.err);
    assert!(ran.err.contains(".bailiwick/manifests/critic.toml:3:18"), "{}", ran.err);
    let text = scratch.read(".bailiwick/manifests/critic.toml");
    scratch.write("other.toml", &text.replace("substrate_role = \"red-only\"\n", ""));
    let ran = scratch.run(BAILIWICK, &["agents", "assemble", "./other.toml"]).expect_code(0);
    assert!(ran.out.ends_with("---\n\n# ROLE\n\nYou look.\n"), "{}", ran.out);
}

#[test]
fn unknown_manifest_name_suggests_the_nearest() {
    let ran = scene().run(BAILIWICK, &["agents", "assemble", "critc"]).expect_code(2);
    assert!(ran.err.contains("did you mean `critic`?"), "{}", ran.err);
}
