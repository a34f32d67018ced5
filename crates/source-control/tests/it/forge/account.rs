//! Problems of an account, a token or a repository's name have their own types and end when fixed.

use std::io;
use std::sync::{Arc, Mutex};

use bailiwick_fleet::admission::TeamMembers;
use bailiwick_fleet::ports::{AccountProblem, Forge as _, ForgeError, Rights, WriteBack};
use bailiwick_source_control::forge::{Token, fetch};
use bailiwick_testkit::forge::{Fault, Flavour, Team};

use super::{BOTH, Setup, block_on, declared, opened};

#[test]
fn each_problem_of_an_account_has_its_own_type() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let number = setup.stand_in.add_issue("It fails", "Why?");
        let ask = || block_on(setup.forge.issue(number)).map(|_| ());
        assert_eq!(ask(), Ok(()), "the control: no problem");
        let refused = |status: u16| {
            setup.stand_in.fail_next("GET /", Fault::Status(status, "no".to_owned()));
            ask()
        };
        assert_eq!(refused(401), Err(AccountProblem::TokenRejected.into()));
        let right = refused(403);
        assert!(
            matches!(right, Err(ForgeError::Account(AccountProblem::RightMissing { .. }))),
            "{right:?}"
        );
        let to = "https://forge.example/api/v1/repos/acme/gadgets".to_owned();
        setup.stand_in.fail_next("GET /", Fault::Redirect(to.clone()));
        assert_eq!(ask(), Err(AccountProblem::Renamed { to }.into()));
        // A missing issue is not a problem of the repository; an issue in a hidden repository is.
        let missing = block_on(setup.forge.issue(999)).unwrap_err();
        assert!(matches!(missing, ForgeError::Refused(_)), "{missing:?}");
        for _ in 0..2 {
            setup.stand_in.fail_next("GET /", Fault::Status(404, "no".to_owned()));
        }
        assert_eq!(ask(), Err(AccountProblem::RepositoryNotFound.into()));
        assert_eq!(ask(), Ok(()), "it is fixed");
    }
}

#[test]
fn rotated_token_works_immediately() {
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "Why?");
    setup.stand_in.rotate_token("another-token-0123456789");
    let refused = block_on(setup.forge.issue(number)).unwrap_err();
    assert_eq!(refused, AccountProblem::TokenRejected.into());
    let fresh = opened(&setup.stand_in, &setup.scratch, "another-token-0123456789");
    assert!(block_on(fresh.issue(number)).is_ok());
}

#[test]
fn refused_git_names_the_problem_of_the_account() {
    let setup = Setup::new(Flavour::Gitea);
    let repository = declared(&setup.stand_in, setup.scratch.root());
    let fetched = |token: &str, wanted: &str| {
        let token = Some(Token::parse(token).unwrap());
        block_on(fetch(&repository, token, &setup.scratch.state(), wanted))
    };
    let token = setup.stand_in.token();
    assert_eq!(fetched(&token, "refs/heads/main"), Ok(Some(setup.main.clone())), "the control");
    let refused = fetched("not-the-right-token", "refs/heads/main");
    assert_eq!(refused, Err(AccountProblem::TokenRejected.into()));
}

#[test]
fn annotated_tag_is_fetched_as_its_commit() {
    let setup = Setup::new(Flavour::Gitea);
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let mut tag = identity.to_vec();
    tag.extend(["tag", "-a", "v1", "-m", "one", &setup.feature]);
    setup.stand_in.git(&tag);
    let id = setup.stand_in.git(&["rev-parse", "v1"]);
    assert_ne!(id.trim(), setup.feature, "the control: the tag is a separate object");
    let repository = declared(&setup.stand_in, setup.scratch.root());
    let token = Some(Token::parse(&setup.stand_in.token()).unwrap());
    let found = block_on(fetch(&repository, token, &setup.scratch.state(), "refs/tags/v1"));
    assert_eq!(found, Ok(Some(setup.feature.clone())));
}

#[test]
fn retry_after_pauses_the_requests_of_that_account_only() {
    for (status, answer) in [(429, 3600), (503, 3600), (403, 3600)] {
        let setup = Setup::new(Flavour::Gitea);
        let number = setup.stand_in.add_issue("It fails", "Why?");
        setup.stand_in.fail_next("GET /", Fault::Later(status, answer));
        let count = || setup.stand_in.requests().len();
        let before = count();
        for _ in 0..3 {
            let waits = block_on(setup.forge.issue(number));
            assert!(matches!(waits, Err(ForgeError::Unavailable(_))), "{status}: {waits:?}");
        }
        assert_eq!(count(), before + 1, "{status}: no request within the pause");
        setup.stand_in.rotate_token("another-token-0123456789");
        let other = opened(&setup.stand_in, &setup.scratch, "another-token-0123456789");
        assert!(block_on(other.issue(number)).is_ok(), "{status}: the control");
    }
}

fn team(permission: &str, units: &[(&str, &str)], member: &str) -> Team {
    let unit = |(unit, access): &(&str, &str)| ((*unit).to_owned(), (*access).to_owned());
    Team {
        name: "team".to_owned(),
        permission: permission.to_owned(),
        units: units.iter().map(unit).collect(),
        members: vec![member.to_owned()],
    }
}

#[test]
fn writers_token_reads_rights_from_assignees_only_where_exact() {
    let setup = Setup::new(Flavour::Gitea);
    setup.stand_in.permit("alice", "write");
    setup.stand_in.permit("carol", "read");
    setup.stand_in.make_token_writer();
    let of = |name: &str| block_on(setup.forge.permission(name)).unwrap();
    let reads = || block_on(setup.forge.facts()).unwrap().unwrap().reads_rights;
    // A user's repository: there are no teams.
    assert_eq!(
        (of("Alice"), of("carol"), of("nobody")),
        (Rights::Write, Rights::Read, Rights::Read)
    );
    assert!(reads());
    // Every team writes code.
    let code = team("write", &[("repo.code", "write"), ("repo.wiki", "write")], "dora");
    let idle = team("none", &[("repo.code", "none")], "ida");
    setup.stand_in.set_teams(&[code.clone(), idle]);
    assert_eq!((of("dora"), of("ida")), (Rights::Write, Rights::Read));
    assert!(reads());
    // Users who write a wiki or read issues are assignees too, so assignees prove nothing.
    let wiki = team("read", &[("repo.code", "read"), ("repo.wiki", "write")], "wanda");
    let issues = team("none", &[("repo.code", "read"), ("repo.issues", "read")], "emil");
    for other in [wiki, issues] {
        setup.stand_in.set_teams(&[code.clone(), other]);
        for name in ["alice", "dora", "wanda", "emil", "nobody"] {
            assert_eq!(of(name), Rights::Unknown, "{name}");
        }
        assert!(!reads());
    }
    setup.keeps_contract();
}

#[test]
fn member_of_a_team_that_writes_no_code_is_not_a_writer() {
    let setup = Setup::new(Flavour::Gitea);
    setup.stand_in.permit("alice", "write");
    setup.stand_in.permit("both", "read");
    let of = |name: &str| block_on(setup.forge.permission(name)).unwrap();
    let reads = || block_on(setup.forge.facts()).unwrap().unwrap().reads_rights;
    let owners = team("owner", &[], "olga");
    let code = team("write", &[("repo.code", "write"), ("repo.wiki", "write")], "dora");
    let readers = team("read", &[("repo.code", "read"), ("repo.issues", "read")], "emil");
    // Gitea reports that its members may write the repository.
    let mut wiki = team("write", &[("repo.code", "none"), ("repo.wiki", "write")], "wanda");
    wiki.members.extend(["dora", "both", "olga"].map(str::to_owned));
    // Gitea 1.27 reports that its members may read.
    let unseen = team("none", &[("repo.code", "write")], "ursula");
    setup.stand_in.set_teams(&[owners, code, readers, wiki, unseen]);
    for reader in ["wanda", "emil", "nobody"] {
        assert_eq!(of(reader), Rights::Read, "{reader}");
    }
    for writer in ["alice", "dora", "olga", "ursula", "both"] {
        assert_eq!(of(writer), Rights::Write, "{writer}");
    }
    assert!(reads());
    // An administrator of the repository who is outside of the organization cannot distinguish them.
    setup.stand_in.hide_team_members();
    assert_eq!(of("olga"), Rights::Write, "an owner needs no team");
    for name in ["alice", "dora", "wanda", "emil", "ursula"] {
        assert_eq!(of(name), Rights::Unknown, "{name}");
    }
    assert!(!reads());
    setup.keeps_contract();
}

#[test]
fn the_members_of_a_team_are_read_or_the_missing_right_is_named() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let members = |team: &str| block_on(setup.forge.team_members(team));
        let unreadable = |team: &str| match members(team) {
            Ok(TeamMembers::Unreadable(why)) => why,
            other => panic!("{flavour:?}: {other:?}"),
        };
        unreadable("core");
        let mut core = team("write", &[("repo.code", "write")], "olga");
        core.name = "core".to_owned();
        core.members.extend((0..7).map(|number| format!("member-{number}")));
        let other = team("write", &[("repo.code", "write")], "emil");
        setup.stand_in.set_teams(&[other, core.clone()]);
        setup.stand_in.limit_pages(3);
        assert_eq!(members("core"), Ok(TeamMembers::Known(core.members)), "all pages");
        unreadable("nobody");
        setup.stand_in.fail_next("/members", Fault::Status(401, "no".to_owned()));
        assert_eq!(members("core"), Err(AccountProblem::TokenRejected.into()));
        setup.stand_in.revoke_scope("read:organization");
        let scope = if flavour == Flavour::Gitea { "`read:organization`" } else { "`read:org`" };
        assert!(unreadable("core").contains(scope), "{}", unreadable("core"));
        setup.keeps_contract();
    }
}

#[test]
fn scopes_rights_and_versions_are_checked_without_writing() {
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "");
    let facts = || block_on(setup.forge.facts()).unwrap().unwrap();
    let found = facts();
    assert!(found.may_write && found.reads_rights, "{found:?}");
    assert_eq!((found.missing_scopes.len(), found.version.as_deref()), (0, Some("1.27.2")));
    assert_eq!(found.missing_features, Vec::<String>::new());
    for scope in ["read:user", "read:issue", "write:issue", "write:repository"] {
        setup.stand_in.revoke_scope(scope);
        assert_eq!(facts().missing_scopes.last().map(String::as_str), Some(scope));
    }
    assert_eq!(facts().missing_scopes.len(), 4);
    setup.stand_in.set_version("1.22.0-dev");
    assert_eq!(facts().missing_features.len(), 2);
    assert_eq!((setup.stand_in.comments(number).len(), setup.stand_in.releases().len()), (0, 0));
    setup.keeps_contract();
}

#[test]
fn missing_permissions_of_a_token_of_github_are_named() {
    let setup = Setup::new(Flavour::Github);
    let facts = || block_on(setup.forge.facts()).unwrap().unwrap();
    let none = Vec::<String>::new();
    assert_eq!((facts().missing_scopes, facts().missing_optional), (none.clone(), none.clone()));
    let refusal = "Resource not accessible by personal access token";
    for (path, permission) in [
        ("/issues?", "issues: read"),
        ("/pulls?", "pull requests: read"),
        ("/actions/runs?", "actions: read"),
        ("/statuses?", "commit statuses: read"),
    ] {
        setup.stand_in.fail_next(path, Fault::Status(403, refusal.to_owned()));
        let found = facts();
        assert_eq!(found.missing_scopes, [permission], "{found:?}");
        assert_eq!(facts().missing_scopes, none, "the control: it is granted again");
    }
    // Agents can work without this one.
    setup.stand_in.fail_next("/check-runs?", Fault::Status(403, refusal.to_owned()));
    let found = facts();
    assert_eq!((found.missing_scopes, found.missing_optional.len()), (none.clone(), 1));
    setup.stand_in.set_oauth_scopes("gist, read:org");
    assert_eq!(facts().missing_scopes, ["repo"]);
    setup.stand_in.set_oauth_scopes("repo, workflow");
    assert_eq!(facts().missing_scopes, none);
}

#[test]
fn copied_marker_of_a_stranger_does_not_prevent_a_write() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        let number = setup.stand_in.add_issue("It fails", "");
        let other = setup.stand_in.add_issue("It fails too", "");
        let what = |number| super::writing::comment(number, "One.");
        block_on(setup.forge.write("key", &what(other))).unwrap();
        let copied = setup.stand_in.comments(other).remove(0);
        setup.stand_in.add_comment(number, &copied);
        assert!(!block_on(setup.forge.write("key", &what(number))).unwrap().was_there);
        assert!(block_on(setup.forge.write("key", &what(number))).unwrap().was_there, "control");
        assert_eq!(setup.stand_in.comments(number).len(), 2);
        setup.keeps_contract();
    }
}

#[test]
fn huge_comments_block_neither_an_issue_nor_its_text() {
    let setup = Setup::new(Flavour::Gitea);
    let huge = "<x> ".repeat(12 << 20);
    let number = setup.stand_in.add_issue("It fails", &huge);
    setup.stand_in.add_comment(number, &huge);
    let (title, body) = block_on(setup.forge.issue(number)).unwrap();
    assert_eq!(title, "It fails");
    assert!(body.starts_with("<x> <x> ") && body.len() < 100_000, "{}", body.len());
    assert!(body.trim_end().ends_with("more bytes]"), "the text says that it was cut");
    let what = super::writing::comment(number, "Here is why.");
    assert!(!block_on(setup.forge.write("key", &what)).unwrap().was_there);
    assert!(block_on(setup.forge.write("key", &what)).unwrap().was_there);
}

/// More than is read of one response: Gitea sends all comments of an issue together.
#[test]
fn very_many_comments_are_read_in_pages() {
    let setup = Setup::new(Flavour::Gitea);
    let number = setup.stand_in.add_issue("It fails", "");
    let what = super::writing::comment(number, "Here is why.");
    assert!(!block_on(setup.forge.write("key", &what)).unwrap().was_there);
    let long = "x".repeat(64 * 1024);
    for _ in 0..1_030 {
        setup.stand_in.add_comment(number, &long);
    }
    assert!(block_on(setup.forge.write("key", &what)).unwrap().was_there);
    assert_eq!(setup.stand_in.comments(number).len(), 1_031);
}

/// What is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An issue whose labels are more than is read of one response.
#[test]
fn an_entry_that_is_too_large_is_left_out_and_logged() {
    let setup = Setup::new(Flavour::Gitea);
    let issue = |run: &str| WriteBack::OpenIssue {
        run: run.to_owned(),
        run_uid: format!("uid of {run}"),
        title: "It fails".to_owned(),
        body: "Why?".to_owned(),
    };
    let write = |key: &str| block_on(setup.forge.write(key, &issue(key))).unwrap();
    let logged = |work: &dyn Fn()| {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
        tracing::subscriber::with_default(subscriber.finish(), work);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    };
    let small = write("small");
    let large: u64 = write("large").id.parse().unwrap();
    let quiet = logged(&|| assert!(write("small").was_there));
    assert_eq!(quiet, "", "the control: nothing is left out");
    let long = "x".repeat(64 * 1024);
    let labels: Vec<String> = (0..1_030).map(|number| format!("{number} {long}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    setup.stand_in.put_labels(large, &labels, "labeller");
    let text = logged(&|| {
        let found = write("small");
        assert!(found.was_there && found.id == small.id, "{found:?}");
    });
    assert_eq!(text.lines().count(), 1, "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["fields"]["path"], "issues");
    assert_eq!(line["fields"]["left_out"], 1);
    assert!(!text.contains(&setup.stand_in.token()), "{text}");
}

#[test]
fn commit_is_found_on_its_branch_or_pull_request() {
    use bailiwick_fleet::ports::CommitPlace;
    let setup = Setup::new(Flavour::Gitea);
    let place = |sha: &str| block_on(setup.forge.place_of(sha, "main")).unwrap();
    assert_eq!(place(&setup.main), CommitPlace::Branch("main".to_owned()));
    assert_eq!(place(&setup.feature), CommitPlace::Branch("feature".to_owned()));
    let strange = "f".repeat(40);
    assert_eq!(place(&strange), CommitPlace::Unknown);
    let number = setup.stand_in.add_fork_pull("Theirs", "them/widgets", "x", &strange);
    assert_eq!(place(&strange), CommitPlace::PullRequest(number));
    // The branch moves: the older commit is still on it.
    setup.stand_in.git(&["update-ref", "refs/heads/main", &setup.feature]);
    setup.stand_in.git(&["update-ref", "-d", "refs/heads/feature"]);
    assert_eq!(place(&setup.main), CommitPlace::Branch("main".to_owned()));
    setup.keeps_contract();
}
