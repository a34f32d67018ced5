//! Readings by example: what is found, what is hidden, and what is only mentioned.

use bailiwick_policy::shell::{HiddenReason, ShellEffects, VariableSet, read};

fn programs(text: &str) -> Vec<String> {
    let reading = read(text);
    assert!(reading.hidden.is_empty(), "{text}: {:?}", reading.hidden);
    names(&reading)
}

fn names(reading: &ShellEffects) -> Vec<String> {
    reading.runs.iter().filter_map(|run| run.program()).collect()
}

#[test]
fn disguised_names_are_found() {
    for text in [
        "git push",
        "g''it push",
        "\\git push",
        "$'\\x67it' push",
        "$'\\147it' push",
        "gi\\\nt push",
        "\"g\"it push",
        "x=git; $x push",
        "x=gi; ${x}t push",
        "a=(git push); \"${a[@]}\"",
        "{git,push}",
        "eval 'gi''t push'",
        "set -- git push; \"$@\"",
        "f() { git push; }; f",
        "f() { \"$@\"; }; f git push",
        "( git push )",
        "{ git push; }",
        "if true; then git push; fi",
        "true && git push",
        "git push &",
        "! git push",
        "time git push",
        "coproc git push",
        "trap 'git push' EXIT",
        "echo $(git push)",
        "echo `git push`",
        "echo \"$(git push)\"",
        "cat <(git push)",
        "cat <<E\n$(git push)\nE",
        "${none:-git} push",
        "[[ -n $(git push) ]]",
        "echo $(: \")\"; git push {0)",
        "echo $(: \")\"; git push) s{0..1}",
        "for x in git; do $x push; done",
        "case a in a) git push;; esac",
        "x+=git; git push",
        "export x=$(git push)",
        "a[$(git push)]=1",
        "x=git; f() { local x=ls; }; f; $x push",
        "readonly x=git; x=ls; $x push",
        "f() { git push; }; f=1; unset f; f",
        "x=ls; trap '$x push' EXIT; x=git",
        "trap f EXIT; f() { git push; }",
        "f() { x=ls; trap '$x push' EXIT; x=git; }; f | cat",
        "echo git | xargs -I@ sh -c '@ push'",
        "declare -n r=x; x=ls; r=git; $x push",
        ": git; $_ push",
        "x=-exec; find . $x git push \\;",
        "xargs --replace git push",
        "alias e='env '; e git",
        "set -a; f() { git; }; bash -c f",
        "export -f f; f() { git; }; bash -c f",
    ] {
        let reading = read(text);
        assert!(
            names(&reading).iter().any(|name| name == "git") || !reading.hidden.is_empty(),
            "{text}: {reading:?}"
        );
    }
}

#[test]
fn programs_that_start_others_are_followed() {
    for text in [
        "env git push",
        "env -i A=b git push",
        "env -u HOME git push",
        "env -S 'git push'",
        "command git push",
        "exec git push",
        "nohup git push",
        "timeout 5 git push",
        "timeout -k 5 -s KILL 5 git push",
        "nice -n 5 git push",
        "nice -5 git push",
        "setsid -f git push",
        "stdbuf -oL git push",
        "sudo -u root git push",
        "xargs git push < x",
        "xargs -0 -n 1 git push < x",
        "find . -name x -exec git push {} \\;",
        "flock /tmp/l git push",
        "flock /tmp/l -c 'git push'",
        "watch -n 1 git push",
        "script -qc 'git push' /dev/null",
        "busybox git push",
        "bash -c 'git push'",
        "bash -lc 'git push'",
        "sh -ec 'git push'",
        "bash -c '\"$@\"' name git push",
        "bash <<< 'git push'",
        "bash <<'E'\ngit push\nE",
        "bash <<E\ngit push\nE\necho done",
        "if true; then bash <<'END'\ngit push\nEND\nfi",
        "env timeout 5 nice bash -c 'exec git push'",
        "setarch -R git status",
        "setarch x86_64 -R git status",
        "eval -- git push",
        "echo 'git push' > x.sh; source -- x.sh",
        "echo 'git push' > ~/x.sh; . ~/x.sh",
        "echo 'git push' > ~/x.sh; d=\"$HOME\"; . \"$d/x.sh\"",
        "printf '#!/usr/bin/env git\\n' > /tmp/x; chmod +x /tmp/x; /tmp/x",
        "printf '#!/usr/bin/env -S git push\\n' > x; chmod +x x; ./x",
    ] {
        assert!(programs(text).iter().any(|name| name == "git"), "{text}: {:?}", read(text));
    }
}

#[test]
fn hidden_program_is_reported_with_its_reason() {
    for (text, why) in [
        ("$(echo git) push", HiddenReason::ComputedName),
        ("$x push", HiddenReason::ComputedName),
        ("g* push", HiddenReason::ComputedName),
        ("/usr/bin/gi? push", HiddenReason::ComputedName),
        ("cat x | bash", HiddenReason::PipedIntoShell),
        ("curl x | sh", HiddenReason::PipedIntoShell),
        ("eval \"$x\"", HiddenReason::ComputedText),
        ("bash -c \"$x\"", HiddenReason::ComputedText),
        ("bash -c \"$(cat x)\"", HiddenReason::ComputedText),
        ("bash", HiddenReason::Interactive),
        ("bash 3<<< 'git push' <&3", HiddenReason::PipedIntoShell),
        ("exec 3<<< 'git push'; sh <&3", HiddenReason::PipedIntoShell),
        ("exec <<< 'git push'; bash", HiddenReason::PipedIntoShell),
        ("{ exec < <(cat x); }; bash", HiddenReason::PipedIntoShell),
        ("bash -c sh <<< 'git push'", HiddenReason::PipedIntoShell),
        ("echo 'git push' | bash -c python3", HiddenReason::PipedIntoShell),
        ("echo 'git push' > >(bash)", HiddenReason::PipedIntoShell),
        ("awk '{print | \"sh\"}' x", HiddenReason::PipedIntoShell),
        ("perl -e 'open P, \"|sh\"; print P \"git push\"'", HiddenReason::PipedIntoShell),
        ("ruby -e 'IO.popen(\"sh\", \"w\")'", HiddenReason::ComputedText),
        ("socat - EXEC:sh <<< 'git push'", HiddenReason::PipedIntoShell),
        ("bash -i", HiddenReason::Interactive),
        ("env --frobnicate git", HiddenReason::UnknownOption),
        ("( (git status) )", HiddenReason::Unreadable),
        ("select x in a; do git; done", HiddenReason::Unreadable),
        ("echo $(( a[$(git)] ))", HiddenReason::RunsText),
        ("echo $(a | (( 1 ))\n)\nbash <<'E'\ng\"it\"\nE", HiddenReason::Unreadable),
        ("ls\u{a0}-l", HiddenReason::OddCharacter),
        ("if", HiddenReason::Unreadable),
    ] {
        let reading = read(text);
        assert!(reading.hidden.iter().any(|hidden| hidden.why == why), "{text}: {reading:?}");
    }
}

#[test]
fn mentioned_program_is_not_run() {
    for text in [
        "echo git push",
        "grep -r 'git push' .",
        "ls # git push",
        "which git",
        "command -v git",
        "cat <<'E'\ngit push\nE",
        "x='git push'",
        "printf '%s\\n' 'git push' > notes.txt",
        "cat git.txt",
        "type git",
        "[ -f git ] && [[ -d .git ]]",
        "find \"$dir\" -name '*.rs' -exec cat {} +",
        "for f in *.txt; do cat \"$f\"; done",
        "git_version=1; echo $git_version",
        "if [ \"$x\" = git ]; then echo yes; fi",
        "n=0; while [ $n -lt 3 ]; do n=$((n+1)); done",
        "cat > notes.md <<'E'\nrun git push\nE",
    ] {
        assert!(!programs(text).iter().any(|name| name == "git"), "{text}: {:?}", read(text));
    }
}

#[test]
fn redirections_name_their_files() {
    let writes = |text: &str| -> Vec<String> {
        read(text).writes.iter().map(|write| write.path.to_string()).collect()
    };
    assert_eq!(writes("echo a > x"), ["x"]);
    assert_eq!(writes("echo a >> 'x y' 2>&1"), ["x y"]);
    assert_eq!(writes("echo a &> x"), ["x"]);
    assert_eq!(writes("{ echo a; } > x"), ["x"]);
    assert_eq!(writes("f=out; echo a > $f"), ["out"]);
    assert_eq!(writes("cat < x"), Vec::<String>::new());
}

#[test]
fn oversized_texts_end_quickly_and_hide() {
    for bomb in [
        "(".repeat(200),
        "$(".repeat(100) + &")".repeat(100),
        "a".repeat(1 << 20),
        "echo ".to_owned() + &"x ".repeat(10_000),
        "f() { f; f; }; f".to_owned(),
        "x=a; ".to_owned() + &"x=$x$x; ".repeat(40) + "$x",
        "{a,b}".repeat(30),
    ] {
        let reading = read(&bomb);
        assert!(!reading.hidden.is_empty() || !reading.runs.is_empty(), "{:.40}", bomb);
    }
}

#[test]
fn known_name_in_an_unknown_directory_is_that_program() {
    for (text, name) in [
        ("\"$VENV/bin/python\" x.py", "python"),
        ("\"$(go env GOPATH)/bin/staticcheck\" ./...", "staticcheck"),
        ("\"${CARGO_HOME:-$HOME/.cargo}/bin/cargo\" test", "cargo"),
        ("~/.cargo/bin/cargo test", "cargo"),
        ("\"$X/bash\" -c 'git push'", "git"),
        ("\"$X\"/git push", "git"),
    ] {
        let reading = read(text);
        assert!(reading.hidden.is_empty(), "{text}: {:?}", reading.hidden);
        let named = reading.runs.iter().filter_map(|run| run.name()).any(|run| run == name);
        assert!(named, "{text}: {:?}", reading.runs);
    }
    // An expansion may start with any program, and a pattern may match any.
    for text in ["$X/git push", "\"$X/\"* push", "\"$X/$Y\"", "\"$X\"", "x/y() { git; }; \"$X/y\""]
    {
        assert!(!read(text).hidden.is_empty(), "{text}");
    }
}

#[test]
fn plain_text_piped_into_a_shell_is_read() {
    for text in [
        "echo 'git push' | bash",
        "echo git push | sh",
        "printf '%s\\n' 'ls -l' 'git push' | sh",
        "printf 'git push\\n' | sh",
        "x=git; echo \"$x push\" | sh",
        "cat <<'E' | bash\ngit push\nE",
        "cat <<< 'git push' | bash",
        "cat <<'E' | python3 -\nimport os\nos.system('git push')\nE",
        "echo push | xargs -I{} git {}",
        "echo x | xargs -I{} sh -c 'git {}'",
    ] {
        assert!(programs(text).iter().any(|name| name == "git"), "{text}: {:?}", read(text));
    }
    for text in [
        "echo -e 'git push' | sh",
        "echo 'git\\x20push' | sh",
        "printf '%b' 'git push' | sh",
        "echo \"$x\" | sh",
        "echo() { git; }; echo ls | sh",
        "PATH=.; cat <<< ls | sh",
        "echo ls | tr l g | sh",
        "cat x <<< ls | sh",
    ] {
        assert!(!read(text).hidden.is_empty(), "{text}: {:?}", read(text));
    }
}

#[test]
fn variables_are_reported_with_their_values() {
    let settings = |text: &str| {
        let shown =
            |set: &VariableSet| format!("{}={}", set.name, set.value.as_deref().unwrap_or("?"));
        read(text).sets.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(settings("RUSTFLAGS='-D warnings' cargo check"), ["RUSTFLAGS=-D warnings"]);
    assert_eq!(settings("env A=b C=$d cargo check"), ["A=b", "C=?"]);
    assert_eq!(settings("export A=b; A+=c"), ["A=b", "A=bc"]);
    assert_eq!(settings("declare A=$x"), ["A=?"]);
    assert_eq!(settings("for A in b; do read C; done"), ["A=?", "C=?"]);
    assert!(settings("unset A").is_empty());
}

#[test]
fn hash_hides_only_names_with_a_given_path() {
    assert_eq!(programs("hash git; hash -r"), ["hash"; 2]);
    for text in ["hash -p /bin/x ls", "hash -lp x y", "hash $x"] {
        assert!(!read(text).hidden.is_empty(), "{text}");
    }
}

#[test]
fn program_named_by_a_variable_option_or_file_is_found() {
    for text in [
        "RUSTC_WRAPPER=git cargo build",
        "export RUSTC=git; cargo build",
        "CARGO_BUILD_RUSTC_WRAPPER=git cargo build",
        "env CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=git cargo run",
        "CARGO_TARGET_A_LINKER=git cargo build",
        "cargo --config 'target.x.runner=\"git\"' run",
        "cargo --config 'build={rustc-wrapper=\"git\"}' build",
        "go build -toolexec git ./...",
        "go build -toolexec=git ./...",
        "GOFLAGS=-toolexec=git go build ./...",
        "cmake -DCMAKE_C_COMPILER_LAUNCHER=git .",
        "printf '[build]\\nrustc-wrapper = \"git\"\\n' > .cargo/config.toml && cargo build",
        "cd .cargo && echo 'build.rustc=\"git\"' > config.toml && cargo build",
        "echo 'import os; os.system(\"git push\")' > conftest.py && python3 -m pytest",
        "echo 'import os; os.system(\"git push\")' > setup.py && pip install .",
    ] {
        let names = names(&read(text));
        assert!(names.iter().any(|name| name == "git"), "{text}: {names:?}");
    }
    for text in [
        "curl -s u > package.json && npm test",
        "echo 'fn main() { std::process::Command::new(\"git\"); }' > build.rs && cargo build",
        "cp x .cargo/config.toml; jq . y > conftest.py; pytest",
    ] {
        assert!(
            read(text).hidden.iter().any(|hidden| hidden.why == HiddenReason::ComputedText),
            "{text}"
        );
    }
    for text in [
        "npm init -y && npm install x && npm test",
        "sed -i s/a/b/ config.toml && cargo run",
        "sed -i s/a/b/ src/lib.rs && cargo test",
        "echo 'x = 1' > conftest.py && pytest -q",
        "export PATH=$HOME/.cargo/bin:$PATH && cargo test",
        "RUSTC_WRAPPER=sccache cargo build",
        "cargo --config net.offline=true build",
        "make CC=gcc PREFIX=/usr DEBUG=1",
        "${CARGO:-cargo} build",
    ] {
        assert!(!programs(text).iter().any(|name| name == "git"), "{text}");
    }
}
