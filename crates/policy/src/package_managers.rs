//! Package managers: which words of their command lines change dependencies.

use crate::word_list::words;

/// Options whose value is the next word, in front of the verb or behind it.
const VALUED: &[&str] = words!(
    "--cache --cache-dir --cache-folder --color --config --config-file --cwd --dir --directory \
    --features --filter --gemfile --globalconfig --include --index-url --loglevel \
    --lockfile-path --manifest-path --modules-folder --omit --package --path --prefix --profile --project \
    --python --registry --reporter --script-shell --store-dir --tag --target-dir --userconfig \
    --working-dir --workspace -C -F -Z -d -j -p -w -P"
);

/// Options that surely have none.
const FLAGS: &[&str] = words!(
    "--dev --frozen --frozen-lockfile --help --ignore-scripts --locked --no-audit --no-fund \
    --no-interaction --no-progress --offline --prefer-offline --quiet --recursive --silent --verbose \
    --version --workspaces --yes -q -r -s -v -y"
);

/// Whether a program of this name manages packages.
pub(crate) fn is_one(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "cargo", "npm", "pnpm", "yarn", "bun", "poetry", "pdm", "uv", "rye", "pipenv", "go",
        "bundle", "composer", "dotnet", "mix", "deno",
    ];
    NAMES.contains(&name) || name == "pip-compile"
}

/// A word that may be the verb, and the words behind it that are no options.
pub(crate) struct Reading<'a> {
    pub(crate) verb: &'a str,
    pub(crate) operands: Vec<&'a str>,
}

/// The possible readings of a command line: an unknown option may be followed by its value or by the verb.
pub(crate) fn readings<S: AsRef<str>>(words: &[S]) -> Vec<Reading<'_>> {
    let mut readings = Vec::new();
    let mut rest = words.iter().map(AsRef::as_ref).enumerate();
    while let Some((at, word)) = rest.next() {
        if is_valued(word) {
            rest.next();
            continue;
        }
        if word.starts_with(['-', '+']) {
            continue;
        }
        let behind = words.get(at + 1..).unwrap_or_default();
        readings.push(Reading { verb: word, operands: operands(behind) });
        let before = at.checked_sub(1).and_then(|at| words.get(at)).map(AsRef::as_ref);
        let unsure = before.is_some_and(|option| {
            option.starts_with('-') && !option.contains('=') && !FLAGS.contains(&option)
        });
        if !unsure {
            break;
        }
    }
    readings
}

fn is_valued(word: &str) -> bool {
    word.starts_with('-') && VALUED.contains(&word)
}

fn operands<S: AsRef<str>>(words: &[S]) -> Vec<&str> {
    let mut operands = Vec::new();
    let mut rest = words.iter().map(AsRef::as_ref);
    while let Some(word) = rest.next() {
        // Behind a verb these are short for saving in another list.
        let short = word.len() == 2 && !matches!(word, "-C" | "-w" | "-F");
        if is_valued(word) && !short {
            rest.next();
        } else if !word.starts_with('-') {
            operands.push(word);
        }
    }
    operands
}

/// Whether a command line changes dependencies, read in any way.
pub(crate) fn changes<S: AsRef<str>>(name: &str, words: &[S]) -> bool {
    changes_read(name, &readings(words), words)
}

/// The same for a command line with known readings.
pub(crate) fn changes_read<S: AsRef<str>>(
    name: &str,
    readings: &[Reading<'_>],
    words: &[S],
) -> bool {
    readings.iter().any(|reading| changes_as(name, reading, words)) || name == "pip-compile"
}

fn changes_as<S: AsRef<str>>(name: &str, reading: &Reading<'_>, words: &[S]) -> bool {
    let has = |option: &str| words.iter().any(|word| word.as_ref() == option);
    let dry = has("--dry-run") || has("-n") || has("--help") || has("-h");
    let (verb, second) = (reading.verb, reading.operands.first().copied());
    match name {
        "cargo" => {
            matches!(verb, "add" | "remove" | "rm" | "update" | "upgrade" | "generate-lockfile")
                && !(dry && verb != "add")
        }
        "npm" | "pnpm" | "yarn" | "bun" => match verb {
            "add" | "remove" | "rm" | "uninstall" | "un" | "unlink" | "update" | "up"
            | "upgrade" | "dedupe" | "link" => !dry,
            "install" | "i" | "in" => second.is_some() && !dry,
            "audit" => second == Some("fix") || has("--fix"),
            // `yarn workspace NAME verb`
            "workspace" => {
                let words = words.iter().map(AsRef::as_ref);
                let behind: Vec<&str> =
                    words.skip_while(|word| *word != "workspace").skip(2).collect();
                name == "yarn" && !behind.is_empty() && changes(name, &behind)
            }
            _ => false,
        },
        "poetry" | "pdm" | "uv" | "rye" => {
            matches!(verb, "add" | "remove" | "update" | "lock") && !has("--check") && !dry
        }
        "pipenv" => {
            matches!(verb, "install" | "uninstall" | "update" | "upgrade" | "lock")
                && (second.is_some() || verb != "install")
        }
        "go" => matches!(
            (verb, second),
            ("get", _) | ("mod", Some("tidy" | "edit" | "init" | "vendor"))
        ),
        "bundle" => matches!(verb, "add" | "remove" | "update" | "lock"),
        "composer" => matches!(verb, "require" | "remove" | "update"),
        "dotnet" => matches!((verb, second), ("add" | "remove", Some("package"))),
        "mix" => verb == "deps.update" || verb == "deps.unlock",
        "deno" => matches!(verb, "add" | "remove"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str) -> bool {
        let mut words = line.split(' ').map(str::to_owned);
        let name = words.next().unwrap();
        changes(&name, &words.collect::<Vec<_>>())
    }

    #[test]
    fn install_from_the_lock_file_is_not_a_change() {
        for line in [
            "npm ci",
            "npm install",
            "npm install --prefix web",
            "npm install -w web",
            "npm run update",
            "cargo build",
            "cargo fetch",
            "uv sync",
            "uv --directory d run pytest",
            "go mod download",
            "cargo test update",
            "npm --silent test add",
            "npm --lockfile-path install test",
            "cargo test -p add",
        ] {
            assert!(!changed(line), "{line}");
        }
    }

    #[test]
    fn dependency_change_is_found_after_options() {
        for line in [
            "cargo add serde",
            "cargo +nightly --manifest-path x/Cargo.toml add serde",
            "npm --prefix web install left-pad",
            "npm -w a install left-pad",
            "npm --frobnicate a install left-pad",
            "npm --frobnicate install left-pad",
            "npm i -D left-pad",
            "yarn add x",
            "yarn workspace web add x",
            "go mod tidy -v",
            "go -C d get x",
            "uv add x",
            "uv --directory d add x",
            "poetry lock",
            "npm --no-interaction install left-pad",
            "npm --lockfile-path x install left-pad",
        ] {
            assert!(changed(line), "{line}");
        }
    }
}
