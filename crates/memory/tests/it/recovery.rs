//! A machine with nothing but the forge reaches the state of a plain model.

use bailiwick_memory::{
    Budget, ChainResult, ClaimError, ClaimRefusal, ClaimRequest, ClaimStore, ClaimTable,
    IssueMemory as _, LabelChange, NextStep, Protocol, Recovered, RecoveredRun, Reservation,
    ReservationRequest, Resource, RunResult, SigningKey, TableClaim, recover,
};
use bailiwick_resources::Moment;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;
use serde_json::json;

use crate::fake::{CLAIMS_ISSUE, Fake, Fault, run};

const LEASE_MS: u64 = 1 << 40;

fn never() -> Moment {
    Moment::from_millis(0)
}

fn protocol(fake: &Fake, claim_store: ClaimStore) -> Protocol<'_, Fake> {
    let opened = run(Protocol::open(fake, SigningKey::new(b"a secret of ours"))).unwrap();
    Protocol { claim_store, ..opened }
}

/// The expected state without a forge. Times are the forge's, so they are left out.
struct Model {
    total: u64,
    runs: Vec<RecoveredRun>,
    claims: Vec<TableClaim>,
    reservations: Vec<Reservation>,
    next_agent: Option<String>,
    is_open: bool,
    is_paused: bool,
}

impl Model {
    fn consumed(&self) -> u64 {
        self.runs.iter().map(|run| run.tokens).sum()
    }

    fn recovered(&self) -> Recovered {
        let budget = Budget::new(self.total, self.consumed());
        let next = match &self.next_agent {
            _ if !self.is_open => NextStep::Closed,
            _ if self.is_paused || budget.remaining <= 0 => {
                NextStep::Stopped { why: String::new() }
            }
            Some(agent) => NextStep::Start { agent: agent.clone() },
            None => NextStep::Decide,
        };
        Recovered {
            issue: 7,
            title: "Parser".to_owned(),
            budget: Some(budget),
            runs: self.runs.clone(),
            claims: self.claims.clone(),
            reservations: self.reservations.clone(),
            next,
        }
    }

    fn leave(&mut self, exit_result: &RunResult) {
        let id = exit_result.invocation.split('/').next().unwrap();
        let result = ChainResult::of_verdict(Some(&exit_result.verdict));
        self.next_agent.clone_from(&exit_result.next_agent);
        if let Some(run) = self.runs.iter_mut().find(|run| run.id == id) {
            run.tokens += exit_result.consumed;
            run.attempts += 1;
            run.result = result;
            run.action.clone_from(&exit_result.action);
            return;
        }
        self.runs.push(RecoveredRun {
            id: id.to_owned(),
            agent: exit_result.agent.clone(),
            result,
            tokens: exit_result.consumed,
            attempts: 1,
            depth: exit_result.depth,
            first_at: never(),
            last_at: never(),
            action: exit_result.action.clone(),
        });
    }
}

fn without_times(mut recovered: Recovered) -> Recovered {
    for run in &mut recovered.runs {
        (run.first_at, run.last_at) = (never(), never());
    }
    for claim in &mut recovered.claims {
        (claim.claimed_at, claim.leased_until) = (never(), never());
    }
    for reservation in &mut recovered.reservations {
        (reservation.reserved_at, reservation.reserved_until) = (never(), never());
    }
    if let NextStep::Stopped { why } = &mut recovered.next {
        why.clear();
    }
    recovered
}

/// The state that a machine with an empty database reads.
fn read(fake: &Fake, claim_store: ClaimStore) -> Recovered {
    let protocol = protocol(fake, claim_store);
    let loaded = run(protocol.load(7)).unwrap();
    let labels = run(fake.label_events(7)).unwrap();
    let table = run(protocol.claims()).unwrap();
    recover(&loaded, &labels, &table, &protocol.trust)
}

fn exit(random: &mut Random, step: usize) -> RunResult {
    RunResult {
        agent: ["builder", "reviewer"][random.below(2)].to_owned(),
        invocation: format!("run-{}/{step}", random.below(4)),
        parent: None,
        depth: 0,
        phase: "work".to_owned(),
        action: format!("Did step {step}."),
        result: json!({}),
        verdict: ["pass", "fail", "blocked"][random.below(3)].to_owned(),
        consumed: random.number() % 900,
        labels: LabelChange::default(),
        milestone: None,
        next_agent: [None, Some("reviewer".to_owned())][random.below(2)].clone(),
        rationale: None,
        estimated_next_tokens: None,
        work_commit: None,
        cascade: Vec::new(),
        ended_at: None,
    }
}

/// Repeats an operation until the forge has applied it, whatever fails or is killed before.
fn persist<T>(fake: &Fake, random: &mut Random, work: impl Fn() -> Option<T>) -> T {
    match random.below(4) {
        0 => fake.fail(random.number() % 6, Fault::Before),
        1 => fake.fail(random.number() % 6, Fault::After),
        2 => fake.kill(random.number() % 8),
        _ => {}
    }
    let result = work();
    fake.restart();
    result.or_else(work).unwrap()
}

#[test]
fn recovery_from_the_forge_reaches_the_state_of_a_plain_model() {
    let mut random = Random::rotating("random histories");
    let mut starts = 0;
    for round in 0..Depth::from_env().cases(300) {
        let fake = Fake::new(round % 2 == 0);
        let comments = ClaimStore::Comments { issue: CLAIMS_ISSUE, settle_ms: 5_000 };
        let store = [ClaimStore::Reference, comments][random.below(2)];
        let forge = protocol(&fake, store);
        run(forge.begin(7, "planner", "new", 4_000, None)).unwrap();
        let mut model = Model {
            total: 4_000,
            runs: Vec::new(),
            claims: Vec::new(),
            reservations: Vec::new(),
            next_agent: None,
            is_open: true,
            is_paused: false,
        };
        let mut fence = 0;
        for step in 0..3 + random.below(12) {
            let (agent, invocation) = (format!("run-{step}"), format!("run-{step}/new"));
            match random.below(8) {
                0..=2 => {
                    let exit_result = exit(&mut random, step);
                    persist(&fake, &mut random, || run(forge.exit(7, &exit_result)).ok());
                    model.leave(&exit_result);
                }
                3 => {
                    let wish = ClaimRequest {
                        agent: agent.clone(),
                        invocation: invocation.clone(),
                        issue: Some(7),
                        resources: vec![Resource::file(&format!("src/{step}"))],
                        lease_ms: LEASE_MS,
                        takes_over: Vec::new(),
                    };
                    let read_at = run(fake.read_issue(7)).unwrap().now;
                    let fence_number =
                        persist(&fake, &mut random, || run(forge.claim(&wish, read_at)).ok());
                    assert!(fence_number > fence, "{fence_number} after {fence}");
                    fence = fence_number;
                    let resources = wish.resources;
                    let (claimed_at, leased_until) = (never(), never());
                    let issue = Some(7);
                    model.claims.push(TableClaim {
                        fence,
                        agent,
                        invocation,
                        issue,
                        resources,
                        claimed_at,
                        leased_until,
                    });
                }
                4 if !model.claims.is_empty() => {
                    let claim = model.claims.remove(random.below(model.claims.len()));
                    persist(&fake, &mut random, || run(forge.release(claim.fence)).ok());
                }
                5 if !model.reservations.is_empty() => {
                    let reservation =
                        model.reservations.remove(random.below(model.reservations.len()));
                    persist(&fake, &mut random, || {
                        run(forge.unreserve(&reservation.invocation)).ok()
                    });
                }
                4 | 5 => {
                    let tokens = Some(1 + random.number() % 900);
                    let (issue, lease_ms) = (7, LEASE_MS);
                    let wish = ReservationRequest {
                        issue,
                        agent: agent.clone(),
                        invocation: invocation.clone(),
                        tokens,
                        lease_ms,
                    };
                    let reserved_tokens =
                        persist(&fake, &mut random, || match run(forge.reserve(&wish)) {
                            Ok(tokens) => Some(Some(tokens)),
                            Err(ClaimError::Refused(ClaimRefusal::NoTokens { .. })) => Some(None),
                            Err(_) => None,
                        });
                    let reserved: u64 =
                        model.reservations.iter().map(|reservation| reservation.tokens).sum();
                    let free =
                        model.total.saturating_sub(model.consumed()).saturating_sub(reserved);
                    let expected =
                        tokens.map(|tokens| tokens.min(free)).filter(|tokens| *tokens > 0);
                    assert_eq!(reserved_tokens, expected);
                    if let Some(tokens) = reserved_tokens {
                        let (reserved_at, reserved_until) = (never(), never());
                        model.reservations.push(Reservation {
                            issue,
                            agent,
                            invocation,
                            tokens,
                            reserved_at,
                            reserved_until,
                        });
                    }
                }
                6 => {
                    model.total = model.consumed() + random.number() % 3_000;
                    let name = format!("budget-{step}");
                    run(forge.set_budget(7, "person", &name, model.total)).unwrap();
                }
                _ => {
                    model.is_paused = random.once_in(3);
                    model.is_open = !random.once_in(4);
                    fake.change(|issue| {
                        issue.labels.retain(|label| label != "status::paused");
                        issue.labels.extend(model.is_paused.then(|| "status::paused".to_owned()));
                        issue.is_open = model.is_open;
                    });
                }
            }
        }
        let (recovered, expected) = (without_times(read(&fake, store)), model.recovered());
        assert_eq!(recovered, expected);
        assert_eq!(recovered.digest(), expected.digest());
        // Reading changes nothing, so a second machine gets the same.
        assert_eq!(read(&fake, store).digest(), read(&fake, store).digest());
        starts += usize::from(matches!(recovered.next, NextStep::Start { .. }));
    }
    assert!(starts > 0, "no history had a next step");
}

#[test]
fn tokens_are_reserved_once_and_expire_with_the_lease_of_a_lost_machine() {
    let now = Moment::from_millis(1_000);
    let wish = |name: &str, tokens: Option<u64>| ReservationRequest {
        issue: 7,
        agent: name.to_owned(),
        invocation: format!("{name}/1"),
        tokens,
        lease_ms: 500,
    };
    let table = ClaimTable::default();
    let (table, granted) = table.reserve(&wish("one", Some(600)), 1000, now).unwrap();
    assert_eq!(granted, 600);
    // A repeated request gets the same tokens, and the next one gets the rest.
    assert_eq!(table.reserve(&wish("one", Some(900)), 1000, now), Ok((table.clone(), 600)));
    let (table, granted) = table.reserve(&wish("two", None), 1000, now).unwrap();
    assert_eq!(granted, 400);
    let refused = table.reserve(&wish("three", Some(1)), 1000, now);
    assert_eq!(refused, Err(ClaimRefusal::NoTokens { remaining: 1000, reserved: 1000 }));
    // Another issue has its own tokens.
    let other = ReservationRequest { issue: 8, ..wish("three", None) };
    assert_eq!(table.reserve(&other, 50, now).unwrap().1, 50);
    let freed = table.unreserve("two/1").unwrap();
    assert_eq!(freed.reserve(&wish("three", None), 1000, now).unwrap().1, 400);
    assert_eq!(freed.unreserve("two/1"), None);
    let later = now.plus_millis(500);
    let (table, granted) = table.reserve(&wish("three", None), 1000, later).unwrap();
    assert_eq!((granted, table.reservations.len()), (1000, 1));
    // Tables of older programs are read, and a table without reservations is written in their format.
    let text = ClaimTable::default().render();
    assert!(!text.contains("reservations"));
    assert_eq!(ClaimTable::parse(&text), Ok(ClaimTable::default()));
}
