//! Problems of a manifest, and the places that are reported.

use bailiwick_kit::Kit;
use bailiwick_kit::manifest::{Program, assemble, find, names, read};
use bailiwick_model::Problem;
use bailiwick_model::template::AgentType;

use super::{MANIFEST, manifest, source};
use crate::memory::{MemoryTree, directory, role_toml};

fn refused(kit: &Kit, text: &str) -> Problem {
    let problems = match read(&source(text)) {
        Ok(manifest) => assemble(kit, &manifest, Program::Claude).expect_err(text),
        Err(problems) => problems,
    };
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.into_iter().next().expect("one")
}

fn embedded() -> Kit {
    Kit::over_embedded(Vec::new())
}

#[test]
fn unknown_role_is_reported_with_its_place_and_the_nearest_name() {
    let problem = refused(&embedded(), &MANIFEST.replace("\"read-only\"", "\"red-only\""));
    assert_eq!(problem.code, "unknown-role");
    assert_eq!(problem.place.to_string(), "manifests/mine.toml:3:18");
    assert_eq!(problem.help.as_deref(), Some("did you mean `read-only`?"));
}

#[test]
fn role_with_a_missing_text_is_an_error() {
    let named = MANIFEST.replace("\"read-only\"", "\"mine\"").replace(", \"Grep\"", "");
    let role = role_toml("mine", "required = [\"quality::mine\"]\n");
    let toml = crate::memory::capability_toml("quality::mine");
    let kit = MemoryTree::default()
        .with("roles/mine.toml", role.clone())
        .with(format!("{}/capability.toml", directory("quality::mine")), toml)
        .into_kit();
    let problem = refused(&kit, &named);
    assert_eq!(problem.code, "missing-artefact");
    assert_eq!(&*problem.place.source.file, "repository/capabilities/quality/mine/text.md");
    let kit = MemoryTree::default().with("roles/mine.toml", role).into_kit();
    let problem = refused(&kit, &named);
    assert_eq!(problem.code, "unknown-capability");
    assert_eq!(&*problem.place.source.file, "repository/roles/mine.toml");
}

#[test]
fn role_that_agents_cannot_have_is_refused() {
    let text = MANIFEST.replace("\"read-only\"", "\"git-ops\"");
    assert_eq!(refused(&embedded(), &text).code, "not-spawnable");
}

#[test]
fn tools_cannot_exceed_those_of_the_role() {
    let problem = refused(&embedded(), &MANIFEST.replace("\"Grep\"", "\"Bash\""));
    assert_eq!((problem.code, problem.place.text()), ("wider-than-role", Some("\"Bash\"")));
    let problem = refused(&embedded(), &MANIFEST.replace("tools = [\"Read\", \"Grep\"]\n", ""));
    assert_eq!(problem.code, "wider-than-role");
    assert!(problem.help.unwrap().contains("Read, Glob, Grep, WebFetch"));
    // Without a role there is no limit to exceed.
    let free =
        MANIFEST.replace("\"Grep\"", "\"Bash\"").replace("substrate_role = \"read-only\"\n", "");
    assert!(assemble(&embedded(), &manifest(&free), Program::Claude).is_ok());
}

#[test]
fn invalid_or_missing_manifest_keys_are_refused() {
    for (old, new, code, place) in [
        ("substrate_role", "substrate_rol", "unknown-key", "3:1"),
        ("name = \"mine\"\n", "", "missing-key", "1:1"),
        ("name = \"mine\"", "name = \"my mine\"", "bad-toml", "1:8"),
        ("\"Grep\"", "\"Grp\"", "unknown-tool", "4:18"),
        ("You look.\n", "", "bad-value", "5:8"),
        ("You look.", "# AGENT SUBSTRATE — role x", "bad-value", "5:8"),
        ("\"Do this.\"", "\" \"", "bad-value", "11:8"),
        ("\"SECOND\"", "\"FIRST\"", "bad-value", "14:9"),
        ("\"FIRST\"", "\"ROLE\"", "bad-value", "10:9"),
        ("\"FIRST\"", "\"a\\nb\"", "bad-value", "10:9"),
        ("to = \"critic\"", "to = \"mine\"", "bad-value", "21:6"),
        ("when = \"it is done\"", "whn = \"it\"", "unknown-key", "22:1"),
    ] {
        let text = MANIFEST.replace(old, new);
        assert_ne!(text, MANIFEST);
        let problem = refused(&embedded(), &text);
        assert_eq!(problem.code, code, "{new}: {problem}");
        let at = problem.place.line_and_column().map(|(line, column)| format!("{line}:{column}"));
        assert_eq!(at.unwrap_or_default(), place, "{new}: {problem}");
    }
}

#[test]
fn broken_manifest_of_a_higher_layer_does_not_expose_a_lower_one() {
    let critic = AgentType::parse("critic").unwrap();
    let kit = MemoryTree::default().with("manifests/critic.toml", "name = 1\n").into_kit();
    assert!(find(&kit, &critic).is_err());
    assert!(find(&embedded(), &critic).unwrap().is_some());
    let other = MANIFEST.replace("mine", "other");
    let kit = MemoryTree::default().with("manifests/critic.toml", other).into_kit();
    assert_eq!(find(&kit, &critic).unwrap_err()[0].code, "name-mismatch");
    let kit = MemoryTree::default().with("manifests/A B.toml", MANIFEST).into_kit();
    assert_eq!(names(&kit).unwrap_err()[0].code, "bad-name");
}
