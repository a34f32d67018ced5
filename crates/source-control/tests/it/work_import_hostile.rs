//! Layers that an agent has prepared: they run nothing, and invalid objects are refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::agent::{Agent, repository};
use crate::layer::Layer;

/// Replaces a file, checks that the import is refused, and restores the file.
#[track_caller]
fn refused_with(layer: &Layer<'_>, place: &Path, put: impl FnOnce(&Path)) -> String {
    let moved = layer.scratch.place().join("aside");
    fs::rename(place, &moved).unwrap();
    put(place);
    let why = layer.refused();
    if fs::symlink_metadata(place).unwrap().is_dir() {
        fs::remove_dir_all(place).unwrap();
    } else {
        fs::remove_file(place).unwrap();
    }
    fs::rename(&moved, place).unwrap();
    why
}

fn pipe(layer: &Layer<'_>, place: &Path) {
    assert!(layer.scratch.command("mkfifo").arg(place).status().unwrap().success());
}

/// Overwrites a read-only file of git.
fn overwrite(place: &Path, bytes: &[u8]) {
    fs::remove_file(place).unwrap();
    fs::write(place, bytes).unwrap();
}

#[test]
fn branch_without_a_valid_object_name_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let texts = [
        ("ref: refs/heads/main\n".to_owned(), "symbolic"),
        (String::new(), "object name"),
        ("main\n".to_owned(), "object name"),
        (format!("{}\n", tip.split_at(39).0), "object name"),
        (format!("{tip}0\n"), "object name"),
        (format!("{}\n", tip.to_uppercase()), "object name"),
        (format!("{tip}\n\n"), "object name"),
        (format!("--all{}\n", tip.split_at(5).1), "object name"),
        (format!("{tip}{}", "\n".repeat(1 << 20)), "more than 4096 bytes"),
        (format!("{}\n", "0".repeat(40)), "could not get object info"),
        (format!("{}\n", "4".repeat(40)), "could not get object info"),
    ];
    for (text, expected) in texts {
        let why = refused_with(&layer, &layer.branch(), |place| fs::write(place, text).unwrap());
        assert!(why.contains(expected), "{expected}: {why}");
    }
    let kind = "neither a file nor a directory";
    let why = refused_with(&layer, &layer.branch(), |place| pipe(&layer, place));
    assert!(why.contains(kind), "{why}");
    let moved = scratch.place().join("aside");
    let why = refused_with(&layer, &layer.branch(), |place| symlink(&moved, place).unwrap());
    assert!(why.contains(kind), "{why}");
    let why = refused_with(&layer, &layer.branch(), |place| fs::create_dir(place).unwrap());
    assert!(why.contains("is a file where a directory belongs"), "{why}");
    for above in ["refs/heads/agent", "refs/heads", "refs"] {
        let why = refused_with(&layer, &layer.upper(above), |place| {
            symlink(&moved, place).unwrap();
        });
        assert!(why.contains(kind), "{above}: {why}");
    }
    layer.brought(&tip, 1);
}

#[test]
fn packed_refs_that_are_not_a_file_are_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    layer.run("git pack-refs --all");
    let packed = layer.upper("packed-refs");
    let moved = scratch.place().join("aside");
    refused_with(&layer, &packed, |place| pipe(&layer, place));
    refused_with(&layer, &packed, |place| symlink(&moved, place).unwrap());
    refused_with(&layer, &packed, |place| fs::create_dir(place).unwrap());
    let text = fs::read_to_string(&packed).unwrap();
    for other in ["ref:", "--all", tip.split_at(39).0] {
        let text = text.replace(&tip, other);
        refused_with(&layer, &packed, |place| fs::write(place, text).unwrap());
    }
    layer.brought(&tip, 1);
}

#[test]
fn objects_of_alternates_in_the_layer_are_not_imported() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let elsewhere = scratch.place().join("elsewhere");
    fs::rename(layer.upper("objects"), &elsewhere).unwrap();
    fs::create_dir_all(layer.upper("objects/info")).unwrap();
    let alternates = format!("{}\n", elsewhere.display());
    fs::write(layer.upper("objects/info/alternates"), alternates).unwrap();
    assert_eq!(layer.run("git log -1 --format=%s"), "add one", "the control: plain git uses them");
    layer.refused();
    fs::remove_dir_all(layer.upper("objects")).unwrap();
    fs::rename(&elsewhere, layer.upper("objects")).unwrap();
    layer.brought(&tip, 1);
}

#[test]
fn links_and_pipes_among_the_objects_are_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let object = layer.object(&tip);
    let directory = object.parent().unwrap().to_owned();
    let moved = scratch.place().join("aside");
    let objects = layer.upper("objects");
    for place in [&objects, &directory, &object] {
        let why = refused_with(&layer, place, |place| symlink(&moved, place).unwrap());
        assert!(why.contains("neither a file"), "{why}");
        let why = refused_with(&layer, place, |place| pipe(&layer, place));
        assert!(why.contains("neither a file"), "{why}");
    }
    refused_with(&layer, &object, |place| fs::create_dir(place).unwrap());
    // Files without an object name are ignored.
    pipe(&layer, &objects.join("tmp_obj_x"));
    pipe(&layer, &directory.join("tmp_obj_x"));
    symlink("/dev/zero", objects.join("info-of-mine")).unwrap();
    layer.brought(&tip, 1);
}

#[test]
fn links_and_pipes_among_packs_are_refused_and_indexes_not_trusted() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    layer.run("git gc -q --prune=now");
    let moved = scratch.place().join("aside");
    let packs = layer.upper("objects/pack");
    let of_kind = |end: &str| -> PathBuf {
        let mut paths = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
        paths.find(|path| path.extension().is_some_and(|found| found == end)).unwrap()
    };
    let (pack, index) = (of_kind("pack"), of_kind("idx"));
    for place in [&packs, &pack, &index] {
        refused_with(&layer, place, |place| symlink(&moved, place).unwrap());
        refused_with(&layer, place, |place| pipe(&layer, place));
    }
    let bytes = fs::read(&pack).unwrap();
    for at in [0, 9, 40, bytes.len() / 2, bytes.len() - 1] {
        let mut broken = bytes.clone();
        broken[at] ^= 0x55;
        refused_with(&layer, &pack, |place| fs::write(place, broken).unwrap());
    }
    let truncated = bytes.split_at(bytes.len() / 2).0;
    refused_with(&layer, &pack, |place| fs::write(place, truncated).unwrap());
    overwrite(&index, b"no index at all");
    layer.brought(&tip, 1);
}

#[test]
fn damaged_missing_or_exchanged_object_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    layer.commit("zero");
    let tip = layer.commit("one");
    let names = layer.run("git rev-parse HEAD HEAD^ HEAD^{tree} HEAD:one");
    let others = layer.run(
        "git commit-tree -m other -p HEAD HEAD^{tree}; echo other | git hash-object -w --stdin
        printf '100644 blob %s\\tother\\n' $(git rev-parse HEAD:one) | git mktree",
    );
    let others: Vec<&str> = others.lines().collect();
    let [commit, blob, tree] = others.as_slice() else { panic!("{others:?}") };
    for (name, like) in names.lines().zip([commit, commit, tree, blob]) {
        let place = layer.object(name);
        let complete = fs::read(&place).unwrap();
        let mut broken = complete.clone();
        let middle = broken.len() / 2;
        broken[middle] ^= 0x55;
        refused_with(&layer, &place, |place| fs::write(place, broken).unwrap());
        let truncated = complete.split_at(middle).0;
        refused_with(&layer, &place, |place| fs::write(place, truncated).unwrap());
        refused_with(&layer, &place, |place| fs::write(place, "").unwrap());
        // A valid object of the same kind under another object's name.
        let other = fs::read(layer.object(like)).unwrap();
        refused_with(&layer, &place, |place| fs::write(place, other).unwrap());
        // Deleted: a file without an object name is at its path.
        let moved = scratch.place().join("gone");
        fs::rename(&place, &moved).unwrap();
        layer.refused();
        fs::rename(&moved, &place).unwrap();
    }
    layer.brought(&tip, 2);
}

#[test]
fn objects_of_the_repository_are_not_replaced_by_the_layer() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let names = layer.run("git rev-parse HEAD^ HEAD^^{tree}");
    let forged = fs::read(layer.object(&layer.run("git rev-parse HEAD:one"))).unwrap();
    for name in names.lines() {
        fs::create_dir_all(layer.object(name).parent().unwrap()).unwrap();
        fs::write(layer.object(name), &forged).unwrap();
        assert_eq!(
            layer.run(&format!("git cat-file -t {name}")),
            "blob",
            "the control: plain git accepts it"
        );
    }
    layer.brought(&tip, 1);
}

#[test]
fn forged_commit_does_not_change_history() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let start = layer.run("git rev-parse HEAD");
    let ancestor = format!("git merge-base --is-ancestor {start} HEAD");
    let amended = layer.run("git commit -q --amend -m other; git rev-parse HEAD");
    layer.commit("one");
    assert!(layer.refused().contains("rewritten"));
    // By a commit under another commit's name.
    let forged = layer.run(&format!("git commit-tree -m other -p {start} HEAD^^{{tree}}"));
    let complete = fs::read(layer.object(&amended)).unwrap();
    overwrite(&layer.object(&amended), &fs::read(layer.object(&forged)).unwrap());
    layer.run(&ancestor);
    layer.refused();
    overwrite(&layer.object(&amended), &complete);
    // By a replacement.
    layer.run(&format!("git replace {amended} {forged}; {ancestor}"));
    assert!(layer.refused().contains("rewritten"));
    layer.run(&format!("git replace -d {amended}"));
    // By a graft.
    fs::create_dir_all(layer.upper("info")).unwrap();
    fs::write(layer.upper("info/grafts"), format!("{amended} {start}\n")).unwrap();
    layer.run(&ancestor);
    assert!(layer.refused().contains("rewritten"));
    fs::remove_file(layer.upper("info/grafts")).unwrap();
    layer.run(&format!("git reset -q --hard {forged}"));
    layer.brought(&forged, 1);
}

#[test]
fn commits_hidden_by_a_shallow_file_are_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let first = layer.commit("one");
    let tip = layer.commit("two");
    let object = layer.object(&first);
    let moved = scratch.place().join("gone");
    fs::rename(&object, &moved).unwrap();
    fs::write(layer.upper("shallow"), format!("{tip}\n")).unwrap();
    assert_eq!(
        layer.run("git log --format=%s"),
        "add two",
        "the control: plain git reports no error"
    );
    layer.refused();
    fs::rename(&moved, &object).unwrap();
    layer.brought(&tip, 2);
}

#[test]
fn configuration_and_hooks_of_the_layer_are_ignored() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let marker = scratch.place().join("ran");
    let program = scratch.place().join("program");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\nexit 0\n", marker.display())).unwrap();
    let shown = program.display();
    layer.run(&format!(
        "chmod +x {shown}; common=$(git rev-parse --git-common-dir); mkdir -p $common/hooks
        for hook in reference-transaction post-commit pre-auto-gc post-update update; do
            ln -s {shown} $common/hooks/$hook
        done
        for key in core.fsmonitor core.sshCommand core.pager core.alternateRefsCommand \
            uploadpack.packObjectsHook; do git config $key {shown}; done
        git config remote.origin.url ssh://x/y; git config remote.origin.promisor true
        git config extensions.partialClone origin"
    ));
    let tip = layer.commit("one");
    assert!(marker.exists(), "the control: plain git runs them");
    fs::remove_file(&marker).unwrap();
    // A missing object is not requested.
    let blob = layer.object(&layer.run("git rev-parse HEAD:one"));
    let _ran = fs::remove_file(&marker);
    let moved = scratch.place().join("gone");
    fs::rename(&blob, &moved).unwrap();
    layer.refused();
    assert!(!marker.exists());
    fs::rename(&moved, &blob).unwrap();
    layer.brought(&tip, 1);
    assert!(!marker.exists());
}

#[test]
fn trees_that_git_would_not_check_out_are_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let commit = |mode: &str, name: &str| {
        layer.run(&format!(
            "blob=$(printf ../../x | git hash-object -w --stdin)
            tree=$(printf '{mode} blob %s\\t{name}\\n' $blob | git mktree)
            git update-ref refs/heads/agent/ag-1 $(git commit-tree -m tree -p main $tree)
            git rev-parse HEAD"
        ))
    };
    for (mode, name) in [
        ("100644", ".git"),
        ("100644", ".GIT"),
        ("100644", "git~1"),
        ("100644", ".."),
        ("100644", "."),
        ("120000", ".gitmodules"),
    ] {
        let tip = commit(mode, name);
        let why = layer.refused();
        assert!(why.contains("index-pack"), "{name}: {why}");
        assert!(
            layer.run(&format!("git ls-tree {tip}")).ends_with(name),
            "the control: plain git lists it"
        );
    }
    let tip = commit("120000", "dotgit");
    layer.brought(&tip, 1);
}

#[test]
fn tip_that_is_not_a_commit_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let others = layer.run("git tag -a -m x x; git rev-parse refs/tags/x HEAD^{tree} HEAD:one");
    for (other, kind) in others.lines().zip(["tag", "tree", "blob"]) {
        let why = refused_with(&layer, &layer.branch(), |place| fs::write(place, other).unwrap());
        assert!(why.contains(&format!("is a {kind}")), "{why}");
    }
    layer.brought(&tip, 1);
}
