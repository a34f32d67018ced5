//! Tests of write paths.

use super::*;

/// `zl2` existed and leads to `zf1`, which the command replaces with a link to another directory.
#[test]
fn link_reached_by_another_name_hides_the_target_of_a_write() {
    let is_hidden = |command: &str| {
        let reading = crate::shell::read(command);
        let (writes, links, copies) = (reading.writes, reading.links, reading.copies);
        let effects = Effects { writes, links, copies, ..Effects::default() };
        let mut facts =
            Facts { root: "/w".into(), directory: Some("/w".into()), ..Facts::default() };
        let mut lookups = Lookups::default();
        collect_lookups(&effects, &facts, &mut lookups);
        for path in lookups.paths {
            let plain = path.replace("/zl1/..", "");
            let entry = plain.replace("/zl2/", "/zf1/");
            let real = plain.replace("/zl2", "/zf1");
            let kind = if real.starts_with("/w/zf1/") { Kind::Impossible } else { Kind::File };
            facts.paths.insert(path, ResolvedPath { entry, real, kind });
        }
        let globs = lookups.globs.into_keys();
        facts.globs.extend(globs.map(|glob| (glob, Some(Vec::new()))));
        facts.links.extend(lookups.links.into_iter().map(|path| {
            let linked = path.contains("zd2");
            (path, linked)
        }));
        write_targets(&effects, &facts).iter().any(|target| target.place == Place::Unknown)
    };
    for command in [
        "ln -s zl2 zk; ln -sf ../zout zl1/../zf1; echo y > zk/zq",
        "ln -sf ../zout zf1; echo y > zl2/zq",
        "ln -sf ../zout zf1; echo y > zl2",
        "ln -sf ../zout zf1; cp -r zd1 zl2",
        // `zd2` contains links.
        "cp -r zd2 zd3; chmod 600 zd3/*",
        "cp -r zd2 zd3; cp -r zd3 zd4; echo y > zd4/zd3/zm",
        "cp -RL -a zd2 zd3; echo y > zd3/zm",
        "rsync -a zd2/ zd3; echo y > zd3/zm",
        "cp -a zd2 zf1; echo y > zl2/zm",
        "for x in 1 2; do cp -r zd2 zd3; done",
        "d=$(mktemp -d); cp -r zd2 $d/x; echo y > $d/x/zm",
    ] {
        assert!(is_hidden(command), "{command}");
    }
    for command in [
        "echo y > zl2",
        "ln -s ../zout zk; echo y > zl2",
        "ln -s zd1 zk; touch zk/a",
        "cp -r zd1 zd3; chmod 600 zd3/*",
        "cp -r zd2 zd3; echo y > zf9",
        "cp -rL zd2 zd3; echo y > zd3/zm",
        "cp -r zd2 zd3",
        "d=$(mktemp -d); cp -r zd1 $d/x; echo y > $d/x/zm",
        "for x in 1 2; do cp -r zd1 zd3; done",
    ] {
        assert!(!is_hidden(command), "{command}");
    }
}

#[test]
fn only_a_descriptor_itself_is_not_a_file() {
    for path in ["/dev/null", "/dev/fd/3", "/proc/self/fd/1", "/dev/stderr"] {
        assert!(harmless_device(path), "{path}");
    }
    for path in [
        "/dev/fd/../cwd/x",
        "/dev/fd/3/../../cwd/x",
        "/proc/self/fd/../cwd/x",
        "/dev/fd/",
        "/dev/fd/x",
        "/dev/shm/x",
    ] {
        assert!(!harmless_device(path), "{path}");
    }
}
