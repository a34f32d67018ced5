//! The text of a task as `spawn` stores it.

use bailiwick_model::{AgentId, Problem, Source, Task};
use toml_edit::{DocumentMut, Item, Table, value};

/// The task's text with its agent id set; comments and order stay.
pub fn with_agent_id(source: &Source, id: &AgentId) -> Result<String, Problem> {
    let mut document = document(source)?;
    if let Some(task) = document.get_mut("task").and_then(|task| task.as_table_like_mut()) {
        let kept = task.get("agent-id").and_then(|item| item.as_str()) == Some(id.as_str());
        if !kept {
            task.insert("agent-id", value(id.as_str()));
        }
    }
    Ok(document.to_string())
}

/// The task's text with more to read behind its body; comments and order stay.
pub fn with_more_body(source: &Source, more: &str) -> Result<String, Problem> {
    let body = Task::parse(source)?.body.text;
    let mut document = document(source)?;
    let table = document.entry("body").or_insert_with(|| Item::Table(Table::new()));
    if let Some(table) = table.as_table_like_mut() {
        table.insert("text", value(format!("{}\n\n{more}", body.trim_end())));
    }
    Ok(document.to_string())
}

/// The task's text with each glob of its files-whitelist changed; comments and order stay.
pub fn with_whitelist(
    source: &Source,
    mut change: impl FnMut(&str) -> String,
) -> Result<String, Problem> {
    let mut document = document(source)?;
    let scope = document.get_mut("scope").and_then(|scope| scope.as_table_like_mut());
    let globs = scope.and_then(|scope| scope.get_mut("files-whitelist")?.as_array_mut());
    for glob in globs.into_iter().flat_map(|globs| globs.iter_mut()) {
        let Some(written) = glob.as_str() else { continue };
        let changed = change(written);
        if changed != written {
            let decor = glob.decor().clone();
            *glob = changed.into();
            *glob.decor_mut() = decor;
        }
    }
    Ok(document.to_string())
}

fn document(source: &Source) -> Result<DocumentMut, Problem> {
    let text = Task::normalised_text(source);
    text.parse().map_err(|error: toml_edit::TomlError| {
        let place = error.span().map_or_else(|| source.whole(), |span| source.at(span));
        Problem::error("bad-toml", place, error.message().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_set_and_everything_else_is_unchanged() {
        let text =
            "# why\n[task]\nrole = \"x\" # r\nparent-agent = null\n\n[body]\ntext = \"go\"\n";
        let id = AgentId::parse("ag-1").unwrap();
        let changed = with_agent_id(&Source::new("t", text), &id).unwrap();
        assert!(changed.starts_with("# why\n[task]\nrole = \"x\" # r\n"), "{changed}");
        let task = Task::parse(&Source::new("t", changed.as_str())).unwrap();
        assert_eq!((task.task.agent_id.as_ref(), task.body.text.as_str()), (Some(&id), "go"));
        assert_eq!(with_agent_id(&Source::new("t", changed.as_str()), &id).unwrap(), changed);
    }

    #[test]
    fn globs_of_the_whitelist_are_changed_and_everything_else_is_not() {
        let text = "[scope] # s\nfiles-whitelist = [\n  \"a/x\", # why\n  'b/x',\n]\n";
        let changed = with_whitelist(&Source::new("t", text), |glob| glob.replace("b/x", "b/1"));
        let expected = "[scope] # s\nfiles-whitelist = [\n  \"a/x\", # why\n  \"b/1\",\n]\n";
        assert_eq!(changed.unwrap(), expected);
        let without = "[task]\nrole = \"x\"\n";
        assert_eq!(with_whitelist(&Source::new("t", without), str::to_owned).unwrap(), without);
    }

    #[test]
    fn body_is_extended_or_created() {
        let with_body = Source::new("t", "[task]\nrole = \"x\" # r\n\n[body]\ntext = \"go\"\n");
        let extended = with_more_body(&with_body, "and \"on\"\n").unwrap();
        assert!(extended.contains("role = \"x\" # r"), "{extended}");
        let read = |text: &str| Task::parse(&Source::new("t", text)).unwrap().body.text;
        assert_eq!(read(&extended), "go\n\nand \"on\"\n");
        let without = Source::new("t", "[task]\nrole = \"x\"\n");
        assert_eq!(read(&with_more_body(&without, "on").unwrap()).trim(), "on");
    }
}
