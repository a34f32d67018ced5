//! Forbidden effects, with real commands: each runs outside, where it must have its effect, and in the sandbox of
//! a run, where it must have none. The gate's decisions by text are only counted.

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
use self::seen::{Tree, changed_paths, read_tree, touched_paths};
use self::ways::CHANGES;
use crate::run::{events, kinds, run};

/// The results of the cases of one class, or of all classes.
#[derive(Default)]
struct Count {
    classes: usize,
    cases: usize,
    /// Files that were created and then removed after the call.
    removed: usize,
    /// Commands that the gate alone denies, with and without limits enforced by the kernel.
    denied_with_kernel: usize,
    denied_by_text: usize,
    failures: Vec<String>,
}

#[test]
fn no_forbidden_effect_happens_in_a_run() {
    let classes = selected(classes());
    let fixture = fixture();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Count::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(class) = classes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let count = run_class(&fixture, class);
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
    let with_new_files = LIMITS.iter().filter(|limit| !limit.new.is_empty());
    let creations = with_new_files
        .flat_map(|limit| CREATIONS.iter().map(move |way| Class::of(limit, way, limit.new)));
    let git: &Limit = &LIMITS[LIMITS.len() - 1];
    let verbs = GIT.iter().map(|way| Class::of(git, way, git.files));
    changes.chain(creations).chain(verbs).collect()
}

/// All classes at full depth, otherwise every sixth. `EFFECTS` selects classes by name.
fn selected(classes: Vec<Class>) -> Vec<Class> {
    let filter = std::env::var("EFFECTS").ok();
    let depth = Depth::from_env();
    let is_selected = |(number, class): (usize, Class)| match (&filter, depth) {
        (Some(part), _) => class.name.contains(part.as_str()).then_some(class),
        (None, Depth::Full) => Some(class),
        (None, Depth::Ci) => (number % 6 == 0).then_some(class),
    };
    classes.into_iter().enumerate().filter_map(is_selected).collect()
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

/// Runs all cases of a class: outside, each in its own copy; in the sandbox, one after the other.
fn run_class(fixture: &Scratch, class: &Class) -> Count {
    let scratch = repository(fixture, class);
    let mut count = Count { classes: 1, cases: class.cases.len(), ..Count::default() };
    run(&scratch, &["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
    let place = Place::of(&scratch);
    for (number, case) in class.cases.iter().enumerate() {
        if let Some(output) = output_without_effect(&scratch, &place, number) {
            let message = format!("{number}: nothing happens outside: {}", case.command);
            count.failures.push(format!("{} {message}\n{output}", class.name));
        }
    }
    let before = place.read_tree();
    run(&scratch, &["run", "one", "--no-verify"]);
    let after = place.read_tree();
    count.removed = removed(&scratch);
    let effects = effects(&before, &after, touched_paths);
    match (effects.is_empty(), class.cases.as_slice()) {
        (true, _) => {}
        (false, [case]) => {
            count
                .failures
                .push(format!("{}: {effects:?} changed by: {}", class.name, case.command));
        }
        (false, cases) => {
            let single_cases =
                cases.iter().map(|case| run_class(fixture, &class.with(case.clone())));
            let failures: Vec<String> = single_cases.flat_map(|count| count.failures).collect();
            count.failures.push(format!("{}: {effects:?} changed", class.name));
            count.failures.extend(failures);
        }
    }
    let ran = started_cases(&scratch);
    for (number, case) in class.cases.iter().enumerate() {
        if !ran.contains(&number) {
            count.failures.push(format!("{} {number}: did not run: {}", class.name, case.command));
        }
        let denied = |enforcement| usize::from(place.denies(&case.command_for_gate(), enforcement));
        count.denied_by_text += denied(Enforcement::TextOnly);
        count.denied_with_kernel += denied(Enforcement::Kernel);
    }
    count
}

/// Runs a case in a copy of the repository, in other namespaces but without a sandbox. Returns its output if
/// it had no forbidden effect.
fn output_without_effect(scratch: &Scratch, place: &Place, number: usize) -> Option<String> {
    let copy = Scratch::bare();
    limits::copy(&scratch.root(), &copy.root());
    let place = Place { worktree: copy.root(), git: copy.root().join(".git"), ..place.clone() };
    let before = place.read_tree();
    let mut command: Command = copy.command("unshare");
    command.args(["-rmpf", "--kill-child", "--mount-proc", "bash", "attack/run.sh"]);
    let ran = command.arg(number.to_string()).stdin(Stdio::null()).output().unwrap();
    let is_unchanged = effects(&before, &place.read_tree(), changed_paths).is_empty();
    is_unchanged.then(|| String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

/// The forbidden changes in a worktree and in git's directory. Objects may be added, but existing ones must not
/// change.
fn effects(
    before: &(Tree, Tree),
    after: &(Tree, Tree),
    differing: fn(&Tree, &Tree) -> Vec<PathBuf>,
) -> Vec<PathBuf> {
    let is_object = |path: &PathBuf| path.starts_with("objects");
    let files = differing(&before.0, &after.0).into_iter();
    let git = differing(&before.1, &after.1).into_iter().filter(|path| !is_object(path));
    // git touches existing objects instead of writing them again.
    let objects = changed_paths(&before.1, &after.1).into_iter();
    let objects = objects.filter(|path| is_object(path) && before.1.contains_key(path));
    files.chain(git).chain(objects).collect()
}

/// The worktree of the agent `one`, and its policy.
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

    /// The forbidden files of the worktree, whether they exist or not, and git's directory.
    fn read_tree(&self) -> (Tree, Tree) {
        let is_forbidden = |path: &Path| {
            !path.starts_with(".git") && self.paths.forbids(&path.to_string_lossy()).is_some()
        };
        (read_tree(&self.worktree, &is_forbidden), read_tree(&self.git, &|_| true))
    }

    fn denies(&self, command: &str, enforcement: Enforcement) -> bool {
        let payload = json!({"tool_name": "Bash", "tool_input": {"command": command}});
        let context = HostContext::at(&self.worktree, &self.worktree).unwrap();
        let context = context.with_enforcement(enforcement);
        let dialect = (Dialect::Claude, &[][..]);
        let record =
            evaluate_call(&self.policy, "", dialect, payload.to_string().as_bytes(), &context);
        record.decision.outcome != Outcome::Allow
    }
}

/// The cases that started in the run.
fn started_cases(scratch: &Scratch) -> BTreeSet<usize> {
    let results = kinds(&events(scratch, "one"), "tool-result");
    let lines = results.iter().filter_map(|result| result["output"].as_str());
    lines.filter_map(|text| text.strip_prefix("began ")?.lines().next()?.parse().ok()).collect()
}

/// The number of files that were removed after a call.
fn removed(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.state().join("runs/one/removed")).map_or(0, Iterator::count)
}
