//! What a command writes, from where and how: by example.

use bailiwick_policy::shell::{Directory, How, Reading, Write, read};

/// `x` changed, `x/**` filled, `-x` deleted, `-x/**` deleted with all below; then from where.
fn told(write: &Write) -> String {
    let path = match write.how {
        How::Change => format!("{}", write.path),
        How::Fill => format!("{}/**", write.path),
        How::Delete => format!("-{}", write.path),
        How::DeleteTree => format!("-{}/**", write.path),
    };
    if write.from == [Directory::start()] {
        return path;
    }
    let place = |directory: &Directory| {
        let path = match directory.path.as_deref() {
            None => "?",
            Some("") => ".",
            Some(path) => path,
        };
        match &directory.unless {
            Some(unless) => format!("{path} unless {unless}"),
            None => path.to_owned(),
        }
    };
    format!("{path} @ {}", write.from.iter().map(place).collect::<Vec<_>>().join(", "))
}

fn writes(text: &str) -> (Vec<String>, Reading) {
    let reading = read(text);
    (reading.writes.iter().map(told).collect(), reading)
}

#[test]
fn dump() {
    let text = std::fs::read_to_string("/tmp/cases.txt").unwrap();
    for case in text.lines() {
        let case = case.replace("\\n", "\n");
        let (told, reading) = writes(&case);
        println!(
            "{case:?} => {told:?} {}",
            reading
                .hidden
                .iter()
                .map(|h| format!("HIDDEN {:?} {}", h.why, h.text))
                .collect::<Vec<_>>()
                .join(";")
        );
    }
}
