//! C and C++ projects: CMakeLists.txt.

use super::files::Directory;
use super::stack::Stack;
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let file = "CMakeLists.txt";
    if !directory.has(file) {
        return None;
    }
    let mut stack = Stack::new(Tool::CMake, directory.path(), file);
    stack.programs = vec!["cmake"];
    stack.artefacts = &["build"];
    stack.commands = vec!["cmake -B build".to_owned(), "cmake --build build".to_owned()];
    let declares_tests = directory.read(file).is_some_and(|text| {
        let text = text.to_lowercase().replace(' ', "");
        ["enable_testing(", "include(ctest)", "add_test("].iter().any(|part| text.contains(part))
    });
    if declares_tests {
        stack.commands.push("ctest --test-dir build".to_owned());
    }
    Some(stack)
}
