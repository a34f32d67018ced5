//! Git in the sandbox of an agent: it can be read, and written only where that was allowed, and then
//! into a layer. Each absence has its control outside.

use std::fs;

use bailiwick_verify::job::Termination;

use crate::http_gate::HttpGate;

#[test]
fn git_can_be_read() {
    let http_gate = HttpGate::new();
    fs::write(http_gate.places.worktree.join("file"), "second\n").unwrap();
    assert_eq!(http_gate.says("git status --porcelain"), " M file\n");
    assert_eq!(http_gate.says("git log --format=%s"), "first\n");
    assert!(http_gate.says("git diff").contains("+second"));
    assert_eq!(http_gate.says("git branch --show-current"), "agent/one\n");
    assert_eq!(http_gate.says("git show HEAD:file"), "first\n");
    assert!(http_gate.says("git blame file | cat").contains("second"));
    // In the checkout itself as well.
    let mut http_gate = HttpGate::new();
    http_gate.places.worktree = http_gate.place().join("repo");
    http_gate.places.git_private.clone_from(&http_gate.places.git_common);
    http_gate.says("echo second > file");
    assert_eq!(
        http_gate.says("git status --porcelain && git branch --show-current"),
        " M file\nmain\n"
    );
    let config = http_gate.places.git_common.join("config");
    let holds = || fs::read_to_string(&config).unwrap().contains("marker");
    http_gate.happens_only_outside("git config user.marker marker", holds);
}

#[test]
fn nothing_of_git_is_written_by_whatever_way() {
    let http_gate = HttpGate::new();
    let common = http_gate.places.git_common.display().to_string();
    let private = http_gate.places.git_private.display().to_string();
    for (number, place) in [format!("{common}/hooks"), common.clone(), private].iter().enumerate() {
        fs::create_dir_all(place).unwrap();
        for (way, line) in [
            ("direct", "echo x > PLACE"),
            ("make", "make WHERE=PLACE"),
            ("script", "printf 'echo x > PLACE' > script && sh script"),
            ("perl", "perl -e 'open(my $f, q(>), q(PLACE)) or die; print $f q(x)'"),
            ("link", "ln -sfn $(dirname PLACE) way && echo x > way/$(basename PLACE)"),
        ] {
            let file = format!("{place}/{way}-{number}");
            let there = || fs::exists(&file).unwrap();
            http_gate.happens_only_outside(&line.replace("PLACE", &file), there);
        }
    }
    let dot_git = http_gate.places.worktree.join(".git");
    let before = fs::read(&dot_git).unwrap();
    for line in ["echo x >> .git", "mv .git away && cp away .git && echo x >> .git"] {
        http_gate.happens_only_outside(line, || fs::read(&dot_git).unwrap() != before);
        fs::write(&dot_git, &before).unwrap();
    }
}

#[test]
fn nothing_of_git_is_written_through_git() {
    let http_gate = HttpGate::new();
    let git = |arguments: &[&str]| http_gate.scratch.git(arguments);
    let tip = || git(&["rev-parse", "agent/one"]);
    let first = tip();
    http_gate.happens_only_outside("git commit --quiet --allow-empty -m second", || tip() != first);
    let config = http_gate.places.git_common.join("config");
    let holds = |word: &str| fs::read_to_string(&config).unwrap().contains(word);
    http_gate.happens_only_outside("git config user.marker marker", || holds("marker"));
    let branches = || git(&["branch", "--list", "other"]);
    http_gate
        .happens_only_outside("git update-ref refs/heads/other HEAD", || !branches().is_empty());
    let staged = || {
        let private = http_gate.places.git_private.join("index");
        fs::read(private).unwrap()
    };
    let before = staged();
    http_gate.happens_only_outside("echo y > new && git add new", || staged() != before);
    let stashes = || git(&["stash", "list"]);
    http_gate.happens_only_outside("echo z > file && git stash --quiet", || !stashes().is_empty());
}

#[test]
fn a_commit_goes_into_the_layer_and_the_repository_stays_as_it_is() {
    let (http_gate, layer) = HttpGate::committing();
    let before = http_gate.repository();
    let said = http_gate.says(
        "echo second > file && echo new > new && git add --all && git commit --quiet -m second && \
         git status --porcelain && git log --format=%s && git rev-parse HEAD",
    );
    let commit = said.strip_prefix("second\nfirst\n").unwrap().trim().to_owned();
    assert_eq!(http_gate.repository(), before, "byte for byte");
    // What lies where, for whoever takes it from there.
    let common = layer.join("common/upper");
    let tip = fs::read_to_string(common.join("refs/heads/agent/one")).unwrap();
    assert_eq!(tip.trim(), commit);
    let (directory, name) = commit.split_at(2);
    assert!(common.join("objects").join(directory).join(name).is_file());
    assert!(layer.join("private/upper/index").is_file());
    // It is still there when the sandbox is made again, and the agent can go on.
    assert_eq!(
        http_gate.says("git commit --quiet --amend -m third && git log --format=%s"),
        "third\nfirst\n"
    );
    assert_eq!(http_gate.repository(), before, "byte for byte");
    let refused = http_gate.scratch.run("git", &["cat-file", "-e", &commit]);
    assert_ne!(refused.code, 0, "the repository does not know it");
    // The control: it is the layer that keeps it out.
    assert!(http_gate.free("git commit --quiet --allow-empty -m outside").status.success());
    assert_ne!(http_gate.repository(), before);
}

#[test]
fn who_commits_still_writes_no_hooks_and_no_settings() {
    let (http_gate, layer) = HttpGate::committing();
    fs::create_dir_all(http_gate.places.git_common.join("hooks")).unwrap();
    for line in [
        "git config user.marker marker",
        "git config --worktree user.marker marker",
        "echo x > $(git rev-parse --git-common-dir)/hooks/post-commit",
        "echo x >> $(git rev-parse --git-common-dir)/config",
        "mv $(git rev-parse --git-common-dir)/hooks $(git rev-parse --git-common-dir)/away",
        "echo x >> .git",
    ] {
        assert_ne!(http_gate.shell(line).ended, Termination::Exit(0), "{line}");
    }
    for file in ["common/upper/config", "common/upper/hooks", "private/upper/config.worktree"] {
        assert!(!layer.join(file).exists(), "{file}");
    }
    http_gate.works_only_outside("git config user.marker marker");
}

#[test]
fn who_commits_in_the_checkout_itself_writes_to_a_layer_too() {
    let (mut http_gate, layer) = HttpGate::committing();
    http_gate.places.worktree = http_gate.place().join("repo");
    http_gate.places.git_private.clone_from(&http_gate.places.git_common);
    let before = http_gate.repository();
    http_gate.says("echo second > file && git commit --quiet --all -m second");
    assert_eq!(http_gate.repository(), before, "byte for byte");
    assert!(layer.join("common/upper/refs/heads/main").is_file());
    assert_eq!(http_gate.says("ls -A .git/worktrees"), "", "the others are not there");
}
