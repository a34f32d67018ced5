//! Git in the sandbox of an agent: it can be read, and written only where that was allowed, and then
//! into a layer. Each absence has its control outside.

use std::fs;

use bailiwick_verify::job::Termination;

use crate::agent_fixture::AgentFixture;

#[test]
fn git_can_be_read() {
    let fixture = AgentFixture::new();
    fs::write(fixture.places.worktree.join("file"), "second\n").unwrap();
    assert_eq!(fixture.says("git status --porcelain"), " M file\n");
    assert_eq!(fixture.says("git log --format=%s"), "first\n");
    assert!(fixture.says("git diff").contains("+second"));
    assert_eq!(fixture.says("git branch --show-current"), "agent/one\n");
    assert_eq!(fixture.says("git show HEAD:file"), "first\n");
    assert!(fixture.says("git blame file | cat").contains("second"));
    // In the checkout itself as well.
    let mut fixture = AgentFixture::new();
    fixture.places.worktree = fixture.place().join("repo");
    fixture.places.git_private.clone_from(&fixture.places.git_common);
    fixture.says("echo second > file");
    assert_eq!(
        fixture.says("git status --porcelain && git branch --show-current"),
        " M file\nmain\n"
    );
    let config = fixture.places.git_common.join("config");
    let holds = || fs::read_to_string(&config).unwrap().contains("marker");
    fixture.happens_only_outside("git config user.marker marker", holds);
}

#[test]
fn nothing_of_git_is_written_by_whatever_way() {
    let fixture = AgentFixture::new();
    let common = fixture.places.git_common.display().to_string();
    let private = fixture.places.git_private.display().to_string();
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
            fixture.happens_only_outside(&line.replace("PLACE", &file), there);
        }
    }
    let dot_git = fixture.places.worktree.join(".git");
    let before = fs::read(&dot_git).unwrap();
    for line in ["echo x >> .git", "mv .git away && cp away .git && echo x >> .git"] {
        fixture.happens_only_outside(line, || fs::read(&dot_git).unwrap() != before);
        fs::write(&dot_git, &before).unwrap();
    }
}

#[test]
fn nothing_of_git_is_written_through_git() {
    let fixture = AgentFixture::new();
    let git = |arguments: &[&str]| fixture.scratch.git(arguments);
    let tip = || git(&["rev-parse", "agent/one"]);
    let first = tip();
    fixture.happens_only_outside("git commit --quiet --allow-empty -m second", || tip() != first);
    let config = fixture.places.git_common.join("config");
    let holds = |word: &str| fs::read_to_string(&config).unwrap().contains(word);
    fixture.happens_only_outside("git config user.marker marker", || holds("marker"));
    let branches = || git(&["branch", "--list", "other"]);
    fixture.happens_only_outside("git update-ref refs/heads/other HEAD", || !branches().is_empty());
    let staged = || {
        let private = fixture.places.git_private.join("index");
        fs::read(private).unwrap()
    };
    let before = staged();
    fixture.happens_only_outside("echo y > new && git add new", || staged() != before);
    let stashes = || git(&["stash", "list"]);
    fixture.happens_only_outside("echo z > file && git stash --quiet", || !stashes().is_empty());
}

#[test]
fn a_commit_goes_into_the_layer_and_the_repository_stays_as_it_is() {
    let (fixture, layer) = AgentFixture::committing();
    let before = fixture.repository();
    let said = fixture.says(
        "echo second > file && echo new > new && git add --all && git commit --quiet -m second && \
         git status --porcelain && git log --format=%s && git rev-parse HEAD",
    );
    let commit = said.strip_prefix("second\nfirst\n").unwrap().trim().to_owned();
    assert_eq!(fixture.repository(), before, "byte for byte");
    // The import reads the commits from these files.
    let common = layer.join("common/upper");
    let tip = fs::read_to_string(common.join("refs/heads/agent/one")).unwrap();
    assert_eq!(tip.trim(), commit);
    let (directory, name) = commit.split_at(2);
    assert!(common.join("objects").join(directory).join(name).is_file());
    assert!(layer.join("private/upper/index").is_file());
    // It is still there when the sandbox is made again, and the agent can go on.
    assert_eq!(
        fixture.says("git commit --quiet --amend -m third && git log --format=%s"),
        "third\nfirst\n"
    );
    assert_eq!(fixture.repository(), before, "byte for byte");
    let refused = fixture.scratch.run("git", &["cat-file", "-e", &commit]);
    assert_ne!(refused.code, 0, "the repository does not know it");
    // The control: it is the layer that keeps it out.
    assert!(fixture.free("git commit --quiet --allow-empty -m outside").status.success());
    assert_ne!(fixture.repository(), before);
}

#[test]
fn who_commits_still_writes_no_hooks_and_no_settings() {
    let (fixture, layer) = AgentFixture::committing();
    fs::create_dir_all(fixture.places.git_common.join("hooks")).unwrap();
    for line in [
        "git config user.marker marker",
        "git config --worktree user.marker marker",
        "echo x > $(git rev-parse --git-common-dir)/hooks/post-commit",
        "echo x >> $(git rev-parse --git-common-dir)/config",
        "mv $(git rev-parse --git-common-dir)/hooks $(git rev-parse --git-common-dir)/away",
        "echo x >> .git",
    ] {
        assert_ne!(fixture.shell(line).ended, Termination::Exit(0), "{line}");
    }
    for file in ["common/upper/config", "common/upper/hooks", "private/upper/config.worktree"] {
        assert!(!layer.join(file).exists(), "{file}");
    }
    fixture.works_only_outside("git config user.marker marker");
}

#[test]
fn who_commits_in_the_checkout_itself_writes_to_a_layer_too() {
    let (mut fixture, layer) = AgentFixture::committing();
    fixture.places.worktree = fixture.place().join("repo");
    fixture.places.git_private.clone_from(&fixture.places.git_common);
    let before = fixture.repository();
    fixture.says("echo second > file && git commit --quiet --all -m second");
    assert_eq!(fixture.repository(), before, "byte for byte");
    assert!(layer.join("common/upper/refs/heads/main").is_file());
    assert_eq!(fixture.says("ls -A .git/worktrees"), "", "the others are not there");
}
