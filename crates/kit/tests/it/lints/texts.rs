//! The lints of texts: length, first sentence, references, repetition.

use bailiwick_kit::fork::fork;
use bailiwick_kit::lint::lint;
use bailiwick_kit::{Kit, Origin};
use bailiwick_model::Problem;

use super::{assert_reported_once, error, problems, warning};
use crate::memory::{MemoryTree, capability_name, directory, role_toml, with_fork};

const TEXT: &str = "repository/capabilities/quality/mine/text.md";

fn with_text(text: &str) -> MemoryTree {
    MemoryTree::default()
        .with_capability("quality::mine")
        .with(format!("{}/text.md", directory("quality::mine")), text)
}

/// This many words, all different.
fn words(count: usize) -> String {
    let further: Vec<String> = (3..=count).map(|number| format!("word{number}")).collect();
    format!("You MUST\n{}\n", further.join(" "))
}

#[test]
fn two_hundred_words_are_accepted_and_one_more_is_not() {
    for count in [2, 199, 200] {
        assert_eq!(problems(with_text(&words(count)), &[]), [], "{count} words");
    }
    for count in [201, 300] {
        let found = problems(with_text(&words(count)), &[]);
        let [problem] = found.as_slice() else { panic!("{count} words: {found:?}") };
        assert_eq!((problem.code, problem.is_error()), ("text-too-long", true));
        assert_eq!(problem.place.text(), Some("word201"), "the first word too many");
        assert_eq!(problem.place.line_and_column().unwrap().0, 2);
        assert!(problem.message.contains(&format!("{count} words")), "{problem}");
    }
}

#[test]
fn text_that_does_not_start_with_the_rule_is_reported() {
    for (text, at, sentence) in [
        ("## T\n\nThis is about tests. You MUST run them.\n", "3:1", "This is about tests"),
        ("Because it matters, run tests.\n", "1:1", "Because it matters, run tests."),
        ("You must run tests.\n", "1:1", "You must run tests."),
        ("Use MUSTARD.\n", "1:1", "Use MUSTARD."),
    ] {
        let found = problems(with_text(text), &[]);
        let [problem] = found.as_slice() else { panic!("{text:?}: {found:?}") };
        assert_eq!((problem.code, problem.is_error()), ("text-leads", true), "{text:?}");
        assert_eq!(problem.place.to_string(), format!("{TEXT}:{at}"));
        let shown = problem.place.text().map(|text| text.trim_end_matches('.'));
        assert_eq!(shown, Some(sentence.trim_end_matches('.')));
        assert!(problem.help.as_ref().unwrap().contains("begin with \"You MUST …\""), "{problem}");
    }
    for text in [
        "## T\n\nYou MUST run tests.\n",
        "You MUST NOT edit.\n",
        "Never edit.\n",
        "# A\n## B\n\n\nIn this repository you\nMUST run tests: all.\n",
    ] {
        assert_eq!(problems(with_text(text), &[]), [], "{text:?}");
    }
}

#[test]
fn text_without_content_is_reported() {
    for text in ["", "\n\n", "## Only a heading\n"] {
        let expected = error("text-empty", TEXT, None, "says nothing");
        assert_reported_once(text, &problems(with_text(text), &[]), &expected);
    }
}

#[test]
fn reference_to_another_fragment_is_reported() {
    let says = "say here what this rule needs";
    for (reference, text) in [
        ("See `scope::files-whitelist`.", "`scope::files-whitelist`."),
        ("See (policy::no-git-ops) first.", "(policy::no-git-ops)"),
        ("See tools::read-only too.", "tools::read-only"),
        ("See quality::of-your-own.", "quality::of-your-own."),
    ] {
        let found = problems(with_text(&format!("You MUST run tests.\n{reference}\n")), &[]);
        let place = "repository/capabilities/quality/mine/text.md:2:5";
        assert_reported_once(reference, &found, &error("text-refers", place, text, says));
    }
    let says = "roles combine fragments in any order";
    for (reference, place, text) in [
        ("As described above, it matters.", ":2:4", "described above"),
        ("For details SEE BELOW.", ":2:13", "SEE BELOW"),
        ("The previous section has more.", ":2:5", "previous section"),
        ("Heed other capabilities.", ":2:6", "other capabilities"),
    ] {
        let found = problems(with_text(&format!("You MUST run tests.\n{reference}\n")), &[]);
        let [problem] = found.as_slice() else { panic!("{reference:?}: {found:?}") };
        assert_eq!((problem.code, problem.is_error()), ("text-refers", true));
        assert_eq!(problem.place.to_string(), format!("{TEXT}{place}"));
        let shown = problem.place.text().map(|shown| shown.trim_end_matches([',', '.']));
        assert_eq!(shown, Some(text));
        assert!(problem.help.as_ref().unwrap().contains(says), "{problem}");
    }
}

#[test]
fn text_may_name_itself_and_code_with_colons() {
    for text in [
        "You MUST heed quality::mine.\n",
        "You MUST call std::mem::take, not Vec::new or a::b.\n",
        "You MUST keep the list above all short; look below the line.\n",
    ] {
        assert_eq!(problems(with_text(text), &[]), [], "{text:?}");
    }
}

#[test]
fn reference_across_a_line_end_is_found() {
    let found = problems(with_text("You MUST run tests, as described\nabove, each time.\n"), &[]);
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(problem.code, "text-refers");
    assert_eq!(problem.place.line_and_column().unwrap().0, 1);
}

#[test]
fn reference_is_found_next_to_any_character() {
    for reference in [
        "scope::files-whitelist's",
        "tools::deny-tools,scope::files-whitelist",
        "policy::no-git-ops/scope::files-whitelist",
        "[scope::files-whitelist](x)",
    ] {
        let found =
            problems(with_text(&format!("You MUST run tests.\nSee {reference} too.\n")), &[]);
        assert!(
            found.iter().any(|problem| problem.code == "text-refers"),
            "{reference:?} was accepted"
        );
        assert!(found.iter().all(|problem| problem.code == "text-refers"), "{found:?}");
    }
}

const SHARED: &str = "Every number that you report has to come from a run you saw.";

#[test]
fn text_that_repeats_another_is_reported() {
    let tree = MemoryTree::default()
        .with_capability("quality::a")
        .with("capabilities/quality/a/text.md", format!("You MUST count.\n\n{SHARED}\n"))
        .with_capability("quality::b")
        .with(
            "capabilities/quality/b/text.md",
            format!("You MUST add.\n\n*{}*\n", SHARED.to_uppercase()),
        );
    let expected = error(
        "text-repeats",
        "repository/capabilities/quality/b/text.md:3:1",
        "*EVERY NUMBER THAT YOU REPORT HAS TO COME FROM A",
        "say it in one capability",
    );
    let found = problems(tree, &[]);
    assert_reported_once("a repetition", &found, &expected);
    assert!(found.iter().all(|problem| problem.message.contains("`quality::a`")), "{found:?}");
}

#[test]
fn nine_equal_words_are_not_a_repetition() {
    let nine: Vec<&str> = SHARED.split(' ').take(9).collect();
    let tree = MemoryTree::default()
        .with_capability("quality::a")
        .with("capabilities/quality/a/text.md", format!("You MUST count.\n\n{SHARED}\n"))
        .with_capability("quality::b")
        .with("capabilities/quality/b/text.md", format!("You MUST add.\n\n{}\n", nine.join(" ")));
    assert_eq!(problems(tree, &[]), []);
}

#[test]
fn repetition_of_an_embedded_text_is_reported_in_the_persons_file() {
    let line = "Grade by the harm, not by the effort of the repair.";
    let found = problems(with_text(&format!("You MUST run tests.\n\n{line}\n")), &[]);
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(problem.code, "text-repeats");
    assert_eq!(&*problem.place.source.file, TEXT, "the embedded file cannot be edited");
    assert!(problem.message.contains("`output::severity-grade`"), "{problem}");
}

/// The tree with a fork of `source`, which is embedded or in the tree, under a new name.
fn forked(tree: MemoryTree, source: &str, target: &str) -> MemoryTree {
    let kit = tree.clone().into_kit();
    let source = kit.capability(&capability_name(source)).expect("it reads").expect("it is there");
    let files =
        fork(&source, &capability_name(target), "me", "2026-07-01T00:00:00Z").expect("a fork");
    with_fork(tree, target, &files)
}

#[test]
fn new_fork_repeats_its_source_with_a_warning_only() {
    let tree = forked(MemoryTree::default(), "policy::no-git-ops", "policy::no-git-ops-lax");
    let expected = warning(
        "text-repeats",
        "repository/capabilities/policy/no-git-ops-lax/text.md:1:4",
        "No git operations\n\nYou MUST NOT invoke `git`, `gh repo`,",
        "edit its text.md",
    );
    assert_reported_once("a fork", &problems(tree, &[]), &expected);
}

#[test]
fn edited_fork_repeats_nothing() {
    let tree = forked(MemoryTree::default(), "policy::no-git-ops", "policy::no-git-ops-lax");
    let tree = tree.with("capabilities/policy/no-git-ops-lax/text.md", "You MUST NOT push.\n");
    assert_eq!(problems(tree, &[]), []);
}

#[test]
fn role_with_a_fork_and_its_source_is_an_error() {
    let both = "required = [\"policy::no-git-ops\", \"policy::no-git-ops-lax\"]\n";
    let tree = forked(MemoryTree::default(), "policy::no-git-ops", "policy::no-git-ops-lax");
    let with_both = tree.clone().with("roles/mine.toml", role_toml("mine", both));
    let found = problems(with_both, &[]);
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((problem.code, problem.is_error()), ("text-repeats", true));
    // The control: one role for each is no error.
    let separate = tree
        .with("roles/a.toml", role_toml("a", "required = [\"policy::no-git-ops\"]\n"))
        .with("roles/b.toml", role_toml("b", "required = [\"policy::no-git-ops-lax\"]\n"));
    let found = problems(separate, &[]);
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((problem.code, problem.is_error()), ("text-repeats", false));
}

#[test]
fn role_with_two_forks_of_one_source_is_an_error() {
    let tree = forked(MemoryTree::default(), "policy::no-git-ops", "policy::one");
    let tree = forked(tree, "policy::no-git-ops", "policy::two");
    let both = role_toml("mine", "required = [\"policy::one\", \"policy::two\"]\n");
    let found = problems(tree.with("roles/mine.toml", both), &[]);
    let errors: Vec<&Problem> = found.iter().filter(|problem| problem.is_error()).collect();
    let [problem] = errors.as_slice() else { panic!("{found:?}") };
    assert_eq!(problem.code, "text-repeats");
    assert_eq!(&*problem.place.source.file, "repository/capabilities/policy/two/text.md");
    assert!(problem.message.contains("`policy::one`"), "{problem}");
}

fn assert_fork_warnings(found: &[Problem], count: usize) {
    assert_eq!(found.len(), count, "{found:?}");
    for problem in found {
        assert_eq!((problem.code, problem.is_error()), ("text-repeats", false), "{problem}");
        let file = &problem.place.source.file;
        assert!(file.starts_with("repository/"), "the warning must name the fork, not {file}");
    }
}

#[test]
fn fork_whose_name_sorts_first_is_still_the_one_to_edit() {
    let tree = forked(MemoryTree::default(), "quality::tests-green", "policy::a-fork");
    assert_fork_warnings(&problems(tree, &[]), 1);
}

#[test]
fn forks_of_forks_and_sibling_forks_only_warn() {
    let tree = forked(MemoryTree::default(), "policy::no-git-ops", "policy::one");
    let tree = forked(tree, "policy::one", "policy::two");
    assert_fork_warnings(&problems(tree, &[]), 2);
    let twins = forked(MemoryTree::default(), "tools::deny-tools", "policy::one");
    let twins = forked(twins, "tools::deny-tools", "policy::two");
    assert_fork_warnings(&problems(twins, &[]), 2);
}

#[test]
fn override_does_not_repeat_the_covered_text() {
    let embedded = Kit::over_embedded(Vec::new());
    let covered = embedded.capability(&capability_name("policy::no-git-ops")).unwrap().unwrap();
    let directory = directory("policy::no-git-ops");
    let tree = MemoryTree::new([
        (format!("{directory}/capability.toml"), covered.source.text.to_string()),
        (format!("{directory}/text.md"), covered.text.text.to_string()),
    ]);
    let kit = Kit::over_embedded(vec![tree.into_layer(Origin::User)]);
    assert_eq!(lint(&kit, &[]).problems, []);
}
