//! A program in the sandbox runs normally.

use std::fs;

use bailiwick_runner::sandbox::{Bind, Launcher, Level, level, probe_with};
use bailiwick_verify::job::Termination;

use crate::lab::{Lab, launcher};

#[test]
fn machine_supports_a_full_sandbox_and_the_probe_detects_it() {
    let parts = probe_with(&launcher());
    assert_eq!(level(&parts), Level::Full, "{parts:?}");
    for name in ["door", "layers", "bound on memory"] {
        let part = parts.iter().find(|part| part.name == name).unwrap();
        assert!(part.works, "{part:?}");
    }
    // A launcher that knows no sandboxes, and one that does not exist.
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
fn missing_program_is_named_in_the_error() {
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
fn program_runs_as_the_same_user_and_cannot_gain_privileges() {
    let lab = Lab::new();
    let show_user = "id -u && id -g";
    assert_eq!(
        lab.output_of(show_user),
        String::from_utf8(lab.run_outside(show_user).stdout).unwrap()
    );
    assert!(lab.output_of("cat /proc/self/status").contains("NoNewPrivs:\t1"));
    lab.output_of("echo written > file && test \"$(cat file)\" = written");
    assert_eq!(fs::read_to_string(lab.directory().join("file")).unwrap(), "written\n");
    let outside_data = fs::metadata(lab.outside()).unwrap();
    let inside_data = fs::metadata(lab.directory().join("file")).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!((outside_data.uid(), outside_data.gid()), (inside_data.uid(), inside_data.gid()));
    assert_eq!(inside_data.mode() & 0o777, 0o644, "the umask is 022");
}

#[test]
fn usual_directories_and_devices_are_available() {
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
        lab.output_of(line);
    }
}

#[test]
fn git_works_in_the_sandbox() {
    let lab = Lab::new();
    let output = lab.output_of(
        "git init --quiet . && echo x > file && git add file && git status --porcelain && \
         git -c user.name=a -c user.email=a@example.org commit --quiet -m one && git log --format=%s",
    );
    assert_eq!(output, "A  file\none\n");
}

#[test]
fn environment_contains_the_given_variables_only() {
    let lab = Lab::new();
    let names = lab.output_of("tr '\\0' '\\n' < /proc/self/environ | cut -d= -f1 | sort");
    let expected = ["HOME", "OLDPWD", "PATH", "PWD", "_"];
    assert!(names.lines().all(|name| expected.contains(&name)), "{names}");
    let mut outside = std::env::vars().map(|(name, _)| name);
    assert!(
        outside.any(|name| !expected.contains(&name.as_str())),
        "the control: the host has other variables"
    );
}

#[test]
fn files_that_are_open_outside_are_not_open_inside() {
    let lab = Lab::new();
    let file = fs::File::create(lab.outside().join("secret")).unwrap();
    // Not closed on exec, unlike every file that the standard library opens.
    let leaked = nix::unistd::dup(&file).unwrap();
    let list = "ls -l /proc/self/fd";
    let free = String::from_utf8(lab.run_outside(list).stdout).unwrap();
    assert!(free.contains("secret"), "{free}");
    let inside = lab.output_of(list);
    assert!(!inside.contains("secret"), "{inside}");
    assert_eq!(
        lab.output_of("ls /proc/self/fd"),
        "0\n1\n2\n3\n",
        "the fourth belongs to the listing"
    );
    drop(leaked);
}
