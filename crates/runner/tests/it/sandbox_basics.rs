//! A program in the sandbox runs as it should.

use std::fs;

use bailiwick_runner::sandbox::{Bind, Launcher, Level, level, probe_with};
use bailiwick_verify::job::Termination;

use crate::lab::{Lab, launcher};

#[test]
fn this_machine_gives_a_full_sandbox_and_the_probe_sees_it() {
    let parts = probe_with(&launcher());
    assert_eq!(level(&parts), Level::Full, "{parts:?}");
    for name in ["door", "layers", "bound on memory"] {
        let part = parts.iter().find(|part| part.name == name).unwrap();
        assert!(part.works, "{part:?}");
    }
    // A launcher that knows nothing of sandboxes, and one that is not there.
    for broken in [Launcher::new("/bin/true", &[]), Launcher::new("/no/such/program", &[])] {
        assert_eq!(level(&probe_with(&broken)), Level::Off);
    }
}

#[test]
fn exit_codes_and_signals_pass_through() {
    for lab in [Lab::new(), Lab::new().off()] {
        for code in [0, 1, 7, 101, 125, 255] {
            assert_eq!(lab.shell(&format!("exit {code}")).ended, Termination::Exit(code));
        }
        for signal in [6, 9, 11, 15] {
            assert_eq!(lab.shell(&format!("kill -{signal} $$")).ended, Termination::Signal(signal));
        }
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    for lab in [Lab::new(), Lab::new().off()] {
        let error = lab.try_run(&["/usr/bin/no-such-program"]).unwrap_err().to_string();
        assert!(error.contains("/usr/bin/no-such-program"), "{error}");
    }
    let mut lab = Lab::new();
    lab.sandbox.read_only.push(Bind::same("/no/such/directory"));
    let error = lab.try_run(&["/bin/true"]).unwrap_err().to_string();
    assert!(error.contains("/no/such/directory"), "{error}");
}

#[test]
fn it_runs_as_the_same_user_who_cannot_become_more() {
    let lab = Lab::new();
    let who = "id -u && id -g";
    assert_eq!(lab.says(who), String::from_utf8(lab.free(who).stdout).unwrap());
    assert!(lab.says("cat /proc/self/status").contains("NoNewPrivs:\t1"));
    lab.says("echo written > file && test \"$(cat file)\" = written");
    assert_eq!(fs::read_to_string(lab.directory().join("file")).unwrap(), "written\n");
    let ours = fs::metadata(lab.outside()).unwrap();
    let theirs = fs::metadata(lab.directory().join("file")).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!((ours.uid(), ours.gid()), (theirs.uid(), theirs.gid()));
    assert_eq!(theirs.mode() & 0o777, 0o644, "the umask is 022");
}

#[test]
fn what_programs_expect_is_there() {
    let lab = Lab::new();
    for line in [
        "test \"$(echo inside > ~/file; cat ~/file)\" = inside",
        "echo x > /tmp/file && echo x > /var/tmp/file && echo x > /dev/shm/file",
        "echo x > /dev/null && head -c 8 /dev/urandom > /dev/zero",
        "test -r /proc/cpuinfo && test -r /proc/self/status && test \"$(readlink /proc/self/fd/0)\" = /dev/null",
        "test \"$(ulimit -c)\" = 0",
        "bash -c 'cat <(echo yes)' > /dev/null",
        "perl -e 'open(my $t, \"+<\", \"/dev/ptmx\") or die $!'",
    ] {
        lab.says(line);
    }
}

#[test]
fn git_works_in_it() {
    let lab = Lab::new();
    let said = lab.says(
        "git init --quiet . && echo x > file && git add file && git status --porcelain && \
         git -c user.name=a -c user.email=a@example.org commit --quiet -m one && git log --format=%s",
    );
    assert_eq!(said, "A  file\none\n");
}

#[test]
fn the_environment_is_what_was_given_and_nothing_else() {
    let lab = Lab::new();
    let names = lab.says("tr '\\0' '\\n' < /proc/self/environ | cut -d= -f1 | sort");
    let expected = ["HOME", "OLDPWD", "PATH", "PWD", "_"];
    assert!(names.lines().all(|name| expected.contains(&name)), "{names}");
    let mut outside = std::env::vars().map(|(name, _)| name);
    assert!(
        outside.any(|name| !expected.contains(&name.as_str())),
        "there is something to leave out"
    );
}

#[test]
fn nothing_that_was_open_outside_is_open_inside() {
    let lab = Lab::new();
    let file = fs::File::create(lab.outside().join("secret")).unwrap();
    // Not closed on exec, unlike all that the standard library opens.
    let leaked = nix::unistd::dup(&file).unwrap();
    let list = "ls -l /proc/self/fd";
    let free = String::from_utf8(lab.free(list).stdout).unwrap();
    assert!(free.contains("secret"), "{free}");
    let held = lab.says(list);
    assert!(!held.contains("secret"), "{held}");
    assert_eq!(lab.says("ls /proc/self/fd"), "0\n1\n2\n3\n", "the fourth is the listing's own");
    drop(leaked);
}
