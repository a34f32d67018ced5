//! Tool lists: our vocabulary to a program's own names.

use bailiwick_policy::tool;

/// Those of the program's `natives` that the list allows.
pub(super) fn allowed<'a>(natives: &[&'a str], list: &[String]) -> Vec<&'a str> {
    natives.iter().copied().filter(|native| allows(list, native)).collect()
}

/// Those of the program's `natives` that the list does not allow.
pub(super) fn forbidden<'a>(natives: &[&'a str], list: &[String]) -> Vec<&'a str> {
    natives.iter().copied().filter(|native| !allows(list, native)).collect()
}

/// Whether a list of globs allows a tool that a program calls so.
pub(super) fn allows(list: &[String], native: &str) -> bool {
    let name = tool::in_vocabulary(native);
    list.iter().any(|glob| tool::matches(&tool::in_vocabulary(glob), &name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_tool_names_map_to_native_ones() {
        let list = ["Bash", "Write", "Task*"].map(str::to_owned);
        let natives = ["run_shell_command", "write_file", "replace", "TaskList", "Agent"];
        assert_eq!(allowed(&natives, &list), ["run_shell_command", "write_file", "TaskList"]);
        assert_eq!(forbidden(&natives, &list), ["replace", "Agent"]);
    }
}
