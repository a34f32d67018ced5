//! Small repositories of several languages, as people have them.

use std::path::PathBuf;
use std::process::Command;

use bailiwick_testkit::Scratch;

/// A repository, and a change to it.
pub(super) struct Project {
    pub(super) name: &'static str,
    /// Writes its files.
    pub(super) write: fn(&Scratch),
    /// Sets what a person of this language has in the environment.
    pub(super) environment: fn(&Scratch, &mut Command),
    /// The shell command by which the agent makes its change.
    pub(super) change: &'static str,
    /// The one file that the change touches.
    pub(super) file: &'static str,
    /// The command that runs the tests.
    pub(super) test: &'static str,
    /// What it prints when they passed.
    pub(super) proof: &'static str,
}

/// All of them.
pub(super) const ALL: [&Project; 2] = [&RUST, &SHELL];

fn nothing(_: &Scratch, _: &mut Command) {}

pub(super) const RUST: Project = Project {
    name: "rust",
    write: |scratch| {
        scratch.write(
            "Cargo.toml",
            "[package]\nname = \"greeter\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        );
        scratch.write(
            "Cargo.lock",
            "version = 4\n\n[[package]]\nname = \"greeter\"\nversion = \"0.1.0\"\n",
        );
        scratch.write(".gitignore", "/target\n");
        scratch.write(
            "src/lib.rs",
            "/// Greets.\npub fn greet(name: &str) -> String {\n    format!(\"Hello {name}\")\n}\n\n\
             #[test]\nfn the_name_is_in_it() {\n    assert!(greet(\"Ada\").contains(\"Ada\"));\n}\n",
        );
    },
    environment: |_, command| {
        let home = std::env::home_dir().unwrap();
        for (name, otherwise) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let given = std::env::var_os(name).map(PathBuf::from);
            command.env(name, given.unwrap_or_else(|| home.join(otherwise)));
        }
    },
    change: "sed -i 's/Hello/Good morning,/' src/lib.rs",
    file: "src/lib.rs",
    test: "cargo test --offline",
    proof: "1 passed",
};

pub(super) const SHELL: Project = Project {
    name: "shell",
    write: |scratch| {
        scratch.write("README.md", "# Greeter\n");
        scratch.write("greet.sh", "#!/bin/sh\nprintf 'Hello %s\\n' \"$1\"\n");
        scratch.write("test.sh", "#!/bin/sh\nsh ./greet.sh Ada | grep -q Ada && echo all good\n");
    },
    environment: nothing,
    change: "sed -i 's/Hello/Good morning,/' greet.sh",
    file: "greet.sh",
    test: "sh ./test.sh",
    proof: "all good",
};
