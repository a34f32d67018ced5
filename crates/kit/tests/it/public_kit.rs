//! A kit in the layout and vocabulary of the public kit can be used; features that this program lacks
//! cause a warning, and capabilities that need them cannot be used.

use bailiwick_kit::lint::lint;
use bailiwick_kit::manifest::{Program, assemble, find};
use bailiwick_kit::{Kit, Layer, Layout, Origin, resolve};
use bailiwick_model::template::AgentType;
use bailiwick_model::{Severity, Source};

use crate::memory::{MemoryTree, capability_name, role_name, text_md};

const ABOUT: &str = "\n[taxonomy]\nkingdom = \"x\"\nlayer = 1\n\n[lineage]\ncreator = \"me\"\ncreated = \"2026-04-23\"\n";

fn capability(tree: MemoryTree, name: &str, rest: &str) -> MemoryTree {
    let (category, slug) = name.split_once("::").expect("a name");
    let directory = format!("_capabilities/{category}/{slug}");
    let head = format!(
        "[capability]\nname = \"{name}\"\ncategory = \"{category}\"\ndescription = \"Mine.\"\n"
    );
    tree.with(format!("{directory}/capability.toml"), format!("{head}{rest}{ABOUT}"))
        .with(format!("{directory}/text.md"), text_md(name))
}

fn role(tree: MemoryTree, name: &str, required: &str) -> MemoryTree {
    let text = format!(
        "[role]\nname = \"{name}\"\ndescription = \"Mine.\"\n[capabilities]\nrequired = \
         [\"{required}\"]\n[tools]\nallowed = [\"Read\", \"Bash\"]\n[pipeline]\nhandoff = []\n{ABOUT}"
    );
    tree.with(format!("_roles/{name}.toml"), text)
}

fn kit() -> Kit {
    let gate = "[restricts]\ntool-patterns = ['^rm ']\ntools-denied = [\"MultiEdit\"]\n[gate]\nevent = \"PreToolUse:Bash\"\n\
                severity = \"enforce\"\n";
    let unknown = "[verify]\nrust-module = \"verifies::verify_fork_audit\"\n";
    let alias = "[capability]\nname = \"tools::read-only\"\nalias = \"tools::deny-tools\"\n\
                 deprecated = \"v0.17\"\n";
    let manifest = format!(
        "name = \"mine\"\ndescription = \"Use it.\"\ntools = [\"Read\"]\nmodel = \"sonnet\"\n\
         substrate_role = \"kept\"\nrole = \"You look.\"\nblocks = [\"first\"]\n\
         domain_in = [\"bugs\"]\nforbidden_domain = [\"style\"]\n[[handoff]]\ntarget = \
         \"critic\"\ntrigger = \"it is done\"\n[references]\nextra = [\"rules.md\"]\n{ABOUT}"
    );
    let tree = capability(MemoryTree::default(), "policy::kept", gate);
    let tree = capability(tree, "verify::fork-audit", unknown)
        .with("_capabilities/tools/read-only/capability.toml", alias)
        .with("_blocks/first.md", "# FIRST — things\n\nDo this.\n")
        .with("_manifests/mine.toml", manifest);
    let tree = role(role(tree, "kept", "policy::kept"), "auditor", "verify::fork-audit");
    let layer = Layer::new(Origin::KitRoot, Layout::Underscore, "kit/", Box::new(tree));
    Kit::over_embedded(vec![layer])
}

#[test]
fn feature_that_this_program_lacks_is_a_warning() {
    let report = lint(&kit(), &[]);
    let shown: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(report.problems.iter().all(|p| p.severity == Severity::Warning), "{shown:#?}");
    let codes: Vec<&str> = report.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["old-name", "no-such-module"], "{shown:#?}");
}

#[test]
fn supported_capabilities_are_used_and_the_others_are_refused() {
    let kit = kit();
    let place = || Source::new("task.toml", "").whole();
    assert!(resolve(&kit, &role_name("kept"), place()).is_ok());
    let gate = kit.capability(&capability_name("policy::kept")).expect("it is read");
    let gate = gate.expect("it is there").declared.gate.expect("a gate");
    assert_eq!(gate.get_ref().severity, bailiwick_model::capability::GateSeverity::Block);
    assert_eq!(
        gate.get_ref().tools(),
        Some(vec!["Bash", "MultiEdit"]),
        "the gate covers the tools that it denies"
    );
    let lacking = kit.capability(&capability_name("verify::fork-audit")).expect_err("no code");
    assert_eq!((lacking[0].code, lacking[0].severity), ("no-such-module", Severity::Error));
    let renamed = kit.capability(&capability_name("tools::deny-tools")).expect("it is read");
    assert_eq!(renamed.expect("it is there").origin, Origin::Embedded, "an alias declares nothing");
}

#[test]
fn assembled_manifest_contains_all_of_its_sections() {
    let kit = kit();
    let found = find(&kit, &AgentType::parse("mine").expect("a type")).expect("it is read");
    let manifest = found.expect("it is there").manifest;
    let text = assemble(&kit, &manifest, Program::Claude).expect("it can be assembled").text;
    for part in [
        "# FIRST — things\n\nDo this.",
        "# IN SCOPE\n\n- bugs",
        "# OUT OF SCOPE\n\n- style",
        "# REFERENCES\n\n- rules.md",
        "# HANDOFFS\n\n- `critic`: it is done",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("sonnet"), "the caller chooses the model\n{text}");
}

#[test]
fn missing_block_is_an_error() {
    for name in ["second", "../_roles/kept"] {
        let text =
            format!("name = \"mine\"\ndescription = \"d\"\nrole = \"r\"\nblocks = [\"{name}\"]\n");
        let tree = MemoryTree::new([("_manifests/mine.toml", text)]);
        let layer = Layer::new(Origin::KitRoot, Layout::Underscore, "kit/", Box::new(tree));
        let kit = Kit::over_embedded(vec![layer]);
        let problems = find(&kit, &AgentType::parse("mine").expect("a type")).expect_err(name);
        assert_eq!(
            (problems[0].code, problems[0].place.text()),
            ("missing-artefact", Some(&*format!("\"{name}\"")))
        );
    }
}
