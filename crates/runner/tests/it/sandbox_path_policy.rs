//! The scope of an agent as mounts: no program can change tracked files outside of it;
//! new files outside of it go to scratch space; builds and git's read commands work.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bailiwick_runner::process::{self, Capture, Limits};
use bailiwick_runner::sandbox::{SandboxErrorKind, WorktreeAccess};
use bailiwick_verify::job::Termination;

use crate::agent_fixture::AgentFixture;
use crate::lab::launcher;

/// An agent that may write below `src/`. Every other tracked file is protected, and so are a
/// denied file and a manifest within it.
fn scoped() -> AgentFixture {
    let mut fixture = AgentFixture::new();
    let worktree = fixture.places.worktree.clone();
    for (path, text) in [
        ("src/lib.txt", "lib\n"),
        ("src/deep/locked.txt", "locked\n"),
        ("docs/guide.md", "guide\n"),
        ("package.json", "{}\n"),
        ("tests/test.sh", "grep -q lib src/lib.txt\n"),
    ] {
        let file = worktree.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let git = |line: &str| assert!(fixture.run_outside(line).status.success(), "{line}");
    git("git add -A && git commit -qm more");
    fixture.places.access = WorktreeAccess::WritableBelow(vec!["src".into()]);
    let protected = ["file", "Makefile", "docs/guide.md", "package.json", "tests/test.sh"];
    let protected = protected.into_iter().chain(["rules/deep/rule", "src/deep/locked.txt"]);
    fixture.places.read_only_paths = protected.map(PathBuf::from).collect();
    fixture
}

/// The output of git's status in the worktree, from outside.
fn status(fixture: &AgentFixture) -> String {
    String::from_utf8(fixture.run_outside("git status --porcelain -uall").stdout).unwrap()
}

#[test]
fn file_outside_of_the_scope_cannot_be_changed_by_any_program() {
    for line in [
        "echo evil > docs/guide.md",
        "sed -i s/guide/evil/ docs/guide.md",
        "python3 -c \"open('docs/guide.md','a').write('evil')\"",
        "perl -e 'open F, \">\", \"docs/guide.md\"; print F \"evil\"'",
        "rm -f docs/guide.md",
        "mv docs/guide.md src/",
        "mv docs other && mkdir docs && echo evil > docs/guide.md",
        "ln -f src/lib.txt docs/guide.md",
        "cp src/lib.txt docs/guide.md",
        "ln -sf ../docs/guide.md src/link && echo evil > src/link",
        "ln -f docs/guide.md src/hard && echo evil > src/hard",
        "truncate -s 0 docs/guide.md",
        "chmod 777 docs/guide.md",
        "echo evil > src/deep/locked.txt",
        "mv src/deep src/other && mkdir src/deep && echo evil > src/deep/locked.txt",
        "rm -rf src/deep",
        "git checkout -q HEAD~1 -- file; echo evil > file",
        "printf '{\"evil\":1}' > package.json",
        "tar -cf $HOME/a.tar --transform s,src/lib.txt,package.json, src/lib.txt && tar -xf $HOME/a.tar",
        "git mv docs/guide.md docs/b.md",
        "echo evil > .git",
        "exec 9<. && echo evil > /proc/self/fd/9/docs/guide.md",
        "umount docs/guide.md; umount -l docs/guide.md; echo evil > docs/guide.md",
        "unshare -rm sh -c 'umount docs/guide.md; echo evil > docs/guide.md'",
    ] {
        let fixture = scoped();
        let worktree_status = || {
            let paths = ["file", "docs/guide.md", "package.json", "src/deep/locked.txt", ".git"];
            let text = |path: &&str| fs::read(fixture.places.worktree.join(path)).ok();
            let mode = fs::metadata(fixture.places.worktree.join("docs/guide.md"));
            (paths.iter().map(text).collect::<Vec<_>>(), mode.ok().map(|data| data.permissions()))
        };
        let before = worktree_status();
        let changed = || worktree_status() != before;
        if line.contains("umount") || line.contains("git checkout") {
            // Outside, these commands do other harm, or none.
            fixture.shell(line);
            assert!(!changed(), "{line}");
        } else {
            fixture.has_effect_only_outside(line, changed);
        }
    }
}

#[test]
fn new_file_outside_of_the_scope_does_not_reach_the_worktree() {
    let fixture = scoped();
    let output = fixture.output_of(
        "mkdir -p target/debug docs/build && echo built > target/debug/out && echo page > \
         docs/build/page && echo new > new.txt && echo evil > Cargo.toml && \
         cat target/debug/out docs/build/page new.txt",
    );
    assert_eq!(output, "built\npage\nnew\n");
    assert_eq!(status(&fixture), "", "the worktree is unchanged");
    assert_eq!(
        fixture.output_of("cat target/debug/out"),
        "built\n",
        "the next program can read it"
    );
    assert_eq!(
        fixture.output_of("rm -r target && ls"),
        "Cargo.toml\nMakefile\ndocs\nfile\nnew.txt\npackage.json\nrules\nsrc\ntests\n"
    );
}

#[test]
fn all_operations_work_within_the_scope() {
    let fixture = scoped();
    fixture.output_of(
        "echo changed > src/lib.txt && sed -i s/changed/lib2/ src/lib.txt && mkdir -p src/a/b && \
         echo x > src/a/b/c && mv src/a src/z && echo tmp > src/tmp && mv src/tmp src/lib2.txt && \
         sh tests/test.sh",
    );
    assert_eq!(status(&fixture), " M src/lib.txt\n?? src/lib2.txt\n?? src/z/b/c\n");
    fixture.output_of("rm src/lib.txt");
    assert!(!fixture.places.worktree.join("src/lib.txt").exists());
}

#[test]
fn git_can_be_read() {
    let fixture = scoped();
    fixture.output_of("echo changed > src/lib.txt");
    for line in ["git status --short", "git diff --stat", "git log --oneline", "git show --stat"] {
        assert!(!fixture.output_of(line).is_empty(), "{line}");
    }
    assert_eq!(fixture.output_of("git status --short"), " M src/lib.txt\n");
    fixture.succeeds_only_outside("git add src/lib.txt && git commit -qm no");
}

/// A layer that fails for a reason other than missing support must not make the worktree writable.
#[test]
fn layer_that_fails_stops_the_agent_unless_layers_are_unsupported() {
    let mut fixture = scoped();
    let run = |fixture: &AgentFixture| {
        let argv = ["/bin/sh", "-c", "echo new > docs/new.md"].map(str::to_owned);
        let limits = Limits { time: Duration::from_mins(1), output: 1 << 20 };
        process::run(&launcher(), &fixture.sandbox(), &argv, Capture::Merged, limits)
    };
    let new_file = fixture.places.worktree.join("docs/new.md");
    // A file is at the path of the layer.
    fs::create_dir_all(&fixture.places.scratch).unwrap();
    fs::write(fixture.places.scratch.join("upper"), "").unwrap();
    let error = run(&fixture).unwrap_err();
    assert_eq!(error.kind, SandboxErrorKind::Other, "{error}");
    assert!(!new_file.exists());
    // The control: a name that the kernel cannot accept means that layers are not available.
    fixture.places.scratch = fixture.place().join("state/runs/one/a:b");
    assert!(run(&fixture).is_ok_and(|finished| finished.ended == Termination::Exit(0)));
    assert!(new_file.exists());
}
