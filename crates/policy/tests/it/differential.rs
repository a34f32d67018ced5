//! Every program that bash ran is in the reading, and every file that it created by
//! redirection, or the reading reports that something is hidden.

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

/// The results so far.
#[derive(Default)]
struct Statistics {
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

/// The names of the files that a reading reports as written; `None` if one of them is unknown.
fn written(reading: &ShellEffects) -> Option<BTreeSet<String>> {
    let base = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
    let exact = |write: &&Write| matches!(write.kind, WriteKind::Change | WriteKind::Delete);
    let known = |write: &Write| Some(write).filter(exact)?.path.known().map(base);
    reading.writes.iter().map(known).collect()
}

/// Why a reading cannot be compared.
fn why_hidden(reading: &ShellEffects) -> Option<String> {
    let hidden = reading.hidden.first().map(|first| format!("{:?}", first.why));
    hidden.or_else(|| reading.scripts_not_in_text.first().map(|_| "Unseen".to_owned()))
}

/// The effects in bash that are missing in the reading.
fn escaped(reading: &ShellEffects, effects_in_bash: &Done) -> Vec<String> {
    let run_names = names(reading);
    let ran = effects_in_bash.ran.difference(&run_names).map(|name| format!("{name} ran unseen"));
    let written_names = written(reading);
    let unsaid = |file: &&String| {
        let base = file.rsplit('/').next().unwrap_or_default();
        // The lock of `flock` is created by a program, not by a redirection.
        base != "lock"
            && written_names.as_ref().is_some_and(|written_names| !written_names.contains(base))
    };
    let wrote =
        effects_in_bash.files.iter().filter(unsaid).map(|file| format!("{file} written unseen"));
    ran.chain(wrote).collect()
}

fn compare(command: &str, tries: u32, bash: &mut Bash, statistics: &Mutex<Statistics>) {
    let reading = read(command);
    if let Some(why) = why_hidden(&reading) {
        let mut statistics = statistics.lock().unwrap();
        statistics.total += 1;
        statistics.hidden += 1;
        *statistics.reasons.entry(why).or_insert(0) += 1;
        return;
    }
    let effects_in_bash = (0..tries).find_map(|_| bash.run(command));
    let mut statistics = statistics.lock().unwrap();
    statistics.total += 1;
    let Some(effects_in_bash) = effects_in_bash else {
        statistics.endless.push(command.to_owned());
        return;
    };
    let read = names(&reading);
    statistics.compared += 1;
    statistics.ran += u64::from(!effects_in_bash.ran.is_empty());
    statistics.wrote += u64::from(!effects_in_bash.files.is_empty());
    let mut stubs = read.iter().filter(|name| STUBS.contains(&name.as_str()));
    statistics.exact += u64::from(stubs.all(|name| effects_in_bash.ran.contains(name)));
    let escaped = escaped(&reading, &effects_in_bash);
    if !escaped.is_empty() {
        let writes = written(&reading);
        statistics
            .escapes
            .push(format!("{escaped:?}, read was {read:?}, {writes:?}:\n{command}\n"));
    }
}

#[test]
fn each_single_construct_is_read() {
    let mut random = Random::rotating("constructs");
    let (oracle, statistics) = (Oracle::new(), Mutex::new(Statistics::default()));
    let mut bash = oracle.bash(0);
    for _ in 0..3 {
        for command in Grammar::new(&mut random).each() {
            // A busy machine may need more than one try.
            compare(&command, 3, &mut bash, &statistics);
        }
    }
    let statistics = statistics.into_inner().unwrap();
    assert!(statistics.escapes.is_empty(), "escapes:\n{}", statistics.escapes.join("\n"));
    let Statistics { total, compared, ran, endless, .. } = statistics;
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
fn everyday_commands_seldom_hide() {
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
    figure(&format!(
        "everyday: {count} of {total} commands without computed names are reported as hiding"
    ));
    hidden.truncate(20);
    assert!(count * 100 < total * 4, "{count} of {total} hide:\n{}", hidden.join("\n"));
}

#[test]
fn reading_covers_everything_that_bash_does() {
    let random = Mutex::new(Random::rotating("differential"));
    let enough = Depth::from_env().cases(100_000);
    let oracle = Oracle::new();
    let statistics = Mutex::new(Statistics::default());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (random, statistics, mut bash) = (&random, &statistics, oracle.bash(number));
            scope.spawn(move || {
                let open = |statistics: &Statistics| {
                    statistics.compared < enough && statistics.escapes.len() < MAX_ESCAPES
                };
                while open(&statistics.lock().unwrap()) {
                    let seed = random.lock().unwrap().number();
                    let command = Grammar::new(&mut Random::new(seed)).command(2);
                    compare(&command, 1, &mut bash, statistics);
                }
            });
        }
    });
    let Statistics { total, compared, hidden, ran, exact, endless, wrote, reasons, escapes } =
        statistics.into_inner().unwrap();
    let slow = u64::try_from(endless.len()).unwrap();
    assert!(escapes.is_empty(), "escapes:\n{}", escapes.join("\n"));
    figure(&format!(
        "differential: {total} generated commands, {compared} run by real bash, 0 escapes ({ran} ran \
         a stub, {wrote} wrote a file, {exact} read exactly; {hidden} said to hide, \
         {reasons:?}; {slow} did not end)"
    ));
    assert!(ran * 2 > compared, "too few commands ran a stub: {ran} of {compared}");
    assert!(compared * 5 > total, "too many commands are reported as hiding: {hidden} of {total}");
    assert!(slow * 100 < total, "too many commands did not end: {slow}");
}
