//! A forge that fails: nothing is written twice, and errors name the cause.

use bailiwick_fleet::ports::{CheckState, Forge as _, ForgeError, Review, WriteBack};
use bailiwick_resources::ReviewDecision;
use bailiwick_testkit::forge::{Fault, Flavour, RunSeed};

use super::{BOTH, Setup, block_on};

/// One write of each kind.
fn everything(setup: &Setup) -> Vec<WriteBack> {
    let number = setup.stand_in.add_issue("It fails", "");
    let pull = setup.stand_in.add_pull("Add a", "feature", "main");
    let (run, _) = setup.stand_in.add_run(&RunSeed { sha: &setup.feature, ..RunSeed::default() });
    setup.stand_in.git(&["tag", "v1", &setup.main]);
    setup.stand_in.git(&["branch", "other", &setup.feature]);
    let text = || "Some words.".to_owned();
    vec![
        WriteBack::Comment { number, pull_request: false, body: text() },
        WriteBack::Review(Review {
            number: pull,
            sha: setup.feature.clone(),
            decision: ReviewDecision::Approved,
            body: text(),
            comments: Vec::new(),
        }),
        WriteBack::Push { branch: "new".to_owned(), commit: setup.feature.clone(), from: None },
        WriteBack::OpenPullRequest {
            head: "other".to_owned(),
            base: "main".to_owned(),
            title: text(),
            body: text(),
        },
        WriteBack::CheckStatus {
            sha: setup.feature.clone(),
            context: "bailiwick".to_owned(),
            state: CheckState::Success,
            description: text(),
            url: None,
        },
        WriteBack::Rerun { run: run.to_string(), whole_workflow: true, attempt: 1 },
        WriteBack::ReleaseNote { tag: "v1".to_owned(), title: text(), body: text() },
        WriteBack::OpenIssue {
            run: "adr-1".to_owned(),
            run_uid: "uid".to_owned(),
            title: text(),
            body: text(),
        },
    ]
}

/// The request that writes it.
fn request(what: &WriteBack) -> &'static str {
    if matches!(what, WriteBack::Push { .. }) { "/git-receive-pack" } else { "POST /" }
}

/// The number of objects of each kind on the forge.
fn object_counts(setup: &Setup, number: u64) -> (usize, usize, usize, usize, usize, u64, usize) {
    let state = &setup.stand_in;
    (
        state.comments(number).len(),
        state.reviews(number + 1).len(),
        state.git(&["for-each-ref", "refs/heads"]).lines().count(),
        state.items().len(),
        state.statuses(&setup.feature).len(),
        state.runs().first().unwrap().attempt,
        state.releases().len(),
    )
}

#[test]
fn write_before_a_lost_connection_is_not_repeated() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let everything = everything(&setup);
        let WriteBack::Comment { number, .. } = everything[0] else { panic!("a comment") };
        for what in &everything {
            setup.stand_in.fail_next(request(what), Fault::DropAfterApplying);
            let first = block_on(setup.forge.write("key", what));
            assert!(matches!(first, Err(ForgeError::Unavailable(_))), "{what:?}: {first:?}");
            let repeated = block_on(setup.forge.write("key", what));
            assert!(
                repeated.as_ref().is_ok_and(|written| written.was_there),
                "{what:?}: {repeated:?}"
            );
        }
        // Each exists once: one comment, one review, a third and fourth branch, …
        assert_eq!(object_counts(&setup, number), (1, 1, 4, 4, 1, 2, 1), "{flavour:?}");
        setup.keeps_contract();
    }
}

#[test]
fn failed_write_succeeds_on_the_next_attempt() {
    for fault in [Fault::DropBeforeApplying, Fault::Status(500, "oops".to_owned())] {
        let setup = Setup::new(Flavour::Gitea);
        let everything = everything(&setup);
        let WriteBack::Comment { number, .. } = everything[0] else { panic!("a comment") };
        for what in &everything {
            setup.stand_in.fail_next(request(what), fault.clone());
            let first = block_on(setup.forge.write("key", what));
            assert!(matches!(first, Err(ForgeError::Unavailable(_))), "{what:?}: {first:?}");
            let repeated = block_on(setup.forge.write("key", what)).unwrap();
            assert!(!repeated.was_there, "{what:?}");
        }
        assert_eq!(object_counts(&setup, number), (1, 1, 4, 4, 1, 2, 1));
    }
}

#[test]
fn reads_are_retried_and_writes_are_not() {
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "Why?");
    for _ in 0..2 {
        setup.stand_in.fail_next("GET /", Fault::Status(502, "later".to_owned()));
    }
    assert!(block_on(setup.forge.issue(number)).is_ok());
    setup.stand_in.fail_next("POST /", Fault::Status(503, "later".to_owned()));
    let what = super::writing::comment(number, "hello");
    let failed = block_on(setup.forge.write("key", &what));
    assert_eq!(failed.unwrap_err().to_string(), "the forge did not answer: status 503");
    assert_eq!(setup.writes(), 1);
}

#[test]
fn refusal_has_the_forges_message_and_a_rate_limit_is_not_a_refusal() {
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "");
    let write = || block_on(setup.forge.write("key", &super::writing::comment(number, "hello")));
    setup.stand_in.fail_next("POST /", Fault::Status(403, "comments are locked".to_owned()));
    let Err(ForgeError::Refused(why)) = write() else { panic!("it is refused") };
    assert!(why.contains("status 403 comments are locked"), "{why}");
    setup.stand_in.fail_next("POST /", Fault::Later(429, 0));
    assert!(matches!(write(), Err(ForgeError::Unavailable(_))));
    // The pause has ended: it has no length.
    setup.stand_in.fail_next("POST /", Fault::Later(403, 0));
    assert!(matches!(write(), Err(ForgeError::Unavailable(_))));
    let message = "You have exceeded a secondary rate limit.".to_owned();
    setup.stand_in.fail_next("POST /", Fault::Status(403, message));
    assert!(matches!(write(), Err(ForgeError::Unavailable(_))));
    assert!(setup.stand_in.comments(number).is_empty());
    assert!(write().is_ok());
}
