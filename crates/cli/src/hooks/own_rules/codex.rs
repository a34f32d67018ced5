//! Codex's `*.rules`: calls of `prefix_rule` with literals. What else its language permits is not read.

use std::path::Path;

use super::{Around, Kind, Objection, files_in, text_of, unreadable, words};

pub(super) fn objection(around: &Around, command: &str) -> Option<Objection> {
    check(around, command).unwrap_or_else(Some)
}

fn check(around: &Around, command: &str) -> Result<Option<Objection>, Objection> {
    let requirements = around.system.join("requirements.toml");
    if let Some(text) = text_of(&requirements)? {
        let table: toml::Table =
            text.parse().map_err(|_| unreadable(&requirements, "it is no TOML"))?;
        if table.contains_key("rules") {
            return Err(unreadable(&requirements, "`rules` of the machine"));
        }
    }
    let inside = around.root.as_ref().map(|root| root.join(".codex"));
    let homes = [Some(&around.home), inside.as_ref(), Some(&around.system)];
    for home in homes.into_iter().flatten() {
        for file in files_in(&home.join("rules"), "rules")? {
            let Some(text) = text_of(&file)? else { continue };
            if let Some(found) = in_file(&file, &text, command)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn in_file(file: &Path, text: &str, command: &str) -> Result<Option<Objection>, Objection> {
    let calls = Reader { rest: text }
        .calls()
        .ok_or_else(|| unreadable(file, "more than calls of prefix_rule with literals"))?;
    for (name, arguments) in calls {
        // These name programs and hosts, and forbid no command.
        if name == "host_executable" || name == "network_rule" {
            continue;
        }
        let argument =
            |wanted: &str| arguments.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
        let known = name == "prefix_rule" && arguments.iter().all(|(key, _)| !key.is_empty());
        let pattern = argument("pattern").and_then(Literal::pattern);
        let (true, Some(pattern)) = (known, pattern) else {
            return Err(unreadable(file, format!("a call of {name}")));
        };
        let kind = match argument("decision") {
            None => continue,
            Some(Literal::Text(decision)) => match decision.as_str() {
                "allow" => continue,
                "prompt" => Kind::Asks,
                "forbidden" => Kind::Forbids,
                other => return Err(unreadable(file, format!("the decision {other}"))),
            },
            Some(Literal::List(_)) => return Err(unreadable(file, "a decision that is a list")),
        };
        if words::follow(command, &pattern) {
            let shown: Vec<String> = pattern.iter().map(|one| one.join("|")).collect();
            let rule = format!("prefix_rule `{}`", shown.join(" "));
            return Ok(Some(Objection { kind, file: file.to_owned(), rule }));
        }
    }
    Ok(None)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Literal {
    Text(String),
    List(Vec<Literal>),
}

impl Literal {
    /// As the words of a pattern, each one of several.
    fn pattern(&self) -> Option<Vec<Vec<String>>> {
        let Self::List(items) = self else { return None };
        let words = items.iter().map(|item| match item {
            Self::Text(word) => Some(vec![word.clone()]),
            Self::List(several) => several
                .iter()
                .map(|one| match one {
                    Self::Text(word) => Some(word.clone()),
                    Self::List(_) => None,
                })
                .collect(),
        });
        words.collect::<Option<Vec<_>>>().filter(|words| !words.is_empty())
    }
}

/// A call: its name, and its arguments with their names.
type Call = (String, Vec<(String, Literal)>);

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn calls(mut self) -> Option<Vec<Call>> {
        let mut calls = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() {
                return Some(calls);
            }
            let name = self.name()?;
            self.expect('(')?;
            calls.push((name, self.arguments()?));
        }
    }

    fn arguments(&mut self) -> Option<Vec<(String, Literal)>> {
        let mut arguments = Vec::new();
        while !self.take(')') {
            let key = self.name()?;
            self.expect('=')?;
            arguments.push((key, self.literal()?));
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Some(arguments)
    }

    fn literal(&mut self) -> Option<Literal> {
        if !self.take('[') {
            return self.text().map(Literal::Text);
        }
        let mut items = Vec::new();
        while !self.take(']') {
            items.push(self.literal()?);
            if !self.take(',') {
                self.expect(']')?;
                break;
            }
        }
        Some(Literal::List(items))
    }

    fn name(&mut self) -> Option<String> {
        self.skip();
        let is_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let end = self.rest.find(|one| !is_name(one)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn text(&mut self) -> Option<String> {
        self.skip();
        let quote = self.rest.chars().next().filter(|one| *one == '"' || *one == '\'')?;
        // A text over several lines begins with three of them.
        if self.rest.starts_with(&quote.to_string().repeat(3)) {
            return None;
        }
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, one)) = characters.next() {
            match one {
                '\n' => return None,
                '\\' => match characters.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    other @ ('\\' | '"' | '\'') => text.push(other),
                    _ => return None,
                },
                other if other == quote => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(text);
                }
                other => text.push(other),
            }
        }
        None
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn take(&mut self, one: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(one) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, one: char) -> Option<()> {
        self.take(one).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# mine\nprefix_rule(pattern=[\"git\", [\"push\", 'fetch']], decision = \
                         \"forbidden\", justification=\"no # network\",)\nprefix_rule(pattern=[\"rm\"], \
                         decision=\"prompt\", match=[\"rm x\"])\nprefix_rule(pattern=[\"ls\"], \
                         decision=\"allow\")\nprefix_rule(pattern=[\"cat\"])\nhost_executable(name=\"git\", \
                         paths=[\"/usr/bin/git\"])\n";

    fn kind(rules: &str, command: &str) -> Option<Kind> {
        in_file(Path::new("x.rules"), rules, command).unwrap_or_else(Some).map(|found| found.kind)
    }

    #[test]
    fn rules_apply_to_the_original_command() {
        assert_eq!(kind(RULES, "cd x; git push"), Some(Kind::Forbids));
        assert_eq!(kind(RULES, "git fetch"), Some(Kind::Forbids));
        assert_eq!(kind(RULES, "rm -r x"), Some(Kind::Asks));
        for command in ["git status", "ls", "cat x"] {
            assert_eq!(kind(RULES, command), None, "{command}");
        }
    }

    #[test]
    fn unreadable_rules_block_every_command() {
        for rules in [
            "x = [\"git\"]\nprefix_rule(pattern=x, decision=\"forbidden\")",
            "load(\"a\", \"b\")",
            "prefix_rule(pattern=[\"git\"] + [\"push\"], decision=\"forbidden\")",
            "prefix_rule([\"git\"], decision=\"forbidden\")",
            "prefix_rule(pattern=[\"git\"], decision=\"never\")",
            "prefix_rule(pattern=[\"git\"",
            "other_rule(pattern=[\"git\"])",
        ] {
            assert_eq!(kind(rules, "ls"), Some(Kind::Unreadable), "{rules}");
        }
    }
}
