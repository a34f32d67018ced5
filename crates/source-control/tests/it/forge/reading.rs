//! Reading from a forge.

use bailiwick_fleet::ports::{Forge as _, ForgeError, Rights};
use bailiwick_testkit::forge::{Fault, RunSeed};

use super::{BOTH, Setup, block_on, opened};

#[test]
fn pull_request_has_its_files_and_its_origin() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        // More files than a page has.
        for number in 0..7 {
            setup.scratch.write(&format!("many/{number}"), "x\n");
        }
        let feature = setup.scratch.commit("many");
        setup.stand_in.take(&setup.scratch.root(), "feature");
        setup.stand_in.limit_pages(3);
        let number = setup.stand_in.add_pull("Add a", "feature", "main");
        let pull = block_on(setup.forge.pull_request(number)).unwrap();
        assert_eq!((pull.title.as_str(), pull.open), ("Add a", true));
        assert_eq!((pull.head_branch.as_str(), pull.base_branch.as_str()), ("feature", "main"));
        assert_eq!(pull.head_sha, feature);
        assert_eq!(pull.head_repository.as_deref(), Some("acme/widgets"));
        let listed = setup.scratch.git(&["diff", "--name-only", "main...feature"]);
        assert_eq!(pull.files, listed.lines().collect::<Vec<_>>());
        assert_eq!(pull.files.len(), 9);
        let fork = setup.stand_in.add_fork_pull("Theirs", "them/widgets", "feature", &feature);
        let pull = block_on(setup.forge.pull_request(fork)).unwrap();
        assert_eq!(pull.head_repository.as_deref(), Some("them/widgets"));
        setup.keeps_contract();
    }
}

#[test]
fn existing_and_missing_branches_and_issues_are_distinguished() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        setup.stand_in.git(&["branch", "fix/deep/one", &setup.main]);
        let branch = |name: &str| block_on(setup.forge.branch(name));
        assert_eq!(branch("feature"), Ok(Some(setup.feature.clone())));
        assert_eq!(branch("fix/deep/one"), Ok(Some(setup.main.clone())));
        assert_eq!(branch("none"), Ok(None));
        assert!(matches!(branch("a/../feature"), Err(ForgeError::Refused(_))));
        let number = setup.stand_in.add_issue("It fails", "Why?");
        let issue = block_on(setup.forge.issue(number));
        assert_eq!(issue, Ok(("It fails".to_owned(), "Why?".to_owned())));
        let refused = block_on(setup.forge.issue(999));
        assert!(matches!(refused, Err(ForgeError::Refused(_))), "{refused:?}");
        // A forge that refuses the token does not reveal whether a branch exists.
        let stranger = opened(&setup.stand_in, &setup.scratch, "another");
        let refused = block_on(stranger.branch("none"));
        assert!(matches!(refused, Err(ForgeError::Account(_))), "{refused:?}");
        setup.keeps_contract();
    }
}

#[test]
fn rights_of_a_user_match_the_forge() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        for (name, word) in [
            ("alice", "write"),
            ("bob", "admin"),
            ("olga", "owner"),
            ("carol", "read"),
            ("dave", "none"),
            ("erin", "a-new-word"),
        ] {
            setup.stand_in.permit(name, word);
        }
        let of = |name: &str| block_on(setup.forge.permission(name));
        for writer in ["alice", "bob", "olga"] {
            assert_eq!(of(writer), Ok(Rights::Write), "{writer}");
        }
        for reader in ["carol", "dave", "nobody"] {
            assert_eq!(of(reader), Ok(Rights::Read), "{reader}");
        }
        assert_eq!(of("erin"), Ok(Rights::Unknown));
        // A name is one path segment, whatever it contains.
        assert_eq!(of("../collaborators/alice"), Ok(Rights::Read));
        assert!(matches!(of(".."), Err(ForgeError::Refused(_))));
        // A forge that refuses the token or is unavailable does not reveal the rights of a user.
        let stranger = opened(&setup.stand_in, &setup.scratch, "another");
        let refused = block_on(stranger.permission("nobody"));
        assert!(matches!(refused, Err(ForgeError::Account(_))), "{refused:?}");
        setup.keeps_contract();
    }
}

#[test]
fn only_the_end_of_a_long_log_is_returned() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let log: String = (0..200_000).map(|line| format!("line {line} ü\n")).collect();
        let seed = RunSeed { log: &log, ..RunSeed::default() };
        let (_, job) = setup.stand_in.add_run(&seed);
        let read = |max_bytes| block_on(setup.forge.job_log(&job.to_string(), max_bytes)).unwrap();
        assert_eq!(read(usize::MAX), log);
        for max_bytes in [0, 1, 10, 11, 12, 1_000_003] {
            let end = read(max_bytes);
            assert!(
                log.ends_with(&end) && end.len() <= max_bytes && max_bytes - end.len() < 4,
                "{max_bytes}"
            );
        }
        setup.keeps_contract();
    }
}

#[test]
fn account_and_labels_are_read() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        setup.stand_in.limit_pages(3);
        let number = setup.stand_in.add_issue("It fails", "Why?");
        let wanted: Vec<String> = (0..8).map(|label| format!("label-{label}")).collect();
        wanted.iter().for_each(|label| setup.stand_in.put_label(number, label));
        assert_eq!(block_on(setup.forge.labels()), Ok(Some(wanted)), "all pages");
        let account = block_on(setup.forge.account());
        assert_eq!(account, Ok(Some("mender-account".to_owned())));
        // Tokens of app installations have no account.
        setup.stand_in.fail_next("/user", Fault::Status(403, "no user".to_owned()));
        assert_eq!(block_on(setup.forge.account()), Ok(None));
        let stranger = opened(&setup.stand_in, &setup.scratch, "another");
        let refused = block_on(stranger.account());
        assert!(matches!(refused, Err(ForgeError::Account(_))), "{refused:?}");
        setup.keeps_contract();
    }
}
