//! Scratch.
#![allow(clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
fn main() {
    for text in std::env::args().skip(1) {
        let r = bailiwick_policy::shell::read(&text);
        println!(
            "{text}\n  runs {:?}\n  writes {:?}\n  hidden {:?}",
            r.runs
                .iter()
                .map(|r| r.argv.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>(),
            r.writes
                .iter()
                .map(|w| format!("{:?} {} {}", w.how, w.path, w.there))
                .collect::<Vec<_>>(),
            r.hidden
        );
    }
}
