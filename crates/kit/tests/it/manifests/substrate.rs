//! The section of a substrate role: its position, its content, and that nothing else
//! changes with it.

use bailiwick_kit::manifest::{Program, assemble};
use bailiwick_kit::{Kit, bind, resolve};
use proptest::prelude::*;

use super::{MANIFEST, manifest};
use crate::memory::{MemoryTree, role_name, role_toml};

fn embedded() -> Kit {
    Kit::over_embedded(Vec::new())
}

fn assembled(kit: &Kit, text: &str, program: Program) -> String {
    assemble(kit, &manifest(text), program).unwrap_or_else(|problems| panic!("{problems:?}")).text
}

/// The expected section, from the kit itself.
fn section(kit: &Kit, role: &str) -> String {
    let place = bailiwick_model::Source::new("x", "").whole();
    let role = resolve(kit, &role_name(role), place).expect("the role");
    let texts: Vec<String> = bind::capabilities(kit, &role)
        .expect("its capabilities")
        .iter()
        .map(|found| found.text.text.trim_end().to_owned())
        .collect();
    assert!(!texts.is_empty());
    format!("# AGENT SUBSTRATE — role {}\n\n{}\n\n", role.name, texts.join("\n\n---\n\n"))
}

#[test]
fn section_stands_between_the_role_and_the_first_block() {
    let text = assembled(&embedded(), MANIFEST, Program::Claude);
    assert_eq!(
        text,
        format!(
            "---\n# Assembled from the manifest mine: change that.\nname: mine\ndescription: \"Use \
             it: \\\"now\\\".\"\ntools: Read, Grep\n---\n\n# ROLE\n\nYou look.\n\n{}# FIRST\n\nDo \
             this.\n\n# SECOND\n\nThen that.\n\n# HANDOFFS\n\n- `critic`: it is done\n",
            section(&embedded(), "read-only")
        )
    );
}

#[test]
fn all_texts_of_the_role_are_present_in_order() {
    let tree = MemoryTree::default()
        .with_capability("quality::second")
        .with_capability("quality::first")
        .with(
            "roles/mine.toml",
            role_toml(
                "mine",
                "extends = \"read-only\"\nrequired = [\"quality::first\", \"quality::second\"]\n\
                 relaxes = [\"output::severity-grade\"]\n",
            ),
        );
    let kit = tree.into_kit();
    let manifest = MANIFEST.replace("\"read-only\"", "\"mine\"").replace(", \"Grep\"", "");
    let text = assembled(&kit, &manifest, Program::Claude);
    assert!(text.contains(&section(&kit, "mine")), "{text}");
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle}: {text}"));
    assert!(at("## Read, do not edit") < at("## Return a report"));
    assert!(at("## Return a report") < at("You MUST keep to first"));
    assert!(at("You MUST keep to first") < at("You MUST keep to second"));
    assert!(at("You MUST keep to second") < at("# FIRST"));
    assert!(!text.contains("## Grade every finding"));
}

/// The role's text in Codex's file, where the text is a value.
fn instructions(text: &str) -> String {
    let table: toml::Table = text.parse().expect("TOML");
    table["developer_instructions"].as_str().expect("a text").to_owned()
}

fn words() -> impl Strategy<Value = String> {
    // Text that one of the formats could read as syntax.
    let odd = ["\"", "'''", "\"\"\"", "---", "\\n", "# x", ": ", "{{", "ä", "-", "<!-- -->"];
    let word = prop_oneof![3 => "[a-zA-Z]{1,8}", 1 => prop::sample::select(odd.to_vec()).prop_map(str::to_owned)];
    prop::collection::vec(word, 1..9).prop_map(|words| format!("a {} b", words.join(" ")))
}

fn block(title: &str, text: &str) -> String {
    let value = |text: &str| toml::Value::String(text.to_owned()).to_string();
    format!("[[block]]\ntitle = {}\ntext = {}\n", value(title), value(text))
}

#[test]
fn without_the_field_the_rest_is_identical() {
    let kit = embedded();
    let section = section(&kit, "read-only");
    proptest!(|(role in words(), texts in prop::collection::vec(words(), 0..4))| {
        let blocks: String =
            texts.iter().enumerate().map(|(number, text)| block(&format!("B{number}"), text)).collect();
        let role = toml::Value::String(role);
        let with = format!(
            "name = \"mine\"\ndescription = \"x\"\nsubstrate_role = \"read-only\"\n\
             tools = [\"Read\"]\nrole = {role}\n{blocks}"
        );
        let without = with.replace("substrate_role = \"read-only\"\n", "");
        for program in Program::ALL {
            let (with, without) = (assembled(&kit, &with, program), assembled(&kit, &without, program));
            prop_assert!(!without.contains("AGENT SUBSTRATE"));
            match program {
                Program::Codex => {
                    let (with, without) = (instructions(&with), instructions(&without));
                    prop_assert_eq!(cut(&with, &section), without);
                }
                Program::Claude | Program::Gemini | Program::Opencode => {
                    prop_assert_eq!(cut(&with, &section), without);
                }
            }
        }
    });
}

/// The text without the section, which occurs exactly once.
fn cut(text: &str, section: &str) -> String {
    // As the last section, it has a blank line before it and none after it.
    let last = format!("\n\n{}", section.trim_end());
    let section = if text.contains(section) { section } else { &last };
    assert_eq!(text.matches(section).count(), 1, "{text}");
    text.replacen(section, "", 1)
}
