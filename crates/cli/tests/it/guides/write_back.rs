//! docs/guides/write-back.md: the blocks with which an agent requests actions can be parsed.

use bailiwick_fleet::write_back::AgentAnswer;

use super::guide::Guide;

pub(crate) fn follow(guide: &mut Guide) {
    let answer = AgentAnswer::read(&guide.text("md"), str::to_owned);
    assert_eq!(answer.faults, []);
    let review = answer.review.unwrap();
    assert_eq!((review.body.as_str(), review.comments.len()), ("Not yet.", 1));
    assert!(answer.rerun.is_some() && answer.release.is_some());
    assert!(answer.deployment.unwrap().approve);
}
