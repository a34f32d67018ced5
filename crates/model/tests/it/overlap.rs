//! Where two areas meet: every short path is the oracle.

use std::collections::BTreeSet;

use bailiwick_model::globs::{Area, Globs, Overlap};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

/// How long the paths are that the oracle knows.
const MAX_LENGTH: usize = 6;

/// Every path of these letters, up to a length.
fn paths() -> Vec<String> {
    let mut longer = vec![String::new()];
    let mut all = Vec::new();
    for _ in 0..MAX_LENGTH {
        longer = longer
            .iter()
            .flat_map(|path| ["a", "b", ".", "/"].map(|next| format!("{path}{next}")))
            .collect();
        all.extend(longer.iter().filter(|path| is_path(path)).cloned());
    }
    all
}

fn is_path(path: &str) -> bool {
    path.split('/').all(|name| !["", ".", ".."].contains(&name))
}

fn glob(random: &mut Random) -> String {
    const NAMES: [&str; 24] = [
        "a",
        "b",
        "ab",
        "ba",
        "a.b",
        ".a",
        "*",
        "*",
        "**",
        "**",
        "a*",
        "*b",
        "?",
        "a?",
        "*.a",
        "**b",
        "[ab]",
        "[!a]",
        "[^b]*",
        "[a-b]",
        "[[:alpha:]]",
        "[]a]",
        "\\a",
        "b**",
    ];
    let mut glob = String::new();
    if random.once_in(3) {
        glob.push('/');
    }
    for part in 0..=random.below(3) {
        if part > 0 {
            glob.push_str(if random.once_in(9) { "\\/" } else { "/" });
        }
        glob.push_str(NAMES[random.below(NAMES.len())]);
    }
    if random.once_in(5) {
        glob.push('/');
    }
    // What nothing can match, or what people get wrong.
    const ODD: [&str; 10] = ["/", "//", "[a", "[", "a\\", "./a", "../a", "a//b", "[[:x:]]", "!a"];
    if random.once_in(20) { ODD[random.below(ODD.len())].to_owned() } else { glob }
}

fn globs(random: &mut Random, most: usize) -> Vec<String> {
    (0..most).map(|_| glob(random)).collect()
}

/// An area as it is written, as it is asked, and as the oracle sees it.
struct Seen {
    written: [Vec<String>; 2],
    area: Area,
    has: Vec<u64>,
}

fn seen(random: &mut Random, paths: &[String]) -> Seen {
    let (most, fewest) = (1 + random.below(2), random.below(3));
    let written = [globs(random, most), globs(random, fewest)];
    let area = Area::new(&written[0], &written[1]);
    // Asked of the lists themselves, which git is the oracle of.
    let [inside, except] = [Globs::parse(&written[0]), Globs::parse(&written[1])];
    let mut has = vec![0; paths.len().div_ceil(64)];
    for (place, path) in paths.iter().enumerate() {
        if inside.matches(path, false) && !except.matches(path, false) {
            has[place / 64] |= 1 << (place % 64);
        }
    }
    Seen { written, area, has }
}

#[test]
fn two_areas_meet_where_a_path_is_in_both() {
    let mut random = Random::rotating("overlap");
    let paths = paths();
    let cases = Depth::from_env().cases(100_000);
    let pool: Vec<Seen> = (0..cases.div_ceil(50)).map(|_| seen(&mut random, &paths)).collect();
    let (mut met, mut apart, mut beyond) = (0_u64, 0_u64, 0_u64);
    for _ in 0..cases {
        let (one, other) = (&pool[random.below(pool.len())], &pool[random.below(pool.len())]);
        let common = one.has.iter().zip(&other.has).any(|(one, other)| one & other != 0);
        let shown = format!("{:?} and {:?}", one.written, other.written);
        match one.area.overlap(&other.area) {
            Overlap::Never => {
                apart += 1;
                assert!(!common, "{shown} have a path in common");
                assert_eq!(other.area.overlap(&one.area), Overlap::Never, "{shown}");
            }
            Overlap::At(witness) => {
                met += 1;
                let in_both = [one, other].iter().all(|seen| {
                    let [inside, except] = [0, 1].map(|list| Globs::parse(&seen.written[list]));
                    inside.matches(&witness, false) && !except.matches(&witness, false)
                });
                assert!(in_both && is_path(&witness), "{shown} do not both have {witness}");
                assert!(common || witness.len() > MAX_LENGTH || !only_known(&witness), "{shown}");
                beyond += u64::from(!common);
                let beginnings = [one, other].map(|seen| seen.area.beginnings());
                let begins = |set: &BTreeSet<String>| set.iter().any(|b| witness.starts_with(b));
                assert!(beginnings.iter().all(begins), "{shown}: {beginnings:?} {witness}");
            }
            Overlap::Unclear(why) => panic!("{shown}: {why}"),
        }
    }
    assert!(met > cases / 10 && apart > cases / 10, "too plain: {met} met, {apart} did not");
    figure(&format!(
        "overlap: {cases} pairs of areas judged as {} paths do ({met} meet, {beyond} of them only \
         beyond those paths; {apart} do not)",
        paths.len()
    ));
}

fn only_known(path: &str) -> bool {
    path.chars().all(|letter| "ab./".contains(letter))
}

#[test]
fn what_cannot_be_resolved_meets_all_that_begins_as_it_does() {
    let area = |glob: &str| Area::new(&[glob.to_owned()], &[]);
    for unclear in ["src/[a[:b]x]", "src/[[:alpha]]"] {
        assert!(
            matches!(area(unclear).overlap(&area("src/deep/**")), Overlap::Unclear(_)),
            "{unclear}"
        );
        assert_eq!(area(unclear).overlap(&area("docs/**")), Overlap::Never, "{unclear}");
        // As an exception it excepts nothing.
        let all_but = Area::new(&["src/**".to_owned()], &[unclear.to_owned()]);
        assert!(matches!(all_but.overlap(&area("src/x")), Overlap::At(_)), "{unclear}");
    }
    let many = format!("src/{}", "*a".repeat(70));
    assert!(matches!(area(&many).overlap(&area("src/a*")), Overlap::Unclear(_)));
}

#[test]
fn globs_that_are_made_to_explode_are_given_up_and_taken_to_meet() {
    let hard = |end: &str| format!("*a{}{end}", "?".repeat(18));
    let area = |glob: String| Area::new(&[glob, "x*y?????????z".to_owned()], &[]);
    let met = area(hard("b")).overlap(&Area::new(&[hard("c")], &[hard("d")]));
    // Without a bound there would be more situations than anyone can look at.
    assert!(matches!(met, Overlap::Unclear(_)), "{met:?}");
}

#[test]
fn long_lists_of_names_are_compared_to_the_end() {
    let names = |word: &str| -> Vec<String> {
        (0..60).map(|number| format!("**/{word}-{number}/*.rs")).collect()
    };
    let only = |words: &str| Area::new(&names(words), &["*.rs/".to_owned()]);
    let mut other = names("two");
    other.push("/src/**/one-7/*.rs".to_owned());
    let met = only("one").overlap(&Area::new(&other, &["**/*.rs/*".to_owned()]));
    assert!(matches!(&met, Overlap::At(path) if path.contains("one-7/")), "{met:?}");
    assert_eq!(only("one").overlap(&only("two")), Overlap::Never);
}

#[test]
fn the_shortest_path_is_shown() {
    let list = |globs: &[&str]| -> Vec<String> { globs.iter().map(|&glob| glob.into()).collect() };
    let one = Area::new(&list(&["src/**", "docs/*.md"]), &list(&["src/generated/**"]));
    let other = Area::new(&list(&["**/*.md", "src/generated/**"]), &[]);
    assert_eq!(one.overlap(&other), Overlap::At("src/.md".to_owned()));
    let generated = Area::new(&list(&["src/generated/**"]), &[]);
    assert_eq!(one.overlap(&generated), Overlap::Never);
    assert_eq!(one.overlap(&Area::default()), Overlap::Never);
    let lists = [&["ä/*.rs"], &["**/é*.rs"]].map(|globs| Globs::parse(&list(globs)));
    assert_eq!(lists[0].overlap(&lists[1]), Overlap::At("ä/é.rs".to_owned()));
}
