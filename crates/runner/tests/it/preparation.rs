//! Tree preparation: copies, prefetch, setup.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use bailiwick_lifecycle::ports::Preparation;
use bailiwick_runner::checks::CheckWorkshop;
use bailiwick_verify::job::Termination;

use crate::bench::{Bench, place};

fn preparation(copy: &[&str], prefetch: &[&str], setup: &[&str]) -> Preparation {
    let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    Preparation {
        copy: owned(copy),
        setup: owned(setup),
        prefetch: owned(prefetch),
        hosts: Vec::new(),
    }
}

#[test]
fn copies_prefetch_and_setup_run_in_order_and_only_prefetch_has_network() {
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
        "{connect} && test \"$http_proxy\" && test \"$npm_config_ignore_scripts$YARN_ENABLE_SCRIPTS\" = truefalse && cat data/deep/file > order && echo fetched > $CARGO_HOME/mark"
    );
    let no_network =
        format!("! {connect} && test -z \"$http_proxy\" && cat $CARGO_HOME/mark >> order");
    bench.make_ready(&preparation(&["data"], &[&fetch], &[&no_network])).unwrap();
    assert_eq!(bench.progress, [fetch.clone(), no_network]);
    assert_eq!(bench.shell("cat order $CARGO_HOME/mark").tail, "copied\nfetched\nfetched\n");
    bench.shell("echo '[build]' > $CARGO_HOME/config.toml; echo planted > $CARGO_HOME/mark");
    // Prefetched files remain for the next tree of the same verification; files written by other steps
    // do not.
    bench.fill(&[]);
    let prefetched =
        bench.shell("cat $CARGO_HOME/mark; test -s $CARGO_HOME/config.toml || echo ours");
    assert_eq!(
        (prefetched.ended, prefetched.tail.as_str()),
        (Termination::Exit(0), "fetched\nours\n")
    );
    let look = "test \"$(cat $CARGO_HOME/mark)\" = fetched && ! test -s $CARGO_HOME/config.toml";
    bench.make_ready(&preparation(&[], &[look], &[look])).unwrap();

    let error = bench.make_ready(&preparation(&[], &[], &["echo why; exit 3"])).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("`echo why; exit 3`") && error.contains("exit code 3\nwhy"), "{error}");

    // A verification without prefetch does not see them, although it uses the same slot.
    let Bench { place, workshop, progress } = bench;
    drop(workshop);
    let workshop = CheckWorkshop::open(crate::bench::setup(&place)).unwrap();
    let mut bench = Bench { place, workshop, progress };
    bench.fill(&[]);
    assert_ne!(bench.shell("cat $CARGO_HOME/mark").ended, Termination::Exit(0));
    bench.make_ready(&preparation(&[], &[look], &[])).unwrap();
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
    // Each case says whether the tree is the cause, so that the agent can repair it.
    for (refused, caused_by_agent) in [
        ("tracked", true),
        ("linked", true),
        ("linked/file", true),
        (".git", false),
        (".git/config", false),
        ("absolute", false),
        ("out", false),
        ("out/x", false),
        ("../outside", false),
        ("", false),
        ("absent", false),
    ] {
        let error = bench.make_ready(&preparation(&[refused], &[], &[])).unwrap_err();
        assert_eq!(error.caused_by_agent, caused_by_agent, "{refused}: {error}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(bench.tree().join("tracked")).unwrap(), "tracked\n");
    // Paths that every sandbox shows can be link targets, like the interpreter of a virtual environment.
    symlink("/usr/bin/env", checkout.join("interpreter")).unwrap();
    bench.make_ready(&preparation(&["same", "modules", "interpreter"], &[], &[])).unwrap();
    assert_eq!(bench.shell("./interpreter echo found").tail, "found\n");
    assert_eq!(fs::read_to_string(bench.tree().join("modules/bin/tool")).unwrap(), "x");
}

#[test]
fn tree_with_an_unreadable_toolchain_is_reported_as_the_cause() {
    let rustup = place();
    fs::create_dir(rustup.path().join("toolchains")).unwrap();
    let mut bench = Bench::with(&[], |mut setup| {
        setup.host.rustup = rustup.path().to_owned();
        setup
    });
    symlink("elsewhere", bench.tree().join("rust-toolchain.toml")).unwrap();
    let error = bench.make_ready(&preparation(&[], &[], &[])).unwrap_err();
    assert!(error.caused_by_agent && error.why.contains("is no plain file"), "{error}");
    bench.fill(&[]);
    fs::write(bench.tree().join("rust-toolchain.toml"), b"\xff").unwrap();
    let error = bench.make_ready(&preparation(&[], &[], &[])).unwrap_err();
    assert!(error.caused_by_agent, "{error}");
    bench.fill(&[]);
    bench.make_ready(&preparation(&[], &[], &[])).unwrap();
}

#[test]
fn prefetch_sets_no_configuration_and_adds_no_programs() {
    let mut bench = Bench::new(&[]);
    let plant = "mkdir -p $CARGO_HOME/bin $CARGO_HOME/registry && echo x > $CARGO_HOME/registry/kept \
                 && echo x > $CARGO_HOME/config && echo x > $CARGO_HOME/bin/cargo";
    bench.make_ready(&preparation(&[], &[plant], &[])).unwrap();
    bench.fill(&[]);
    let look = "ls -A $CARGO_HOME $CARGO_HOME/registry > seen";
    bench.make_ready(&preparation(&[], &["true"], &[look])).unwrap();
    let output = bench.shell("cat seen").tail;
    assert!(
        output.contains("kept") && !output.contains("config\n") && !output.contains("bin"),
        "{output}"
    );

    let settings = "[registry]\ncredential-provider = [\"./steal\"]\n";
    bench.fill(&[(".cargo/config.toml", settings)]);
    let error = bench.make_ready(&preparation(&[], &["true"], &[])).unwrap_err().to_string();
    assert!(error.contains("credential-provider"), "{error}");
    bench.make_ready(&preparation(&[], &[], &["true"])).unwrap();
}
