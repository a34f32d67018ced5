//! One allowance for a tree of runs, against a plain model and against a crowd.

use std::collections::BTreeMap;

use bailiwick_lifecycle::delegation::budget::{Refusal, Tree, TreeState};
use bailiwick_lifecycle::delegation::estimate::Known;
use bailiwick_lifecycle::supervision::Spent;
use bailiwick_lifecycle::supervision::budget::Limit;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::{Allowance, Used};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};
use proptest::prelude::*;

fn id(number: usize) -> AgentId {
    AgentId::parse(&format!("run-{number}")).unwrap()
}

fn tokens(amount: u64) -> Allowance {
    Allowance { tokens: Some(amount), ..Allowance::default() }
}

fn spent(tokens: u64) -> Spent {
    Spent { used: Used { tokens, ..Used::default() }, time: 0 }
}

fn asks(amount: u64) -> Known {
    Known { caller: tokens(amount), ..Known::default() }
}

/// The plain model: amounts of one thing, summed up anew each time.
#[derive(Debug, Default)]
struct Plain {
    runs: BTreeMap<usize, PlainRun>,
}

#[derive(Debug, Clone)]
struct PlainRun {
    parent: Option<usize>,
    most: u64,
    spent: u64,
    ended: bool,
    paused: bool,
}

impl Plain {
    fn taken(&self, run: usize) -> u64 {
        let below: u64 = self
            .runs
            .iter()
            .filter(|(_, child)| child.parent == Some(run))
            .map(|(child, entry)| {
                let taken = self.taken(*child);
                if entry.ended || taken > entry.most { taken } else { entry.most }
            })
            .sum();
        self.runs[&run].spent + below
    }

    fn left(&self, run: usize) -> i128 {
        i128::from(self.runs[&run].most) - i128::from(self.taken(run))
    }

    fn pause(&mut self) {
        let empty: Vec<usize> =
            self.runs.keys().copied().filter(|run| self.left(*run) <= 0).collect();
        for run in empty {
            let entry = self.runs.get_mut(&run).unwrap();
            entry.paused |= !entry.ended;
        }
    }

    /// Whether the run may go on, with this for it and all below it.
    fn take_up(&mut self, run: usize, whole: u64) -> bool {
        let Some(old) = self.runs.get(&run).cloned() else { return false };
        let mut line = Vec::new();
        let mut next = old.parent;
        while let Some(parent) = next {
            line.push((parent, self.taken(parent), self.left(parent)));
            next = self.runs[&parent].parent;
        }
        let new = PlainRun { most: whole, ended: false, paused: false, ..old.clone() };
        self.runs.insert(run, new);
        let fits = line.iter().all(|(parent, was, left)| {
            let more = i128::from(self.taken(*parent)) - i128::from(*was);
            more <= 0 || more <= (*left).max(0)
        });
        if !fits {
            self.runs.insert(run, old);
        }
        fits
    }

    /// Whether the run got, or has, its reservation.
    fn reserve(&mut self, parent: usize, run: usize, estimate: u64) -> bool {
        if let Some(entry) = self.runs.get(&run) {
            return entry.parent == Some(parent) && !entry.ended;
        }
        let Some(above) = self.runs.get(&parent) else { return false };
        if above.ended || above.paused || estimate == 0 {
            return false;
        }
        let left = self.left(parent);
        if i128::from(estimate) * 2 > left || i128::from(estimate) >= left {
            return false;
        }
        let new = PlainRun {
            parent: Some(parent),
            most: estimate,
            spent: 0,
            ended: false,
            paused: false,
        };
        self.runs.insert(run, new);
        self.pause();
        true
    }
}

#[derive(Debug, Clone)]
enum Step {
    Reserve { parent: usize, run: usize, estimate: u64 },
    Spend { run: usize, sum: u64 },
    Settle { run: usize, sum: u64 },
    Raise { run: usize, by: u64 },
    TakeUp { run: usize, whole: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let run = || 0..8_usize;
    prop_oneof![
        3 => (run(), run(), 0..600_u64)
            .prop_map(|(parent, run, estimate)| Step::Reserve { parent, run, estimate }),
        3 => (run(), 0..400_u64).prop_map(|(run, sum)| Step::Spend { run, sum }),
        1 => (run(), 0..400_u64).prop_map(|(run, sum)| Step::Settle { run, sum }),
        1 => (run(), 0..200_u64).prop_map(|(run, by)| Step::Raise { run, by }),
        2 => (run(), 0..900_u64).prop_map(|(run, whole)| Step::TakeUp { run, whole }),
    ]
}

fn play(root: u64, steps: &[Step]) {
    let mut tree = Tree::new(id(0), tokens(root));
    let mut plain = Plain::default();
    let first = PlainRun { parent: None, most: root, spent: 0, ended: false, paused: false };
    plain.runs.insert(0, first);
    plain.pause();
    for step in steps {
        match *step {
            Step::Reserve { parent, run, estimate } => {
                let expected = plain.reserve(parent, run, estimate);
                let (after, got) = tree.reserve(&id(parent), &id(run), &asks(estimate));
                assert_eq!(got.is_ok(), expected, "{step:?}: {got:?} {plain:?}");
                if let Ok(allowance) = got {
                    assert_eq!(allowance.tokens, Some(plain.runs[&run].most));
                }
                tree = after;
            }
            Step::Spend { run, sum } => {
                tree = tree.spend(&id(run), &spent(sum));
                if let Some(entry) = plain.runs.get_mut(&run).filter(|entry| !entry.ended) {
                    entry.spent = entry.spent.max(sum);
                }
            }
            Step::Settle { run, sum } => {
                tree = tree.settle(&id(run), &spent(sum));
                if let Some(entry) = plain.runs.get_mut(&run).filter(|entry| !entry.ended) {
                    entry.spent = entry.spent.max(sum);
                    entry.ended = true;
                }
            }
            Step::Raise { run, by } => {
                let parent = plain.runs.get(&run).and_then(|entry| entry.parent);
                let open = plain.runs.get(&run).is_some_and(|entry| !entry.ended);
                let enough =
                    parent.is_none_or(|parent| by == 0 || i128::from(by) < plain.left(parent));
                let (after, got) = tree.raise(&id(run), &tokens(by));
                assert_eq!(got.is_ok(), open && enough, "{step:?}: {got:?} {plain:?}");
                if open && enough {
                    let entry = plain.runs.get_mut(&run).unwrap();
                    (entry.most, entry.paused) = (entry.most + by, false);
                }
                tree = after;
            }
            Step::TakeUp { run, whole } => {
                let expected = plain.take_up(run, whole);
                let before = tree.clone();
                let (after, got) = tree.take_up(&id(run), &tokens(whole));
                assert_eq!(got.is_ok(), expected, "{step:?}: {got:?} {plain:?}");
                assert!(expected || after == before, "a refusal changed something");
                tree = after;
            }
        }
        plain.pause();
        // What was written down is what is read back.
        let text = serde_json::to_string(&tree).unwrap();
        assert_eq!(serde_json::from_str::<Tree>(&text).unwrap(), tree);
        for (run, entry) in &plain.runs {
            let expected = match (entry.ended, entry.paused) {
                (true, _) => TreeState::Settled,
                (false, true) => TreeState::Paused(Limit::Tokens),
                (false, false) => TreeState::Open(tokens(u64::try_from(plain.left(*run)).unwrap())),
            };
            assert_eq!(tree.standing(&id(*run)), Some(expected), "{step:?} run {run} of {plain:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(Depth::from_env().cases(5_000)).unwrap(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_tree_of_runs_is_what_the_sums_say(
        root in 0..1_000_u64,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        play(root, &steps);
    }

    #[test]
    fn asked_again_nothing_changes(
        steps in prop::collection::vec(step(), 0..30),
        at in 0..30_usize,
    ) {
        // Whatever was said once may be said again at once: after a kill nobody knows.
        let mut tree = Tree::new(id(0), tokens(1_000));
        for (number, step) in steps.iter().enumerate() {
            for time in 0..=usize::from(number == at) {
                let before = tree.clone();
                tree = match *step {
                    Step::Reserve { parent, run, estimate } => {
                        let (after, got) = tree.reserve(&id(parent), &id(run), &asks(estimate));
                        prop_assert!(got.is_ok() || after == before, "a refusal changed something");
                        after
                    }
                    Step::Spend { run, sum } => tree.spend(&id(run), &spent(sum)),
                    Step::Settle { run, sum } => tree.settle(&id(run), &spent(sum)),
                    Step::TakeUp { run, whole } => tree.take_up(&id(run), &tokens(whole)).0,
                    Step::Raise { .. } => tree,
                };
                prop_assert!(time == 0 || tree == before, "{step:?}");
            }
        }
    }
}

/// Sixty-four at once, and each of them starts more: nobody knows what a call costs before it is over.
#[test]
fn a_crowd_spends_its_allowance_and_at_most_one_call_for_each_agent() {
    const CALL: u64 = 20;
    let mut random = Random::rotating("crowd");
    let mut worst = 0.0_f64;
    for _ in 0..Depth::from_env().cases(100) {
        let root = 12_000 + u64::try_from(random.below(10_000)).unwrap();
        let mut tree = Tree::new(id(0), tokens(root));
        let mut own = BTreeMap::from([(0, 0_u64)]);
        for run in 1..=64 {
            let estimate = 50 + u64::try_from(random.below(150)).unwrap();
            let (after, got) = tree.reserve(&id(0), &id(run), &asks(estimate));
            tree = after;
            if got.is_ok() {
                own.insert(run, 0);
            }
        }
        assert!(own.len() > 32, "the crowd is too small: {}", own.len());
        let mut next = 100;
        // In half of the crowds nobody ends before all is spent.
        let ends = random.once_in(2);
        // Calls and starts come in any order, until nobody may go on.
        let mut open: Vec<usize> = own.keys().copied().collect();
        while !open.is_empty() {
            // The first one is the quickest: what it sees as left must not be what others were given.
            let place =
                if open[0] == 0 && !random.once_in(10) { 0 } else { random.below(open.len()) };
            let run = open[place];
            if !matches!(tree.standing(&id(run)), Some(TreeState::Open(_))) {
                open.remove(place);
                continue;
            }
            match random.below(12) {
                0 => {
                    let estimate = 1 + u64::try_from(random.below(60)).unwrap();
                    let (after, got) = tree.reserve(&id(run), &id(next), &asks(estimate));
                    tree = after;
                    if got.is_ok() {
                        own.insert(next, 0);
                        open.push(next);
                        next += 1;
                    }
                }
                1 if run != 0 && ends => tree = tree.settle(&id(run), &spent(own[&run])),
                _ => {
                    let sum = own.get_mut(&run).unwrap();
                    *sum +=
                        1 + u64::try_from(random.below(usize::try_from(CALL).unwrap())).unwrap();
                    tree = tree.spend(&id(run), &spent(*sum));
                }
            }
        }
        let total: u64 = own.values().sum();
        let agents = u64::try_from(own.len()).unwrap();
        assert!(total <= root + agents * CALL, "{total} of {root} by {agents} agents");
        assert!(total > root / 2, "nothing was spent: {total} of {root}");
        #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
        let over = total.saturating_sub(root) as f64 / (agents * CALL) as f64;
        worst = worst.max(over);
    }
    figure(&format!("budget: the worst crowd went over by {worst:.2} of one call for each agent"));
}

/// Some end and are taken up again, by agents and by people, who raise some of them and the root: what all
/// of them spend stays within what the root was given last.
#[test]
fn a_tree_whose_runs_are_raised_and_taken_up_again_keeps_its_bound() {
    const CALL: u64 = 20;
    let mut random = Random::rotating("taken up");
    let amount = |random: &mut Random, most: usize| u64::try_from(random.below(most)).unwrap();
    let (mut raised, mut refused) = (0_u32, 0_u32);
    for _ in 0..Depth::from_env().cases(200) {
        let mut root = 2_000 + amount(&mut random, 2_000);
        let mut tree = Tree::new(id(0), tokens(root));
        // What each has spent, and what it has for itself and all below it.
        let mut own = BTreeMap::from([(0_usize, (0_u64, root))]);
        for _ in 0..400 {
            let runs: Vec<usize> = own.keys().copied().collect();
            let run = runs[random.below(runs.len())];
            match random.below(10) {
                0..2 => {
                    let estimate = 1 + amount(&mut random, 400);
                    let next = runs.len();
                    let (after, got) = tree.reserve(&id(run), &id(next), &asks(estimate));
                    tree = after;
                    if let Ok(given) = got {
                        own.insert(next, (0, given.tokens.unwrap()));
                    }
                }
                2 if run != 0 => tree = tree.settle(&id(run), &spent(own[&run].0)),
                3 => {
                    // A person may say more than it had, or less.
                    let whole = match random.once_in(2) {
                        true => own[&run].1,
                        false => own[&run].1 + amount(&mut random, 300),
                    };
                    let (after, got) = tree.take_up(&id(run), &tokens(whole));
                    tree = after;
                    match got {
                        Ok(_) => {
                            raised += 1;
                            own.get_mut(&run).unwrap().1 = whole;
                            root = if run == 0 { whole } else { root };
                        }
                        Err(_) => refused += 1,
                    }
                }
                _ if matches!(tree.standing(&id(run)), Some(TreeState::Open(_))) => {
                    let sum = &mut own.get_mut(&run).unwrap().0;
                    *sum += 1 + amount(&mut random, 20);
                    tree = tree.spend(&id(run), &spent(*sum));
                }
                _ => {}
            }
        }
        let total: u64 = own.values().map(|(spent, _)| spent).sum();
        let agents = u64::try_from(own.len()).unwrap();
        assert!(total <= root + agents * CALL, "{total} of {root} by {agents} agents");
    }
    assert!(raised > 20 && refused > 20, "{raised} were taken up, {refused} refused");
}

#[test]
fn what_is_not_estimated_is_taken_in_proportion() {
    let root = Allowance {
        tokens: Some(1_000),
        micro_usd: Some(500),
        milliseconds: Some(60_000),
        ..Allowance::default()
    };
    let tree = Tree::new(id(0), root);
    let (tree, got) = tree.reserve(&id(0), &id(1), &asks(100));
    let expected = Allowance {
        tokens: Some(100),
        micro_usd: Some(50),
        milliseconds: Some(60_000),
        ..Allowance::default()
    };
    assert_eq!(got, Ok(expected));
    // Siblings see it.
    assert_eq!(tree.remaining(&id(0), Limit::Tokens), Some(900));
    assert_eq!(tree.remaining(&id(0), Limit::Money), Some(450));
    let (tree, got) = tree.reserve(&id(0), &id(2), &asks(451));
    let too_much = Refusal::TooMuch { limit: Limit::Tokens, estimate: 451, remaining: 900 };
    assert_eq!(got, Err(too_much.clone()));
    assert!(too_much.to_string().contains("at most half"), "{too_much}");
    let (tree, got) = tree.reserve(&id(0), &id(2), &Known::default());
    assert_eq!(got, Err(Refusal::NoEstimate(id(2))));
    // What was not used goes back.
    let tree = tree.settle(&id(1), &spent(10));
    assert_eq!(tree.remaining(&id(0), Limit::Tokens), Some(990));
}
