//! Every program that bash really ran is in what was read, and every file that it really made by
//! redirection, or the reading says that it hides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;

use bailiwick_policy::shell::{ShellEffects, Write, WriteKind, read};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use crate::bash::{Bash, Done, Oracle, STUBS};
use crate::grammar::Grammar;

/// Enough to keep every core busy while one waits for a process.
const THREADS: usize = 4;
const MAX_ESCAPES: usize = 8;

/// What was seen so far.
#[derive(Default)]
struct Seen {
    total: u64,
    compared: u64,
    hidden: u64,
    ran: u64,
    exact: u64,
    endless: Vec<String>,
    wrote: u64,
    reasons: BTreeMap<String, u64>,
    escapes: Vec<String>,
}

fn names(reading: &ShellEffects) -> BTreeSet<String> {
    reading.runs.iter().filter_map(|run| run.name()).collect()
}

/// The names of the files that a reading says are written; nothing if one of them is not known.
fn written(reading: &ShellEffects) -> Option<BTreeSet<String>> {
    let base = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
    let exact = |write: &&Write| matches!(write.kind, WriteKind::Change | WriteKind::Delete);
    let known = |write: &Write| Some(write).filter(exact)?.path.known().map(base);
    reading.writes.iter().map(known).collect()
}

/// Why a reading has nothing to be compared with.
fn why_hidden(reading: &ShellEffects) -> Option<String> {
    let hidden = reading.hidden.first().map(|first| format!("{:?}", first.why));
    hidden.or_else(|| reading.scripts_not_in_text.first().map(|_| "Unseen".to_owned()))
}

/// What bash did and the reading does not tell.
fn escaped(reading: &ShellEffects, done: &Done) -> Vec<String> {
    let read = names(reading);
    let ran = done.ran.difference(&read).map(|name| format!("{name} ran unseen"));
    let said = written(reading);
    let unsaid = |file: &&String| {
        let base = file.rsplit('/').next().unwrap_or_default();
        // The lock of `flock` is made by a program, not by a redirection.
        base != "lock" && said.as_ref().is_some_and(|said| !said.contains(base))
    };
    let wrote = done.files.iter().filter(unsaid).map(|file| format!("{file} written unseen"));
    ran.chain(wrote).collect()
}

fn compare(command: &str, tries: u32, bash: &mut Bash, seen: &Mutex<Seen>) {
    let reading = read(command);
    if let Some(why) = why_hidden(&reading) {
        let mut seen = seen.lock().unwrap();
        seen.total += 1;
        seen.hidden += 1;
        *seen.reasons.entry(why).or_insert(0) += 1;
        return;
    }
    let done = (0..tries).find_map(|_| bash.run(command));
    let mut seen = seen.lock().unwrap();
    seen.total += 1;
    let Some(done) = done else {
        seen.endless.push(command.to_owned());
        return;
    };
    let read = names(&reading);
    seen.compared += 1;
    seen.ran += u64::from(!done.ran.is_empty());
    seen.wrote += u64::from(!done.files.is_empty());
    let mut stubs = read.iter().filter(|name| STUBS.contains(&name.as_str()));
    seen.exact += u64::from(stubs.all(|name| done.ran.contains(name)));
    let escaped = escaped(&reading, &done);
    if !escaped.is_empty() {
        let writes = written(&reading);
        seen.escapes.push(format!("{escaped:?}, read was {read:?}, {writes:?}:\n{command}\n"));
    }
}

#[test]
fn no_construct_escapes_on_its_own() {
    let mut random = Random::rotating("constructs");
    let (oracle, seen) = (Oracle::new(), Mutex::new(Seen::default()));
    let mut bash = oracle.bash(0);
    for _ in 0..3 {
        for command in Grammar::new(&mut random).each() {
            // A busy machine may need more than one try.
            compare(&command, 3, &mut bash, &seen);
        }
    }
    let seen = seen.into_inner().unwrap();
    assert!(seen.escapes.is_empty(), "escapes:\n{}", seen.escapes.join("\n"));
    let Seen { total, compared, ran, endless, .. } = seen;
    figure(&format!("constructs: {total} commands of one construct, {compared} run by real bash"));
    assert!(ran * 3 > total, "too few commands ran a stub: {ran} of {total}");
    // `cat >(…)` waits for itself: it reads from a pipe whose other end it holds open.
    let endless: Vec<_> = endless
        .into_iter()
        .filter(|command| !(command.contains("cat ") && command.contains(">(")))
        .collect();
    assert!(endless.is_empty(), "these did not end:\n{}", endless.join("\n"));
}

#[test]
fn everyday_commands_are_seldom_said_to_hide() {
    let mut random = Random::rotating("everyday");
    let total = Depth::from_env().cases(10_000);
    let mut hidden = Vec::new();
    for _ in 0..total {
        let command = Grammar::new(&mut random).plain();
        if let Some(first) = read(&command).hidden.first() {
            hidden.push(format!("{:?} {}:\n{command}\n", first.why, first.text));
        }
    }
    let count = u64::try_from(hidden.len()).unwrap();
    figure(&format!("everyday: {count} of {total} commands without computed names said to hide"));
    hidden.truncate(20);
    assert!(count * 100 < total * 4, "{count} of {total} hide:\n{}", hidden.join("\n"));
}

#[test]
fn nothing_that_bash_does_escapes_the_reading() {
    let random = Mutex::new(Random::rotating("differential"));
    let enough = Depth::from_env().cases(100_000);
    let oracle = Oracle::new();
    let seen = Mutex::new(Seen::default());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (random, seen, mut bash) = (&random, &seen, oracle.bash(number));
            scope.spawn(move || {
                let open = |seen: &Seen| seen.compared < enough && seen.escapes.len() < MAX_ESCAPES;
                while open(&seen.lock().unwrap()) {
                    let seed = random.lock().unwrap().number();
                    let command = Grammar::new(&mut Random::new(seed)).command(2);
                    compare(&command, 1, &mut bash, seen);
                }
            });
        }
    });
    let Seen { total, compared, hidden, ran, exact, endless, wrote, reasons, escapes } =
        seen.into_inner().unwrap();
    let slow = u64::try_from(endless.len()).unwrap();
    assert!(escapes.is_empty(), "escapes:\n{}", escapes.join("\n"));
    figure(&format!(
        "differential: {total} generated commands, {compared} run by real bash, 0 escapes ({ran} ran \
         a stub, {wrote} wrote a file, {exact} read exactly; {hidden} said to hide, \
         {reasons:?}; {slow} did not end)"
    ));
    assert!(ran * 2 > compared, "too few commands ran a stub: {ran} of {compared}");
    assert!(compared * 5 > total, "too many commands were said to hide: {hidden} of {total}");
    assert!(slow * 100 < total, "too many commands did not end: {slow}");
}
