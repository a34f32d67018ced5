//! Traces in the format of strace.

use bailiwick_testkit::corpus::How;

use super::{Trace, read};
use crate::view::View;

fn parse(text: &str) -> Trace {
    let view = View { place: "/nowhere".into() };
    read(text, "/srv/repo".as_ref(), &view)
}

fn changed(trace: &Trace) -> Vec<(String, How)> {
    let shown = |change: &super::Change| (change.path.display().to_string(), change.how);
    trace.changes.iter().map(shown).collect()
}

const SHELL: &str =
    "5 execve(\"/bin/bash\", [\"bash\", \"-c\", \"x, \\\"y)\"], 0x1 /* 2 vars */) = 0\n";

#[test]
fn arguments_with_quotes_and_brackets_are_parsed_completely() {
    let trace = parse(SHELL);
    let argv: Vec<&str> = trace.execs[0].argv.iter().map(String::as_str).collect();
    assert_eq!(argv, ["bash", "-c", "x, \"y)"]);
}

#[test]
fn call_in_two_parts_is_one_call() {
    let trace = parse(&format!(
        "{SHELL}5 vfork( <unfinished ...>\n\
         6 execve(\"/usr/bin/git\", [\"git\"], 0x1 /* 2 vars */ <unfinished ...>\n\
         5 <... vfork resumed>) = 6\n\
         6 <... execve resumed>) = 0\n"
    ));
    assert_eq!(trace.execs.len(), 2);
    assert_eq!(trace.execs[1].parent, Some(0));
}

#[test]
fn child_belongs_to_the_program_that_started_it() {
    let trace = parse(&format!(
        "{SHELL}5 clone(child_stack=NULL, flags=SIGCHLD) = 6\n\
         5 execve(\"/stubs/cargo\", [\"cargo\"], 0x1 /* 2 vars */) = 0\n\
         6 execve(\"/usr/bin/ls\", [\"ls\"], 0x1 /* 2 vars */) = 0\n"
    ));
    assert_eq!(trace.execs[2].parent, Some(0), "its parent is not cargo, which started later");
}

#[test]
fn paths_follow_the_working_directory_of_the_process() {
    let trace = parse(&format!(
        "{SHELL}5 chdir(\"docs\") = 0\n\
         5 unlink(\"guide.md\") = 0\n\
         5 unlinkat(3</srv/repo/src>, \"lib.rs\", 0) = 0\n\
         5 unlink(\"missing\") = -1 ENOENT (No such file or directory)\n"
    ));
    let expected = [
        ("/srv/repo/docs/guide.md".to_owned(), How::Deleted),
        ("/srv/repo/src/lib.rs".to_owned(), How::Deleted),
    ];
    assert_eq!(changed(&trace), expected);
}

#[test]
fn open_counts_at_its_real_target_and_only_for_writing() {
    let trace = parse(&format!(
        "{SHELL}5 openat(AT_FDCWD</srv/repo>, \"src/link\", O_WRONLY|O_TRUNC) = 3</srv/repo/README.md>\n\
         5 openat(AT_FDCWD</srv/repo>, \"Makefile\", O_RDONLY) = 3</srv/repo/Makefile>\n\
         5 openat(AT_FDCWD</srv/repo>, \"/dev/null\", O_WRONLY|O_CREAT) = 3</dev/null>\n\
         5 openat(AT_FDCWD</srv/repo>, \"/dev/fd/63\", O_WRONLY|O_CREAT) = 3<pipe:[1]>\n"
    ));
    assert_eq!(changed(&trace), [("/srv/repo/README.md".to_owned(), How::Written)]);
}

#[test]
fn temporary_file_of_a_process_is_not_a_write_but_its_new_name_is() {
    let lines = |remover: u32| {
        format!(
            "{SHELL}5 openat(AT_FDCWD</srv/repo>, \"sedX\", O_RDWR|O_CREAT|O_EXCL) = 3</srv/repo/sedX>\n\
             5 clone(flags=SIGCHLD) = 6\n\
             {remover} rename(\"sedX\", \"README.md\") = 0\n"
        )
    };
    assert_eq!(changed(&parse(&lines(5))), [("/srv/repo/README.md".to_owned(), How::RenamedTo)]);
    assert_eq!(changed(&parse(&lines(6))).len(), 3, "every change of another process counts");
}

#[test]
fn program_that_was_not_found_is_reported() {
    let missing = "5 execve(\"/a/tool\", [\"tool\"], 0x1 /* 1 var */) = -1 ENOENT (No such file)\n";
    let found = "5 execve(\"/b/tool\", [\"tool\"], 0x1 /* 1 var */) = 0\n";
    assert_eq!(parse(&format!("{SHELL}{missing}")).not_found, ["tool"]);
    assert!(parse(&format!("{SHELL}{missing}{found}")).not_found.is_empty());
}
