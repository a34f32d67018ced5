//! Carries out a call of a tool that writes files, as a shell script: where the file ends up is
//! then seen like that of any command.

use serde_json::Value;

/// Shell functions that do what the tools do.
const FUNCTIONS: &str = r#"set -e
put() { mkdir -p -- "$(dirname -- "$1")"; printf '%s' "$2" > "$1"; }
edit() {
  text=$(cat -- "$1"; printf .); text=${text%.}
  case $text in *"$2"*) ;; *) echo "the text to replace is not in $1" >&2; exit 1 ;; esac
  printf '%s' "${text/"$2"/"$3"}" > "$1"
}
move() { mkdir -p -- "$(dirname -- "$2")"; mv -- "$1" "$2"; }
"#;

/// The script for a call.
pub(crate) fn script(tool: &str, input: &Value) -> Result<String, String> {
    let mut lines = Vec::new();
    if tool == "apply_patch" {
        let patch = text(input, "input").or_else(|| text(input, "patch"));
        lines = patch_lines(patch.ok_or("apply_patch needs input")?)?;
    } else {
        each(input, &mut lines);
    }
    if lines.is_empty() {
        return Err(format!("{tool}: no path was found in the input"));
    }
    Ok(format!("{FUNCTIONS}{}\n", lines.join("\n")))
}

fn text<'a>(input: &'a Value, key: &str) -> Option<&'a str> {
    input.get(key).and_then(Value::as_str)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Finds the files that an input names, at any depth.
fn each(input: &Value, lines: &mut Vec<String>) {
    let path = ["file_path", "notebook_path", "path", "filePath"];
    let path = path.iter().find_map(|key| text(input, key)).map(quoted);
    let content = ["content", "new_source", "text"].iter().find_map(|key| text(input, key));
    let edits: Vec<&Value> = match input.get("edits").and_then(Value::as_array) {
        Some(edits) => edits.iter().collect(),
        None => vec![input],
    };
    let moved = (text(input, "source"), text(input, "destination"));
    if let Some(path) = path {
        let count = lines.len();
        for (old, new) in edits.iter().filter_map(|edit| {
            let old = text(edit, "old_string").or_else(|| text(edit, "oldText"));
            let new = text(edit, "new_string").or_else(|| text(edit, "newText"));
            Some((old?, new?))
        }) {
            lines.push(format!("edit {path} {} {}", quoted(old), quoted(new)));
        }
        if lines.len() == count {
            lines.push(format!("put {path} {}", quoted(content.unwrap_or_default())));
        }
    } else if let (Some(source), Some(destination)) = moved {
        lines.push(format!("move {} {}", quoted(source), quoted(destination)));
    } else {
        let inner: Vec<&Value> = match input {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        for value in inner {
            each(value, lines);
        }
    }
}

/// The script for the text of `apply_patch`.
fn patch_lines(patch: &str) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut file = String::new();
    let (mut old, mut new, mut added) = (String::new(), String::new(), None::<String>);
    let mut moved = None::<String>;
    let end = "*** End Patch";
    for line in patch.lines().chain([end]) {
        let header = line.strip_prefix("*** ");
        if header.is_some_and(|header| !header.starts_with("Move to: ")) || line.starts_with("@@") {
            if let Some(content) = added.take() {
                lines.push(format!("put {} {}", quoted(&file), quoted(&content)));
            }
            if old != new {
                let (old, new) = (quoted(&old), quoted(&new));
                lines.push(format!("edit {} {old} {new}", quoted(&file)));
            }
            (old, new) = (String::new(), String::new());
        }
        if header.is_some_and(|header| !header.starts_with("Move to: "))
            && let Some(to) = moved.take()
        {
            lines.push(format!("move {} {}", quoted(&file), quoted(&to)));
        }
        match header {
            Some(header) => match header.split_once(": ") {
                Some(("Add File", path)) => {
                    file = path.to_owned();
                    added = Some(String::new());
                }
                Some(("Update File", path)) => file = path.to_owned(),
                Some(("Delete File", path)) => lines.push(format!("rm -- {}", quoted(path))),
                Some(("Move to", path)) => moved = Some(path.to_owned()),
                Some(_) => return Err(format!("not understood: {line}")),
                None => {}
            },
            None if line.starts_with("@@") => {}
            None => {
                let (mark, rest) = line.split_at(line.len().min(1));
                let rest = format!("{rest}\n");
                match (&mut added, mark) {
                    (Some(content), "+") => content.push_str(&rest),
                    (None, "+") => new.push_str(&rest),
                    (None, "-") => old.push_str(&rest),
                    (None, " ") => {
                        old.push_str(&rest);
                        new.push_str(&rest);
                    }
                    (_, _) => return Err(format!("not understood: {line:?}")),
                }
            }
        }
    }
    Ok(lines)
}
