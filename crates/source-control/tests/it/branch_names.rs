//! Every agent id is a valid branch name and directory name.

use std::path::Path;

use bailiwick_model::AgentId;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

/// Texts of the characters that an id may contain; the difficult ones are more frequent.
fn text(random: &mut Random) -> String {
    let pieces = ["a", "Z", "0", "_", "-", ".", "..", ".lock", "HEAD", "lock", "..", "-1", "x"];
    let count = 1 + random.below(4);
    (0..count).map(|_| *pieces.get(random.below(pieces.len())).unwrap()).collect()
}

#[test]
fn every_agent_id_is_a_valid_branch_name() {
    let mut random = Random::rotating("ids");
    let scratch = Scratch::repository();
    let mut ids = vec!["x.lock".to_owned(), "x.".to_owned(), "x".repeat(64)];
    ids.extend((0..Depth::from_env().cases(3_000)).map(|_| text(&mut random)));
    let mut invalid = Vec::new();
    for text in ids {
        let Ok(id) = AgentId::parse(&text) else { continue };
        let reference = format!("refs/heads/{}", id.branch());
        if scratch.run("git", &["check-ref-format", &reference]).code != 0 {
            invalid.push(text);
        }
    }
    invalid.sort_unstable();
    invalid.dedup();
    assert!(invalid.is_empty(), "ids whose branch git refuses: {invalid:?}");
}

#[test]
fn every_agent_id_is_one_path_component() {
    let mut random = Random::rotating("id paths");
    let mut refused = 0;
    for _ in 0..Depth::from_env().cases(10_000) {
        let text = text(&mut random);
        match AgentId::parse(&text) {
            Ok(id) => {
                let parts: Vec<_> = Path::new(id.as_str()).components().collect();
                assert_eq!(parts, [std::path::Component::Normal(text.as_ref())], "{text:?}");
                assert!(!text.starts_with('-'), "{text:?} reads as an option");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "nothing was refused");
}
