//! Random manifests: order, layout and the own version never count as a difference; dependencies do.

use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use super::super::{Manifest, read};

/// A dependency: its section, its name, its version, its features.
#[derive(Clone, PartialEq)]
struct Dependency(usize, String, u64, Vec<&'static str>);

type Render = fn(&mut Random, &[Dependency]) -> String;

const FORMATS: [(&str, Render); 7] = [
    ("Cargo.toml", cargo),
    ("Cargo.lock", cargo_lock),
    ("package.json", package),
    ("package-lock.json", package_lock),
    ("requirements.txt", requirements),
    ("go.mod", go),
    ("pyproject.toml", project),
];

#[test]
fn only_a_change_of_dependencies_differs() {
    let mut random = Random::rotating("manifests");
    for _ in 0..Depth::from_env().cases(5_000) {
        let old = dependencies(&mut random);
        let mut new = old.clone();
        mutate(&mut random, &mut new);
        for (path, render) in FORMATS {
            let (first, second) = (render(&mut random, &old), render(&mut random, &old));
            assert!(same(path, &first, &second), "{path}\n{first}\n---\n{second}");
            let third = render(&mut random, &new);
            assert!(!same(path, &first, &third), "{path}\n{first}\n---\n{third}");
        }
    }
}

fn same(path: &str, first: &str, second: &str) -> bool {
    let data = |text: &str| match read(path, text.as_bytes()) {
        Ok(Manifest::Parsed(data)) => data,
        other => panic!("{path}: {other:?}\n{text}"),
    };
    data(first).differences(&data(second)).is_empty()
}

fn dependencies(random: &mut Random) -> Vec<Dependency> {
    let count = 1 + random.below(6);
    (0..count)
        .map(|number| {
            let features = ["x", "y", "z"].into_iter().filter(|_| random.once_in(3)).collect();
            Dependency(random.below(3), format!("p{number}"), random.number() % 9, features)
        })
        .collect()
}

fn mutate(random: &mut Random, all: &mut Vec<Dependency>) {
    let place = random.below(all.len());
    match random.below(3) {
        0 => all.push(Dependency(random.below(3), "added".to_owned(), 1, Vec::new())),
        1 => drop(all.swap_remove(place)),
        _ => all[place].2 += 1,
    }
}

fn shuffled<T: Clone>(random: &mut Random, items: &[T]) -> Vec<T> {
    let mut items = items.to_vec();
    for end in (1..items.len()).rev() {
        items.swap(end, random.below(end + 1));
    }
    items
}

fn quoted(random: &mut Random, features: &[&str]) -> String {
    let features = shuffled(random, features);
    features.iter().map(|feature| format!("{feature:?}")).collect::<Vec<_>>().join(", ")
}

fn noise(random: &mut Random) -> &'static str {
    ["", "\n", "# note: p0 = \"9\"\n", "\n\n# x\n"][random.below(4)]
}

fn cargo(random: &mut Random, all: &[Dependency]) -> String {
    let mut text = format!("[package]\nname = \"own\"\nversion = \"{}.0.0\"\n", random.below(9));
    let sections = ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"];
    for section in shuffled(random, &[0, 1, 2]) {
        let (mut lines, mut tables) = (String::new(), String::new());
        for Dependency(_, name, version, features) in
            shuffled(random, all).iter().filter(|dependency| dependency.0 == section)
        {
            let list = quoted(random, features);
            match (random.below(4), features.is_empty()) {
                (0, true) => lines += &format!("{name}=\"{version}\"\n"),
                (1, true) => lines += &format!("{name} . version = '{version}'  # why\n"),
                (2, true) => {
                    tables += &format!("[{}.{name}]\nversion = \"{version}\"\n", sections[section])
                }
                (_, true) => lines += &format!("{name} = {{ version = \"{version}\" }}\n"),
                (0 | 1, false) => {
                    tables += &format!(
                        "[{}.{name}]\nfeatures = [\n{list},\n]\nversion = \"{version}\"\n",
                        sections[section]
                    )
                }
                (_, false) => {
                    lines += &format!("{name} = {{ features=[{list}],version = \"{version}\" }}\n")
                }
            }
        }
        text +=
            &format!("{}[{}]\n{lines}{}{tables}", noise(random), sections[section], noise(random));
    }
    text
}

fn cargo_lock(random: &mut Random, all: &[Dependency]) -> String {
    let mut text = format!("version = {}\n", 3 + random.below(2));
    let own_package = Dependency(9, "own".to_owned(), random.number() % 99, Vec::new());
    for Dependency(section, name, version, _) in shuffled(random, &[all, &[own_package]].concat()) {
        let source = format!("source = \"r{section}\"\n");
        let source = if section == 9 { "" } else { &source };
        text += &format!(
            "{}[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}",
            noise(random)
        );
    }
    text
}

fn package(random: &mut Random, all: &[Dependency]) -> String {
    let mut parts =
        vec![format!("\"version\": \"{}\"", random.below(9)), "\"name\":\"own\"".to_owned()];
    for (section, key) in ["dependencies", "devDependencies", "peerDependencies"].iter().enumerate()
    {
        let entries =
            shuffled(random, all).into_iter().filter(|dependency| dependency.0 == section);
        let entries: Vec<String> = entries
            .map(|dependency| format!("\"{}\" : \"{}\"", dependency.1, dependency.2))
            .collect();
        if !entries.is_empty() || random.once_in(2) {
            parts.push(format!("\"{key}\":{{{}}}", entries.join(" ,\n")));
        }
    }
    format!("{{{}}}", shuffled(random, &parts).join(",\n\t"))
}

fn package_lock(random: &mut Random, all: &[Dependency]) -> String {
    let mut entries = vec![format!("\"\":{{\"version\":\"{}\"}}", random.below(9))];
    for Dependency(section, name, version, _) in all {
        let parts = [format!("\"version\":\"{version}\""), format!("\"resolved\":\"r{section}\"")];
        let parts = shuffled(random, &parts).join(" , ");
        entries.push(format!("\"node_modules/{name}\":{{{parts}}}"));
    }
    format!("{{\"lockfileVersion\":3,\"packages\":{{{}}}}}", shuffled(random, &entries).join(",\n"))
}

fn requirements(random: &mut Random, all: &[Dependency]) -> String {
    let mut text = String::new();
    for Dependency(section, name, version, _) in shuffled(random, all) {
        let blank = ["", " "][random.below(2)];
        let name = if random.once_in(2) { name.to_uppercase() } else { name };
        let mut ranges = [format!(">={blank}{version}"), format!("<{blank}{}", version + 10)];
        if random.once_in(2) {
            ranges.reverse();
        }
        let comment = ["", "  # why", "\n\n# p0==9"][random.below(3)];
        text += &format!(
            "{name}{blank}{}{blank};{blank}os == '{section}'{comment}\n",
            ranges.join(",")
        );
    }
    text
}

fn go(random: &mut Random, all: &[Dependency]) -> String {
    let mut text = format!("module m{}\ngo 1.{}\n", random.below(9), random.below(30));
    let (mut block, mut single) = (String::new(), String::new());
    for Dependency(_, name, version, _) in shuffled(random, all) {
        let comment = ["", " // indirect", "\t// p0 v9"][random.below(3)];
        match random.below(2) {
            0 => block += &format!("\t{name}  v{version}{comment}\n"),
            _ => single += &format!("require {name} v{version}{comment}\n"),
        }
    }
    text += &if random.once_in(2) {
        format!("require (\n{block})\n{single}")
    } else {
        format!("{single}require (\n\n{block})")
    };
    text
}

fn project(random: &mut Random, all: &[Dependency]) -> String {
    let entries: Vec<String> = shuffled(random, all)
        .iter()
        .map(|Dependency(section, name, version, _)| {
            let blank = ["", " "][random.below(2)];
            format!("\"{name}{blank}=={version}{blank}; os == '{section}'\"")
        })
        .collect();
    let own = format!("version = \"{}\"\nname = \"own\"\n", random.below(9));
    let list = format!("dependencies = [{}\n{}]\n", noise(random), entries.join(",\n  "));
    format!("{}[project]\n{}", noise(random), shuffled(random, &[own, list]).join(""))
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random::rotating("random manifests");
    let words = [
        "[",
        "]",
        "{",
        "}",
        "=",
        "\"",
        "'",
        ",",
        ":",
        ".",
        "\n",
        "a",
        "1",
        "dependencies",
        "package",
        "packages",
        "name",
        "version",
        "source",
        "require",
        "(",
        ")",
        "tool",
        "project",
        "-",
        "\\",
        "#",
        ";",
        "@",
        "é",
        "\u{feff}",
        "\0",
        "\"a\":",
        "[[package]]",
        "[dependencies]",
        " ",
        "=>",
    ];
    let paths = FORMATS.map(|(path, _)| path);
    let addition =
        ["setup.cfg", "uv.lock", "Pipfile", "Pipfile.lock", "go.sum", "composer.lock", "deno.lock"];
    for _ in 0..Depth::from_env().cases(40_000) {
        let count = random.below(40);
        let mut text: Vec<u8> =
            (0..count).flat_map(|_| words[random.below(words.len())].bytes()).collect();
        if random.once_in(4) && !text.is_empty() {
            let place = random.below(text.len());
            text[place] = random.number().to_le_bytes()[0];
        }
        for path in paths.iter().chain(&addition) {
            let _read = read(path, &text);
        }
    }
}
