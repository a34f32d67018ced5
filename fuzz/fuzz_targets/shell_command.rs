//! Whatever the text, it is read, twice in the same way, and the end comes (what takes too long is
//! ended and counts as a crash).
#![no_main]

use bailiwick_policy::shell::{hide_contained_panics, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        hide_contained_panics();
    },
    |text: &str| {
        assert_eq!(read(text), read(text), "not the same twice");
    }
);
