//! The layers of a kit: a higher one replaces the lower one completely, and a broken one never exposes it.

use bailiwick_kit::lint::lint;
use bailiwick_kit::{Kit, Layer, Layout, Origin, bind, resolve};
use bailiwick_model::{Problem, Source};

use crate::memory::{
    MemoryTree, capability_name, capability_toml, directory, role_name, role_toml, text_md,
};

/// The layers above the embedded one, highest first.
const ABOVE: [Origin; 3] = [Origin::KitRoot, Origin::Repository, Origin::User];

/// A capability of this layer, with its own description and text.
fn own_capability(tree: MemoryTree, name: &str, origin: Origin) -> MemoryTree {
    let directory = directory(name);
    tree.with(
        format!("{directory}/capability.toml"),
        capability_toml(name).replace("Mine.", &format!("Of {origin}.")),
    )
    .with(format!("{directory}/text.md"), format!("You MUST heed {origin}.\n"))
}

#[test]
fn highest_layer_with_a_name_provides_it_completely() {
    // Every combination of layers, for names that exist in the embedded kit and names that do not.
    for choice in 0..8_u8 {
        for embedded in [true, false] {
            let (capability, role) = if embedded {
                ("policy::no-git-ops", "edit-local")
            } else {
                ("policy::own", "own")
            };
            let mut having = Vec::new();
            let mut layers = Vec::new();
            for (bit, origin) in ABOVE.into_iter().enumerate() {
                let mut tree = MemoryTree::default().with_capability("quality::unrelated");
                if choice & (1 << bit) != 0 {
                    having.push(origin);
                    let role_text = role_toml(role, "").replace("Mine.", &format!("Of {origin}."));
                    tree = own_capability(tree, capability, origin)
                        .with(format!("roles/{role}.toml"), role_text);
                }
                layers.push(tree.into_layer(origin));
            }
            if embedded {
                having.push(Origin::Embedded);
            }
            let kit = Kit::over_embedded(layers);
            let found = kit.capability(&capability_name(capability)).unwrap();
            let found_role = kit.role(&role_name(role)).unwrap();
            let Some((highest, lower)) = having.split_first() else {
                assert!(found.is_none() && found_role.is_none(), "found in no layer");
                continue;
            };
            let (found, found_role) = (found.unwrap(), found_role.unwrap());
            assert_eq!(
                (found.origin, kit.overridden_capabilities(found.declared.name()).as_slice()),
                (*highest, lower)
            );
            assert_eq!(
                (
                    found_role.origin,
                    kit.overridden_roles(found_role.declared.role.name.get_ref()).as_slice()
                ),
                (*highest, lower)
            );
            let is_shown = |file: &str| file.starts_with(&format!("{highest}/"));
            assert!(
                is_shown(&found.source.file) && is_shown(&found.text.file),
                "{:?}",
                found.text.file
            );
            assert!(is_shown(&found_role.source.file));
            if *highest != Origin::Embedded {
                assert_eq!(found.declared.capability.description, format!("Of {highest}."));
                assert_eq!(&*found.text.text, format!("You MUST heed {highest}.\n"));
                assert_eq!(found_role.declared.role.description, format!("Of {highest}."));
            }
        }
    }
}

#[test]
fn override_inherits_nothing_from_the_replaced_capability() {
    let kit = own_capability(MemoryTree::default(), "policy::no-git-ops", Origin::Repository);
    let found = kit.into_kit().capability(&capability_name("policy::no-git-ops")).unwrap().unwrap();
    // The embedded one has a gate module, a check module and a bypass.
    assert!(found.declared.gate.is_none());
    let verify = found.declared.verify.unwrap().into_inner();
    assert_eq!(verify.rust_module.get_ref(), "");
    assert_eq!(verify.command.unwrap().get_ref(), "true");
}

const COVERED: &str = "policy::no-git-ops";

/// Kits whose own `policy::no-git-ops` is broken, with the code and the file of the problem.
fn broken_capabilities() -> Vec<(&'static str, MemoryTree, &'static str, &'static str)> {
    let (toml, text) = ("capability.toml", "text.md");
    let right = || MemoryTree::default().with_capability(COVERED);
    let path = |file: &str| format!("{}/{file}", directory(COVERED));
    let only = |file: &str, content: String| MemoryTree::new([(path(file), content)]);
    vec![
        ("broken TOML", right().with(path(toml), "[capability\n"), "bad-toml", toml),
        ("an empty file", right().with(path(toml), ""), "missing-key", toml),
        ("a text that is missing", only(toml, capability_toml(COVERED)), "missing-artefact", text),
        ("a toml that is missing", only(text, text_md(COVERED)), "missing-artefact", toml),
        ("only a stray file", only("notes.txt", String::new()), "missing-artefact", toml),
        (
            "another name",
            right().with(path(toml), capability_toml("policy::x")),
            "name-mismatch",
            toml,
        ),
        ("an unreadable toml", right().with_unreadable(path(toml)), "unreadable", toml),
        ("an unreadable text", right().with_unreadable(path(text)), "unreadable", text),
        (
            "nothing that enforces it",
            right().with(
                path(toml),
                "[capability]\nname = \"policy::no-git-ops\"\ncategory = \"policy\"\n\
                 description = \"Lax.\"\n",
            ),
            "nothing-enforced",
            toml,
        ),
    ]
}

fn only_problem(what: &str, problems: Vec<Problem>) -> Problem {
    let [problem] = problems.as_slice() else { panic!("{what}: {problems:?}") };
    problem.clone()
}

#[test]
fn broken_capability_is_an_error_and_never_exposes_the_lower_one() {
    let task = Source::new("task.toml", "[task]\nrole = \"edit-local\"\n");
    let valid = MemoryTree::default().with_capability(COVERED).into_kit();
    assert!(
        valid.capability(&capability_name(COVERED)).unwrap().is_some(),
        "the control: the kit is valid"
    );
    assert!(bind(&valid, &task).is_ok(), "the control: the task is valid");
    for (what, tree, code, file) in broken_capabilities() {
        let kit = tree.into_kit();
        let shown = format!("repository/{}/{file}", directory(COVERED));
        let found =
            kit.capability(&capability_name(COVERED)).map(|found| found.map(|found| found.origin));
        let problem = only_problem(what, found.expect_err(what));
        assert_eq!((problem.code, &*problem.place.source.file), (code, shown.as_str()), "{what}");
        let bound = bind(&kit, &task).map(|bound| bound.task).expect_err(what);
        assert_eq!(only_problem(what, bound), problem, "{what}");
        let linted = lint(&kit, &[]).problems;
        assert_eq!(only_problem(what, linted), problem, "{what}");
        let listed = kit.capability_names().unwrap();
        assert!(listed.contains(&capability_name(COVERED)), "{what}: it is not listed");
    }
}

#[test]
fn broken_role_is_an_error_and_never_exposes_the_lower_one() {
    let task = Source::new("task.toml", "[task]\nrole = \"edit-shared\"\n");
    let file = "roles/edit-local.toml";
    let right = role_toml("edit-local", "required = [\"policy::no-git-ops\"]\n");
    let kit = MemoryTree::new([(file, right.clone())]).into_kit();
    let bound = bind(&kit, &task).unwrap();
    assert_eq!(bound.role.capabilities, [capability_name("policy::no-git-ops")], "the control");
    for (what, tree, code) in [
        ("broken TOML", MemoryTree::new([(file, "[role\n")]), "bad-toml"),
        ("an empty file", MemoryTree::new([(file, "")]), "missing-key"),
        ("another name", MemoryTree::new([(file, role_toml("other", ""))]), "name-mismatch"),
        ("unreadable", MemoryTree::default().with_unreadable(file), "unreadable"),
        ("a typo", MemoryTree::new([(file, right.replace("required", "reqired"))]), "unknown-key"),
    ] {
        let kit = tree.into_kit();
        let found = kit.role(&role_name("edit-local")).map(|_| ());
        let problem = only_problem(what, found.expect_err(what));
        let shown = format!("repository/{file}");
        assert_eq!((problem.code, &*problem.place.source.file), (code, shown.as_str()), "{what}");
        // edit-shared is embedded and extends the broken one.
        let bound = bind(&kit, &task).map(|bound| bound.task).expect_err(what);
        assert_eq!(only_problem(what, bound), problem, "{what}");
        assert_eq!(only_problem(what, lint(&kit, &[]).problems), problem, "{what}");
    }
}

#[test]
fn underscore_layout_is_read() {
    let directory = "_capabilities/quality/mine";
    let tree = MemoryTree::new([
        (format!("{directory}/capability.toml"), capability_toml("quality::mine")),
        (format!("{directory}/text.md"), text_md("quality::mine")),
        ("_roles/mine.toml".to_owned(), role_toml("mine", "required = [\"quality::mine\"]\n")),
        // It uses the other layout, so it is not found.
        ("roles/hidden.toml".to_owned(), role_toml("hidden", "")),
    ]);
    let layer = |layout| {
        Kit::over_embedded(vec![Layer::new(Origin::KitRoot, layout, "", Box::new(tree.clone()))])
    };
    let kit = layer(Layout::Underscore);
    let found = kit.capability(&capability_name("quality::mine")).unwrap().unwrap();
    assert_eq!(&*found.source.file, "_capabilities/quality/mine/capability.toml");
    let role = resolve(&kit, &role_name("mine"), Source::new("t", "").whole()).unwrap();
    assert_eq!(role.capabilities, [capability_name("quality::mine")]);
    assert!(kit.role(&role_name("hidden")).unwrap().is_none());
    assert_eq!(lint(&kit, &[]).problems, []);
    let plain = layer(Layout::Plain);
    assert!(plain.capability(&capability_name("quality::mine")).unwrap().is_none());
    assert!(plain.role(&role_name("hidden")).unwrap().is_some());
}

#[test]
fn names_are_listed_once_across_all_layers() {
    let embedded = Kit::over_embedded(Vec::new());
    let repository = MemoryTree::default()
        .with_capability("quality::repository")
        .with_capability("policy::no-git-ops")
        .with_capability("policy::both")
        .with("roles/edit-local.toml", role_toml("edit-local", ""))
        .with("roles/repository.toml", role_toml("repository", ""))
        .with("roles/README.md", "no role")
        .with("capabilities/README.md", "no capability")
        .with("capabilities/policy/.DS_Store", "");
    let user = MemoryTree::default()
        .with_capability("policy::both")
        .with_capability("tools::user")
        .with("roles/user.toml", role_toml("user", ""));
    let kit = Kit::over_embedded(vec![
        repository.into_layer(Origin::Repository),
        user.into_layer(Origin::User),
    ]);
    let mut capabilities = embedded.capability_names().unwrap();
    capabilities
        .extend(["quality::repository", "policy::both", "tools::user"].map(capability_name));
    capabilities.sort();
    assert_eq!(kit.capability_names().unwrap(), capabilities);
    let mut roles = embedded.role_names().unwrap();
    roles.extend(["repository", "user"].map(role_name));
    roles.sort();
    assert_eq!(kit.role_names().unwrap(), roles);
    let report = lint(&kit, &[]);
    assert_eq!((report.capabilities, report.roles), (capabilities.len(), roles.len()));
    assert_eq!(kit.nearest_capability("tools::uesr").as_deref(), Some("tools::user"));
    assert_eq!(kit.nearest_role("repositry").as_deref(), Some("repository"));
}

#[test]
fn capability_under_its_old_name_is_used_or_reported() {
    // The layout of the kei tools has the directory tools/read-only; the role means that one.
    let tree = MemoryTree::default()
        .with_capability("tools::read-only")
        .with("roles/mine.toml", role_toml("mine", "required = [\"tools::read-only\"]\n"));
    let kit = tree.into_kit();
    let task = Source::new("task.toml", "[task]\nrole = \"mine\"\n");
    let used = bind(&kit, &task).is_ok_and(|bound| {
        bound.capabilities.iter().all(|found| found.origin == Origin::Repository)
    });
    let shown = "repository/capabilities/tools/read-only/";
    let reported =
        lint(&kit, &[]).problems.iter().any(|problem| problem.place.source.file.starts_with(shown));
    assert!(used || reported, "the repository's own tools::read-only is neither used nor reported");
}
