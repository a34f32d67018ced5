//! Branches that the account of the token may not push to, and tokens that the forge does not accept.

use bailiwick_fleet::ports::{AccountProblem, Forge as _, ForgeError, Rights, WriteBack};
use bailiwick_testkit::forge::{Fault, Flavour};

use super::{BOTH, Setup, block_on, opened};

#[test]
fn protection_of_a_branch_is_known_before_a_push() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        setup.stand_in.protect("main");
        let rights = |branch: &str| block_on(setup.forge.push_rights(branch)).unwrap();
        let expected = match flavour {
            Flavour::Gitea => (Rights::Read, Rights::Write),
            // GitHub does not report for whom a branch is protected.
            Flavour::Github => (Rights::Unknown, Rights::Unknown),
        };
        assert_eq!((rights("main"), rights("feature")), expected);
        assert_eq!(rights("none"), Rights::Unknown, "it does not exist yet");
        setup.keeps_contract();
    }
}

#[test]
fn rules_of_github_that_can_refuse_a_push_are_named() {
    let setup = Setup::new(Flavour::Github);
    let rules = |branch: &str| block_on(setup.forge.branch_rules(branch)).unwrap();
    setup.stand_in.set_branch_rules(
        "release/1",
        &["pull_request", "deletion", "non_fast_forward", "required_signatures", "pull_request"],
    );
    assert_eq!(rules("release/1"), ["pull_request", "required_signatures"]);
    assert_eq!(rules("main"), Vec::<String>::new(), "the control: a branch without rules");
    // A token that may not read them leaves them unknown.
    setup.stand_in.fail_next("/rules/branches/", Fault::Status(403, "no".to_owned()));
    assert_eq!(rules("release/1"), Vec::<String>::new());
}

#[test]
fn administrators_know_the_protection_of_a_future_branch() {
    let setup = Setup::new(Flavour::Gitea);
    let push_rights_of = |branch: &str| block_on(setup.forge.push_rights(branch)).unwrap();
    assert_eq!(push_rights_of("release/1"), Rights::Unknown, "no rule matches it");
    setup.stand_in.protect("release/**");
    assert_eq!(push_rights_of("release/1"), Rights::Unknown, "a writer may not read the rules");
    setup.stand_in.show_protections();
    assert_eq!(push_rights_of("release/1/x"), Rights::Read);
    assert_eq!(push_rights_of("agent/one"), Rights::Unknown);
    setup.keeps_contract();
}

#[test]
fn push_with_a_rejected_token_has_its_own_error_type() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let stranger = opened(&setup.stand_in, &setup.scratch, "revoked");
        let push = WriteBack::Push {
            branch: "agent/one".to_owned(),
            commit: setup.feature.clone(),
            from: None,
        };
        let refused = block_on(stranger.write("k", &push));
        assert_eq!(refused, Err(ForgeError::Account(AccountProblem::TokenRejected)), "{flavour:?}");
        // The control: the same push with a valid token succeeds.
        assert!(block_on(setup.forge.write("k", &push)).is_ok());
    }
}
