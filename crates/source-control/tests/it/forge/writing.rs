//! Writes arrive unchanged, once for each key.

use bailiwick_fleet::ports::{CheckState, Forge as _, ForgeError, Review, WriteBack};
use bailiwick_resources::{ReviewComment, ReviewDecision};
use bailiwick_testkit::forge::{Fault, Flavour, RunSeed};

use super::{BOTH, Setup, block_on};

pub(super) fn comment(number: u64, body: &str) -> WriteBack {
    WriteBack::Comment { number, pull_request: false, body: body.to_owned() }
}

#[test]
fn comment_is_written_once_per_key() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let number = setup.stand_in.add_issue("It fails", "Why?");
        // More than one page, so that ours is not on the first.
        for other in 0..70 {
            setup.stand_in.add_comment(number, &format!("other {other}"));
        }
        let what = comment(number, "Here is why.");
        let first = block_on(setup.forge.write("key-1", &what)).unwrap();
        for other in 0..70 {
            setup.stand_in.add_comment(number, &format!("more {other}"));
        }
        let second = block_on(setup.forge.write("key-1", &what)).unwrap();
        assert!(!first.was_there && second.was_there, "{flavour:?}");
        assert_eq!((&first.id, &first.url), (&second.id, &second.url));
        let own_comments = |setup: &Setup| {
            let all = setup.stand_in.comments(number);
            all.iter().filter(|body| body.starts_with("Here is why.")).count()
        };
        assert_eq!(own_comments(&setup), 1);
        assert!(!block_on(setup.forge.write("key-2", &what)).unwrap().was_there);
        assert_eq!(own_comments(&setup), 2);
        setup.keeps_contract();
    }
}

#[test]
fn quoted_comment_is_not_mistaken_for_a_written_one() {
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "");
    block_on(setup.forge.write("key-1", &comment(number, "One."))).unwrap();
    let text = setup.stand_in.comments(number).remove(0);
    let forged = block_on(setup.forge.write("key-2", &comment(number, &text)));
    assert!(matches!(forged, Err(ForgeError::Refused(_))), "{forged:?}");
    setup.stand_in.add_comment(number, &format!("{text}\nI agree."));
    assert!(block_on(setup.forge.write("key-1", &comment(number, "One."))).unwrap().was_there);
    assert_eq!(setup.stand_in.comments(number).len(), 2);
}

#[test]
fn review_has_its_line_comments_and_its_commit() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let number = setup.stand_in.add_pull("Add a", "feature", "main");
        let mut review = Review {
            number,
            sha: setup.feature.clone(),
            decision: ReviewDecision::ChangesRequested,
            body: "Not yet.".to_owned(),
            comments: vec![ReviewComment {
                path: "src/a.rs".to_owned(),
                line: 1,
                body: "Why?".to_owned(),
            }],
        };
        let what = WriteBack::Review(review.clone());
        assert!(!block_on(setup.forge.write("key", &what)).unwrap().was_there);
        assert!(block_on(setup.forge.write("key", &what)).unwrap().was_there);
        let sent = setup.stand_in.reviews(number);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0]["event"], "REQUEST_CHANGES");
        assert_eq!(sent[0]["commit_id"], setup.feature.as_str());
        let line = if flavour == Flavour::Gitea { "new_position" } else { "line" };
        assert_eq!(sent[0]["comments"][0][line], 1);
        assert_eq!(sent[0]["comments"][0]["path"], "src/a.rs");
        // The review is about another commit.
        review.sha = setup.main.clone();
        let moved = block_on(setup.forge.write("other", &WriteBack::Review(review)));
        let expected = ForgeError::Moved {
            target: format!("the pull request {number}"),
            expected: setup.main.clone(),
            found: setup.feature.clone(),
        };
        assert_eq!(moved, Err(expected));
        assert_eq!(setup.stand_in.reviews(number).len(), 1);
        setup.keeps_contract();
    }
}

#[test]
fn pull_request_is_opened_once() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let what = WriteBack::OpenPullRequest {
            head: "feature".to_owned(),
            base: "main".to_owned(),
            title: "Add a and b".to_owned(),
            body: "Both were missing.".to_owned(),
        };
        let first = block_on(setup.forge.write("key", &what)).unwrap();
        let second = block_on(setup.forge.write("key", &what)).unwrap();
        assert!(!first.was_there && second.was_there && first.id == second.id);
        // Another key means another pull request, which the forge refuses.
        let other = block_on(setup.forge.write("other", &what));
        let Err(ForgeError::Refused(why)) = other else { panic!("{other:?}") };
        assert!(why.contains("already exists"), "{why}");
        assert_eq!(setup.stand_in.items().len(), 1);
        setup.keeps_contract();
    }
}

/// Tokens of app installations have no account.
#[test]
fn without_an_account_a_marker_proves_nothing() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let number = setup.stand_in.add_issue("It fails", "Why?");
        let comment = WriteBack::Comment { number, pull_request: false, body: "So.".to_owned() };
        let write = || block_on(setup.forge.write("key", &comment)).unwrap();
        let first = write();
        assert!(!first.was_there);
        assert_eq!(write().id, first.id, "our account wrote it");
        setup.stand_in.fail_next("/user", Fault::Status(403, "no user".to_owned()));
        let second = write();
        assert!(!second.was_there && second.id != first.id, "{second:?}");
        setup.keeps_contract();
    }
}

#[test]
fn issue_is_opened_once() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let issue = |title: &str| WriteBack::OpenIssue {
            run: "adr-1".to_owned(),
            run_uid: "uid".to_owned(),
            title: title.to_owned(),
            body: "The suite fails twice a week.".to_owned(),
        };
        let write = |key: &str, title: &str| block_on(setup.forge.write(key, &issue(title)));
        let first = write("key", "Two flaky tests").unwrap();
        // A later attempt may use other words.
        let second = write("key", "Flaky tests").unwrap();
        assert!(!first.was_there && second.was_there && first.id == second.id);
        assert!(first.url.is_some_and(|url| url.ends_with(&format!("/issues/{}", first.id))));
        let other = write("other", "Two flaky tests").unwrap();
        assert_ne!(other.id, first.id);
        let items = setup.stand_in.items();
        let titles: Vec<&str> = items.iter().map(|(_, item)| item.title.as_str()).collect();
        assert_eq!(titles, ["Two flaky tests", "Two flaky tests"]);
        // Somebody else's copy of our marker is not ours.
        let body = items[0].1.body.clone();
        setup.stand_in.add_issue("Copied", &body);
        assert_eq!(write("key", "Two flaky tests").unwrap().id, first.id);
        setup.keeps_contract();
    }
}

#[test]
fn equal_status_is_set_once() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let status = |state, description: &str| WriteBack::CheckStatus {
            sha: setup.feature.clone(),
            context: "bailiwick/repair".to_owned(),
            state,
            description: description.to_owned(),
            url: Some("https://example.org/runs/1".to_owned()),
        };
        let write = |what: &WriteBack| block_on(setup.forge.write("key", what)).unwrap().was_there;
        let (pending, good) =
            (status(CheckState::Pending, "at work"), status(CheckState::Success, "done"));
        assert!(!write(&pending) && write(&pending));
        assert!(!write(&good) && write(&good));
        // Back again: the newest status counts.
        assert!(!write(&pending));
        let sent = setup.stand_in.statuses(&setup.feature);
        let states: Vec<_> = sent.iter().map(|sent| sent["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["pending", "success", "pending"]);
        setup.keeps_contract();
    }
}

#[test]
fn rerun_happens_once_per_attempt() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let seed = RunSeed { sha: &setup.feature, ..RunSeed::default() };
        let (run, job) = setup.stand_in.add_run(&seed);
        let rerun = |id: u64, whole_workflow, attempt| {
            let what = WriteBack::Rerun { run: id.to_string(), whole_workflow, attempt };
            block_on(setup.forge.write("key", &what))
        };
        assert!(!rerun(job, false, 1).unwrap().was_there);
        assert!(rerun(job, false, 1).unwrap().was_there);
        assert_eq!(setup.stand_in.runs()[0].attempt, 2);
        // It is running, so it cannot be rerun now.
        let early = rerun(run, true, 2);
        assert!(matches!(early, Err(ForgeError::Moved { .. })), "{early:?}");
        setup.stand_in.end_run(run, "failure");
        assert!(!rerun(run, true, 2).unwrap().was_there);
        assert!(rerun(run, true, 2).unwrap().was_there);
        assert_eq!(setup.stand_in.runs()[0].attempt, 3);
        setup.keeps_contract();
    }
}

#[test]
fn release_notes_need_a_tag_and_do_not_overwrite_others() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let note = |tag: &str| WriteBack::ReleaseNote {
            tag: tag.to_owned(),
            title: "One".to_owned(),
            body: "All of it.".to_owned(),
        };
        let write = |what: &WriteBack| block_on(setup.forge.write("key", what));
        let Err(ForgeError::Refused(why)) = write(&note("v1")) else { panic!("no tag") };
        assert!(why.contains("tag v1 does not exist"), "{why}");
        assert_eq!(setup.stand_in.releases().len(), 0);
        for tag in ["v1", "release/2", "v3"] {
            setup.stand_in.git(&["tag", tag, &setup.main]);
        }
        assert!(!write(&note("v1")).unwrap().was_there);
        assert!(write(&note("v1")).unwrap().was_there);
        setup.stand_in.add_release("release/2", "");
        assert!(!write(&note("release/2")).unwrap().was_there);
        setup.stand_in.add_release("v3", "By hand.");
        assert!(matches!(write(&note("v3")), Err(ForgeError::Refused(_))));
        let notes: Vec<_> =
            setup.stand_in.releases().into_iter().map(|release| release.body).collect();
        assert!(notes[0].starts_with("All of it.") && notes[1].starts_with("All of it."));
        assert_eq!(notes[2], "By hand.");
        setup.keeps_contract();
    }
}

#[test]
fn deployment_is_approved_once_and_only_on_github() {
    let what = |run: u64, environment: &str| WriteBack::DeploymentApproval {
        run: run.to_string(),
        environment: environment.to_owned(),
        comment: "Checked.".to_owned(),
    };
    let setup = Setup::new(Flavour::Github);
    let seed = RunSeed { waits_for: &["staging", "production"], ..RunSeed::default() };
    let (run, _) = setup.stand_in.add_run(&seed);
    assert!(!block_on(setup.forge.write("key", &what(run, "production"))).unwrap().was_there);
    assert!(block_on(setup.forge.write("key", &what(run, "production"))).unwrap().was_there);
    assert_eq!(setup.stand_in.runs()[0].waits_for, ["staging"]);
    let nothing = block_on(setup.forge.write("other", &what(run, "production")));
    assert!(matches!(nothing, Err(ForgeError::Refused(_))), "{nothing:?}");
    let setup = Setup::new(Flavour::Gitea);
    let nothing = block_on(setup.forge.write("key", &what(1, "production")));
    assert!(matches!(nothing, Err(ForgeError::Unsupported(_))), "{nothing:?}");
    assert_eq!(setup.writes(), 0);
}
