//! Which of the person's tools are visible to checks.

use std::fs;
use std::path::PathBuf;

use bailiwick_runner::checks::Setup;
use bailiwick_runner::toolchain::Host;
use bailiwick_verify::job::Termination;

use crate::bench::{Bench, place};

#[test]
fn only_tools_of_the_home_are_visible() {
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
        virtual_env: None,
        places: Vec::new(),
    };
    let shown = |path: &str| home.join(path).display().to_string();
    let mut bench = Bench::with(&[], |setup| Setup { host: host.clone(), ..setup });
    let output = bench.shell("echo $PATH $RUSTUP_HOME").tail;
    assert_eq!(
        output.trim(),
        format!(
            "{}:{}:{}:/usr/bin:/bin {}",
            shown(".cargo/bin"),
            shown(".nvm/versions/v1/bin"),
            shown(".local/bin"),
            shown(".rustup")
        )
    );
    let output = bench
        .shell(&format!("cd {} && find . -type f -o -type d | sort | tr '\\n' ' '", home.display()))
        .tail;
    assert_eq!(
        output,
        ". ./.cargo ./.cargo/bin ./.local ./.local/bin ./.nvm ./.nvm/tool ./.nvm/versions ./.nvm/versions/v1 \
         ./.nvm/versions/v1/bin ./.rustup ./.rustup/toolchains "
    );
    let output = bench.shell("ls -A $CARGO_HOME").tail;
    assert_eq!(output, "config.toml\nregistry\n");
    assert_eq!(bench.shell("ls $CARGO_HOME/registry").tail, "cache\n");
}

#[test]
fn only_source_replacements_of_cargos_settings_are_copied() {
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
        Setup { host, ..setup }
    });
    let configuration = bench.shell("cat $CARGO_HOME/config.toml").tail;
    assert!(
        configuration.contains("mirror.example.org") && configuration.contains("ours.example.org"),
        "{configuration}"
    );
    assert!(
        !configuration.contains("secret") && !configuration.contains("wrapper"),
        "{configuration}"
    );
    assert_ne!(bench.shell("echo >> $CARGO_HOME/config.toml").ended, Termination::Exit(0));
    fs::remove_file(cargo.join("config.toml")).unwrap();
    bench.fill(&[]);
    assert_eq!(bench.shell("cat $CARGO_HOME/config.toml").tail, "");
    assert_ne!(bench.shell("echo >> $CARGO_HOME/config.toml").ended, Termination::Exit(0));
}

#[test]
fn stamp_of_the_toolchain_changes_with_it() {
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
        virtual_env: None,
        places: Vec::new(),
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
