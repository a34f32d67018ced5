//! Proof that faults of an earlier implementation are not present here.

use bailiwick_kit::fork::fork;
use bailiwick_kit::lint::lint;
use bailiwick_kit::{Kit, bind, resolve};
use bailiwick_model::{Source, Task};

use crate::memory::{
    MemoryTree, capability_name, capability_toml, directory, role_name, role_toml, with_fork,
};

fn nowhere() -> bailiwick_model::Place {
    Source::new("task.toml", "").whole()
}

fn task(role: &str) -> Source {
    Source::new("task.toml", format!("[task]\nrole = \"{role}\"\n"))
}

/// A role that has `quality::mine`, which consists of its header and these tables.
fn kit_with(tables: &str) -> Kit {
    let toml = capability_toml("quality::mine");
    let (header, _) = toml.split_once("[restricts]").expect("a header");
    MemoryTree::default()
        .with_capability("quality::mine")
        .with(
            format!("{}/capability.toml", directory("quality::mine")),
            format!("{header}{tables}"),
        )
        .with("roles/mine.toml", role_toml("mine", "required = [\"quality::mine\"]\n"))
        .into_kit()
}

/// Fault 4: a capability with no code behind it passed silently.
#[test]
fn capability_without_enforcement_is_refused() {
    for tables in [
        "",
        "[parameterized]\naccepts = [\"house-style\"]\n",
        "[restricts]\ntool-patterns = []\ntools-denied = []\n",
        "[gate]\nevent = \"PreToolUse:Bash\"\n",
        "[gate]\nrust-module = \"\"\nevent = \"PreToolUse:Bash\"\n",
        "[verify]\n",
        "[verify]\nrust-module = \"\"\nrun-mode = \"both\"\n",
        // One working half does not make up for the other.
        "[verify]\ncommand = \"true\"\n[gate]\nevent = \"PreToolUse:Bash\"\n",
        "[restricts]\ntools-denied = [\"Edit\"]\n[verify]\n",
    ] {
        let kit = kit_with(tables);
        let problems = bind(&kit, &task("mine")).map(|bound| bound.task).expect_err(tables);
        let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
        assert_eq!(codes, ["nothing-enforced"], "{tables:?}: {problems:?}");
        assert!(lint(&kit, &[]).problems.iter().any(|problem| problem.is_error()), "{tables:?}");
    }
}

/// Fault 4: a module that is not compiled in cannot enforce a limit.
#[test]
fn capability_with_an_unknown_module_is_refused() {
    for tables in [
        "[gate]\nrust-module = \"gates::quality_mine\"\nevent = \"PreToolUse:Bash\"\n",
        "[verify]\nrust-module = \"verifies::quality_mine\"\n",
        // Of the other kind, and without the prefix.
        "[verify]\nrust-module = \"gates::policy_no_git_ops\"\n",
        "[verify]\nrust-module = \"quality_tests_green\"\n",
        "[verify]\nrust-module = \"verifies::missing\"\ncommand = \"true\"\n",
    ] {
        let problems = bind(&kit_with(tables), &task("mine")).map(|_| ()).expect_err(tables);
        let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
        assert_eq!(codes, ["no-such-module"], "{tables:?}: {problems:?}");
    }
}

/// Fault 4, the positive control: without its own code, the declared limits are enough.
#[test]
fn capability_without_code_works_by_its_declarations() {
    for (tables, gate, check) in [
        ("[restricts]\ntool-patterns = ['^rm ']\n", true, false),
        ("[restricts]\ntools-denied = [\"Edit\"]\n", true, false),
        (
            "[restricts]\ntools-denied = [\"Edit\"]\n[gate]\nevent = \"PreToolUse:Edit\"\n",
            true,
            false,
        ),
        ("[verify]\ncommand = \"make lint\"\n", false, true),
        ("[restricts]\ntools-denied = [\"Edit\"]\n[verify]\ncommand = \"true\"\n", true, true),
    ] {
        let bound = bind(&kit_with(tables), &task("mine")).unwrap();
        let [mine] = bound.capabilities.as_slice() else { panic!("{tables:?}") };
        assert_eq!(
            (mine.declared.has_gate(), mine.declared.has_check()),
            (gate, check),
            "{tables:?}"
        );
    }
}

/// Fault 4: a forked capability could not be used.
#[test]
fn forked_capability_can_be_used_immediately() {
    let (source, forked) =
        (capability_name("policy::no-git-ops"), capability_name("policy::no-git-ops-lax"));
    let original = Kit::over_embedded(Vec::new()).capability(&source).unwrap().unwrap();
    let files = fork(&original, &forked, "me", "2026-07-01T00:00:00Z").unwrap();
    let required = "required = [\"policy::no-git-ops-lax\", \"output::report-format\"]\n";
    let tree = MemoryTree::default().with("roles/mine.toml", role_toml("mine", required));
    let kit = with_fork(tree, "policy::no-git-ops-lax", &files).into_kit();

    let found = kit.capability(&forked).unwrap().unwrap();
    assert!(found.declared.has_gate() && found.declared.has_check());
    let module = |found: &bailiwick_kit::FoundCapability| {
        let gate = found.declared.gate.as_ref().unwrap().get_ref();
        gate.rust_module.get_ref().clone()
    };
    assert_eq!(module(&found), module(&original));

    let role = resolve(&kit, &role_name("mine"), nowhere()).unwrap();
    assert_eq!(role.capabilities, [forked.clone(), capability_name("output::report-format")]);
    let bound = bind(&kit, &task("mine")).unwrap();
    let names: Vec<_> = bound.capabilities.iter().map(|found| found.declared.name()).collect();
    assert_eq!(names, [&forked, &capability_name("output::report-format")]);
    assert!(bound.capabilities.iter().any(|found| found.declared.has_gate()));
    assert!(lint(&kit, &[]).problems.iter().all(|problem| !problem.is_error()));
}

/// Fault 5: an agent could be started in the role git-ops.
#[test]
fn git_ops_is_not_spawnable_and_every_other_role_is() {
    let kit = Kit::over_embedded(Vec::new());
    for name in kit.role_names().unwrap() {
        let role = resolve(&kit, &name, nowhere()).unwrap();
        assert_eq!(role.spawnable, name.as_str() != "git-ops", "{name}");
    }
    let bound = bind(&kit, &task("git-ops")).unwrap();
    assert!(!bound.role.spawnable);
    assert_eq!(bound.role.claude_subagent_type, "NOT-SPAWNABLE");
}

/// Fault 8: the warnings of `relaxes` were never printed.
#[test]
fn relaxing_a_capability_that_was_not_inherited_warns() {
    let relaxes = "extends = \"read-only\"\nrelaxes = [\"policy::no-git-ops\"]\n";
    let kit = MemoryTree::new([("roles/mine.toml", role_toml("mine", relaxes))]).into_kit();
    let role = resolve(&kit, &role_name("mine"), nowhere()).unwrap();
    let bound = bind(&kit, &task("mine")).unwrap();
    let linted = lint(&kit, &[]).problems;
    for warnings in [role.warnings, bound.warnings, linted] {
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert_eq!((warning.code, warning.is_error()), ("relaxes-nothing", false));
        assert_eq!(warning.place.to_string(), "repository/roles/mine.toml:7:12");
        assert_eq!(warning.place.text(), Some("\"policy::no-git-ops\""));
        assert!(warning.message.contains("`policy::no-git-ops`"), "{warning}");
    }
}

/// Fault 8: a child must not hide the warnings of its parent.
#[test]
fn warning_of_a_parent_role_reaches_the_task() {
    let kit = MemoryTree::new([
        ("roles/parent.toml", role_toml("parent", "relaxes = [\"policy::no-git-ops\"]\n")),
        ("roles/child.toml", role_toml("child", "extends = \"parent\"\n")),
    ]);
    let bound = bind(&kit.into_kit(), &task("child")).unwrap();
    let [warning] = bound.warnings.as_slice() else { panic!("{:?}", bound.warnings) };
    assert_eq!(&*warning.place.source.file, "repository/roles/parent.toml");
}

/// Fault 8: a warning must not be repeated.
#[test]
fn relaxing_a_capability_twice_warns_once() {
    let lists = "relaxes = [\"policy::no-git-ops\", \"policy::no-git-ops\"]\n";
    let kit = MemoryTree::new([("roles/mine.toml", role_toml("mine", lists))]).into_kit();
    let bound = bind(&kit, &task("mine")).unwrap();
    let codes: Vec<&str> = bound.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["relaxes-nothing"]);
}

/// Fault 8, the positive control: an inherited capability is dropped without a warning.
#[test]
fn relaxing_an_inherited_capability_does_not_warn() {
    for relaxed in ["tools::deny-tools", "output::severity-grade"] {
        let relaxes = format!("extends = \"read-only\"\nrelaxes = [\"{relaxed}\"]\n");
        let kit = MemoryTree::new([("roles/mine.toml", role_toml("mine", &relaxes))]).into_kit();
        let role = resolve(&kit, &role_name("mine"), nowhere()).unwrap();
        assert_eq!(role.warnings, []);
        assert_eq!(role.capabilities.len(), 2);
        assert!(!role.capabilities.contains(&capability_name(relaxed)));
    }
}

/// Fault 8: the typo `files_whitelist` was ignored and so allowed everything.
#[test]
fn typo_in_files_whitelist_is_an_error() {
    let kit = Kit::over_embedded(Vec::new());
    let right = "[task]\nrole = \"edit-local\"\n\n[scope]\nfiles-whitelist = [\"src/**\"]\n";
    let bound = bind(&kit, &Source::new("task.toml", right)).unwrap();
    assert_eq!(bound.task.scope.files_whitelist.get().len(), 1, "the control");
    let typo = right.replace("files-whitelist", "files_whitelist");
    let problems = bind(&kit, &Source::new("task.toml", typo)).map(|_| ()).unwrap_err();
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!((problem.code, problem.place.text()), ("unknown-key", Some("files_whitelist")));
    assert_eq!(problem.place.to_string(), "task.toml:5:1");
    assert!(problem.help.as_ref().unwrap().contains("`files-whitelist`"), "{problem}");
}

/// Fault 8: unknown keys were ignored in every table of every file.
#[test]
fn unknown_key_is_an_error_in_every_table_of_every_file() {
    let lineage = "\n[lineage]\nparents = []\n";
    let capability = format!(
        "{}\n[parameterized]\n\n[text]\npath = \"text.md\"\n\n[gate]\nevent = \"PreToolUse:Bash\"\n{lineage}",
        capability_toml("quality::mine")
    );
    let role = role_toml("mine", "") + "\n[escalation]\npolicy = \"fail-fast\"\n";
    let task = "[task]\nrole = \"edit-local\"\n[scope]\n[verification]\n[output]\n[agent]\n\
                [budget]\n[workspace]\n[body]\n";
    type Read = fn(&str) -> Result<(), Vec<&'static str>>;
    let read_capability: Read = |text| {
        let kit = MemoryTree::default()
            .with_capability("quality::mine")
            .with(format!("{}/capability.toml", directory("quality::mine")), text)
            .into_kit();
        let codes =
            |problems: Vec<bailiwick_model::Problem>| problems.iter().map(|p| p.code).collect();
        kit.capability(&capability_name("quality::mine")).map(|_| ()).map_err(codes)
    };
    let read_role: Read = |text| {
        let kit = MemoryTree::new([("roles/mine.toml", text)]).into_kit();
        let codes =
            |problems: Vec<bailiwick_model::Problem>| problems.iter().map(|p| p.code).collect();
        kit.role(&role_name("mine")).map(|_| ()).map_err(codes)
    };
    let read_task: Read = |text| {
        Task::parse(&Source::new("t", text)).map(|_| ()).map_err(|problem| vec![problem.code])
    };
    let files: [(&str, &str, Read); 3] = [
        ("capability", &capability, read_capability),
        ("role", &role, read_role),
        ("task", task, read_task),
    ];
    let mut tables = 0;
    for (kind, text, read) in files {
        assert_eq!(read(text), Ok(()), "{kind}, the control");
        let at_the_top = format!("surplus = 1\n{text}");
        assert_eq!(read(&at_the_top), Err(vec!["unknown-key"]), "{kind}");
        let headers = text.lines().filter(|line| line.starts_with('[') && line.ends_with(']'));
        for header in headers {
            tables += 1;
            let surplus = text.replace(&format!("{header}\n"), &format!("{header}\nsurplus = 1\n"));
            assert_eq!(read(&surplus), Err(vec!["unknown-key"]), "{kind} {header}");
        }
    }
    assert_eq!(tables, 7 + 4 + 8, "a table was not tried");
}

/// The kei tools always write both tables, with an empty `rust-module` for the half that does not exist.
#[test]
fn half_with_an_empty_module_does_not_exist() {
    let gate = "[gate]\nrust-module = \"gates::tools_read_only\"\nevent = \"PreToolUse:Edit\"\nbypass-env = \"\"\n";
    let no_check = "[verify]\nrust-module = \"\"\nrun-mode = \"worktree\"\nwhen = \"on-return\"\n";
    let no_gate =
        "[gate]\nrust-module = \"\"\nevent = \"PreToolUse:Bash\"\n[verify]\ncommand = \"true\"\n";
    for tables in [format!("{gate}{no_check}"), no_gate.to_owned()] {
        let bound = bind(&kit_with(&tables), &task("mine"));
        assert!(bound.is_ok(), "{tables:?}: {:?}", bound.err());
    }
}
