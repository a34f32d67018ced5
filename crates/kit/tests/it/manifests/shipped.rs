//! The five shipped manifests, and that every file assembled from a manifest is read back
//! without more rights.

use bailiwick_kit::foreign::{self, Format, Imported, Options};
use bailiwick_kit::manifest::{Manifest, Program, assemble, find, names};
use bailiwick_kit::{Kit, Origin};
use bailiwick_model::Source;
use bailiwick_model::template::AgentType;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::manifest;

fn embedded() -> Kit {
    Kit::over_embedded(Vec::new())
}

fn format(program: Program) -> Format {
    match program {
        Program::Claude => Format::Claude,
        Program::Codex => Format::Codex,
        Program::Gemini => Format::Gemini,
        Program::Opencode => Format::Opencode,
    }
}

fn read_back(kit: &Kit, manifest: &Manifest, program: Program) -> Imported {
    let file = assemble(kit, manifest, program).expect("it is assembled");
    let path = format!("{}/{}", program.directory(), file.file_name);
    assert_eq!(Format::of_path(&path), Some(format(program)));
    foreign::import(format(program), &Source::new(path, file.text.as_str()), &Options::default())
        .unwrap_or_else(|problems| panic!("{}\n{problems:?}", file.text))
}

fn tools(manifest: &Manifest) -> Option<Vec<&str>> {
    let tools = manifest.tools.as_ref()?;
    Some(tools.iter().map(|tool| tool.get_ref().as_str()).collect())
}

/// The import names only tools that the manifest names.
fn within(manifest: &Manifest, imported: &Imported) -> bool {
    match (tools(manifest), &imported.template.tools.allow_list) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(tools), Some(list)) => list.iter().all(|entry| tools.contains(&entry.as_str())),
    }
}

#[test]
fn exactly_these_five_manifests_exist_with_these_roles() {
    let kit = embedded();
    let names: Vec<String> = names(&kit).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["architect", "code-implementer", "critic", "security-auditor", "validator"]);
    for name in &names {
        let found = find(&kit, &AgentType::parse(name).unwrap()).unwrap().unwrap();
        assert_eq!(found.origin, Origin::Embedded);
        let role = found.manifest.substrate_role.as_ref().map(|role| role.get_ref().as_str());
        let expected = if name == "code-implementer" { "edit-local" } else { "read-only" };
        assert_eq!(role, Some(expected), "{name}");
        for handoff in &found.manifest.handoffs {
            assert!(names.contains(&handoff.to.get_ref().to_string()), "{name}");
        }
    }
}

#[test]
fn each_manifest_is_read_back_from_each_program_without_more_rights() {
    let kit = embedded();
    for name in names(&kit).unwrap() {
        let manifest = find(&kit, &name).unwrap().unwrap().manifest;
        for program in Program::ALL {
            let imported = read_back(&kit, &manifest, program);
            let template = &imported.template;
            assert_eq!(template.agent_type, name, "{program}");
            assert_eq!(template.description, manifest.description, "{program}");
            assert!(template.default_prompt.starts_with("# ROLE\n"), "{program}");
            let section = template.default_prompt.find("# AGENT SUBSTRATE — role ").unwrap();
            let first = manifest.blocks[0].title.get_ref();
            assert!(section < template.default_prompt.find(&format!("\n# {first}\n")).unwrap());
            assert!(within(&manifest, &imported), "{name} {program}: {:?}", template.tools);
            // Nor are tools lost that a program has.
            let list = template.tools.allow_list.as_ref().unwrap();
            assert_eq!(list.len(), manifest.tools.as_ref().unwrap().len(), "{name} {program}");
            let reads = name.as_str() != "code-implementer";
            assert_eq!(template.read_only, program == Program::Codex && reads, "{name} {program}");
        }
    }
}

#[test]
fn any_list_of_tools_is_read_back_without_more_rights() {
    let kit = embedded();
    let all = [
        "Read",
        "Glob",
        "Grep",
        "Write",
        "Edit",
        "NotebookEdit",
        "Bash",
        "WebFetch",
        "WebSearch",
        "Agent",
        "Skill",
        "Cron",
        "TodoWrite",
        "McpResource",
        "LSP",
    ];
    proptest!(|(tools in prop::option::weighted(0.9, subsequence(all.to_vec(), 0..15)))| {
        let line = tools.as_ref().map(|tools| format!("tools = {tools:?}\n")).unwrap_or_default();
        let text = format!("name = \"mine\"\ndescription = \"x\"\n{line}role = \"Look.\"\n");
        let manifest = manifest(&text);
        for program in Program::ALL {
            let imported = read_back(&kit, &manifest, program);
            prop_assert!(within(&manifest, &imported), "{program}: {:?}", imported.template.tools);
            if program == Program::Claude {
                let list = imported.template.tools.allow_list;
                prop_assert_eq!(list, tools.as_ref().map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>()));
            }
        }
    });
}

#[test]
fn tools_that_a_program_lacks_are_reported() {
    let text = "name = \"mine\"\ndescription = \"x\"\ntools = [\"Read\", \"Edit\", \"NotebookEdit\"]\n\
                role = \"Look.\"\n";
    let notes = |program| assemble(&embedded(), &manifest(text), program).unwrap().notes;
    assert_eq!(notes(Program::Claude), [""; 0]);
    assert!(notes(Program::Codex)[0].starts_with("Codex has no list of tools"));
    assert_eq!(notes(Program::Gemini), ["Gemini CLI has no tool for `NotebookEdit`"]);
    assert_eq!(
        notes(Program::Opencode),
        [
            "`Edit` is left out: in OpenCode it opens `Write` as well",
            "OpenCode has no tool for `NotebookEdit`"
        ]
    );
}

#[test]
fn example_in_the_guide_is_a_valid_manifest() {
    let guide = include_str!("../../../../../docs/guides/manifests.md");
    let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let manifest = manifest(example.expect("an example"));
    assert!(assemble(&embedded(), &manifest, Program::Claude).is_ok());
    assert_eq!((manifest.blocks.len(), manifest.handoffs.len()), (1, 1));
}
