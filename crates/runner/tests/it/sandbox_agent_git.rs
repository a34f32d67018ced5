//! Git in the sandbox of an agent: it can be read, and written only where that is allowed, and then
//! into a layer. Each absence has its control outside.

use std::fs;

use bailiwick_verify::job::Termination;

use crate::agent_fixture::AgentFixture;

#[test]
fn git_can_be_read() {
    let fixture = AgentFixture::new();
    fs::write(fixture.places.worktree.join("file"), "second\n").unwrap();
    assert_eq!(fixture.output_of("git status --porcelain"), " M file\n");
    assert_eq!(fixture.output_of("git log --format=%s"), "first\n");
    assert!(fixture.output_of("git diff").contains("+second"));
    assert_eq!(fixture.output_of("git branch --show-current"), "agent/one\n");
    assert_eq!(fixture.output_of("git show HEAD:file"), "first\n");
    assert!(fixture.output_of("git blame file | cat").contains("second"));
    // In the checkout itself too.
    let mut fixture = AgentFixture::new();
    fixture.places.worktree = fixture.place().join("repo");
    fixture.places.git_private.clone_from(&fixture.places.git_common);
    fixture.output_of("echo second > file");
    assert_eq!(
        fixture.output_of("git status --porcelain && git branch --show-current"),
        " M file\nmain\n"
    );
    let config = fixture.places.git_common.join("config");
    let has_marker = || fs::read_to_string(&config).unwrap().contains("marker");
    fixture.has_effect_only_outside("git config user.marker marker", has_marker);
}

#[test]
fn git_directory_cannot_be_written_in_any_way() {
    let fixture = AgentFixture::new();
    let common = fixture.places.git_common.display().to_string();
    let private = fixture.places.git_private.display().to_string();
    for (number, place) in [format!("{common}/hooks"), common.clone(), private].iter().enumerate() {
        fs::create_dir_all(place).unwrap();
        for (method, line) in [
            ("direct", "echo x > PLACE"),
            ("make", "make WHERE=PLACE"),
            ("script", "printf 'echo x > PLACE' > script && sh script"),
            ("perl", "perl -e 'open(my $f, q(>), q(PLACE)) or die; print $f q(x)'"),
            ("link", "ln -sfn $(dirname PLACE) way && echo x > way/$(basename PLACE)"),
        ] {
            let file = format!("{place}/{method}-{number}");
            let file_exists = || fs::exists(&file).unwrap();
            fixture.has_effect_only_outside(&line.replace("PLACE", &file), file_exists);
        }
    }
    let dot_git = fixture.places.worktree.join(".git");
    let before = fs::read(&dot_git).unwrap();
    for line in ["echo x >> .git", "mv .git away && cp away .git && echo x >> .git"] {
        fixture.has_effect_only_outside(line, || fs::read(&dot_git).unwrap() != before);
        fs::write(&dot_git, &before).unwrap();
    }
}

#[test]
fn git_commands_write_nothing_to_the_repository() {
    let fixture = AgentFixture::new();
    let git = |arguments: &[&str]| fixture.scratch.git(arguments);
    let tip = || git(&["rev-parse", "agent/one"]);
    let first = tip();
    fixture
        .has_effect_only_outside("git commit --quiet --allow-empty -m second", || tip() != first);
    let config = fixture.places.git_common.join("config");
    let contains = |word: &str| fs::read_to_string(&config).unwrap().contains(word);
    fixture.has_effect_only_outside("git config user.marker marker", || contains("marker"));
    let branches = || git(&["branch", "--list", "other"]);
    fixture
        .has_effect_only_outside("git update-ref refs/heads/other HEAD", || !branches().is_empty());
    let staged = || {
        let private = fixture.places.git_private.join("index");
        fs::read(private).unwrap()
    };
    let before = staged();
    fixture.has_effect_only_outside("echo y > new && git add new", || staged() != before);
    let stashes = || git(&["stash", "list"]);
    fixture.has_effect_only_outside("echo z > file && git stash --quiet", || !stashes().is_empty());
}

#[test]
fn commit_goes_into_the_layer_and_the_repository_is_unchanged() {
    let (fixture, layer) = AgentFixture::committing();
    let before = fixture.repository();
    let output = fixture.output_of(
        "echo second > file && echo new > new && git add --all && git commit --quiet -m second && \
         git status --porcelain && git log --format=%s && git rev-parse HEAD",
    );
    let commit = output.strip_prefix("second\nfirst\n").unwrap().trim().to_owned();
    assert_eq!(fixture.repository(), before, "the repository has not changed");
    // The import reads the commits from these files.
    let common = layer.join("common/upper");
    let tip = fs::read_to_string(common.join("refs/heads/agent/one")).unwrap();
    assert_eq!(tip.trim(), commit);
    let (directory, name) = commit.split_at(2);
    assert!(common.join("objects").join(directory).join(name).is_file());
    assert!(layer.join("private/upper/index").is_file());
    // The commit is still there when the sandbox is created again, and the agent can continue.
    assert_eq!(
        fixture.output_of("git commit --quiet --amend -m third && git log --format=%s"),
        "third\nfirst\n"
    );
    assert_eq!(fixture.repository(), before, "the repository has not changed");
    let refused = fixture.scratch.run("git", &["cat-file", "-e", &commit]);
    assert_ne!(refused.code, 0, "the repository does not have the commit");
    // The control: the layer keeps it out.
    assert!(fixture.run_outside("git commit --quiet --allow-empty -m outside").status.success());
    assert_ne!(fixture.repository(), before);
}

#[test]
fn committing_agent_cannot_write_hooks_or_settings() {
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
    fixture.succeeds_only_outside("git config user.marker marker");
}

#[test]
fn commit_in_the_checkout_itself_goes_into_a_layer_too() {
    let (mut fixture, layer) = AgentFixture::committing();
    fixture.places.worktree = fixture.place().join("repo");
    fixture.places.git_private.clone_from(&fixture.places.git_common);
    let before = fixture.repository();
    fixture.output_of("echo second > file && git commit --quiet --all -m second");
    assert_eq!(fixture.repository(), before, "the repository has not changed");
    assert!(layer.join("common/upper/refs/heads/main").is_file());
    assert_eq!(
        fixture.output_of("ls -A .git/worktrees"),
        "",
        "the other worktrees are not visible"
    );
}
