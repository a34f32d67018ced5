//! Whatever the globs and the path, they are matched, and what a list has it has with all below.
#![no_main]

use bailiwick_model::task::PathPattern;
use bailiwick_policy::paths::{Globs, join};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (globs, path) = text.split_once('\n').unwrap_or((text, "a/b"));
    // What no task may say never gets here.
    let written = globs.split('|').filter_map(|glob| PathPattern::try_from(glob.to_owned()).ok());
    let written: Vec<String> = written.map(String::from).collect();
    let list = Globs::parse(&written);
    let joined = join("/work/repo", path);
    assert!(joined.starts_with('/'));
    let Some(inside) = joined.strip_prefix("/work/repo/").filter(|_| !path.starts_with('/')) else {
        return;
    };
    for directory in [false, true] {
        let has = list.matches(inside, directory);
        assert_eq!(has, list.matches(inside, directory), "not the same twice");
    }
    if list.matches(inside, true) {
        assert!(list.matches(&format!("{inside}/x/y"), false), "below what it has");
        assert!(list.covers_below(inside));
    }
});
