//! A setup runs once, reaches registries only, and every later tree sees its result.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use bailiwick_lifecycle::ports::{Preparation, SetUp};
use bailiwick_verify::job::Termination;

use crate::bench::Bench;

/// A server that answers every request with `package`, and its port.
fn registry() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap() == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npackage");
        }
    });
    port
}

fn setup(lines: &[String], hosts: &[String]) -> Preparation {
    Preparation { setup: lines.to_vec(), hosts: hosts.to_vec(), ..Preparation::default() }
}

fn fetch(port: u16, file: &str) -> String {
    format!(
        "mkdir -p node_modules && python3 -c 'import urllib.request as r; \
         open(\"{file}\", \"wb\").write(r.urlopen(\"http://127.0.0.1:{port}/x\").read())'"
    )
}

#[test]
fn setup_runs_once_per_set_of_dependencies_and_later_trees_see_it() {
    let port = registry();
    let lines =
        [fetch(port, "node_modules/x"), "echo home > ~/.kept; pwd > node_modules/at".into()];
    let preparation = setup(&lines, &[format!("127.0.0.1:{port}")]);
    let manifest = ("package.json", "{}");
    let mut bench = Bench::new(&[manifest, ("a.js", "1")]);
    assert_eq!(bench.set_up(&preparation).unwrap(), SetUp::Shared);
    assert_eq!(bench.progress, lines);
    for source in ["2", "3"] {
        bench.fill(&[manifest, ("a.js", source)]);
        bench.make_ready(&Preparation::default()).unwrap();
        let output = bench.shell("cat node_modules/x a.js ~/.kept node_modules/at");
        assert_eq!(output.tail, format!("package{source}home\n/bailiwick/tree\n"));
        // Files that a check writes there are deleted after it.
        assert_eq!(
            bench.shell("echo y > node_modules/x && rm ~/.kept").ended,
            Termination::Exit(0)
        );
        assert_eq!(bench.set_up(&preparation).unwrap(), SetUp::Shared);
    }
    assert_eq!(bench.progress.iter().filter(|line| **line == lines[0]).count(), 1);
    // Other dependencies have their own setup.
    bench.fill(&[("package.json", "{ }")]);
    bench.set_up(&preparation).unwrap();
    assert_eq!(bench.progress.iter().filter(|line| **line == lines[0]).count(), 2);
}

#[test]
fn files_of_the_tree_are_not_covered_by_the_setup() {
    let mut bench = Bench::new(&[("a", "")]);
    let lines = ["mkdir vendor other; echo setup > vendor/x; echo setup > other/x".to_owned()];
    bench.set_up(&setup(&lines, &[])).unwrap();
    bench.fill(&[("a", ""), ("vendor/x", "tree\n")]);
    bench.make_ready(&Preparation::default()).unwrap();
    assert_eq!(bench.shell("cat vendor/x other/x").tail, "tree\nsetup\n");
}

#[test]
fn setup_reaches_named_hosts_only_and_none_without_the_gateway() {
    let port = registry();
    let mut bench = Bench::new(&[]);
    let direct = format!(
        "! env -u http_proxy -u HTTP_PROXY bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null"
    );
    let allowed = [format!("127.0.0.1:{port}")];
    bench.set_up(&setup(&[direct, fetch(port, "x")], &allowed)).unwrap();
    bench.fill(&[]);
    let error = bench.set_up(&setup(&[fetch(port, "x")], &[])).unwrap_err();
    assert!(error.why.contains("403"), "{error}");
    assert!(!error.caused_by_agent, "the base is the cause, not the work: {error}");
}

#[test]
fn setup_that_changes_tracked_files_or_fails_is_not_cached() {
    let mut bench = Bench::new(&[("tracked", "x")]);
    for line in ["echo y > tracked", "mkdir made; exit 3"] {
        bench.fill(&[("tracked", "x")]);
        bench.set_up(&setup(&[line.to_owned()], &[])).unwrap_err();
        bench.fill(&[("tracked", "x")]);
        bench.set_up(&setup(&[line.to_owned()], &[])).unwrap_err();
    }
    assert_eq!(bench.progress.len(), 4, "each ran again");
}

#[test]
fn setup_does_not_see_the_persons_credentials() {
    let home = tempfile::tempdir().unwrap();
    for (file, text) in [
        (".npmrc", "registry=http://127.0.0.1:1/\n//127.0.0.1:1/:_authToken=hunter2\n"),
        (".netrc", "machine x password hunter2\n"),
        (".config/pip/pip.conf", "[global]\nindex-url = http://me:hunter2@127.0.0.1:1/simple\n"),
        (".cargo/credentials.toml", "[registry]\ntoken = \"hunter2\"\n"),
        (".m2/settings.xml", "<password>hunter2</password>"),
        (".m2/repository/kept", "artifact"),
    ] {
        let file = home.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let mut bench = Bench::with(&[], |mut setup| {
        setup.host.home = home.path().to_owned();
        setup.host.cargo = home.path().join(".cargo");
        setup
    });
    let look =
        format!("! grep -rs hunter2 ~ {0} && grep -q 127.0.0.1:1 ~/.npmrc", home.path().display());
    bench.set_up(&setup(std::slice::from_ref(&look), &[])).unwrap();
    bench.fill(&[]);
    bench.make_ready(&Preparation::default()).unwrap();
    assert_eq!(bench.shell(&look).ended, Termination::Exit(0));
    assert_eq!(bench.shell("cat ~/.m2/repository/kept").tail, "artifact", "caches are visible");
}
