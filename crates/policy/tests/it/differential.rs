//! Every program that bash really ran is in what was read, or the reading says that it hides.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_policy::shell::{Reading, read};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use crate::bash::{Bash, STUBS};
use crate::grammar::Grammar;

fn names(reading: &Reading) -> BTreeSet<String> {
    let base = |name: String| name.rsplit('/').next().unwrap_or_default().to_owned();
    reading.runs.iter().filter_map(|run| run.program()).map(base).collect()
}

#[test]
fn nothing_that_bash_runs_escapes_the_reading() {
    // At full depth the seed rotates; the tenth is always the same.
    let mut random = match Depth::from_env() {
        Depth::Ci => Random::new(1),
        Depth::Full => Random::rotating("differential"),
    };
    let bash = Bash::new();
    let enough = Depth::from_env().cases(20_000);
    let (mut total, mut compared, mut hidden, mut ran, mut slow) = (0_u64, 0, 0, 0, 0);
    let mut reasons = BTreeMap::new();
    let (mut exact, mut escapes) = (0_u64, Vec::new());
    while compared < enough {
        total += 1;
        let command = Grammar::new(&mut random).command(2);
        let reading = read(&command);
        if let Some(first) = reading.hidden.first() {
            *reasons.entry(format!("{:?}", first.why)).or_insert(0_u64) += 1;
            hidden += 1;
            continue;
        }
        let Some(really) = bash.runs(&command) else {
            slow += 1;
            continue;
        };
        compared += 1;
        ran += u64::from(!really.is_empty());
        let read = names(&reading);
        let escaped: Vec<_> = really.difference(&read).collect();
        if !escaped.is_empty() {
            escapes.push(format!("{escaped:?} ran unseen, read was {read:?}:\n{command}\n"));
        }
        assert!(escapes.len() < 8, "escapes:\n{}", escapes.join("\n"));
        exact += u64::from(
            read.iter()
                .filter(|name| STUBS.contains(&name.as_str()))
                .all(|name| really.contains(name)),
        );
    }
    assert!(escapes.is_empty(), "escapes:\n{}", escapes.join("\n"));
    figure(&format!(
        "differential: {total} generated commands, {compared} run by real bash, 0 escapes ({ran} ran \
         a stub, {exact} read exactly; {hidden} said to hide, \
         {reasons:?}; {slow} did not end)"
    ));
    assert!(ran * 2 > compared, "too few commands ran a stub: {ran} of {compared}");
    assert!(compared * 5 > total, "too many commands were said to hide: {hidden} of {total}");
    assert!(slow * 100 < total, "too many commands did not end: {slow}");
}
