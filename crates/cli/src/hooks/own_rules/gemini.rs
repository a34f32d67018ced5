//! Gemini CLI's rules about shell commands: lists in its settings, and policies in TOML.

use std::path::{Path, PathBuf};

use bailiwick_model::Source;
use regex::Regex;
use serde_json::{Map, Value, json};
use toml::Value as Toml;

use super::super::json_text::{self, Comments, Node};
use super::{Around, Kind, Objection, files_in, text_of, unreadable, words};

/// The current and former names of its shell tool.
const SHELL: [&str; 3] = ["run_shell_command", "ShellTool", "shell"];

/// Arguments by which policies are named when it is started.
const FLAGS: [&str; 2] = ["--policy", "--admin-policy"];

pub(super) fn objection(
    around: &Around,
    command: &str,
    input: &Map<String, Value>,
) -> Option<Objection> {
    check(around, command, input).unwrap_or_else(Some)
}

fn check(
    around: &Around,
    command: &str,
    input: &Map<String, Value>,
) -> Result<Option<Objection>, Objection> {
    let inside = around.root.as_ref().map(|root| root.join(".gemini"));
    let mut policies =
        started_with().map_err(|error| unreadable(Path::new("/proc"), error.to_string()))?;
    let named = std::env::var_os("GEMINI_CLI_SYSTEM_SETTINGS_PATH").map(PathBuf::from);
    let settings = [
        Some(around.system.join("settings.json")),
        Some(around.system.join("system-defaults.json")),
        named,
        Some(around.home.join("settings.json")),
        inside.as_ref().map(|inside| inside.join("settings.json")),
    ];
    for file in settings.into_iter().flatten() {
        let Some(text) = text_of(&file)? else { continue };
        let source = Source::new(file.display().to_string(), text);
        let root = json_text::parse(&source, Comments::Allowed)
            .map_err(|_| unreadable(&file, "settings that cannot be parsed"))?;
        if let Some(found) = in_settings(&file, &root, command) {
            return Ok(Some(found));
        }
        for key in ["policyPaths", "adminPolicyPaths"] {
            let paths = root.get(key).map(Node::items).unwrap_or_default();
            policies.extend(paths.iter().filter_map(Node::text).map(PathBuf::from));
        }
    }
    // The program may look for it elsewhere than here.
    if let Some(missing) = policies.iter().find(|policy| !policy.exists()) {
        return Err(unreadable(missing, "a policy that is named and not found"));
    }
    policies.extend([around.home.join("policies"), around.system.join("policies")]);
    policies.extend(inside.map(|inside| inside.join("policies")));
    policies.extend(extension_policies(&around.home.join("extensions"))?);
    for place in policies {
        let files = if place.is_dir() { files_in(&place, "toml")? } else { vec![place] };
        for file in files {
            let Some(text) = text_of(&file)? else { continue };
            if let Some(found) = in_policy(&file, &text, command, input)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// The policies of the extensions.
fn extension_policies(extensions: &Path) -> Result<Vec<PathBuf>, Objection> {
    let entries = match std::fs::read_dir(extensions) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<Result<Vec<_>, _>>),
    };
    let entries =
        entries.map_err(|_| unreadable(extensions, "extensions that cannot be listed"))?;
    Ok(entries.into_iter().map(|entry| entry.path().join("policies")).collect())
}

/// Why the arguments of the programs above this one do not tell their policies.
#[derive(Debug, thiserror::Error)]
enum ArgumentsError {
    #[error("--exclude-tools")]
    ExcludeTools,
    #[error("the directory of process {process}: {error}")]
    Directory { process: u32, error: std::io::Error },
}

/// The policies that the programs above this one name in their arguments.
fn started_with() -> Result<Vec<PathBuf>, ArgumentsError> {
    let mut found = Vec::new();
    let mut process = std::os::unix::process::parent_id();
    // A shell, the agent's program, and what has started that.
    for _ in 0..4 {
        if process <= 1 {
            break;
        }
        let place = PathBuf::from(format!("/proc/{process}"));
        let (Ok(line), Ok(status)) =
            (std::fs::read(place.join("cmdline")), std::fs::read_to_string(place.join("stat")))
        else {
            break;
        };
        let words: Vec<String> = line
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        if words.iter().any(|word| word.starts_with("--exclude-tools")) {
            return Err(ArgumentsError::ExcludeTools);
        }
        let named = named_in(&words);
        if !named.is_empty() {
            let directory = std::fs::read_link(place.join("cwd"))
                .map_err(|error| ArgumentsError::Directory { process, error })?;
            found.extend(named.into_iter().map(|path| directory.join(path)));
        }
        let after = status.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        process = after.split_whitespace().nth(1).and_then(|id| id.parse().ok()).unwrap_or(0);
    }
    Ok(found)
}

/// The values of the arguments that name policies.
fn named_in(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        for flag in FLAGS {
            if let Some(value) = word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
                found.extend(value.split(',').map(str::to_owned));
            } else if word == flag {
                while let Some(value) = words.next_if(|next| !next.starts_with('-')) {
                    found.extend(value.split(',').map(str::to_owned));
                }
            }
        }
    }
    found.retain(|path| !path.is_empty());
    found
}

/// `run_shell_command(rm)` among the tools that are left out.
fn in_settings(file: &Path, root: &Node, command: &str) -> Option<Objection> {
    let lists = [root.at(&["tools", "exclude"]), root.get("excludeTools")];
    let entries = lists.into_iter().flatten().flat_map(Node::items).filter_map(Node::text);
    let mut about_shell = entries.filter_map(|entry| {
        let (name, rest) = entry.split_once('(')?;
        let prefix = rest.strip_suffix(')')?;
        SHELL.contains(&name.trim()).then_some((entry, prefix))
    });
    let (entry, _) = about_shell.find(|(_, prefix)| words::has(command, prefix))?;
    let rule = format!("`{entry}` among the excluded tools");
    Some(Objection { kind: Kind::Forbids, file: file.to_owned(), rule })
}

fn in_policy(
    file: &Path,
    text: &str,
    command: &str,
    input: &Map<String, Value>,
) -> Result<Option<Objection>, Objection> {
    let table: toml::Table =
        text.parse().map_err(|_| unreadable(file, "a policy that is no TOML"))?;
    for checker in tables(&table, "safety_checker") {
        if is_about_shell(checker) {
            return Err(unreadable(file, "a safety_checker of shell commands"));
        }
    }
    for rule in tables(&table, "rule").filter(|rule| is_about_shell(rule)) {
        let kind = match rule.get("decision").and_then(Toml::as_str) {
            Some("deny") => Kind::Forbids,
            Some("ask_user") => Kind::Asks,
            Some("allow") => continue,
            Some(_) | None => return Err(unreadable(file, "a rule without a decision")),
        };
        if let Some(shown) = matched(file, rule, command, input)? {
            return Ok(Some(Objection { kind, file: file.to_owned(), rule: shown }));
        }
    }
    Ok(None)
}

fn tables<'a>(table: &'a toml::Table, key: &str) -> impl Iterator<Item = &'a toml::Table> {
    table.get(key).and_then(Toml::as_array).into_iter().flatten().filter_map(Toml::as_table)
}

fn is_about_shell(rule: &toml::Table) -> bool {
    let covers =
        |name: &Toml| name.as_str().is_none_or(|name| name.contains('*') || SHELL.contains(&name));
    match rule.get("toolName") {
        Some(Toml::Array(names)) => names.iter().any(covers),
        Some(name) => covers(name),
        None => true,
    }
}

/// The part of a rule that matches the text of a command, unless it matches every command: the CLI applies that to
/// the changed command as well.
fn matched(
    file: &Path,
    rule: &toml::Table,
    command: &str,
    input: &Map<String, Value>,
) -> Result<Option<String>, Objection> {
    let prefixes = match rule.get("commandPrefix") {
        None => Vec::new(),
        Some(Toml::Array(prefixes)) => prefixes.iter().filter_map(Toml::as_str).collect(),
        Some(prefix) => prefix.as_str().into_iter().collect(),
    };
    if let Some(prefix) = prefixes.into_iter().find(|prefix| words::has(command, prefix)) {
        return Ok(Some(format!("commandPrefix `{prefix}`")));
    }
    let arguments = Value::Object(input.clone()).to_string();
    let alone = json!({ "command": command }).to_string();
    for (key, before) in [("commandRegex", "\"command\":\""), ("argsPattern", "")] {
        let Some(pattern) = rule.get(key) else { continue };
        let unread = || unreadable(file, format!("{key} `{pattern}`"));
        let pattern = pattern.as_str().ok_or_else(unread)?;
        let anchored = Regex::new(&format!("{before}(?:{pattern})")).map_err(|_| unread())?;
        let anywhere = Regex::new(pattern).map_err(|_| unread())?;
        let texts = [arguments.as_str(), alone.as_str(), command];
        if texts.iter().any(|text| anchored.is_match(text) || anywhere.is_match(text)) {
            return Ok(Some(format!("{key} `{pattern}`")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(policy: &str, command: &str) -> Option<Kind> {
        let input = json!({"command": command, "description": "d"});
        let input = input.as_object().unwrap();
        in_policy(Path::new("p.toml"), policy, command, input)
            .unwrap_or_else(Some)
            .map(|found| found.kind)
    }

    fn rule(more: &str) -> String {
        format!("[[rule]]\ntoolName = \"run_shell_command\"\npriority = 1\n{more}\n")
    }

    #[test]
    fn policies_apply_to_the_original_command() {
        let deny = rule("commandPrefix = [\"git push\", \"rm\"]\ndecision = \"deny\"");
        assert_eq!(kind(&deny, "cd x && git push"), Some(Kind::Forbids));
        assert_eq!(kind(&deny, "rm x"), Some(Kind::Forbids));
        assert_eq!(kind(&deny, "git status"), None);
        let ask = rule("commandRegex = \"touch .*secret\"\ndecision = \"ask_user\"");
        assert_eq!(kind(&ask, "touch my-secret"), Some(Kind::Asks));
        assert_eq!(kind(&ask, "echo x; touch secret"), Some(Kind::Asks));
        assert_eq!(kind(&ask, "touch x"), None);
        let arguments = rule("argsPattern = '\"command\":\"curl'\ndecision = \"deny\"");
        assert_eq!(kind(&arguments, "curl x"), Some(Kind::Forbids));
        assert_eq!(kind(&arguments, "ls"), None);
    }

    #[test]
    fn missing_or_unlistable_policies_are_unreadable() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let around =
            Around { home: home.clone(), root: None, system: directory.path().join("none") };
        let input = json!({"command": "ls"});
        let found = || objection(&around, "ls", input.as_object().unwrap()).map(|one| one.kind);
        assert_eq!(found(), None, "the control");
        std::fs::write(home.join("settings.json"), r#"{"policyPaths":["~/rules.toml"]}"#).unwrap();
        assert_eq!(found(), Some(Kind::Unreadable));
        std::fs::remove_file(home.join("settings.json")).unwrap();
        std::fs::write(home.join("extensions"), "not a directory").unwrap();
        assert_eq!(found(), Some(Kind::Unreadable));
    }

    #[test]
    fn rules_for_other_tools_and_allow_rules_are_ignored() {
        let other =
            "[[rule]]\ntoolName = \"write_file\"\nargsPattern = \"x\"\ndecision = \"deny\"\n";
        assert_eq!(kind(other, "x"), None);
        assert_eq!(kind(&rule("commandPrefix = \"ls\"\ndecision = \"allow\""), "ls"), None);
        assert_eq!(
            kind(&rule("decision = \"deny\""), "ls"),
            None,
            "Gemini applies it to the changed command too"
        );
        let all = "[[rule]]\ntoolName = \"*\"\ncommandPrefix = \"ls\"\ndecision = \"deny\"\n";
        assert_eq!(kind(all, "ls"), Some(Kind::Forbids));
    }

    #[test]
    fn unsupported_policies_block_every_command() {
        for policy in [
            rule("commandRegex = \"(?!a)b\"\ndecision = \"deny\""),
            rule("commandPrefix = \"x\"\ndecision = \"perhaps\""),
            "[[safety_checker]]\ntoolName = \"*\"\n".to_owned(),
            "rule = [".to_owned(),
        ] {
            assert_eq!(kind(&policy, "ls"), Some(Kind::Unreadable), "{policy}");
        }
    }

    #[test]
    fn excluded_commands_are_found_in_settings() {
        let text =
            "{// mine\n\"tools\": {\"exclude\": [\"run_shell_command(rm)\", \"web_fetch\"]}}";
        let root = json_text::parse(&Source::new("f", text), Comments::Allowed).unwrap();
        assert!(in_settings(Path::new("f"), &root, "echo x; rm y").is_some());
        assert!(in_settings(Path::new("f"), &root, "ls").is_none());
    }

    #[test]
    fn policies_are_found_in_arguments() {
        let words = ["gemini", "--policy", "a", "b,c", "-p", "go", "--admin-policy=d"];
        assert_eq!(named_in(&words.map(str::to_owned)), ["a", "b", "c", "d"]);
    }
}
