//! Tests of claims.

use super::*;
use bailiwick_model::claim::ClaimOutcome;
use bailiwick_model::role::EscalationPolicy;
use bailiwick_policy::ToolStack;
use bailiwick_policy::pattern::Patterns;
use bailiwick_policy::policy::FORMAT;
use bailiwick_testkit::random::Random;
use bailiwick_verify::change::{Entry, Mode};

fn rule(gate: GateModule) -> Rule {
    Rule {
        capability: gate.path().to_owned(),
        gate: Some(gate),
        tools: Vec::new(),
        severity: GateSeverity::Block,
        patterns: Patterns::default(),
        tools_denied: Vec::new(),
    }
}

fn id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

fn request(run: &str, inside: &str) -> ClaimRequest {
    ClaimRequest {
        run: id(run),
        line: Vec::new(),
        repository: "/repo".to_owned(),
        inside: vec![inside.to_owned()],
        except: Vec::new(),
        lease: 100,
        takes_over: Vec::new(),
    }
}

fn change(path: &str, mode: Mode) -> Change {
    let entry = |object: &str| Some(Entry { mode, object: object.to_owned() });
    let (before, after) = (entry("1"), entry("2"));
    Change { path: path.to_owned(), from: None, copied: false, before, after }
}

#[test]
fn change_outside_the_claimed_area_is_found() {
    let request =
        ClaimRequest { except: vec!["src/old/**".to_owned()], ..request("one", "src/**") };
    let claim = request.granted(Fence(4), 0);
    let first = |paths: &[&str]| {
        let changes: Vec<Change> = paths.iter().map(|path| change(path, Mode::File)).collect();
        outside(&claim.area(), &claim.run, &changes).map(str::to_owned)
    };
    assert_eq!(first(&["src/a.rs", "src/b/c.rs"]), None);
    assert_eq!(first(&["src/a.rs", "docs/b.md", "c"]).as_deref(), Some("docs/b.md"));
    assert_eq!(first(&["src/old/a.rs"]).as_deref(), Some("src/old/a.rs"));
}

#[test]
fn rename_needs_a_claim_for_both_paths_and_a_copy_for_the_new_path() {
    let own = request("one", "src/**");
    let moved = Change { from: Some("docs/a".to_owned()), ..change("src/a", Mode::File) };
    let copied = Change { copied: true, ..moved.clone() };
    assert_eq!(outside(&own.area(), &own.run, &[moved]), Some("docs/a"));
    assert_eq!(outside(&own.area(), &own.run, &[copied]), None);
}

#[test]
fn submodule_is_a_directory_and_own_report_needs_no_claim() {
    let own = request("one", "vendor/x/");
    let first = |path: &str, mode| {
        let changes = [change(path, mode)];
        outside(&own.area(), &own.run, &changes).is_none()
    };
    assert!(first("vendor/x", Mode::Submodule));
    assert!(!first("vendor/x", Mode::File), "it is a file, not a directory");
    assert!(!first("vendor/y", Mode::Submodule));
    assert!(first(".claude/agents/one/review.md", Mode::File));
    assert!(!first(".claude/agents/one/review.md", Mode::Link), "the link can lead outside");
    assert!(!first(".claude/agents/two/review.md", Mode::File), "another agent's report");
}

#[test]
fn conflict_with_another_runs_live_claim_names_the_path() {
    let mine = request("one", "src/**");
    let other = request("two", "**/lexer.rs").granted(Fence(4), 0);
    let conflicts = obstacles(&mine, std::slice::from_ref(&other), 99);
    let reason = conflicts.first().unwrap().reason();
    assert_eq!(reason, "`two` has claim 4 there: both have `src/lexer.rs`");
    // No conflict: the lease has ended; it is released; it has other paths; it is in another repository.
    assert_eq!(obstacles(&mine, std::slice::from_ref(&other), 100), []);
    let release = Some(Release { outcome: ClaimOutcome::Failed, at: 1 });
    assert_eq!(obstacles(&mine, &[Claim { release, ..other.clone() }], 50), []);
    let sources = request("two", "src/**").granted(Fence(5), 0);
    assert_eq!(obstacles(&request("one", "docs/*.md"), &[sources], 50), []);
    let elsewhere = Claim { repository: "/other".to_owned(), ..other };
    assert_eq!(obstacles(&mine, &[elsewhere], 50), []);
}

#[test]
fn agent_claims_the_paths_its_policy_lets_it_write() {
    let policy = |tools: Option<&[&str]>, gates: &[GateModule]| Policy {
        format: FORMAT,
        role: "worker".to_owned(),
        agent: None,
        tools: tools.map(|tools| tools.iter().map(|&tool| tool.to_owned()).collect()),
        approval: Vec::new(),
        shell: None,
        rules: gates.iter().map(|gate| rule(*gate)).collect(),
        whitelist: vec!["src/**".to_owned()],
        denylist: vec!["src/gen/**".to_owned()],
        temporary: Vec::new(),
        protected: Vec::new(),
        dependencies_may_change: false,
        most_deleted: 10,
        escalation: EscalationPolicy::default(),
        checks_per_call: Vec::new(),
        bypassed: Vec::new(),
        read_only: false,
        ask_commands: None,
        limit_owner: None,
        tool_lists: ToolStack::unlimited(),
        ancestors: Vec::new(),
    };
    let both = [GateModule::ScopeFilesWhitelist, GateModule::ScopeFilesDenylist];
    let lists = |inside: &str, except: &[&str]| {
        let except = except.iter().map(|glob| (*glob).to_owned()).collect();
        Some((vec![inside.to_owned()], except))
    };
    let all: Option<&[&str]> = Some(&["*"]);
    assert_eq!(writable(&policy(all, &both)), lists("src/**", &["src/gen/**"]));
    assert_eq!(writable(&policy(None, &both[..1])), lists("src/**", &[]));
    // Without a list, every path is writable.
    assert_eq!(writable(&policy(all, &[])), lists("**", &[]));
    let reader = Policy { read_only: true, ..policy(all, &both) };
    assert_eq!(writable(&reader), None);
    assert_eq!(writable(&policy(all, &both).with_ancestors_of(&reader)), None);
    assert_eq!(writable(&policy(Some(&["Read", "Bash"]), &both)), None);
    let nothing = Policy { whitelist: Vec::new(), ..policy(all, &both) };
    assert_eq!(writable(&nothing), None);
    // Gates that only warn do not limit what the agent can write.
    for severity in [GateSeverity::Warn, GateSeverity::Advisory] {
        let mut warn_only = policy(all, &both);
        warn_only.rules.iter_mut().for_each(|rule| rule.severity = severity);
        assert_eq!(writable(&warn_only), lists("**", &[]), "{severity:?}");
    }
}

#[test]
fn child_run_works_on_a_part_of_its_parents_area() {
    let parent = request("parent", "src/**").granted(Fence(1), 0);
    let child = ClaimRequest { line: vec![id("parent")], ..request("child", "src/a/**") };
    assert_eq!(obstacles(&child, std::slice::from_ref(&parent), 0), []);
    let child = child.granted(Fence(2), 0);
    assert_eq!(holding(&parent, std::slice::from_ref(&child)), FenceState::Valid);
    // Claims of siblings conflict.
    let sibling = ClaimRequest { line: vec![id("parent")], ..request("sibling", "src/a/x") };
    assert_eq!(obstacles(&sibling, &[parent, child], 0).len(), 1);
}

#[test]
fn fence_is_stale_when_another_run_got_a_higher_fence() {
    let own = request("one", "src/**").granted(Fence(3), 0);
    let higher = request("two", "src/a").granted(Fence(5), 200);
    assert_eq!(holding(&own, &[]), FenceState::Valid);
    let FenceState::Stale(by) = holding(&own, std::slice::from_ref(&higher)) else { panic!() };
    assert_eq!(by.claim.fence, Fence(5));
    // The other claim is valid: the claim with the lower fence ended before.
    assert_eq!(holding(&higher, std::slice::from_ref(&own)), FenceState::Valid);
    // A failed run may have changed the base as well.
    let release = Some(Release { outcome: ClaimOutcome::Failed, at: 300 });
    assert!(matches!(holding(&own, &[Claim { release, ..higher }]), FenceState::Stale(_)));
}

#[test]
fn released_claim_proves_nothing_but_an_expired_claim_does() {
    for outcome in ClaimOutcome::ALL {
        let release = Some(Release { outcome, at: 7 });
        let own = Claim { release, ..request("one", "a").granted(Fence(1), 0) };
        assert_eq!(
            holding(&own, &[]) == FenceState::Valid,
            outcome == ClaimOutcome::Expired,
            "{outcome}"
        );
    }
}

#[test]
fn first_request_comes_first_except_for_children_of_the_lease_holder() {
    let first = request("first", "src/**");
    let before = std::slice::from_ref(&first);
    let holder = request("holder", "src/a/**").granted(Fence(1), 0);
    let claims = std::slice::from_ref(&holder);
    let (blocking, overlap) = ahead(&request("second", "src/b/x"), before, claims, 0).unwrap();
    assert_eq!((blocking, where_both_meet(&overlap).as_str()), (&first, "both have `src/b/x`"));
    // Requests for other paths, for another repository or of a descendant do not wait.
    assert_eq!(ahead(&request("second", "docs/**"), before, claims, 0), None);
    let elsewhere =
        ClaimRequest { repository: "/other".to_owned(), ..request("second", "src/b/x") };
    assert_eq!(ahead(&elsewhere, before, claims, 0), None);
    let below = ClaimRequest { line: vec![id("first")], ..request("second", "src/b/x") };
    assert_eq!(ahead(&below, before, claims, 0), None);
    // The holder's child does not wait: the first request waits for the child's parent anyway.
    let child = ClaimRequest { line: vec![id("holder")], ..request("child", "src/a/x") };
    assert_eq!(ahead(&child, before, claims, 0), None);
    // Among siblings, the earlier request is served first.
    let older = ClaimRequest { line: vec![id("holder")], ..request("older", "src/a/**") };
    assert!(ahead(&child, &[older], claims, 0).is_some());
    // After the holder's lease has ended, the first request does not wait for it.
    assert!(ahead(&child, before, claims, 100).is_some());
}

#[test]
fn next_run_of_a_workspace_takes_over_its_claim_before_all_others() {
    let earlier = request("earlier", "src/**").granted(Fence(1), 0);
    let claims = std::slice::from_ref(&earlier);
    let next = ClaimRequest { takes_over: vec![id("earlier")], ..request("next", "src/a/**") };
    assert!(obstacles(&next, claims, 0).is_empty());
    assert_eq!(overtaken(&next, claims, 0), [Fence(1)]);
    let other = request("other", "src/a/**");
    assert_eq!(obstacles(&other, claims, 0).len(), 1);
    assert!(overtaken(&other, claims, 0).is_empty());
    // The other request waits for the claim that is taken over.
    assert_eq!(ahead(&next, std::slice::from_ref(&other), claims, 0), None);
    let taken = next.granted(Fence(2), 0);
    assert!(matches!(holding(&earlier, &[taken]), FenceState::Stale(_)));
}

#[test]
fn waiting_request_is_refused_after_its_timeout() {
    assert_eq!(next(OnOverlap::Wait, 9, 10), ConflictAction::Wait);
    assert_eq!(next(OnOverlap::Wait, 10, 10), ConflictAction::Refuse);
    assert_eq!(next(OnOverlap::Refuse, 0, 10), ConflictAction::Refuse);
}

#[test]
fn claim_on_a_part_of_a_module_covers_the_whole_module() {
    let list = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
    let modules = list(&["src/parser/", "src/lexer/"]);
    let with =
        |inside: &[&str], except: &[&str]| with_modules(list(inside), list(except), &modules);
    let lexer = with(&["src/lexer/a.rs"], &[]);
    assert_eq!(lexer, (list(&["src/lexer/a.rs", "/src/lexer/"]), vec![]));
    // An exception for another path is kept.
    let all = with(&["src/**"], &["src/parser/gen/**", "src/old/**"]);
    assert_eq!(all.0, list(&["src/**", "/src/parser/", "/src/lexer/"]));
    assert_eq!(all.1, list(&["src/old/**"]));
    assert_eq!(with(&["docs/src/parser/**"], &[]), (list(&["docs/src/parser/**"]), vec![]));
    let excepted = with(&["src/**"], &["src/parser/", "src/lexer/**"]);
    assert_eq!(excepted, (list(&["src/**"]), list(&["src/parser/", "src/lexer/**"])));
}

#[test]
fn random_areas_with_modules_overlap_as_in_a_simple_model() {
    const PATHS: [&str; 7] = ["a/x", "a/y", "a/b/x", "b/x", "b/y", "c/x", "x"];
    const GLOBS: [&str; 8] = ["a/x", "a/**", "/a/b/", "**/x", "b/y", "c/*", "/x", "a/b/x"];
    let modules = ["a/".to_owned(), "b/".to_owned()];
    let pick = |random: &mut Random| -> Vec<String> {
        (0..=random.below(2)).map(|_| GLOBS[random.below(GLOBS.len())].to_owned()).collect()
    };
    let mut random = Random::rotating("modules");
    let mut both = 0;
    for _ in 0..2_000 {
        let mut claim = || {
            let inside = pick(&mut random);
            let except = if random.below(2) == 0 { pick(&mut random) } else { vec![] };
            (inside, except)
        };
        let (one, other) = (claim(), claim());
        let area = |(inside, except): &(Vec<String>, Vec<String>)| {
            let (inside, except) = with_modules(inside.clone(), except.clone(), &modules);
            Area::new(&inside, &except)
        };
        // A path is claimed if it, or another path of its module, can be written.
        let claimed = |(inside, except): &(Vec<String>, Vec<String>), path: &str| {
            let area = Area::new(inside, except);
            let module = modules.iter().find(|module| path.starts_with(module.as_str()));
            area.contains(path)
                || module.is_some_and(|module| {
                    PATHS
                        .iter()
                        .any(|other| other.starts_with(module.as_str()) && area.contains(other))
                })
        };
        let overlap_expected =
            PATHS.iter().any(|path| claimed(&one, path) && claimed(&other, path));
        let found = area(&one).overlap(&area(&other)) != Overlap::Never;
        // Only a few paths are tested, so the areas may overlap elsewhere.
        assert!(found || !overlap_expected, "{one:?} {other:?}");
        both += usize::from(overlap_expected);
    }
    assert!(both > 100, "{both}");
}
