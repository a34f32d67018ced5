//! Where templates are found, and which file defines a type.

use bailiwick_kit::templates::discovery::project_directories;
use bailiwick_kit::templates::{FoundTemplate, Place, TemplateError, Templates};
use bailiwick_kit::{Origin, Tree, TreeError};

use super::{files, layered, place};
use crate::memory::MemoryTree;

const NOTHING: [&str; 0] = [];

fn origin(templates: &Templates, requested: &str) -> Origin {
    templates.find(requested).expect("it is found").origin
}

fn error_of(result: Result<FoundTemplate, TemplateError>) -> String {
    result.map(|found| found.source.file.to_string()).expect_err("it was found").to_string()
}

#[test]
fn project_scope_goes_from_the_current_directory_up_to_the_root() {
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
fn template_is_loaded_from_the_first_source_in_order_of_priority() {
    let (repository_files, user_files) =
        (["worker.md", "mine.md"], ["worker.md", "mine.md", "yours.md"]);
    let templates = layered(files(&repository_files, "repository"), files(&user_files, "user"));
    assert_eq!(origin(&templates, "worker"), Origin::Repository);
    assert_eq!(origin(&templates, "yours"), Origin::User);
    assert_eq!(origin(&templates, "explorer"), Origin::Embedded);
    let found = templates.find("worker").unwrap();
    assert_eq!(found.template().description, "repository");
    assert_eq!(found.covers, [Origin::User, Origin::Embedded]);
    assert_eq!(&*found.source.file, "repo/agents/worker.md");
}

#[test]
fn nearer_directory_of_one_scope_comes_first() {
    let near = || place(Origin::Repository, "near/", files(&["worker.md"], "near"));
    let far = || place(Origin::Repository, "far/", files(&["worker.md", "other.md"], "far"));
    let templates = Templates::over_embedded(vec![near(), far()]);
    assert_eq!(templates.find("worker").unwrap().template().description, "near");
    assert_eq!(templates.find("other").unwrap().template().description, "far");
    let templates = Templates::over_embedded(vec![far(), near()]);
    assert_eq!(templates.find("worker").unwrap().template().description, "far");
}

/// The complete file overrides the other; nothing of the lower one is merged.
#[test]
fn files_are_not_merged() {
    let user = MemoryTree::new([("agents/worker.md", "---\ndescription: Bare.\n---\nDo it.\n")]);
    let found = layered(files(&NOTHING, ""), user).find("worker").unwrap();
    assert_eq!(found.template().tools.allow_list, None);
    assert_eq!(found.template().personas, []);
    let embedded = layered(files(&NOTHING, ""), files(&NOTHING, "")).find("worker").unwrap();
    assert!(
        embedded.template().tools.allow_list.is_some(),
        "the control: the embedded template has a list"
    );
}

#[test]
fn broken_file_never_exposes_a_lower_one() {
    for text in ["Do it.\n", "---\ndescription: x\nread_onIy: true\n---\nDo it.\n", ""] {
        let templates =
            layered(MemoryTree::new([("agents/worker.md", text)]), files(&["worker.md"], "user"));
        let error = templates.find("worker").unwrap_err();
        assert!(matches!(error, TemplateError::Broken { .. }), "{error}");
        assert!(error.to_string().starts_with("invalid agent template \"worker\": "), "{error}");
        // Other templates are not affected.
        assert_eq!(origin(&templates, "explorer"), Origin::Embedded);
    }
}

#[test]
fn unreadable_file_never_exposes_a_lower_one() {
    let tree = MemoryTree::default().with_unreadable("agents/worker.md");
    let templates = layered(tree, files(&["worker.md"], "user"));
    let error = error_of(templates.find("worker"));
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
fn directory_that_cannot_be_listed_never_exposes_a_lower_one() {
    let unlistable = || Place::new(Origin::User, "user/", "agents", Box::new(Shut));
    let readable = || place(Origin::Repository, "repo/", files(&["worker.md"], "repository"));
    let templates = Templates::over_embedded(vec![readable(), unlistable()]);
    assert_eq!(origin(&templates, "worker"), Origin::Repository, "the nearer one is not affected");
    for requested in ["explorer", "no_such"] {
        assert!(error_of(templates.find(requested)).contains("permission denied"), "{requested}");
    }
    let templates = Templates::over_embedded(vec![unlistable(), readable()]);
    assert!(error_of(templates.find("worker")).contains("permission denied"));
    assert_eq!(templates.inventory().strays.len(), 1);
}

#[test]
fn stem_is_trimmed_and_lower_case_and_the_extension_has_any_case() {
    let templates = layered(files(&["My-Role.MD", " spaced .md"], "mine"), files(&NOTHING, ""));
    for requested in ["my-role", " MY-ROLE ", "my_role", "spaced"] {
        assert_eq!(origin(&templates, requested), Origin::Repository, "{requested}");
    }
}

#[test]
fn files_that_are_not_markdown_are_not_templates() {
    let templates = layered(files(&["a.txt", "md", "b.md.bak"], "x"), files(&NOTHING, ""));
    let inventory = templates.inventory();
    assert_eq!(inventory.templates.len(), 5, "only the embedded ones");
    assert_eq!(inventory.strays, []);
}

#[test]
fn invalid_file_names_are_reported() {
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
    assert_eq!(error_of(templates.find("default")), "missing agent template: default");
}

#[test]
fn two_files_of_one_directory_for_one_type_are_refused() {
    let templates = layered(files(&["Worker.md", "worker.md"], "x"), files(&["worker.md"], "y"));
    let error = error_of(templates.find("worker"));
    assert!(error.contains("several files are for `worker`: Worker.md, worker.md"), "{error}");
}

#[test]
fn invalid_agent_type_error_shows_the_valid_form() {
    let templates = layered(files(&NOTHING, ""), files(&NOTHING, ""));
    for (requested, shown) in
        [("../worker", "../worker"), ("", ""), ("My Role", "my role"), ("ä", "ä")]
    {
        assert_eq!(
            error_of(templates.find(requested)),
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
    assert_eq!(error_of(templates.find("No_Such")), "missing agent template: no_such");
    assert_eq!(error_of(templates.find("worke")), "missing agent template: worke");
}

#[test]
fn snake_and_kebab_case_are_equal_unless_both_exist() {
    let templates = layered(files(&["my-role.md"], "kebab"), files(&NOTHING, ""));
    assert_eq!(templates.find("my_role").unwrap().template().agent_type.as_str(), "my-role");
    // An exact name comes first, even in a farther directory.
    let templates = layered(files(&["my-role.md"], "kebab"), files(&["my_role.md"], "snake"));
    assert_eq!(templates.find("my_role").unwrap().template().description, "snake");
    assert_eq!(templates.find("my-role").unwrap().template().description, "kebab");
    let templates = layered(files(&["a-b_c.md", "a_b-c.md"], "x"), files(&NOTHING, ""));
    assert_eq!(
        error_of(templates.find("a-b-c")),
        "ambiguous agent_type \"a-b-c\"; matched multiple templates: a-b_c, a_b-c. Use exact \
         agent_type."
    );
}

/// A tree that changes while it is read.
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
fn changes_are_visible_at_the_next_request() {
    let tree = std::rc::Rc::new(std::cell::RefCell::new(files(&["mine.md"], "before")));
    let place =
        Place::new(Origin::Repository, "", "agents", Box::new(Changing(std::rc::Rc::clone(&tree))));
    let templates = Templates::over_embedded(vec![place]);
    assert_eq!(templates.find("mine").unwrap().template().description, "before");
    *tree.borrow_mut() = files(&["mine.md", "more.md"], "after");
    assert_eq!(templates.find("mine").unwrap().template().description, "after");
    assert_eq!(origin(&templates, "more"), Origin::Repository);
    *tree.borrow_mut() = files(&NOTHING, "");
    assert_eq!(error_of(templates.find("mine")), "missing agent template: mine");
}
