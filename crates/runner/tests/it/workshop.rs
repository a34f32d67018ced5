//! Slots and their trees, preparation, caches.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bailiwick_control::ports::{Preparation, Workshop as _};
use bailiwick_runner::checks::{CheckWorkshop, sweep};
use bailiwick_runner::process::Limits;
use bailiwick_runner::sandbox::{Launcher, Level};
use bailiwick_runner::toolchain::Host;
use bailiwick_verify::job::{Crates, Ended, Warnings};

use crate::bench::{Bench, place, setup};
use crate::lab::{comes_true, processes_with};

fn preparation(copy: &[&str], prefetch: &[&str], setup: &[&str]) -> Preparation {
    let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    Preparation { copy: owned(copy), setup: owned(setup), prefetch: owned(prefetch) }
}

fn slots(place: &Path) -> Vec<PathBuf> {
    let slots = place.join("state/caches/some-repository/slots");
    let mut found: Vec<PathBuf> =
        fs::read_dir(slots).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn two_workshops_take_two_slots_and_a_free_one_is_taken_again() {
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
fn no_tree_is_left_after_success_failure_or_panic() {
    let place = place();
    let mut workshop = CheckWorkshop::open(setup(&place)).unwrap();
    let tree = workshop.clear().unwrap().to_owned();
    fs::write(tree.join("file"), "x").unwrap();
    // Even if the tree defends itself.
    let line = "mkdir -p deep/er && touch deep/er/file && chmod 000 deep/er && chmod 500 deep";
    let job = bailiwick_verify::Job::Command { line: line.to_owned() };
    workshop.run(&job, &mut |_| {});
    assert!(tree.join("deep").exists());
    assert!(fs::read_dir(workshop.clear().unwrap()).unwrap().next().is_none());
    fs::write(tree.join("file"), "x").unwrap();
    let panicked = std::thread::spawn(move || {
        let _held = workshop;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(!tree.exists());
    assert!(slots(place.path())[0].join("target").exists(), "the cache stays");
}

const ROLE: &str = "BAILIWICK_TEST_WORKSHOP";

/// Does nothing here: it is what the process does that is killed below.
#[test]
fn role_of_a_verification() {
    let Some(place) = std::env::var_os(ROLE) else { return };
    let mut setup = setup(&self::place());
    setup.state = PathBuf::from(&place).join("state");
    let mut workshop = CheckWorkshop::open(setup).unwrap();
    fs::write(workshop.clear().unwrap().join("file"), "x").unwrap();
    let line = format!("touch begun; exec perl -e 'sleep 600; # {}'", place.display());
    workshop.run(&bailiwick_verify::Job::Command { line }, &mut |_| {});
}

#[test]
fn the_tree_of_a_killed_verification_is_gone_when_the_slot_is_taken_or_swept() {
    for swept in [true, false] {
        let place = place();
        let mut killed = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "workshop::role_of_a_verification"])
            .env(ROLE, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tree = place.path().join("state/caches/some-repository/slots/0/tree");
        assert!(comes_true(|| tree.join("begun").exists()));
        sweep(&place.path().join("state")).unwrap();
        assert!(tree.join("file").exists(), "a slot in use is left alone");
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(comes_true(|| processes_with(&place.path().display().to_string()).is_empty()));
        assert!(tree.join("file").exists());
        if swept {
            sweep(&place.path().join("state")).unwrap();
            assert!(!tree.exists());
        } else {
            let workshop = CheckWorkshop::open(setup(&place)).unwrap();
            assert_eq!(workshop.tree(), tree);
            assert!(!tree.join("file").exists());
        }
    }
}

#[test]
fn a_level_that_cannot_be_had_is_refused_with_the_reason() {
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
fn commands_run_in_the_tree_with_an_environment_made_from_nothing() {
    let mut bench = Bench::new(&[("file", "here\n")]);
    let ran = bench.shell("pwd; cat file; echo $HOME $CARGO_TARGET_DIR $CARGO_HOME $NO_COLOR");
    assert_eq!(
        ran.tail,
        "/bailiwick/tree\nhere\n/bailiwick/home /bailiwick/target /bailiwick/cargo 1\n"
    );
    let inside = bench.shell("env | cut -d= -f1 | sort").tail;
    let ours = ["CARGO_", "RUSTUP_"];
    let plain = ["HOME", "LANG", "NO_COLOR", "OLDPWD", "PATH", "PWD", "TERM", "_"];
    let expected =
        |name: &str| plain.contains(&name) || ours.iter().any(|start| name.starts_with(start));
    assert!(inside.lines().all(expected), "{inside}");
    assert!(std::env::vars().any(|(name, _)| !expected(&name)), "there is something to leave out");
    assert_eq!(bench.shell("exit 7").ended, Ended::Exit(7));
    assert_eq!(bench.told.last().unwrap(), "exit 7");
}

#[test]
fn copies_prefetch_and_setup_come_in_this_order_and_only_prefetch_has_a_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
    let mut bench = Bench::with(&[("tracked", "tracked\n")], |mut setup| {
        setup.host.proxies = vec![("http_proxy".to_owned(), "http://proxy".to_owned())];
        setup
    });
    let checkout = bench.place.path().join("checkout");
    fs::create_dir_all(checkout.join("data/deep")).unwrap();
    fs::write(checkout.join("data/deep/file"), "copied\n").unwrap();
    let fetch = format!(
        "{connect} && test \"$http_proxy\" && cat data/deep/file > order && echo fetched > $CARGO_HOME/mark"
    );
    let no_network =
        format!("! {connect} && test -z \"$http_proxy\" && cat $CARGO_HOME/mark >> order");
    bench.make_ready(&preparation(&["data"], &[&fetch], &[&no_network])).unwrap();
    assert_eq!(bench.told, [fetch.clone(), no_network]);
    assert_eq!(bench.shell("cat order $CARGO_HOME/mark").tail, "copied\nfetched\nfetched\n");
    bench.shell("echo '[build]' > $CARGO_HOME/config.toml; echo planted > $CARGO_HOME/mark");
    // What was fetched is there for the next tree that fetches, and only for that; what something
    // else wrote is not.
    bench.fill(&[]);
    assert_ne!(bench.shell("cat $CARGO_HOME/mark").ended, Ended::Exit(0));
    let look = "test \"$(cat $CARGO_HOME/mark)\" = fetched && ! test -s $CARGO_HOME/config.toml";
    bench.make_ready(&preparation(&[], &[look], &[look])).unwrap();

    let error = bench.make_ready(&preparation(&[], &[], &["echo why; exit 3"])).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("`echo why; exit 3`") && error.contains("exit code 3\nwhy"), "{error}");
}

#[test]
fn nothing_is_copied_over_tracked_files_or_through_links() {
    let mut bench = Bench::new(&[("tracked", "tracked\n"), ("same", "same\n")]);
    let checkout = bench.place.path().join("checkout");
    let outside = bench.place.path().join("outside");
    fs::create_dir_all(checkout.join(".git")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(checkout.join("linked")).unwrap();
    fs::create_dir_all(checkout.join("modules/bin")).unwrap();
    for (file, text) in [
        ("tracked", "other\n"),
        ("same", "same\n"),
        ("linked/file", "x"),
        (".git/config", "x"),
        ("modules/tool", "x"),
    ] {
        fs::write(checkout.join(file), text).unwrap();
    }
    symlink("../tool", checkout.join("modules/bin/tool")).unwrap();
    symlink("/etc/passwd", checkout.join("absolute")).unwrap();
    symlink("../outside", checkout.join("out")).unwrap();
    symlink(&outside, bench.tree().join("linked")).unwrap();
    for refused in [
        "tracked",
        "linked",
        "linked/file",
        ".git",
        ".git/config",
        "absolute",
        "out",
        "out/x",
        "../outside",
        "",
        "absent",
    ] {
        let tried = bench.make_ready(&preparation(&[refused], &[], &[]));
        assert!(tried.is_err(), "{refused}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(bench.tree().join("tracked")).unwrap(), "tracked\n");
    bench.make_ready(&preparation(&["same", "modules"], &[], &[])).unwrap();
    assert_eq!(fs::read_to_string(bench.tree().join("modules/bin/tool")).unwrap(), "x");
}

const MANIFEST: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// Which crates the next check compiles.
fn compiled(bench: &mut Bench, files: &[(&str, &str)]) -> Vec<String> {
    bench.fill(files);
    let ran = bench.check(Crates::Holding(Vec::new()), Warnings::Allowed);
    let [ran] = ran.as_slice() else { panic!("{ran:?}") };
    assert_eq!(ran.ended, Ended::Exit(0), "{}", ran.tail);
    let names = ran.tail.lines().filter_map(|line| line.trim().strip_prefix("Checking "));
    names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn only_what_changed_is_built_again() {
    let (a, b) = (MANIFEST.replace("NAME", "a"), MANIFEST.replace("NAME", "b"));
    let b = format!("{b}[dependencies]\na = {{ path = \"../a\" }}\n");
    let tree = |a_source: &'static str, b_source: &'static str, data: &'static str| {
        vec![
            ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n"),
            ("a/Cargo.toml", a.as_str()),
            ("a/src/lib.rs", a_source),
            ("b/Cargo.toml", b.as_str()),
            ("b/src/lib.rs", b_source),
            ("data.txt", data),
        ]
    };
    let (one, two) = ("pub fn a() -> u32 { 1 }\n", "pub fn a() -> u32 { 2 }\n");
    let mut bench = Bench::new(&[]);
    let first = tree(one, "", "");
    assert_eq!(compiled(&mut bench, &first), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &first), Vec::<String>::new());
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "")), ["b"]);
    assert_eq!(compiled(&mut bench, &tree(two, "fn b() {}\n", "")), ["a", "b"]);
    // Back to what was built once, but is not what was built last.
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "")), ["a", "b"]);
    // A file that anything might read.
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), Vec::<String>::new());
    // A program that changed a source, even if it hid that, and one that left something.
    bench.shell("t=$(stat -c %y a/src/lib.rs); echo 'fn x() {}' >> a/src/lib.rs; touch -d \"$t\" a/src/lib.rs");
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), Vec::<String>::new());
    bench.shell("touch a/src/generated.rs");
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
}

#[test]
fn a_tree_whose_files_are_old_is_still_built() {
    let manifest = MANIFEST.replace("NAME", "a");
    let mut bench = Bench::new(&[]);
    let files =
        |source: &'static str| vec![("Cargo.toml", manifest.as_str()), ("src/lib.rs", source)];
    assert_eq!(compiled(&mut bench, &files("")), ["a"]);
    bench.fill(&files("pub fn a() {}\n"));
    // As an archive would be unpacked, with the times of commits.
    let old = Command::new("touch")
        .args(["-d", "2001-01-01"])
        .arg(bench.tree().join("src/lib.rs"))
        .status();
    assert!(old.unwrap().success());
    let ran = bench.check(Crates::Holding(Vec::new()), Warnings::Allowed);
    assert!(ran[0].tail.contains("Checking a"), "{}", ran[0].tail);
}

#[test]
fn a_cache_belongs_to_one_repository() {
    let place = place();
    let open = |repository: &str| {
        let mut setup = setup(&place);
        setup.repository = repository.to_owned();
        let mut workshop = CheckWorkshop::open(setup).unwrap();
        workshop.clear().unwrap();
        workshop
    };
    let run = |workshop: &mut CheckWorkshop, line: &str| {
        let job = bailiwick_verify::Job::Command { line: line.to_owned() };
        match workshop.run(&job, &mut |_| {}) {
            bailiwick_verify::Outcome::Commands(all) => all[0].tail.clone(),
            other @ (bailiwick_verify::Outcome::CouldNotRun { .. }
            | bailiwick_verify::Outcome::Tests { .. }) => panic!("{other:?}"),
        }
    };
    let mut one = open("one");
    run(&mut one, "touch $CARGO_TARGET_DIR/mark");
    assert_eq!(run(&mut one, "ls $CARGO_TARGET_DIR"), "mark\n");
    drop(one);
    assert_eq!(run(&mut open("one"), "ls $CARGO_TARGET_DIR"), "mark\n");
    let mut other = open("other");
    assert_eq!(run(&mut other, "ls $CARGO_TARGET_DIR"), "");
    let seen = run(&mut other, "ls /bailiwick; cat /proc/self/mountinfo | grep -c 'caches/one'");
    assert!(seen.ends_with("tree\n0\n"), "{seen}");
}

#[test]
fn with_the_level_off_the_same_jobs_run() {
    let manifest = MANIFEST.replace("NAME", "a");
    let files = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "#[test] fn one() {}\n")];
    let mut bench =
        Bench::with(&files, |setup| bailiwick_runner::checks::Setup { level: Level::Off, ..setup });
    let tree = bench.tree().canonicalize().unwrap();
    assert_eq!(bench.shell("pwd -P").tail, format!("{}\n", tree.display()));
    let crates = bench.test();
    assert_eq!(crates[0].programs[0].run.ended, Ended::Exit(0));
    assert!(matches!(
        &crates[0].programs[0].harness,
        bailiwick_verify::job::Harness::Standard { results, .. } if results.len() == 1
    ));
}

#[test]
fn limits_hold() {
    let mut bench = Bench::with(&[], |setup| bailiwick_runner::checks::Setup {
        limits: Limits { time: std::time::Duration::from_secs(1), output: 100_000 },
        ..setup
    });
    assert_eq!(bench.shell("sleep 600").ended, Ended::TimedOut(std::time::Duration::from_secs(1)));
    assert_eq!(bench.shell("yes").ended, Ended::TooMuchOutput(100_000));
    assert_eq!(bench.shell("true").ended, Ended::Exit(0));
}

#[test]
fn of_the_home_only_tools_are_seen() {
    let place = place();
    let home = place.path().join("home");
    for directory in [
        ".cargo/bin",
        ".cargo/registry/cache",
        ".nvm/versions/v1/bin",
        ".local/bin",
        ".rustup/toolchains",
    ] {
        fs::create_dir_all(home.join(directory)).unwrap();
    }
    for secret in
        [".cargo/credentials.toml", ".cargo/credentials", ".netrc", ".nvm/tool", ".local/secret"]
    {
        fs::write(home.join(secret), "x").unwrap();
    }
    let entries = [".cargo/bin", ".nvm/versions/v1/bin", ".local/bin", ".", "no-such"]
        .map(|name| home.join(name));
    let path = std::env::join_paths(entries.iter().chain([
        &PathBuf::from("/usr/bin"),
        &PathBuf::from("bin"),
        &PathBuf::from("/bin"),
    ]))
    .unwrap();
    let host = Host {
        cargo: home.join(".cargo"),
        rustup: home.join(".rustup"),
        path,
        home: home.clone(),
        proxies: Vec::new(),
    };
    let shown = |path: &str| home.join(path).display().to_string();
    let mut bench =
        Bench::with(&[], |setup| bailiwick_runner::checks::Setup { host: host.clone(), ..setup });
    let seen = bench.shell("echo $PATH $RUSTUP_HOME").tail;
    assert_eq!(
        seen.trim(),
        format!(
            "{}:{}:{}:/usr/bin:/bin {}",
            shown(".cargo/bin"),
            shown(".nvm/versions/v1/bin"),
            shown(".local/bin"),
            shown(".rustup")
        )
    );
    let seen = bench
        .shell(&format!("cd {} && find . -type f -o -type d | sort | tr '\\n' ' '", home.display()))
        .tail;
    assert_eq!(
        seen,
        ". ./.cargo ./.cargo/bin ./.local ./.local/bin ./.nvm ./.nvm/tool ./.nvm/versions ./.nvm/versions/v1 \
         ./.nvm/versions/v1/bin ./.rustup ./.rustup/toolchains "
    );
    let seen = bench.shell("ls -A $CARGO_HOME").tail;
    assert_eq!(seen, "registry\n");
    assert_eq!(bench.shell("ls $CARGO_HOME/registry").tail, "cache\n");
}

#[test]
fn of_cargos_settings_only_where_sources_come_from_is_told() {
    let place = place();
    let cargo = place.path().join("cargo");
    fs::create_dir_all(&cargo).unwrap();
    fs::write(
        cargo.join("config.toml"),
        "[source.crates-io]\nreplace-with = \"mirror\"\n\
         [source.mirror]\nregistry = \"sparse+https://mirror.example.org/\"\n\
         [source.other]\nregistry = \"https://user:a-secret@example.org/\"\n\
         [registries.ours]\nindex = \"https://ours.example.org/\"\ntoken = \"a-secret\"\n\
         [registry]\ntoken = \"a-secret\"\n[http]\nproxy = \"http://user:a-secret@proxy\"\n\
         [build]\nrustc-wrapper = \"/home/person/wrapper\"\n",
    )
    .unwrap();
    let mut bench = Bench::with(&[], |setup| {
        let host = Host { cargo: cargo.clone(), ..setup.host };
        bailiwick_runner::checks::Setup { host, ..setup }
    });
    let told = bench.shell("cat $CARGO_HOME/config.toml").tail;
    assert!(told.contains("mirror.example.org") && told.contains("ours.example.org"), "{told}");
    assert!(!told.contains("secret") && !told.contains("wrapper"), "{told}");
    assert_ne!(bench.shell("echo >> $CARGO_HOME/config.toml").ended, Ended::Exit(0));
    fs::remove_file(cargo.join("config.toml")).unwrap();
    bench.fill(&[]);
    assert_ne!(bench.shell("cat $CARGO_HOME/config.toml").ended, Ended::Exit(0));
}

#[test]
fn the_stamp_of_the_toolchain_changes_with_it() {
    let place = place();
    let home = place.path().to_owned();
    fs::create_dir_all(home.join("bin")).unwrap();
    fs::create_dir_all(home.join(".rustup/toolchains/stable/bin")).unwrap();
    let host = Host {
        cargo: home.join(".cargo"),
        rustup: home.join(".rustup"),
        path: home.join("bin").into(),
        home: home.clone(),
        proxies: Vec::new(),
    };
    let mut stamps = vec![host.stamp()];
    assert_eq!(host.stamp(), stamps[0]);
    for file in
        ["bin/cargo", "bin/rustc", ".rustup/settings.toml", ".rustup/toolchains/stable/bin/rustc"]
    {
        fs::write(home.join(file), "x").unwrap();
        stamps.push(host.stamp());
        fs::write(home.join(file), "longer").unwrap();
        stamps.push(host.stamp());
    }
    fs::write(home.join("bin/unrelated"), "x").unwrap();
    assert_eq!(Some(&host.stamp()), stamps.last());
    let different: std::collections::BTreeSet<&String> = stamps.iter().collect();
    assert_eq!(different.len(), stamps.len());
}
