//! Reviews of labels: by another person than the author of the text, under their own name.
//!
//! The fields of a review are in the label's spec. They count because nobody can write them for others, or for their
//! own text.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AnyObject, Fault, Kind};

/// The annotation with the author of a label's text. Its value in a document is ignored.
pub const TEXT_BY: &str = "bailiwick.dev/text-by";

fn field<'a>(object: &'a AnyObject, name: &str) -> &'a str {
    object.spec.get(name).and_then(|value| value.as_str()).unwrap_or_default()
}

fn same_text(known: Option<&AnyObject>, next: &AnyObject) -> bool {
    known.is_some_and(|known| field(known, "promptFragment") == field(next, "promptFragment"))
}

/// Keeps the author of a label's text that has not changed.
pub fn keep_writer(known: Option<&AnyObject>, next: &mut AnyObject) {
    if next.kind != Kind::AgentContextLabel {
        return;
    }
    next.metadata.annotations.remove(TEXT_BY);
    let writer = known.and_then(|known| known.metadata.annotations.get(TEXT_BY));
    if let Some(writer) = writer.filter(|_| same_text(known, next)) {
        next.metadata.annotations.insert(TEXT_BY.to_owned(), writer.clone());
    }
}

/// Records the author of a label's text, and returns why a review in it is invalid.
pub fn review_fault(known: Option<&AnyObject>, next: &mut AnyObject, actor: &str) -> Option<Fault> {
    if next.kind != Kind::AgentContextLabel {
        return None;
    }
    keep_writer(known, next);
    if !same_text(known, next) {
        next.metadata.annotations.insert(TEXT_BY.to_owned(), actor.to_owned());
    }
    let digest = Sha256Hex::of(field(next, "promptFragment")).to_string();
    let review = |object: &AnyObject| {
        let of = |name| field(object, name).to_owned();
        (of("reviewedBy"), of("reviewedDigest"))
    };
    let (by, reviewed) = review(next);
    let given_before = same_text(known, next) && known.is_some_and(|k| review(k) == review(next));
    // A review of another text does not count, so its author needs no check.
    if reviewed != digest || by.is_empty() || given_before {
        return None;
    }
    let fault = |message: &str| Some(Fault::new("spec.reviewedBy", message));
    if by != actor {
        return fault("a review is given in one's own name");
    }
    match next.metadata.annotations.get(TEXT_BY) {
        None => fault("the author of the text is unknown, so no other person can have reviewed it"),
        Some(writer) if writer == actor => fault("the author of the text cannot review it"),
        Some(_) => None,
    }
}
