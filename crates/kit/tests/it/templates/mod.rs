//! Templates: how a file is read, which file defines a type, and what an agent gets.

mod assignment;
mod blocks;
mod discovery;
mod file;
mod list;
mod random;
mod shipped;

use bailiwick_kit::Origin;
use bailiwick_kit::templates::file::parse;
use bailiwick_kit::templates::{Place, Templates};
use bailiwick_model::template::{AgentType, Template};
use bailiwick_model::{Problem, Source};

use crate::memory::MemoryTree;

/// A valid template with these lines in its frontmatter.
pub(crate) fn with_keys(keys: &str) -> String {
    format!("---\ndescription: Mine.\n{keys}\n---\nDo it.\n")
}

pub(crate) fn agent_type(text: &str) -> AgentType {
    AgentType::parse(text).expect("a type")
}

/// The template `auditor` with this text.
pub(crate) fn read(text: &str) -> Result<Template, Vec<Problem>> {
    let source = Source::new("auditor.md", text);
    parse(&agent_type("auditor"), &source).map(|parsed| parsed.template)
}

pub(crate) fn template(text: &str) -> Template {
    read(text).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The messages of a refused text.
pub(crate) fn refused(text: &str) -> Vec<String> {
    match read(text) {
        Ok(template) => panic!("it was accepted: {text:?}\n{template:?}"),
        Err(problems) => problems.into_iter().map(|problem| problem.message).collect(),
    }
}

/// The only problem of a refused text, with its place.
pub(crate) fn refused_at(text: &str) -> String {
    let problems = read(text).expect_err("it was accepted");
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    problem.to_string()
}

/// A place whose templates are in `agents/` of a tree.
pub(crate) fn place(origin: Origin, shown_as: &str, tree: MemoryTree) -> Place {
    Place::new(origin, shown_as, "agents", Box::new(tree))
}

/// A tree with templates in `agents/`, marked by these words.
pub(crate) fn files(names: &[&str], words: &str) -> MemoryTree {
    let text = format!("---\ndescription: {words}\n---\nDo {words}.\n");
    MemoryTree::new(names.iter().map(|name| (format!("agents/{name}"), text.clone())))
}

/// A repository's templates over the user's over the embedded ones.
pub(crate) fn layered(repository: MemoryTree, user: MemoryTree) -> Templates {
    Templates::over_embedded(vec![
        place(Origin::Repository, "repo/", repository),
        place(Origin::User, "user/", user),
    ])
}
