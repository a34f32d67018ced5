//! Which of the host's files an agent can read and write. Each absence has its control outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use bailiwick_runner::sandbox::{Bind, WorktreeAccess};
use bailiwick_verify::job::Termination;

use crate::agent_fixture::AgentFixture;

#[test]
fn agent_writes_to_its_worktree_home_and_temp_only() {
    let fixture = AgentFixture::new();
    for place in [fixture.place(), fixture.place().join("repo"), fixture.place().join("state")] {
        let file = place.join("written");
        let line = format!("echo x > {}", file.display());
        fixture.has_effect_only_outside(&line, || file.exists());
    }
    fixture.output_of("echo x > written && echo x > ~/written && echo x > /tmp/written");
    // On the host, the supervisor finds each directory at its path.
    for place in [&fixture.places.worktree, &fixture.places.home, &fixture.places.temp] {
        assert_eq!(fs::read_to_string(place.join("written")).unwrap(), "x\n");
    }
    assert_eq!(fixture.output_of("cat /var/tmp/written"), "x\n");
    assert!(!fs::exists("/tmp/written").unwrap());
}

#[test]
fn worktree_home_and_run_of_another_agent_are_not_visible() {
    let fixture = AgentFixture::new();
    let place = fixture.place();
    for path in ["state/worktrees/two/file", "state/runs/two/home", "repo/file"] {
        fixture.succeeds_only_outside(&format!("test -e {}", place.join(path).display()));
    }
    let listing =
        fixture.output_of(&format!("ls {0}/worktrees {0}/runs", place.join("state").display()));
    assert!(!listing.contains("two"), "{listing}");
    let git = fixture.places.git_common.join("worktrees");
    fixture.succeeds_only_outside(&format!("test -e {}/two", git.display()));
    assert_eq!(fixture.output_of(&format!("ls {}", git.display())), "one\n");
}

#[test]
fn link_that_is_swapped_during_a_write_leads_nowhere() {
    let fixture = AgentFixture::new();
    let target = fixture.place().join("target");
    fs::create_dir(&target).unwrap();
    let line = format!(
        "mkdir -p inner && perl -e 'my $p = fork; for my $i (1..3000) {{ \
           if ($p) {{ if (open(my $f, q(>), q(way/file))) {{ print $f q(x) }} }} \
           else {{ for my $to (q(inner), q({0})) {{ symlink($to, q(next)); rename(q(next), q(way)) }} }} }} \
         if ($p) {{ wait }} else {{ exit }}' && echo x > way/last",
        target.display()
    );
    fixture.has_effect_only_outside(&line, || fs::read_dir(&target).unwrap().next().is_some());
}

#[test]
fn frozen_files_cannot_be_written_or_moved() {
    let mut fixture = AgentFixture::new();
    let worktree = fixture.places.worktree.clone();
    symlink("file", worktree.join("link")).unwrap();
    symlink("rules", worktree.join("through")).unwrap();
    fs::create_dir(worktree.join("whole")).unwrap();
    fixture.places.read_only_paths =
        ["link", "rules/deep/rule", "through/deep/rule", "whole", "absent"].map(Into::into).into();
    let lines = [
        "echo x > rules/deep/rule",
        "rm -f rules/deep/rule",
        "mv rules/deep/rule rules/deep/away",
        "mv rules/deep rules/away && mkdir -p rules/deep && echo x > rules/deep/rule",
        "mv rules away && mkdir -p rules/deep && echo x > rules/deep/rule",
        "ln rules/deep/rule hard && echo x > hard",
        "chmod +x rules/deep/rule",
        "echo x > through/deep/rule",
        "ln -sfn away through",
        "echo x > link",
        "echo x > file",
        "rm link && echo x > link",
        "echo x > whole/new",
        "mv whole away",
        "perl -e 'truncate(q(file), 0) or die'",
    ];
    for line in lines {
        let finished = fixture.shell(line);
        assert_ne!(
            finished.ended,
            Termination::Exit(0),
            "{line}: {}",
            String::from_utf8_lossy(&finished.tail)
        );
    }
    assert_eq!(fs::read_to_string(worktree.join("rules/deep/rule")).unwrap(), "a rule\n");
    assert_eq!(fs::read_to_string(worktree.join("file")).unwrap(), "first\n");
    assert_eq!(
        fs::read_link(worktree.join("link")).unwrap(),
        fs::canonicalize(worktree.join("file")).unwrap().file_name().unwrap()
    );
    // Files beside them can be written, and missing ones created.
    fixture.output_of("echo x > rules/deep/other && echo x > absent && cat link rules/deep/rule");
    // The control: without freezing each of these works.
    fixture.places.read_only_paths.clear();
    for line in ["echo x > rules/deep/rule", "mv rules away", "rm link", "echo x > whole/new"] {
        fixture.output_of(line);
    }
}

#[test]
fn gate_settings_in_the_home_cannot_be_replaced() {
    let mut fixture = AgentFixture::new();
    let home = fixture.places.home.clone();
    let (ours, inside) =
        (fixture.place().join("state/runs/one/gate/settings"), home.join("tool/settings"));
    fs::write(&ours, "ours\n").unwrap();
    fs::create_dir(home.join("tool")).unwrap();
    fixture.places.gate = vec![Bind::new(&ours, &inside)];
    assert_eq!(fixture.output_of("cat ~/tool/settings"), "ours\n");
    let replace =
        "mv ~/tool ~/away; mkdir -p ~/tool; rm -f ~/tool/settings; echo x > ~/tool/settings";
    let finished = fixture.shell(&format!("{replace}; cat ~/tool/settings"));
    assert!(String::from_utf8_lossy(&finished.tail).ends_with("\nours\n"), "{finished:?}");
    fixture.places.gate.clear();
    assert!(
        String::from_utf8_lossy(&fixture.shell(&format!("{replace}; cat ~/tool/settings")).tail)
            .ends_with("x\n")
    );
}

#[test]
fn read_only_agent_writes_to_its_own_directories_only() {
    let mut fixture = AgentFixture::new();
    fixture.places.access = WorktreeAccess::ReadOnly;
    let file = fixture.places.worktree.join("written");
    fixture.has_effect_only_outside("echo x > written", || file.exists());
    let first = fixture.scratch.git(&["rev-parse", "agent/one"]);
    let tip = || fixture.scratch.git(&["rev-parse", "agent/one"]);
    fixture.has_effect_only_outside("git commit --quiet --allow-empty -m x", || tip() != first);
    fixture.output_of("git status && git log && cat file && echo x > /tmp/x && echo x > ~/x");
    // Of all visible paths, only these are writable.
    let look = "find / -path /proc -prune -o -type d -writable -print 2>/dev/null | sort";
    let writable = fixture.output_of(look);
    let home = fixture.places.home.display().to_string();
    let own_paths = ["/dev/shm", "/dev/pts", "/tmp", "/var/tmp", &home];
    let other_paths = [&fixture.places.worktree, &fixture.places.git_common]
        .map(|path| path.display().to_string());
    for place in writable.lines() {
        assert!(own_paths.iter().any(|prefix| place.starts_with(prefix)), "{place}");
        assert!(!other_paths.iter().any(|prefix| place.starts_with(prefix)), "{place}");
    }
    fixture.places.access = WorktreeAccess::Writable;
    assert!(fixture.output_of(look).contains(&other_paths[0]), "the search finds writable paths");
}

/// A setuid program of another user, if the caller of the tests could create one.
pub(crate) const SETUID: &str = "BAILIWICK_TEST_SETUID";

#[test]
fn setuid_programs_gain_no_privileges() {
    let mut fixture = AgentFixture::new();
    let setuid_program = std::env::var_os(SETUID);
    if setuid_program.is_some() || nix::unistd::geteuid().is_root() {
        let program = fixture.place().join("who");
        match setuid_program {
            Some(setuid_program) => symlink(setuid_program, &program).unwrap(),
            None => {
                fs::copy("/usr/bin/id", &program).unwrap();
                std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
                fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
                fs::set_permissions(fixture.place(), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let program = fs::canonicalize(program).unwrap();
        fixture.places.programs.push(Bind::same(&program));
        let line = format!("test \"$(id -u)\" != \"$({} -u)\"", program.display());
        fixture.succeeds_only_outside(&line);
    }
    fixture.succeeds_only_outside("grep -q 'NoNewPrivs:.0' /proc/self/status");
}

/// Set for a process of this test program that acts as a supervisor with a secret.
const SECRET: &str = "BAILIWICK_TEST_SECRET";

/// Does nothing here: it is what [`secret_of_the_supervisor_is_not_visible_to_the_agent`] starts.
#[test]
fn role_of_a_supervisor() {
    let Ok(secret) = std::env::var(SECRET) else { return };
    let fixture = AgentFixture::new();
    let (first, second) = secret.split_at(4);
    // The word itself must not be in a command line. The system's programs are the same on both sides.
    let environments = format!(
        "cat /proc/[0-9]*/environ 2>/dev/null | grep -qa \"$(printf '%s%s' {first} {second})\""
    );
    fixture.succeeds_only_outside(&environments);
    let places = std::env::var("HOME").unwrap();
    let files = |place: &str| {
        format!(
            "grep -rqaF --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=opt --devices=skip \
                 \"$(printf '%s%s' {first} {second})\" {place} 2>/dev/null"
        )
    };
    assert_ne!(fixture.shell(&files("/")).ended, Termination::Exit(0));
    assert!(fixture.run_outside(&files(&places)).status.success());
    assert_ne!(
        fixture.shell(&format!("env | grep -q \"$(printf '%s%s' {first} {second})\"")).ended,
        Termination::Exit(0)
    );
    // The control: the search finds an existing secret.
    fixture.output_of(&format!("printf '%s%s' {first} {second} > planted && {}", files("/")));
}

#[test]
fn secret_of_the_supervisor_is_not_visible_to_the_agent() {
    let place = tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap();
    let secret = format!("hush{}quiet", std::process::id());
    for file in [".ssh/id_ed25519", ".aws/credentials", ".netrc"] {
        let file = place.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &secret).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox_agent_files::role_of_a_supervisor", "--nocapture"])
        .env(SECRET, &secret)
        .env("HOME", place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

/// A home with a program's settings; the program may write to `set/log` and to the file `open`.
fn set_up() -> AgentFixture {
    let mut fixture = AgentFixture::new();
    let home = fixture.places.home.clone();
    for place in ["set/log", "deep/within/set"] {
        fs::create_dir_all(home.join(place)).unwrap();
    }
    for file in ["set/settings", "set/open", "deep/within/set/settings", "alone"] {
        fs::write(home.join(file), "ours").unwrap();
    }
    fixture.places.fixed = ["set", "deep/within/set", "alone"].map(|path| home.join(path)).to_vec();
    fixture.places.open = ["set/log", "set/open"].map(|path| home.join(path)).to_vec();
    fixture
}

#[test]
fn settings_of_a_program_cannot_be_changed() {
    for (line, path) in [
        ("echo theirs > ~/set/settings", "set/settings"),
        ("rm -rf ~/set; mkdir ~/set; echo theirs > ~/set/settings", "set/settings"),
        ("mv ~/set ~/away; mkdir ~/set; echo theirs > ~/set/settings", "set/settings"),
        ("echo theirs > ~/new; mv ~/new ~/set/settings", "set/settings"),
        ("echo theirs > ~/new; ln -sf ~/new ~/set/settings", "set/settings"),
        (
            "rm -rf ~/set; mkdir ~/other; echo theirs > ~/other/settings; ln -s other ~/set",
            "set/settings",
        ),
        ("chmod 777 ~/set ~/set/settings; echo theirs > ~/set/settings", "set/settings"),
        ("echo theirs > ~/set/more", "set/more"),
        ("mkdir ~/set/skills && echo theirs > ~/set/skills/one", "set/skills/one"),
        ("mv ~/set/log ~/set/more && echo theirs > ~/set/more/x", "set/more/x"),
        ("echo theirs > ~/deep/within/set/settings", "deep/within/set/settings"),
        (
            "mv ~/deep/within ~/away; mkdir -p ~/deep/within/set; echo theirs > ~/deep/within/set/settings",
            "deep/within/set/settings",
        ),
        (
            "mv ~/deep ~/away; mkdir -p ~/deep/within/set; echo theirs > ~/deep/within/set/settings",
            "deep/within/set/settings",
        ),
        ("echo theirs > ~/alone", "alone"),
        ("rm -f ~/alone; echo theirs > ~/alone", "alone"),
        ("mv ~/alone ~/away; echo theirs > ~/alone", "alone"),
        (
            "mkdir ~/m; mount --bind ~/m ~/set; umount -l ~/set; echo theirs > ~/set/more",
            "set/more",
        ),
    ] {
        let fixture = set_up();
        let file = fixture.places.home.join(path);
        fixture.has_effect_only_outside(line, || {
            fs::read_to_string(&file).is_ok_and(|text| text.starts_with("theirs"))
        });
    }
}

#[test]
fn program_can_write_its_own_files_beside_its_settings() {
    let fixture = set_up();
    fixture.output_of(
        "echo one > ~/set/log/one && mv ~/set/log/one ~/set/log/two && echo more > ~/set/open",
    );
    fixture
        .output_of("mkdir ~/deep/within/other ~/deep/other && echo free > ~/deep/within/other/x");
    let read = |path: &str| fs::read_to_string(fixture.places.home.join(path)).unwrap();
    assert_eq!((read("set/log/two"), read("set/open")), ("one\n".into(), "more\n".into()));
    assert_eq!(read("deep/within/other/x"), "free\n");
    assert_eq!(
        fixture.output_of("cat ~/set/settings ~/deep/within/set/settings ~/alone"),
        "oursoursours"
    );
}
