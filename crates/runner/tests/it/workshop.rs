//! Slots and their trees, sandbox levels, limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::{CheckEnvironment as _, Preparation};
use bailiwick_runner::checks::{CheckWorkshop, Setup, sweep};
use bailiwick_runner::process::{Cancellation, Limits};
use bailiwick_runner::sandbox::{Launcher, Level};
use bailiwick_verify::job::{Harness, Termination};
use bailiwick_verify::{Job, JobOutcome};

use crate::bench::{Bench, place, setup};
use crate::lab::{becomes_true, processes_with};

const MANIFEST: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

fn slots(place: &Path) -> Vec<PathBuf> {
    let slots = place.join("state/caches/some-repository/slots");
    let mut found: Vec<PathBuf> =
        fs::read_dir(slots).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn two_workshops_use_two_slots_and_a_free_slot_is_reused() {
    let place = place();
    let mut first = CheckWorkshop::open(setup(&place)).unwrap();
    let mut second = CheckWorkshop::open(setup(&place)).unwrap();
    assert_ne!(first.clear().unwrap(), second.clear().unwrap());
    let tree = first.tree();
    drop(first);
    let third = CheckWorkshop::open(setup(&place)).unwrap();
    assert_eq!(third.tree(), tree);
    assert_eq!(slots(place.path()).len(), 2);
}

#[test]
fn tree_is_deleted_after_success_failure_or_panic() {
    let place = place();
    let mut workshop = CheckWorkshop::open(setup(&place)).unwrap();
    let tree = workshop.clear().unwrap().to_owned();
    fs::write(tree.join("file"), "x").unwrap();
    // Even if the tree's permissions prevent it.
    let line = "mkdir -p deep/er && touch deep/er/file && chmod 000 deep/er && chmod 500 deep";
    let setup = vec![line.to_owned()];
    let preparation =
        Preparation { copy: Vec::new(), prefetch: Vec::new(), hosts: Vec::new(), setup };
    workshop.make_ready(&preparation, &mut |_| {}).unwrap();
    assert!(tree.join("deep").exists());
    workshop.run(&Job::Command { line: line.replace("deep", "other") }, &mut |_| {});
    assert!(!tree.join("other").exists());
    let work = slots(place.path())[0].join("work");
    assert_eq!(fs::read_dir(work).unwrap().count(), 0, "the job's files are deleted");
    assert!(fs::read_dir(workshop.clear().unwrap()).unwrap().next().is_none());
    fs::write(tree.join("file"), "x").unwrap();
    let panicked = std::thread::spawn(move || {
        let _workshop = workshop;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(!tree.exists());
    assert!(slots(place.path())[0].join("target").exists(), "the cache is kept");
}

const ROLE: &str = "BAILIWICK_TEST_WORKSHOP";

/// Does nothing here: the test below starts and kills this process.
#[test]
fn role_of_a_verification() {
    let Some(place) = std::env::var_os(ROLE) else { return };
    let mut setup = setup(&self::place());
    setup.state = PathBuf::from(&place).join("state");
    let mut workshop = CheckWorkshop::open(setup).unwrap();
    fs::write(workshop.clear().unwrap().join("file"), "x").unwrap();
    let line = format!("touch begun; exec perl -e 'sleep 600; # {}'", place.display());
    workshop.run(&Job::Command { line }, &mut |_| {});
}

#[test]
fn tree_of_a_killed_verification_is_deleted_on_reuse_or_sweep() {
    for swept in [true, false] {
        let place = place();
        let mut killed = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "workshop::role_of_a_verification"])
            .env(ROLE, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let slot = place.path().join("state/caches/some-repository/slots/0");
        let (tree, work) = (slot.join("tree"), slot.join("work"));
        let started = || {
            let works = fs::read_dir(&work).into_iter().flatten().flatten();
            works.into_iter().any(|entry| entry.path().join("tree/upper/begun").exists())
        };
        assert!(becomes_true(started));
        sweep(&place.path().join("state")).unwrap();
        assert!(tree.join("file").exists(), "a slot in use is not changed");
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(becomes_true(|| processes_with(&place.path().display().to_string()).is_empty()));
        assert!(tree.join("file").exists());
        if swept {
            sweep(&place.path().join("state")).unwrap();
            assert!(!tree.exists() && !work.exists());
        } else {
            let workshop = CheckWorkshop::open(setup(&place)).unwrap();
            assert_eq!(workshop.tree(), tree);
            assert!(!tree.join("file").exists());
        }
    }
}

#[test]
fn unsupported_sandbox_level_is_refused_with_the_reason() {
    let place = place();
    for level in [Level::Partial, Level::Full] {
        let mut setup = setup(&place);
        (setup.level, setup.launcher) = (level, Launcher::new("/bin/false", &[]));
        let error = CheckWorkshop::open(setup).unwrap_err().to_string();
        assert!(error.contains("sandbox") && error.contains("namespace"), "{error}");
    }
    let mut setup = setup(&place);
    setup.repository = "../elsewhere".to_owned();
    let error = CheckWorkshop::open(setup).unwrap_err().to_string();
    assert!(error.contains("../elsewhere"), "{error}");
}

#[test]
fn commands_run_in_the_tree_with_a_new_environment() {
    let mut bench = Bench::new(&[("file", "here\n")]);
    let result = bench.shell("pwd; cat file; echo $HOME $CARGO_TARGET_DIR $CARGO_HOME $NO_COLOR");
    assert_eq!(
        result.tail,
        "/bailiwick/tree\nhere\n/bailiwick/home /bailiwick/target /bailiwick/cargo 1\n"
    );
    let inside = bench.shell("env | cut -d= -f1 | sort").tail;
    let ours = ["CARGO_", "RUSTUP_", "RUSTC", "RUSTDOC"];
    let plain = ["HOME", "LANG", "NO_COLOR", "OLDPWD", "PATH", "PWD", "TERM", "_"];
    // The variables of version and package managers, and of the missing network.
    let places = [
        "GEM_HOME",
        "GRADLE_USER_HOME",
        "MAVEN_OPTS",
        "NVM_DIR",
        "PYENV_ROOT",
        "RBENV_ROOT",
        "NODENV_ROOT",
        "ASDF_DATA_DIR",
        "VOLTA_HOME",
        "SDKMAN_DIR",
        "MISE_DATA_DIR",
        "JAVA_HOME",
        "GOROOT",
        "VIRTUAL_ENV",
        "GOPROXY",
        "npm_config_update_notifier",
        "PYTHONDONTWRITEBYTECODE",
    ];
    let expected = |name: &str| {
        plain.contains(&name)
            || places.contains(&name)
            || ours.iter().any(|start| name.starts_with(start))
    };
    assert!(inside.lines().all(expected), "{inside}");
    assert!(
        std::env::vars().any(|(name, _)| !expected(&name)),
        "the control: the host has other variables"
    );
    assert_eq!(bench.shell("exit 7").ended, Termination::Exit(7));
    assert_eq!(bench.progress.last().unwrap(), "exit 7");
}

#[test]
fn python_writes_no_compiled_files_beside_its_sources() {
    let mut bench = Bench::new(&[("a.py", "x = 1\n"), ("b.py", "import a\n")]);
    let import = "python3 -c 'import b' && ls";
    let control = format!("unset PYTHONDONTWRITEBYTECODE; {import}");
    assert_eq!(bench.shell(import).tail, "a.py\nb.py\n");
    assert_eq!(bench.shell(&control).tail, "__pycache__\na.py\nb.py\n");
}

#[test]
fn same_jobs_run_without_a_sandbox() {
    let manifest = MANIFEST.replace("NAME", "a");
    let files = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "#[test] fn one() {}\n")];
    let mut bench = Bench::with(&files, |setup| Setup { level: Level::Off, ..setup });
    let slot = bench.tree().parent().unwrap().canonicalize().unwrap();
    let work = slot.join("work/only/tree/upper");
    assert_eq!(bench.shell("pwd -P").tail, format!("{}\n", work.display()));
    assert_eq!(bench.shell("touch mark $CARGO_TARGET_DIR/mark").ended, Termination::Exit(0));
    assert_eq!(bench.shell("ls; ls $CARGO_TARGET_DIR").tail, "Cargo.toml\nsrc\n");
    let crates = bench.test();
    assert_eq!(crates[0].programs[0].run.ended, Termination::Exit(0));
    assert!(matches!(
        &crates[0].programs[0].harness,
        Harness::Standard { results, .. } if results.len() == 1
    ));
}

#[test]
fn limits_are_enforced() {
    let within = |seconds: u64| {
        let limits = Limits { time: Duration::from_secs(seconds), output: 100_000 };
        Bench::with(&[], |setup| Setup { limits, ..setup })
    };
    let termination = within(1).shell("sleep 600").ended;
    assert_eq!(termination, Termination::TimedOut(Duration::from_secs(1)));
    let mut bench = within(60);
    assert_eq!(bench.shell("yes").ended, Termination::TooMuchOutput(100_000));
    assert_eq!(bench.shell("true").ended, Termination::Exit(0));
}

#[test]
fn git_works_in_a_tree_whose_objects_are_elsewhere() {
    let mut bench = Bench::new(&[]);
    let origin = bench.place.path().join("origin");
    let git = |directory: &Path, line: &str| {
        let line = format!("git -c user.name=a -c user.email=a@b {line}");
        let finished = Command::new("/bin/sh")
            .args(["-c", &line])
            .current_dir(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(finished.success(), "{line}");
    };
    fs::create_dir(&origin).unwrap();
    fs::write(origin.join("file"), "here\n").unwrap();
    git(&origin, "init -q . && git add file");
    git(&origin, "commit -qm first && git tag v1");
    git(&bench.tree(), &format!("clone -q --shared {} .", origin.display()));
    let show_history = "git log --format=%s && git describe --tags && git status --short";
    let finished = bench.shell(show_history);
    assert_eq!((finished.ended, finished.tail.as_str()), (Termination::Exit(0), "first\nv1\n"));
    let finished = bench.shell("echo more > new; git status --short; git add new");
    assert!(finished.tail.starts_with("?? new\n"), "{}", finished.tail);
    // They are read-only, and no other file of that repository is visible.
    let objects = origin.join(".git/objects");
    let write = format!("ls {0}/pack && ! touch {0}/x && ls -A {0}/..", objects.display());
    let finished = bench.shell(&write);
    assert_eq!(finished.ended, Termination::Exit(0), "{}", finished.tail);
    assert!(finished.tail.ends_with("\nobjects\n"), "{}", finished.tail);
}

#[test]
fn cancelled_job_is_ended_with_all_its_processes() {
    let until = Cancellation::default();
    let cancelled = Arc::clone(&until.cancelled);
    let mut bench = Bench::with(&[], |setup| Setup { until, ..setup });
    assert_eq!(bench.shell("true").ended, Termination::Exit(0));
    let number = format!("{}4444", std::process::id());
    let line = format!("setsid sleep {number} & sleep {number}");
    let canceller = std::thread::spawn(move || {
        let started = becomes_true(|| processes_with(&format!("sleep\0{number}\0")).len() == 2);
        cancelled.store(true, Ordering::SeqCst);
        (started, number)
    });
    let outcome = bench.run(&Job::Command { line });
    let (started, number) = canceller.join().unwrap();
    assert!(started, "the job never started");
    assert!(processes_with(&number).is_empty(), "a process still runs");
    for outcome in [outcome, bench.run(&Job::Command { line: "true".to_owned() })] {
        assert!(
            matches!(&outcome, JobOutcome::CouldNotRun { why } if why.contains("no longer needed")),
            "{outcome:?}"
        );
    }
}

#[test]
fn all_programs_of_a_verification_share_one_deadline() {
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let until = Cancellation { deadline, ..Cancellation::default() };
    let mut bench = Bench::with(&[], |setup| Setup { until, ..setup });
    for _ in 0..2 {
        let result = bench.shell("sleep 600");
        assert!(
            matches!(result.ended, Termination::TimedOut(after) if after <= Duration::from_secs(2))
        );
    }
}
