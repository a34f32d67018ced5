//! A template as a file: a head of YAML, the default prompt, a block for each persona.

use std::fmt::Write as _;

use bailiwick_model::template::{AgentType, Template};

/// Writes a template in our format.
pub fn render(template: &Template) -> String {
    let mut head = Head(String::new());
    head.text("description", Some(&template.description));
    head.text("model", template.model.as_deref());
    head.text("reasoning_effort", template.reasoning_effort.as_deref());
    if template.read_only {
        head.plain("read_only", "true");
    }
    head.text("role", template.role.as_ref().map(|role| role.as_str()));
    head.text("cli", template.cli.as_deref());
    if !template.personas.is_empty() {
        head.0.push_str("agent_names:\n");
        for persona in &template.personas {
            let mut entry = Head(String::new());
            entry.text("name", Some(&persona.name));
            entry.text("description", Some(&persona.description));
            entry.text("model", persona.model.as_deref());
            entry.text("reasoning_effort", persona.reasoning_effort.as_deref());
            for (number, line) in entry.0.lines().enumerate() {
                let mark = if number == 0 { "  - " } else { "    " };
                head.0 += &format!("{mark}{line}\n");
            }
        }
    }
    head.list("allow_list", template.tools.allow_list.as_deref());
    head.list("deny_list", template.tools.deny_list.as_deref());
    let names = |types: &Vec<AgentType>| types.iter().map(ToString::to_string).collect::<Vec<_>>();
    head.list("allowed_subagents", template.allowed_subagents.as_ref().map(names).as_deref());
    if let Some(depth) = template.max_depth {
        head.plain("max_depth", &depth.to_string());
    }
    if let Some(tokens) = template.estimated_tokens {
        head.plain("estimated_tokens", &tokens.to_string());
    }
    if let Some(turns) = template.estimated_turns {
        head.plain("estimated_turns", &turns.to_string());
    }
    if let Some(usd) = template.estimated_usd {
        head.plain("estimated_usd", &format!("{usd:?}"));
    }
    if let Some(turns) = template.max_turns {
        head.plain("max_turns", &turns.to_string());
    }
    if let Some(minutes) = template.max_minutes {
        head.plain("max_minutes", &minutes.to_string());
    }
    if let Some(context) = &template.context {
        head.0 += &format!(
            "context:\n  window_share: {:?}\n  files: {}\n  skills: {}\n  rules: {}\n",
            context.window_share, context.files, context.skills, context.rules
        );
    }
    if !template.metadata.is_empty() {
        head.0.push_str("metadata:\n");
        for (key, value) in &template.metadata {
            head.0 += &format!("  {}: {}\n", quoted(key), quoted(value));
        }
    }
    let mut text = format!("---\n{}---\n{}\n", head.0, template.default_prompt.trim_end());
    for persona in &template.personas {
        let prompt = persona.prompt.trim_end();
        text += &format!("\n<!-- agent_name: {} -->\n{prompt}\n", persona.name);
    }
    text
}

struct Head(String);

impl Head {
    fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.plain(key, &quoted(value));
        }
    }

    fn plain(&mut self, key: &str, value: &str) {
        self.0 += &format!("{key}: {value}\n");
    }

    fn list(&mut self, key: &str, values: Option<&[String]>) {
        match values {
            None => {}
            Some([]) => self.plain(key, "[]"),
            Some(values) => {
                self.0 += &format!("{key}:\n");
                for value in values {
                    self.0 += &format!("  - {}\n", quoted(value));
                }
            }
        }
    }
}

/// A text in YAML: unquoted if it can only be read as this text, else in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    // Words that some YAML parsers read as booleans or null.
    const SWITCHES: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let switch = SWITCHES.iter().any(|word| text.eq_ignore_ascii_case(word));
    if begins && text.chars().all(word) && !switch {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Line ends and marks that a reader may fold or drop.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quoted_text_is_read_back_unchanged(text in any::<String>()) {
            let read: String = serde_saphyr::from_str(&quoted(&text)).unwrap();
            prop_assert_eq!(read, text);
        }

        #[test]
        fn list_is_read_back_unchanged(list in prop::collection::vec(".*", 0..5)) {
            let mut head = Head(String::new());
            head.list("key", Some(&list));
            let read: std::collections::BTreeMap<String, Vec<String>> =
                serde_saphyr::from_str(&head.0).unwrap();
            prop_assert_eq!(&read["key"], &list);
        }
    }

    #[test]
    fn words_that_are_booleans_elsewhere_are_quoted() {
        for word in ["true", "No", "NULL", "y", "12", "1e3", "-", "a: b", "*", ""] {
            assert!(quoted(word).starts_with('"'), "{word}");
        }
        assert_eq!(quoted("Bash"), "Bash");
    }
}
