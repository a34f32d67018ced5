//! A fork: only the name and the lineage differ from its source.

use bailiwick_kit::fork::{ForkedCapability, fork};
use bailiwick_kit::{FoundCapability, Kit};
use bailiwick_model::capability::Lineage;
use bailiwick_model::{Capability, CapabilityName, Category, Source, toml_file};
use proptest::prelude::*;

use crate::memory::{MemoryTree, capability_name, directory, with_fork};

const CREATED: &str = "2026-07-01T12:00:00Z";

fn embedded(text: &str) -> FoundCapability {
    let kit = Kit::over_embedded(Vec::new());
    kit.capability(&capability_name(text)).expect("it reads").expect("it is there")
}

fn read(toml: &str) -> Capability {
    toml_file::parse(&Source::new("capability.toml", toml)).expect("a capability")
}

fn lineage(forked: &ForkedCapability) -> Lineage {
    read(&forked.toml).lineage.expect("a lineage")
}

/// The fork as a kit finds it.
fn found(text: &str, forked: &ForkedCapability) -> FoundCapability {
    let kit = with_fork(MemoryTree::default(), text, forked).into_kit();
    kit.capability(&capability_name(text)).expect("it reads").expect("it is there")
}

#[test]
fn lineage_names_the_source_of_a_fork() {
    let source = embedded("policy::no-git-ops");
    let forked = fork(&source, &capability_name("policy::no-git-ops-lax"), "ada", CREATED).unwrap();
    let lineage = lineage(&forked);
    assert_eq!(lineage.fork_from, Some(capability_name("policy::no-git-ops")));
    assert_eq!(lineage.parents, [capability_name("policy::no-git-ops")]);
    assert_eq!((lineage.creator.as_str(), lineage.created.as_str()), ("ada", CREATED));
    let table = "[lineage]\nfork_from = \"policy::no-git-ops\"\nparents = [\"policy::no-git-ops\"]\n\
                 creator = \"ada\"\ncreated = \"2026-07-01T12:00:00Z\"\n";
    assert!(forked.toml.contains(table), "{}", forked.toml);
}

#[test]
fn only_changed_fields_are_counted() {
    let source = embedded("policy::no-git-ops");
    let count = |text: &str| {
        fork(&source, &capability_name(text), "ada", CREATED).unwrap().fields_rewritten
    };
    // The name and the four fields of the lineage; with another category one more.
    assert_eq!(count("policy::other"), 5);
    assert_eq!(count("safety::other"), 6);
    assert_eq!(count("safety::no-git-ops"), 6);
}

/// The lines of `text` without those of `[lineage]` and the two that a fork rewrites.
fn unchanged_lines(text: &str) -> Vec<&str> {
    let mut in_lineage = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            in_lineage = line.starts_with("[lineage]");
        }
        let lineage_line = in_lineage && !line.starts_with('#');
        let rewritten = line.starts_with("name = ") || line.starts_with("category = ");
        if !lineage_line && !rewritten && !line.trim().is_empty() {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn all_other_lines_comments_and_order_are_unchanged() {
    let kit = Kit::over_embedded(Vec::new());
    let names = kit.capability_names().unwrap();
    assert_eq!(names.len(), 18);
    for source in &names {
        let source = kit.capability(source).unwrap().unwrap();
        let forked = fork(&source, &capability_name("tools::forked"), "ada", CREATED).unwrap();
        let before = unchanged_lines(&source.source.text);
        assert!(before.len() > 10);
        assert_eq!(unchanged_lines(&forked.toml), before, "{}", source.source.file);
        assert_eq!(forked.text, *source.text.text);
    }
}

#[test]
fn comments_near_the_rewritten_fields_are_unchanged() {
    let toml = "# top\n[capability] # header\n# above\nname   = 'policy::mine'  # beside\n\
                # between\ncategory = \"policy\" # also beside\ndescription = \"d\"\n\n\
                [restricts]\ntools-denied = [\n  \"Edit\", # why\n]\n# the end";
    let directory = directory("policy::mine");
    let kit = MemoryTree::new([
        (format!("{directory}/capability.toml"), toml),
        (format!("{directory}/text.md"), "You MUST NOT edit.\r\nBecause. \t"),
    ])
    .into_kit();
    let source = kit.capability(&capability_name("policy::mine")).unwrap().unwrap();
    let forked = fork(&source, &capability_name("scope::theirs"), "ada", CREATED).unwrap();
    for comment in [
        "# top\n",
        "# header\n",
        "# above\n",
        "  # beside\n",
        "# between\n",
        " # also beside\n",
        "# why\n",
        "# the end",
    ] {
        assert_eq!(forked.toml.matches(comment).count(), 1, "{comment:?} in {}", forked.toml);
    }
    assert!(forked.toml.contains("name   = \"scope::theirs\"  # beside\n"), "{}", forked.toml);
    assert!(forked.toml.contains("category = \"scope\" # also beside\n"), "{}", forked.toml);
    assert_eq!(forked.text, "You MUST NOT edit.\r\nBecause. \t", "the text changed");
    assert_eq!(*found("scope::theirs", &forked).declared.name(), capability_name("scope::theirs"));
}

#[test]
fn text_keeps_the_file_name_of_the_source() {
    let directory = directory("policy::mine");
    let toml = "[capability]\nname = \"policy::mine\"\ncategory = \"policy\"\ndescription = \"d\"\n\
                [text]\npath = \"words/rule.md\"\n[verify]\ncommand = \"true\"\n";
    let kit = MemoryTree::new([
        (format!("{directory}/capability.toml"), toml),
        (format!("{directory}/words/rule.md"), "You MUST.\n"),
    ])
    .into_kit();
    let source = kit.capability(&capability_name("policy::mine")).unwrap().unwrap();
    let forked = fork(&source, &capability_name("policy::theirs"), "ada", CREATED).unwrap();
    assert_eq!(forked.text_path, "words/rule.md");
    assert_eq!(&*found("policy::theirs", &forked).text.text, "You MUST.\n");
}

#[test]
fn fork_can_be_forked() {
    let first =
        fork(&embedded("quality::tests-green"), &capability_name("quality::first"), "ada", CREATED)
            .unwrap();
    let first = found("quality::first", &first);
    let second =
        fork(&first, &capability_name("quality::second"), "bob", "2026-08-01T00:00:00Z").unwrap();
    assert_eq!(second.toml.matches("[lineage]").count(), 1, "{}", second.toml);
    assert_eq!(second.fields_rewritten, 5);
    let lineage = lineage(&second);
    assert_eq!(lineage.fork_from, Some(capability_name("quality::first")));
    assert_eq!(lineage.parents, [capability_name("quality::first")]);
    assert_eq!(
        (lineage.creator.as_str(), lineage.created.as_str()),
        ("bob", "2026-08-01T00:00:00Z")
    );
    assert_eq!(second.text, *first.text.text);
    let second = found("quality::second", &second);
    assert!(second.declared.has_check());
}

fn any_name() -> impl Strategy<Value = CapabilityName> {
    (prop::sample::select(Category::ALL.to_vec()), "[a-z][a-z0-9-]{0,63}")
        .prop_map(|(category, slug)| capability_name(&format!("{category}::{slug}")))
}

proptest! {
    #[test]
    fn any_fork_under_any_name_by_anyone_is_a_valid_capability(
        source in any::<prop::sample::Index>(),
        target in any_name(),
        creator in any::<String>(),
    ) {
        let kit = Kit::over_embedded(Vec::new());
        let names = kit.capability_names().expect("names");
        let original = embedded(&source.get(&names).to_string());
        let forked = fork(&original, &target, &creator, CREATED).expect("a fork");
        let lineage = lineage(&forked);
        prop_assert_eq!(lineage.creator, creator);
        prop_assert_eq!(lineage.fork_from.as_ref(), Some(original.declared.name()));
        let found = found(&target.to_string(), &forked);
        prop_assert_eq!(found.declared.name(), &target);
        prop_assert_eq!(*found.declared.capability.category.get_ref(), target.category());
        prop_assert_eq!(found.declared.has_gate(), original.declared.has_gate());
        prop_assert_eq!(found.declared.has_check(), original.declared.has_check());
        prop_assert_eq!(&found.text.text, &original.text.text);
        let same_category = original.declared.name().category() == target.category();
        let same_name = *original.declared.name() == target;
        let rewritten = 4 + usize::from(!same_name) + usize::from(!same_category);
        prop_assert_eq!(forked.fields_rewritten, rewritten);
    }
}
