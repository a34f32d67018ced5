//! PHP projects: composer.json.

use serde_json::Value;

use super::files::Directory;
use super::stack::{Note, Stack};
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let file = "composer.json";
    let text = directory.read(file).or_else(|| directory.has(file).then(String::new))?;
    let locked = directory.has("composer.lock");
    let evidence = if locked { "composer.lock" } else { file };
    let mut stack = Stack::new(Tool::Composer, directory.path(), evidence);
    stack.programs = vec!["php", "composer"];
    stack.artefacts = if locked { &["vendor"] } else { &["vendor", "composer.lock"] };
    stack.setup = vec!["composer install --no-interaction".to_owned()];
    let Ok(manifest) = serde_json::from_str::<Value>(&text) else {
        stack.notes.push(Note::Malformed { file: directory.join(file) });
        return Some(stack);
    };
    let requires = |package: &str| {
        ["require", "require-dev"]
            .iter()
            .any(|key| manifest.get(key).and_then(|listed| listed.get(package)).is_some())
    };
    let command = if manifest.get("scripts").and_then(|listed| listed.get("test")).is_some() {
        Some("composer test")
    } else if requires("pestphp/pest") {
        Some("vendor/bin/pest")
    } else if requires("phpunit/phpunit") {
        Some("vendor/bin/phpunit")
    } else {
        None
    };
    stack.commands = command.map(str::to_owned).into_iter().collect();
    Some(stack)
}
