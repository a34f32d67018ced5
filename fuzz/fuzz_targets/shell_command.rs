//! Whatever the text, it is read, twice in the same way, and the end comes (what takes too long is
//! ended and counts as a crash).
#![no_main]

use bailiwick_policy::shell::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // A panic of the parser that the reader contains is none; one that gets here still ends all.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    },
    |text: &str| {
        assert_eq!(read(text), read(text), "not the same twice");
    }
);
