//! Java and Kotlin projects: Maven and Gradle, with their wrapper or without.

use super::files::Directory;
use super::stack::Stack;
use super::tool::Tool;

const GRADLE_FILES: [&str; 4] =
    ["settings.gradle.kts", "settings.gradle", "build.gradle.kts", "build.gradle"];

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let gradle = directory.first_of(&GRADLE_FILES);
    match gradle {
        Some(file) if !directory.has("pom.xml") || prefers_gradle(directory) => {
            Some(gradle_stack(directory, file))
        }
        Some(_) | None => directory.has("pom.xml").then(|| maven_stack(directory)),
    }
}

fn prefers_gradle(directory: Directory<'_>) -> bool {
    directory.has("gradlew") && !directory.has("mvnw")
}

fn maven_stack(directory: Directory<'_>) -> Stack {
    let mut stack = Stack::new(Tool::Maven, directory.path(), "pom.xml");
    let program = if directory.has("mvnw") {
        stack.programs = vec!["java"];
        "./mvnw"
    } else {
        stack.programs = vec!["mvn"];
        "mvn"
    };
    stack.artefacts = &["target"];
    // Surefire fetches its test provider only when it runs, so a test that does not exist is run.
    stack.setup = vec![format!(
        "{program} -B -q test -Dtest=NoSuchTest -DfailIfNoTests=false \
         -Dsurefire.failIfNoSpecifiedTests=false"
    )];
    stack.commands = vec![format!("{program} -B -q test")];
    stack
}

fn gradle_stack(directory: Directory<'_>, evidence: &str) -> Stack {
    let mut stack = Stack::new(Tool::Gradle, directory.path(), evidence);
    let program = if directory.has("gradlew") {
        stack.programs = vec!["java"];
        "./gradlew"
    } else {
        stack.programs = vec!["gradle"];
        "gradle"
    };
    stack.artefacts = &[".gradle", "build"];
    stack.setup = vec![format!("{program} --no-daemon testClasses")];
    stack.commands = vec![format!("{program} --no-daemon test")];
    stack
}
