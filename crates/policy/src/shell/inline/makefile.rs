//! Makefiles that are in the text: their recipes are shell.

use std::collections::HashMap;

use crate::shell::walk::Walker;

/// Reads a makefile and follows every recipe in it.
pub(super) fn look(walker: &mut Walker, text: &str) {
    walker.deeper("a makefile", |walker| {
        let text = text.replace("\\\n", " ");
        let mut variables: HashMap<String, String> = HashMap::from([
            ("CC".to_owned(), "cc".to_owned()),
            ("CXX".to_owned(), "g++".to_owned()),
            ("RM".to_owned(), "rm -f".to_owned()),
            ("AR".to_owned(), "ar".to_owned()),
            ("MAKE".to_owned(), "make".to_owned()),
            ("SHELL".to_owned(), "/bin/sh".to_owned()),
        ]);
        for line in text.lines().filter(|line| !line.starts_with('\t')) {
            for sign in [":=", "?=", "="] {
                if let Some((name, value)) = line.split_once(sign) {
                    let name = name.trim().trim_end_matches([':', '!', '+']).trim();
                    if !name.contains([' ', ':']) {
                        variables.insert(name.to_owned(), value.trim().to_owned());
                    }
                    break;
                }
            }
        }
        for line in text.lines() {
            let recipe = match line.strip_prefix('\t') {
                Some(recipe) => Some(recipe),
                // `target: ; command` on one line.
                None => line.split_once(';').filter(|(rule, _)| rule.contains(':')).map(|(_, r)| r),
            };
            let shell = recipe.map(|text| text.trim_start_matches(['@', '-', '+', ' ']));
            if let Some(recipe) = shell {
                walker.in_new_shell(&expanded(recipe, &variables, 0), None);
            } else {
                called(walker, line, &variables);
            }
        }
    });
}

/// `$(shell git push)` in any line.
fn called(walker: &mut Walker, line: &str, variables: &HashMap<String, String>) {
    for (at, _) in line.match_indices("$(shell ") {
        let behind = line.get(at + 8..).unwrap_or_default();
        let end = behind.rfind(')').unwrap_or(behind.len());
        let text = behind.get(..end).unwrap_or_default();
        walker.in_new_shell(&expanded(text, variables, 0), None);
    }
    if let Some((_, text)) = line.split_once("!=") {
        walker.in_new_shell(&expanded(text, variables, 0), None);
    }
}

/// A recipe as the shell sees it; what make works out becomes a variable that nobody knows.
fn expanded(text: &str, variables: &HashMap<String, String>, depth: usize) -> String {
    let mut shell = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        shell.push_str(before);
        if let Some(more) = behind.strip_prefix('$') {
            shell.push('$');
            rest = more;
            continue;
        }
        let bracketed = behind.strip_prefix(['(', '{']);
        let (name, more) = match bracketed {
            Some(inner) => inner.split_once([')', '}']).unwrap_or((inner, "")),
            None => {
                let end = behind.chars().next().map_or(0, char::len_utf8);
                behind.split_at_checked(end).unwrap_or((behind, ""))
            }
        };
        match (name.strip_prefix("shell "), variables.get(name)) {
            (Some(command), _) => shell.push_str(&format!("$({command})")),
            (None, Some(value)) if depth < 5 => {
                shell.push_str(&expanded(value, variables, depth + 1));
            }
            _ => shell.push_str("$unknown_to_make"),
        }
        rest = more;
    }
    shell.push_str(rest);
    shell
}
