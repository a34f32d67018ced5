//! Which of the host's files can be read and written. Each absence has its control outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use bailiwick_runner::sandbox::{Bind, Fallback, Overlay};

use crate::lab::Lab;

#[test]
fn only_mounted_directories_can_be_written() {
    let lab = Lab::new();
    let outside = lab.outside().display().to_string();
    lab.fails_only_inside(&format!("echo x > {outside}/file"));
    lab.fails_only_inside(&format!("echo x > {outside}/lab/../beside"));
    for place in ["/", "/usr", "/etc", "/opt", "/dev", "/proc/sys/kernel", "/usr/local/bin"] {
        let tried = lab.shell(&format!("echo x > {place}/bailiwick-test"));
        assert_ne!(tried.ended, bailiwick_verify::job::Termination::Exit(0), "{place}");
        assert!(!PathBuf::from(place).join("bailiwick-test").exists());
    }
    // Controls: the same command works in writable directories.
    for place in ["/lab", "/tmp", "/home/inside"] {
        lab.output_of(&format!("echo x > {place}/bailiwick-test"));
    }
    assert!(!PathBuf::from("/tmp/bailiwick-test").exists(), "/tmp is private to the program");
}

#[test]
fn kernel_cannot_be_configured_through_proc() {
    let lab = Lab::new();
    let finished =
        lab.shell("cat /proc/sys/kernel/core_pattern && echo core > /proc/sys/kernel/core_pattern");
    let text = String::from_utf8_lossy(&finished.tail).into_owned();
    assert!(text.contains("Read-only file system"), "{text}");
    let finished = lab.shell("echo 0 > /proc/self/oom_score_adj");
    assert_ne!(finished.ended, bailiwick_verify::job::Termination::Exit(0));
    // Nor the maps of its own user namespace, which PID 1 wrote before.
    assert!(!lab.output_of("cat /proc/self/uid_map").trim().is_empty());
}

#[test]
fn home_directory_and_its_secrets_are_not_visible() {
    let lab = Lab::new();
    let home = lab.outside().join("home");
    fs::create_dir_all(home.join(".cargo/bin")).unwrap();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    for secret in [".cargo/credentials.toml", ".ssh/id_ed25519", ".netrc"] {
        fs::write(home.join(secret), "a secret\n").unwrap();
        lab.fails_only_inside(&format!("grep -q secret {}", home.join(secret).display()));
    }
    let real = std::env::var("HOME").unwrap();
    lab.fails_only_inside(&format!("test -d {real}"));
}

#[test]
fn only_the_named_part_of_a_directory_is_visible_and_read_only() {
    let mut lab = Lab::new();
    let home = lab.outside().join("home");
    fs::create_dir_all(home.join(".cargo/bin")).unwrap();
    fs::write(home.join(".cargo/bin/tool"), "a tool\n").unwrap();
    fs::write(home.join(".cargo/credentials.toml"), "a secret\n").unwrap();
    let bin = home.join(".cargo/bin");
    lab.sandbox.read_only.push(Bind::same(&bin));
    assert_eq!(lab.output_of(&format!("cat {}/tool", bin.display())), "a tool\n");
    assert_eq!(lab.output_of(&format!("ls -A {}", home.join(".cargo").display())), "bin\n");
    lab.fails_only_inside(&format!("grep -q secret {}/../credentials.toml", bin.display()));
    lab.fails_only_inside(&format!("echo x > {}/other", bin.display()));
    lab.fails_only_inside(&format!("touch {}/tool", bin.display()));
    lab.fails_only_inside(&format!("chmod +x {}/tool", bin.display()));
}

#[test]
fn writes_to_a_layered_directory_stay_inside() {
    let mut lab = Lab::new();
    let sources = lab.outside().join("sources");
    fs::create_dir_all(sources.join("one")).unwrap();
    fs::write(sources.join("one/file"), "unpacked\n").unwrap();
    lab.sandbox.layered.push(Bind::new(&sources, "/sources"));
    let output = lab.output_of(
        "cd /sources && mkdir two && echo new > two/file && echo more >> one/file && cat one/file two/file",
    );
    assert_eq!(output, "unpacked\nmore\nnew\n");
    assert_eq!(fs::read_to_string(sources.join("one/file")).unwrap(), "unpacked\n");
    assert!(!sources.join("two").exists());
    assert_eq!(lab.output_of("cd /sources && ls && cat one/file"), "one\nunpacked\n");
    assert_ne!(
        lab.shell("echo x > /.layers/x || rm -r /.layers").ended,
        bailiwick_verify::job::Termination::Exit(0)
    );
}

#[test]
fn directory_behind_a_link_is_visible_at_the_requested_path() {
    let mut lab = Lab::new();
    let real = lab.outside().join("real");
    fs::create_dir(&real).unwrap();
    fs::write(real.join("file"), "here\n").unwrap();
    symlink(&real, lab.outside().join("link")).unwrap();
    lab.sandbox.read_only.push(Bind::new(lab.outside().join("link"), "/given"));
    assert_eq!(lab.output_of("cat /given/file"), "here\n");
}

#[test]
fn link_in_a_mounted_directory_cannot_redirect_a_mount() {
    let mut lab = Lab::new();
    fs::create_dir(lab.outside().join("other")).unwrap();
    fs::create_dir(lab.directory().join("plain")).unwrap();
    symlink("/usr", lab.directory().join("link")).unwrap();
    let other = lab.outside().join("other");
    lab.sandbox.read_only = vec![Bind::new(&other, "/lab/plain/place")];
    lab.output_of("test -d /lab/plain/place");
    lab.sandbox.read_only = vec![Bind::new(&other, "/lab/link/place")];
    let error = lab.try_run(&["/bin/true"]).unwrap_err().to_string();
    assert!(error.contains("/lab/link/place"), "{error}");
}

#[test]
fn files_in_etc_that_others_cannot_read_are_empty_for_root_too() {
    let lab = Lab::new();
    let secret = fs::read_dir("/etc").unwrap().flatten().find(|entry| {
        let data = entry.metadata().unwrap();
        data.is_file() && data.len() > 0 && data.permissions().mode() & 0o004 == 0
    });
    let secret = secret.expect("a file in /etc that not everybody can read").path();
    assert_eq!(lab.output_of(&format!("cat {} | wc -c", secret.display())), "0\n");
    assert_ne!(lab.output_of("cat /etc/passwd | wc -c"), "0\n");
}

#[test]
fn hidden_parts_are_empty() {
    let mut lab = Lab::new();
    fs::create_dir(lab.directory().join("private")).unwrap();
    fs::write(lab.directory().join("private/key"), "a secret\n").unwrap();
    fs::write(lab.directory().join("token"), "a secret\n").unwrap();
    let look = "cat token && ls private";
    assert_eq!(lab.output_of(look), "a secret\nkey\n");
    lab.sandbox.hidden = vec!["/lab/private".into(), "/lab/token".into(), "/lab/absent".into()];
    assert_eq!(lab.output_of(look), "");
}

#[test]
fn mounts_cannot_be_added_or_removed() {
    let lab = Lab::new();
    // The numbers of mount, umount2, unshare and setns differ between machines; the tools know them.
    for line in [
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw,bind /usr",
        "umount /tmp",
        "unshare --user true",
        "unshare --user --map-root-user --mount true",
        "chroot / true",
    ] {
        let tried = lab.shell(&format!("PATH=$PATH:/usr/sbin:/sbin; {line}"));
        let output = String::from_utf8_lossy(&tried.tail).into_owned();
        assert_ne!(tried.ended, bailiwick_verify::job::Termination::Exit(0), "{line}: {output}");
        assert!(!output.contains("not found"), "{line}: {output}");
    }
    let outside_run =
        lab.run_outside("unshare --user --map-root-user --mount mount -t tmpfs none /tmp");
    assert!(outside_run.status.success(), "{outside_run:?}");
}

#[test]
fn writes_to_an_overlaid_directory_do_not_reach_the_lower_one() {
    let mut lab = Lab::new();
    let [below, first, second, third] =
        ["below", "first", "second", "third"].map(|name| lab.outside().join(name));
    for place in [&below.join("deep"), &first, &second, &third] {
        fs::create_dir_all(place).unwrap();
    }
    for file in ["kept", "changed", "removed", "deep/file"] {
        fs::write(below.join(file), "below\n").unwrap();
    }
    let overlay = |lower: Vec<PathBuf>, layer: &Path| Overlay {
        lower,
        layer: layer.to_owned(),
        target: PathBuf::from("/over"),
        fallback: Fallback::Fail,
    };
    lab.sandbox.overlaid = vec![overlay(vec![below.clone()], &first)];
    let change =
        "cd /over && echo first > changed && rm -r removed deep && mkdir deep && touch deep/new";
    lab.output_of(change);
    assert_eq!(
        lab.output_of("cd /over && cat kept changed && ls . deep"),
        "below\nfirst\n.:\nchanged\ndeep\nkept\n\ndeep:\nnew\n"
    );
    // Another overlay on both, whose files the next overlay on both does not contain.
    lab.sandbox.overlaid = vec![overlay(vec![first.join("upper"), below.clone()], &second)];
    assert_eq!(
        lab.output_of("cd /over && cat changed && ls deep && rm -r * && ls"),
        "first\nnew\n"
    );
    lab.sandbox.overlaid = vec![overlay(vec![first.join("upper"), below.clone()], &third)];
    assert_eq!(lab.output_of("cd /over && cat changed && ls deep"), "first\nnew\n");
    for file in ["kept", "changed", "removed", "deep/file"] {
        assert_eq!(fs::read_to_string(below.join(file)).unwrap(), "below\n", "{file}");
    }
    // If the overlay cannot be mounted, the program does not run.
    let strange = lab.outside().join("with,comma");
    fs::create_dir(&strange).unwrap();
    lab.sandbox.overlaid = vec![overlay(vec![below], &strange)];
    assert!(lab.try_run(&["/bin/true"]).is_err());
}
