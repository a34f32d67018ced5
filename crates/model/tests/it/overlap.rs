//! Overlaps of two areas, checked against every short path.

use std::collections::BTreeSet;

use bailiwick_model::globs::{Area, Globs, Overlap};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

/// Maximum length of the paths that are checked.
const MAX_LENGTH: usize = 6;

/// Every path of the characters `a`, `b`, `.` and `/`, up to `MAX_LENGTH`.
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
    // Globs that match nothing, and common mistakes.
    const ODD: [&str; 10] = ["/", "//", "[a", "[", "a\\", "./a", "../a", "a//b", "[[:x:]]", "!a"];
    if random.once_in(20) { ODD[random.below(ODD.len())].to_owned() } else { glob }
}

fn globs(random: &mut Random, count: usize) -> Vec<String> {
    (0..count).map(|_| glob(random)).collect()
}

/// An area: its globs, the parsed area, and a bit for each path that it contains.
struct Sample {
    patterns: [Vec<String>; 2],
    area: Area,
    contained: Vec<u64>,
}

fn sample(random: &mut Random, paths: &[String]) -> Sample {
    let (included_count, excluded_count) = (1 + random.below(2), random.below(3));
    let patterns = [globs(random, included_count), globs(random, excluded_count)];
    let area = Area::new(&patterns[0], &patterns[1]);
    // Uses `Globs`, which other tests compare with git.
    let [included, excluded] = [Globs::parse(&patterns[0]), Globs::parse(&patterns[1])];
    let mut contained = vec![0; paths.len().div_ceil(64)];
    for (index, path) in paths.iter().enumerate() {
        if included.matches(path, false) && !excluded.matches(path, false) {
            contained[index / 64] |= 1 << (index % 64);
        }
    }
    Sample { patterns, area, contained }
}

#[test]
fn areas_overlap_exactly_if_they_share_a_path() {
    let mut random = Random::rotating("overlap");
    let paths = paths();
    let cases = Depth::from_env().cases(100_000);
    let pool: Vec<Sample> = (0..cases.div_ceil(50)).map(|_| sample(&mut random, &paths)).collect();
    let (mut overlapping, mut disjoint, mut only_longer) = (0_u64, 0_u64, 0_u64);
    for _ in 0..cases {
        let (one, other) = (&pool[random.below(pool.len())], &pool[random.below(pool.len())]);
        let common =
            one.contained.iter().zip(&other.contained).any(|(one, other)| one & other != 0);
        let pair = format!("{:?} and {:?}", one.patterns, other.patterns);
        match one.area.overlap(&other.area) {
            Overlap::Never => {
                disjoint += 1;
                assert!(!common, "{pair} share a path");
                assert_eq!(other.area.overlap(&one.area), Overlap::Never, "{pair}");
            }
            Overlap::At(witness) => {
                overlapping += 1;
                let in_both = [one, other].iter().all(|sample| {
                    let [included, excluded] =
                        [0, 1].map(|list| Globs::parse(&sample.patterns[list]));
                    included.matches(&witness, false) && !excluded.matches(&witness, false)
                });
                assert!(in_both && is_path(&witness), "{pair} do not both contain {witness}");
                assert!(
                    common || witness.len() > MAX_LENGTH || !has_known_letters_only(&witness),
                    "{pair}"
                );
                only_longer += u64::from(!common);
                let beginnings = [one, other].map(|sample| sample.area.beginnings());
                let begins = |set: &BTreeSet<String>| set.iter().any(|b| witness.starts_with(b));
                assert!(beginnings.iter().all(begins), "{pair}: {beginnings:?} {witness}");
            }
            Overlap::Unclear(reason) => panic!("{pair}: {reason}"),
        }
    }
    assert!(
        overlapping > cases / 10 && disjoint > cases / 10,
        "too few cases: {overlapping} overlap, {disjoint} do not"
    );
    figure(&format!(
        "overlap: {cases} pairs of areas agree with {} paths ({overlapping} overlap, {only_longer} of \
         them only in longer paths; {disjoint} do not)",
        paths.len()
    ));
}

fn has_known_letters_only(path: &str) -> bool {
    path.chars().all(|letter| "ab./".contains(letter))
}

#[test]
fn unresolvable_glob_is_unclear_for_paths_with_its_prefix() {
    let area = |glob: &str| Area::new(&[glob.to_owned()], &[]);
    for unclear in ["src/[a[:b]x]", "src/[[:alpha]]"] {
        assert!(
            matches!(area(unclear).overlap(&area("src/deep/**")), Overlap::Unclear(_)),
            "{unclear}"
        );
        assert_eq!(area(unclear).overlap(&area("docs/**")), Overlap::Never, "{unclear}");
        // As an exclusion, it excludes nothing.
        let all_but = Area::new(&["src/**".to_owned()], &[unclear.to_owned()]);
        assert!(matches!(all_but.overlap(&area("src/x")), Overlap::At(_)), "{unclear}");
    }
    let many = format!("src/{}", "*a".repeat(70));
    assert!(matches!(area(&many).overlap(&area("src/a*")), Overlap::Unclear(_)));
}

#[test]
fn overlap_of_exponential_globs_is_unclear() {
    let hard = |end: &str| format!("*a{}{end}", "?".repeat(18));
    let area = |glob: String| Area::new(&[glob, "x*y?????????z".to_owned()], &[]);
    let overlap = area(hard("b")).overlap(&Area::new(&[hard("c")], &[hard("d")]));
    // Without a limit, the number of states would be exponential.
    assert!(matches!(overlap, Overlap::Unclear(_)), "{overlap:?}");
}

#[test]
fn long_lists_of_globs_are_compared_completely() {
    let names = |word: &str| -> Vec<String> {
        (0..60).map(|number| format!("**/{word}-{number}/*.rs")).collect()
    };
    let only = |words: &str| Area::new(&names(words), &["*.rs/".to_owned()]);
    let mut other = names("two");
    other.push("/src/**/one-7/*.rs".to_owned());
    let overlap = only("one").overlap(&Area::new(&other, &["**/*.rs/*".to_owned()]));
    assert!(matches!(&overlap, Overlap::At(path) if path.contains("one-7/")), "{overlap:?}");
    assert_eq!(only("one").overlap(&only("two")), Overlap::Never);
}

#[test]
fn shortest_common_path_is_reported() {
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
