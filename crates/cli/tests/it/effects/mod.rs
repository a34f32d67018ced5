//! Forbidden effects, really tried: each command runs outside, where its effect must be seen, and in the sandbox
//! of a run, where it must not. Text decides nothing here; what the gate alone would have denied is only counted.

mod git_ways;
mod limits;
mod new_names;
mod seen;
mod ways;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bailiwick_gate::{HostContext, evaluate_call};
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::{Outcome, PathPolicy, Policy};
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::json;

use self::git_ways::GIT;
use self::limits::{Class, LIMITS, Limit, fixture, repository};
use self::new_names::CREATIONS;
use self::seen::{Tree, changed, look, touched};
use self::ways::CHANGES;
use crate::run::{events, kinds, run};

/// What was seen of the cases of a class, or of all of them.
#[derive(Default)]
struct Count {
    classes: usize,
    cases: usize,
    /// Files that were made and then removed.
    removed: usize,
    /// What the gate alone denies, where the kernel holds the limits and where it does not.
    denied_with_kernel: usize,
    denied_by_text: usize,
    failures: Vec<String>,
}

#[test]
fn no_forbidden_effect_happens_in_a_run() {
    let classes = chosen(classes());
    let fixture = fixture();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Count::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(class) = classes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let count = tried(&fixture, class);
                    total.lock().unwrap().add(count);
                }
            });
        }
    });
    let Count { classes, cases, removed, denied_with_kernel, denied_by_text, failures } =
        total.into_inner().unwrap();
    figure(&format!(
        "forbidden effects: {classes} classes, {cases} cases, each seen outside; {} not held in a run ({removed} new \
         files were removed after the call). The gate alone denies {denied_by_text} of them by their text, \
         {denied_with_kernel} where it leaves to the kernel what it cannot read",
        failures.len()
    ));
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

fn classes() -> Vec<Class> {
    let changes = LIMITS
        .iter()
        .flat_map(|limit| CHANGES.iter().map(move |way| Class::of(limit, way, limit.files)));
    let made = LIMITS.iter().filter(|limit| !limit.new.is_empty());
    let creations =
        made.flat_map(|limit| CREATIONS.iter().map(move |way| Class::of(limit, way, limit.new)));
    let git: &Limit = &LIMITS[LIMITS.len() - 1];
    let verbs = GIT.iter().map(|way| Class::of(git, way, git.files));
    changes.chain(creations).chain(verbs).collect()
}

/// All classes at full depth; otherwise every sixth. `EFFECTS` names some.
fn chosen(classes: Vec<Class>) -> Vec<Class> {
    let named = std::env::var("EFFECTS").ok();
    let depth = Depth::from_env();
    let kept = |(number, class): (usize, Class)| match (&named, depth) {
        (Some(part), _) => class.name.contains(part.as_str()).then_some(class),
        (None, Depth::Full) => Some(class),
        (None, Depth::Ci) => (number % 6 == 0).then_some(class),
    };
    classes.into_iter().enumerate().filter_map(kept).collect()
}

impl Count {
    fn add(&mut self, other: Self) {
        self.classes += other.classes;
        self.cases += other.cases;
        self.removed += other.removed;
        self.denied_with_kernel += other.denied_with_kernel;
        self.denied_by_text += other.denied_by_text;
        self.failures.extend(other.failures);
    }
}

/// Tries all cases of a class: outside each in a copy of its own, inside one after the other.
fn tried(fixture: &Scratch, class: &Class) -> Count {
    let scratch = repository(fixture, class);
    let mut count = Count { classes: 1, cases: class.cases.len(), ..Count::default() };
    run(&scratch, &["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
    let place = Place::of(&scratch);
    for (number, case) in class.cases.iter().enumerate() {
        if let Some(said) = nothing_outside(&scratch, &place, number) {
            let why = format!("{number}: nothing happens outside: {}", case.typed);
            count.failures.push(format!("{} {why}\n{said}", class.name));
        }
    }
    let before = place.look();
    run(&scratch, &["run", "one", "--no-verify"]);
    let after = place.look();
    count.removed = removed(&scratch);
    let effects = effects(&before, &after, touched);
    match (effects.is_empty(), class.cases.as_slice()) {
        (true, _) => {}
        (false, [case]) => {
            count.failures.push(format!("{}: {effects:?} changed by: {}", class.name, case.typed));
        }
        (false, many) => {
            let alone = many.iter().map(|case| tried(fixture, &class.with(case.clone())));
            let failures: Vec<String> = alone.flat_map(|count| count.failures).collect();
            count.failures.push(format!("{}: {effects:?} changed", class.name));
            count.failures.extend(failures);
        }
    }
    let ran = began(&scratch);
    for (number, case) in class.cases.iter().enumerate() {
        if !ran.contains(&number) {
            count.failures.push(format!("{} {number}: did not run: {}", class.name, case.typed));
        }
        let denied = |enforcement| usize::from(place.denies(&case.asked(), enforcement));
        count.denied_by_text += denied(Enforcement::TextOnly);
        count.denied_with_kernel += denied(Enforcement::Kernel);
    }
    count
}

/// Runs a case in a copy of the repository without a sandbox, in namespaces of its own. Gives what it said if
/// nothing has changed that must not.
fn nothing_outside(scratch: &Scratch, place: &Place, number: usize) -> Option<String> {
    let copy = Scratch::bare();
    limits::copy(&scratch.root(), &copy.root());
    let place = Place { worktree: copy.root(), git: copy.root().join(".git"), ..place.clone() };
    let before = place.look();
    let mut command: Command = copy.command("unshare");
    command.args(["-rmpf", "--kill-child", "--mount-proc", "bash", "attack/run.sh"]);
    let ran = command.arg(number.to_string()).stdin(Stdio::null()).output().unwrap();
    let none = effects(&before, &place.look(), changed).is_empty();
    none.then(|| String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

/// What was done that must not be, in a worktree and in git's directory. Work may add objects; those that were
/// there stay as they are.
fn effects(
    before: &(Tree, Tree),
    after: &(Tree, Tree),
    differing: fn(&Tree, &Tree) -> Vec<PathBuf>,
) -> Vec<PathBuf> {
    let is_object = |path: &PathBuf| path.starts_with("objects");
    let files = differing(&before.0, &after.0).into_iter();
    let git = differing(&before.1, &after.1).into_iter().filter(|path| !is_object(path));
    // git itself touches objects that it would write again.
    let objects = changed(&before.1, &after.1).into_iter();
    let objects = objects.filter(|path| is_object(path) && before.1.contains_key(path));
    files.chain(git).chain(objects).collect()
}

/// The worktree of the agent `one`, and what binds it.
#[derive(Clone)]
struct Place {
    worktree: PathBuf,
    git: PathBuf,
    policy: Policy,
    paths: PathPolicy,
}

impl Place {
    fn of(scratch: &Scratch) -> Self {
        let json = std::fs::read(scratch.state().join("runs/one/policy.json")).unwrap();
        let policy = Policy::parse(&json).unwrap();
        let worktree = scratch.state().join("worktrees/one");
        Self { worktree, git: scratch.root().join(".git"), paths: PathPolicy::of(&policy), policy }
    }

    /// What may not change of the worktree, whether it is there or not, and git's own directory.
    fn look(&self) -> (Tree, Tree) {
        let forbidden = |path: &Path| {
            !path.starts_with(".git") && self.paths.forbids(&path.to_string_lossy()).is_some()
        };
        (look(&self.worktree, &forbidden), look(&self.git, &|_| true))
    }

    fn denies(&self, command: &str, enforcement: Enforcement) -> bool {
        let payload = json!({"tool_name": "Bash", "tool_input": {"command": command}});
        let around = HostContext::at(&self.worktree, &self.worktree).unwrap();
        let around = around.with_enforcement(enforcement);
        let dialect = (Dialect::Claude, &[][..]);
        let record =
            evaluate_call(&self.policy, "", dialect, payload.to_string().as_bytes(), &around);
        record.decision.outcome != Outcome::Allow
    }
}

/// Which cases have begun in the run.
fn began(scratch: &Scratch) -> BTreeSet<usize> {
    let results = kinds(&events(scratch, "one"), "tool-result");
    let lines = results.iter().filter_map(|result| result["output"].as_str());
    lines.filter_map(|text| text.strip_prefix("began ")?.lines().next()?.parse().ok()).collect()
}

/// How many files were removed after a call.
fn removed(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.state().join("runs/one/removed")).map_or(0, Iterator::count)
}
