//! Owns the promises about where templates are found, and which file speaks for a type.

use bailiwick_kit::templates::discovery::project_directories;
use bailiwick_kit::templates::{FoundTemplate, Place, TemplateError, Templates};
use bailiwick_kit::{Origin, Tree, TreeError};

use super::{files, layered, place};
use crate::memory::MemoryTree;

const NOTHING: [&str; 0] = [];

fn origin(templates: &Templates, asked: &str) -> Origin {
    templates.find(asked).expect("it is found").origin
}

fn told(result: Result<FoundTemplate, TemplateError>) -> String {
    result.map(|found| found.source.file.to_string()).expect_err("it was found").to_string()
}

#[test]
fn project_scope_goes_from_the_current_directory_up_to_the_root_nearest_first() {
    assert_eq!(
        project_directories("a/b"),
        [
            "a/b/.bailiwick/agents",
            "a/b/.codex/.agents",
            "a/.bailiwick/agents",
            "a/.codex/.agents",
            ".bailiwick/agents",
            ".codex/.agents",
        ]
    );
    assert_eq!(project_directories(""), [".bailiwick/agents", ".codex/.agents"]);
    assert_eq!(project_directories("/"), project_directories(""));
}

#[test]
fn a_template_is_loaded_from_the_first_source_in_order_of_priority() {
    let (all, user) = (["worker.md", "mine.md"], ["worker.md", "mine.md", "yours.md"]);
    let templates = layered(files(&all, "repository"), files(&user, "user"));
    assert_eq!(origin(&templates, "worker"), Origin::Repository);
    assert_eq!(origin(&templates, "yours"), Origin::User);
    assert_eq!(origin(&templates, "explorer"), Origin::Embedded);
    let found = templates.find("worker").unwrap();
    assert_eq!(found.template().description, "repository");
    assert_eq!(found.covers, [Origin::User, Origin::Embedded]);
    assert_eq!(&*found.source.file, "repo/agents/worker.md");
}

#[test]
fn of_several_places_of_one_scope_the_nearer_goes_first() {
    let near = || place(Origin::Repository, "near/", files(&["worker.md"], "near"));
    let far = || place(Origin::Repository, "far/", files(&["worker.md", "other.md"], "far"));
    let templates = Templates::over_embedded(vec![near(), far()]);
    assert_eq!(templates.find("worker").unwrap().template().description, "near");
    assert_eq!(templates.find("other").unwrap().template().description, "far");
    let templates = Templates::over_embedded(vec![far(), near()]);
    assert_eq!(templates.find("worker").unwrap().template().description, "far");
}

/// The whole file goes before the other; nothing of the lower one is mixed in.
#[test]
fn files_are_not_merged() {
    let user = MemoryTree::new([("agents/worker.md", "---\ndescription: Bare.\n---\nDo it.\n")]);
    let found = layered(files(&NOTHING, ""), user).find("worker").unwrap();
    assert_eq!(found.template().tools.allow_list, None);
    assert_eq!(found.template().personas, []);
    let embedded = layered(files(&NOTHING, ""), files(&NOTHING, "")).find("worker").unwrap();
    assert!(embedded.template().tools.allow_list.is_some(), "the control has a list");
}

#[test]
fn a_broken_file_never_uncovers_a_lower_one() {
    for text in ["Do it.\n", "---\ndescription: x\nread_onIy: true\n---\nDo it.\n", ""] {
        let templates =
            layered(MemoryTree::new([("agents/worker.md", text)]), files(&["worker.md"], "user"));
        let error = templates.find("worker").unwrap_err();
        assert!(matches!(error, TemplateError::Broken { .. }), "{error}");
        assert!(error.to_string().starts_with("invalid agent template \"worker\": "), "{error}");
        // Others are not held up by it.
        assert_eq!(origin(&templates, "explorer"), Origin::Embedded);
    }
}

#[test]
fn an_unreadable_file_never_uncovers_a_lower_one() {
    let tree = MemoryTree::default().with_unreadable("agents/worker.md");
    let templates = layered(tree, files(&["worker.md"], "user"));
    let error = told(templates.find("worker"));
    assert_eq!(
        error,
        "invalid agent template \"worker\": the file cannot be read: it is not UTF-8"
    );
}

/// A directory that cannot be listed.
struct Shut;

impl Tree for Shut {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        self.list(path).map(|_| None)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        Err(TreeError { path: path.to_owned(), why: "permission denied".to_owned() })
    }
}

#[test]
fn a_directory_that_cannot_be_listed_never_uncovers_a_lower_one() {
    let shut = || Place::new(Origin::User, "user/", "agents", Box::new(Shut));
    let open = || place(Origin::Repository, "repo/", files(&["worker.md"], "repository"));
    let templates = Templates::over_embedded(vec![open(), shut()]);
    assert_eq!(origin(&templates, "worker"), Origin::Repository, "the nearer is not concerned");
    for asked in ["explorer", "no_such"] {
        assert!(told(templates.find(asked)).contains("permission denied"), "{asked}");
    }
    let templates = Templates::over_embedded(vec![shut(), open()]);
    assert!(told(templates.find("worker")).contains("permission denied"));
    assert_eq!(templates.inventory().strays.len(), 1);
}

#[test]
fn the_stem_is_trimmed_and_in_lower_case_and_the_ending_has_any_case() {
    let templates = layered(files(&["My-Role.MD", " spaced .md"], "mine"), files(&NOTHING, ""));
    for asked in ["my-role", " MY-ROLE ", "my_role", "spaced"] {
        assert_eq!(origin(&templates, asked), Origin::Repository, "{asked}");
    }
}

#[test]
fn files_that_are_no_markdown_are_no_templates() {
    let templates = layered(files(&["a.txt", "md", "b.md.bak"], "x"), files(&NOTHING, ""));
    let inventory = templates.inventory();
    assert_eq!(inventory.templates.len(), 5, "the embedded ones alone");
    assert_eq!(inventory.strays, []);
}

#[test]
fn badly_named_files_are_reported() {
    let bad = ["my role.md", "ä.md", ".md", "a.b.md", "default.md", "Default.md"];
    let templates = layered(files(&bad, "x"), files(&NOTHING, ""));
    let inventory = templates.inventory();
    let strays: Vec<String> =
        inventory.strays.iter().map(|problem| problem.place.source.file.to_string()).collect();
    assert_eq!(strays.len(), bad.len(), "{strays:?}");
    for name in bad {
        assert!(strays.contains(&format!("repo/agents/{name}")), "{name}");
    }
    assert_eq!(inventory.templates.len(), 5);
    assert_eq!(told(templates.find("default")), "missing agent template: default");
}

#[test]
fn two_files_of_one_place_for_one_type_are_refused() {
    let templates = layered(files(&["Worker.md", "worker.md"], "x"), files(&["worker.md"], "y"));
    let error = told(templates.find("worker"));
    assert!(error.contains("several files are for `worker`: Worker.md, worker.md"), "{error}");
}

#[test]
fn an_invalid_agent_type_is_told_the_form() {
    let templates = layered(files(&NOTHING, ""), files(&NOTHING, ""));
    for (asked, shown) in [("../worker", "../worker"), ("", ""), ("My Role", "my role"), ("ä", "ä")]
    {
        assert_eq!(
            told(templates.find(asked)),
            format!(
                "invalid agent_type \"{shown}\": expected snake_case or kebab-case like \"worker\", \
                 \"my_custom_role\", or \"my-custom-role\""
            )
        );
    }
}

#[test]
fn missing_agent_template() {
    let templates = layered(files(&["mine.md"], "x"), files(&["yours.md"], "y"));
    assert_eq!(told(templates.find("No_Such")), "missing agent template: no_such");
    assert_eq!(told(templates.find("worke")), "missing agent template: worke");
}

#[test]
fn snake_and_kebab_lead_to_each_other_unless_both_are_there() {
    let templates = layered(files(&["my-role.md"], "kebab"), files(&NOTHING, ""));
    assert_eq!(templates.find("my_role").unwrap().template().agent_type.as_str(), "my-role");
    // An exact name goes first, even in a farther place.
    let templates = layered(files(&["my-role.md"], "kebab"), files(&["my_role.md"], "snake"));
    assert_eq!(templates.find("my_role").unwrap().template().description, "snake");
    assert_eq!(templates.find("my-role").unwrap().template().description, "kebab");
    let templates = layered(files(&["a-b_c.md", "a_b-c.md"], "x"), files(&NOTHING, ""));
    assert_eq!(
        told(templates.find("a-b-c")),
        "ambiguous agent_type \"a-b-c\"; matched multiple templates: a-b_c, a_b-c. Use exact \
         agent_type."
    );
}

/// A tree that changes under the reader.
struct Changing(std::rc::Rc<std::cell::RefCell<MemoryTree>>);

impl Tree for Changing {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        self.0.borrow().read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        self.0.borrow().list(path)
    }
}

#[test]
fn changes_are_noticed_at_the_next_question() {
    let tree = std::rc::Rc::new(std::cell::RefCell::new(files(&["mine.md"], "before")));
    let place =
        Place::new(Origin::Repository, "", "agents", Box::new(Changing(std::rc::Rc::clone(&tree))));
    let templates = Templates::over_embedded(vec![place]);
    assert_eq!(templates.find("mine").unwrap().template().description, "before");
    *tree.borrow_mut() = files(&["mine.md", "more.md"], "after");
    assert_eq!(templates.find("mine").unwrap().template().description, "after");
    assert_eq!(origin(&templates, "more"), Origin::Repository);
    *tree.borrow_mut() = files(&NOTHING, "");
    assert_eq!(told(templates.find("mine")), "missing agent template: mine");
}
