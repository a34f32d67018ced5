//! One budget for a tree of runs, compared with a simple model and with many agents.

use std::collections::BTreeMap;

use bailiwick_lifecycle::delegation::budget::{Refusal, Tree, TreeState};
use bailiwick_lifecycle::delegation::estimate::Known;
use bailiwick_lifecycle::supervision::Spent;
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
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

fn request(amount: u64) -> Known {
    Known { caller: tokens(amount), ..Known::default() }
}

/// The simple model: amounts in one unit, summed up again each time.
#[derive(Debug, Default)]
struct Model {
    runs: BTreeMap<usize, ModelRun>,
}

#[derive(Debug, Clone)]
struct ModelRun {
    parent: Option<usize>,
    limit: u64,
    spent: u64,
    ended: bool,
    paused: bool,
}

impl Model {
    fn taken(&self, run: usize) -> u64 {
        let below: u64 = self
            .runs
            .iter()
            .filter(|(_, child)| child.parent == Some(run))
            .map(|(child, entry)| {
                let taken = self.taken(*child);
                if entry.ended || taken > entry.limit { taken } else { entry.limit }
            })
            .sum();
        self.runs[&run].spent + below
    }

    fn left(&self, run: usize) -> i128 {
        i128::from(self.runs[&run].limit) - i128::from(self.taken(run))
    }

    fn pause(&mut self) {
        let empty: Vec<usize> =
            self.runs.keys().copied().filter(|run| self.left(*run) <= 0).collect();
        for run in empty {
            let entry = self.runs.get_mut(&run).unwrap();
            entry.paused |= !entry.ended;
        }
    }

    /// Whether the run can resume, with `whole` as the limit for it and its descendants.
    fn take_up(&mut self, run: usize, whole: u64) -> bool {
        let Some(old) = self.runs.get(&run).cloned() else { return false };
        let mut line = Vec::new();
        let mut next = old.parent;
        while let Some(parent) = next {
            line.push((parent, self.taken(parent), self.left(parent)));
            next = self.runs[&parent].parent;
        }
        let new = ModelRun { limit: whole, ended: false, paused: false, ..old.clone() };
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

    /// Whether the run gets a reservation or already has one.
    fn reserve(&mut self, parent: usize, run: usize, estimate: u64) -> bool {
        if let Some(entry) = self.runs.get(&run) {
            return entry.parent == Some(parent) && !entry.ended;
        }
        let Some(parent_entry) = self.runs.get(&parent) else { return false };
        if parent_entry.ended || parent_entry.paused || estimate == 0 {
            return false;
        }
        let left = self.left(parent);
        if i128::from(estimate) * 2 > left || i128::from(estimate) >= left {
            return false;
        }
        let new = ModelRun {
            parent: Some(parent),
            limit: estimate,
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

fn run_steps(root: u64, steps: &[Step]) {
    let mut tree = Tree::new(id(0), tokens(root));
    let mut model = Model::default();
    let first = ModelRun { parent: None, limit: root, spent: 0, ended: false, paused: false };
    model.runs.insert(0, first);
    model.pause();
    for step in steps {
        match *step {
            Step::Reserve { parent, run, estimate } => {
                let expected = model.reserve(parent, run, estimate);
                let (updated, result) = tree.reserve(&id(parent), &id(run), &request(estimate));
                assert_eq!(result.is_ok(), expected, "{step:?}: {result:?} {model:?}");
                if let Ok(allowance) = result {
                    assert_eq!(allowance.tokens, Some(model.runs[&run].limit));
                }
                tree = updated;
            }
            Step::Spend { run, sum } => {
                tree = tree.spend(&id(run), &spent(sum));
                if let Some(entry) = model.runs.get_mut(&run).filter(|entry| !entry.ended) {
                    entry.spent = entry.spent.max(sum);
                }
            }
            Step::Settle { run, sum } => {
                tree = tree.settle(&id(run), &spent(sum));
                if let Some(entry) = model.runs.get_mut(&run).filter(|entry| !entry.ended) {
                    entry.spent = entry.spent.max(sum);
                    entry.ended = true;
                }
            }
            Step::Raise { run, by } => {
                let parent = model.runs.get(&run).and_then(|entry| entry.parent);
                let open = model.runs.get(&run).is_some_and(|entry| !entry.ended);
                let enough =
                    parent.is_none_or(|parent| by == 0 || i128::from(by) < model.left(parent));
                let (updated, result) = tree.raise(&id(run), &tokens(by));
                assert_eq!(result.is_ok(), open && enough, "{step:?}: {result:?} {model:?}");
                if open && enough {
                    let entry = model.runs.get_mut(&run).unwrap();
                    (entry.limit, entry.paused) = (entry.limit + by, false);
                }
                tree = updated;
            }
            Step::TakeUp { run, whole } => {
                let expected = model.take_up(run, whole);
                let before = tree.clone();
                let (updated, result) = tree.take_up(&id(run), &tokens(whole));
                assert_eq!(result.is_ok(), expected, "{step:?}: {result:?} {model:?}");
                assert!(expected || updated == before, "a refused request changed the tree");
                tree = updated;
            }
        }
        model.pause();
        // The tree is the same after it is stored and read.
        let text = serde_json::to_string(&tree).unwrap();
        assert_eq!(serde_json::from_str::<Tree>(&text).unwrap(), tree);
        for (run, entry) in &model.runs {
            let expected = match (entry.ended, entry.paused) {
                (true, _) => TreeState::Settled,
                (false, true) => TreeState::Paused(BudgetLimit::Tokens),
                (false, false) => TreeState::Open(tokens(u64::try_from(model.left(*run)).unwrap())),
            };
            assert_eq!(tree.standing(&id(*run)), Some(expected), "{step:?} run {run} of {model:?}");
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
    fn tree_agrees_with_the_model_after_random_steps(
        root in 0..1_000_u64,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        run_steps(root, &steps);
    }

    #[test]
    fn repeated_step_changes_nothing(
        steps in prop::collection::vec(step(), 0..30),
        at in 0..30_usize,
    ) {
        // Every step can be repeated at once: after a kill, it is not known whether it was done.
        let mut tree = Tree::new(id(0), tokens(1_000));
        for (number, step) in steps.iter().enumerate() {
            for time in 0..=usize::from(number == at) {
                let before = tree.clone();
                tree = match *step {
                    Step::Reserve { parent, run, estimate } => {
                        let (updated, result) = tree.reserve(&id(parent), &id(run), &request(estimate));
                        prop_assert!(result.is_ok() || updated == before, "a refused request changed the tree");
                        updated
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

/// 64 agents at once, each of which can start more: the cost of a call is known only when it has ended.
#[test]
fn many_agents_exceed_the_budget_by_at_most_one_call_each() {
    const CALL: u64 = 20;
    let mut random = Random::rotating("crowd");
    let mut worst = 0.0_f64;
    for _ in 0..Depth::from_env().cases(100) {
        let root = 12_000 + u64::try_from(random.below(10_000)).unwrap();
        let mut tree = Tree::new(id(0), tokens(root));
        let mut spent_by_run = BTreeMap::from([(0, 0_u64)]);
        for run in 1..=64 {
            let estimate = 50 + u64::try_from(random.below(150)).unwrap();
            let (updated, result) = tree.reserve(&id(0), &id(run), &request(estimate));
            tree = updated;
            if result.is_ok() {
                spent_by_run.insert(run, 0);
            }
        }
        assert!(spent_by_run.len() > 32, "there are too few agents: {}", spent_by_run.len());
        let mut next = 100;
        // In half of the cases no agent ends before the budget is spent.
        let ends = random.once_in(2);
        // Calls and starts come in random order until no agent can continue.
        let mut open: Vec<usize> = spent_by_run.keys().copied().collect();
        while !open.is_empty() {
            // The first agent is the fastest: its remaining budget must not include what others have reserved.
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
                    let (updated, result) = tree.reserve(&id(run), &id(next), &request(estimate));
                    tree = updated;
                    if result.is_ok() {
                        spent_by_run.insert(next, 0);
                        open.push(next);
                        next += 1;
                    }
                }
                1 if run != 0 && ends => tree = tree.settle(&id(run), &spent(spent_by_run[&run])),
                _ => {
                    let sum = spent_by_run.get_mut(&run).unwrap();
                    *sum +=
                        1 + u64::try_from(random.below(usize::try_from(CALL).unwrap())).unwrap();
                    tree = tree.spend(&id(run), &spent(*sum));
                }
            }
        }
        let total: u64 = spent_by_run.values().sum();
        let agents = u64::try_from(spent_by_run.len()).unwrap();
        assert!(total <= root + agents * CALL, "{total} of {root} by {agents} agents");
        assert!(total > root / 2, "too little was spent: {total} of {root}");
        #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
        let overrun = total.saturating_sub(root) as f64 / (agents * CALL) as f64;
        worst = worst.max(overrun);
    }
    figure(&format!("budget: the worst crowd went over by {worst:.2} of one call for each agent"));
}

/// Runs end and are resumed by agents and by people, who raise some of them and the root. All runs together stay
/// within the last budget of the root.
#[test]
fn tree_of_raised_and_resumed_runs_stays_within_its_budget() {
    const CALL: u64 = 20;
    let mut random = Random::rotating("taken up");
    let amount = |random: &mut Random, max: usize| u64::try_from(random.below(max)).unwrap();
    let (mut raised, mut refused) = (0_u32, 0_u32);
    for _ in 0..Depth::from_env().cases(200) {
        let mut root = 2_000 + amount(&mut random, 2_000);
        let mut tree = Tree::new(id(0), tokens(root));
        // What each run has spent, and the limit of it and its descendants.
        let mut runs_spent_and_limit = BTreeMap::from([(0_usize, (0_u64, root))]);
        for _ in 0..400 {
            let runs: Vec<usize> = runs_spent_and_limit.keys().copied().collect();
            let run = runs[random.below(runs.len())];
            match random.below(10) {
                0..2 => {
                    let estimate = 1 + amount(&mut random, 400);
                    let next = runs.len();
                    let (updated, result) = tree.reserve(&id(run), &id(next), &request(estimate));
                    tree = updated;
                    if let Ok(reserved) = result {
                        runs_spent_and_limit.insert(next, (0, reserved.tokens.unwrap()));
                    }
                }
                2 if run != 0 => tree = tree.settle(&id(run), &spent(runs_spent_and_limit[&run].0)),
                3 => {
                    // A person may set a higher limit than before, or the same.
                    let whole = match random.once_in(2) {
                        true => runs_spent_and_limit[&run].1,
                        false => runs_spent_and_limit[&run].1 + amount(&mut random, 300),
                    };
                    let (updated, result) = tree.take_up(&id(run), &tokens(whole));
                    tree = updated;
                    match result {
                        Ok(_) => {
                            raised += 1;
                            runs_spent_and_limit.get_mut(&run).unwrap().1 = whole;
                            root = if run == 0 { whole } else { root };
                        }
                        Err(_) => refused += 1,
                    }
                }
                _ if matches!(tree.standing(&id(run)), Some(TreeState::Open(_))) => {
                    let sum = &mut runs_spent_and_limit.get_mut(&run).unwrap().0;
                    *sum += 1 + amount(&mut random, 20);
                    tree = tree.spend(&id(run), &spent(*sum));
                }
                _ => {}
            }
        }
        let total: u64 = runs_spent_and_limit.values().map(|(spent, _)| spent).sum();
        let agents = u64::try_from(runs_spent_and_limit.len()).unwrap();
        assert!(total <= root + agents * CALL, "{total} of {root} by {agents} agents");
    }
    assert!(raised > 20 && refused > 20, "{raised} were resumed, {refused} refused");
}

#[test]
fn limits_without_an_estimate_are_reserved_in_proportion() {
    let root = Allowance {
        tokens: Some(1_000),
        micro_usd: Some(500),
        milliseconds: Some(60_000),
        ..Allowance::default()
    };
    let tree = Tree::new(id(0), root);
    let (tree, result) = tree.reserve(&id(0), &id(1), &request(100));
    let expected = Allowance {
        tokens: Some(100),
        micro_usd: Some(50),
        milliseconds: Some(60_000),
        ..Allowance::default()
    };
    assert_eq!(result, Ok(expected));
    // The reservation reduces what remains for siblings.
    assert_eq!(tree.remaining(&id(0), BudgetLimit::Tokens), Some(900));
    assert_eq!(tree.remaining(&id(0), BudgetLimit::Money), Some(450));
    let (tree, result) = tree.reserve(&id(0), &id(2), &request(451));
    let too_much = Refusal::TooMuch { limit: BudgetLimit::Tokens, estimate: 451, remaining: 900 };
    assert_eq!(result, Err(too_much.clone()));
    assert!(too_much.to_string().contains("at most half"), "{too_much}");
    let (tree, result) = tree.reserve(&id(0), &id(2), &Known::default());
    assert_eq!(result, Err(Refusal::NoEstimate(id(2))));
    // The unused part is released.
    let tree = tree.settle(&id(1), &spent(10));
    assert_eq!(tree.remaining(&id(0), BudgetLimit::Tokens), Some(990));
}
