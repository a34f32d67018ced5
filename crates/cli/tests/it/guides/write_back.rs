//! docs/guides/write-back.md: the blocks by which an agent asks for more are understood.

use bailiwick_fleet::write_back::AgentAnswer;

use super::guide::Guide;

pub(crate) fn follow(guide: &mut Guide) {
    let said = AgentAnswer::read(&guide.text("md"), str::to_owned);
    assert_eq!(said.faults, []);
    let review = said.review.unwrap();
    assert_eq!((review.body.as_str(), review.comments.len()), ("Not yet.", 1));
    assert!(said.rerun.is_some() && said.release.is_some());
    assert!(said.deployment.unwrap().approve);
}
