//! What a search would find: whether the expression of `find` includes files of git.

use gix_glob::wildmatch::Mode;

use super::super::field::Field;

/// Files that exist in most repositories, and `.git` as a file in a worktree.
const OF_GIT: [&str; 9] = [
    ".git/HEAD",
    ".git/config",
    ".git/index",
    ".git/description",
    ".git/packed-refs",
    ".git/info/exclude",
    ".git/logs/HEAD",
    ".git/hooks/pre-commit.sample",
    ".git",
];

/// Whether a condition is met: no, perhaps, yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    No,
    Perhaps,
    Yes,
}

impl Certainty {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Perhaps => Self::Perhaps,
            Self::Yes => Self::No,
        }
    }
}

/// The files of git below a directory that an expression lets through to its end, or to `-exec`.
pub(super) fn files_of_git(start: &str, expression: &[Field]) -> Vec<String> {
    let words: Vec<Option<String>> = expression.iter().map(Field::known).collect();
    let base = start.trim_end_matches('/');
    let pruned = |path: &str, depth: usize| {
        PathEvaluation::asked(&words, path, depth, 'd').pruned == Certainty::Yes
    };
    let reaches = |file: &str| {
        let parts: Vec<&str> = file.split('/').collect();
        let above = |depth: usize| {
            let head: Vec<&str> = parts.iter().take(depth).copied().collect();
            pruned(&format!("{base}/{}", head.join("/")), depth)
        };
        let path = format!("{base}/{file}");
        !pruned(start, 0)
            && !(1..parts.len()).any(above)
            && PathEvaluation::asked(&words, &path, parts.len(), 'f').reached
    };
    OF_GIT.iter().filter(|file| reaches(file)).map(|file| format!("{base}/{file}")).collect()
}

/// Whether a glob of `grep --include` or `--exclude` matches the name of a path.
pub(super) fn name_matches(glob: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    gix_glob::wildmatch(glob.into(), name.into(), Mode::empty())
}

/// The evaluation of an expression for one path.
struct PathEvaluation<'a> {
    rest: &'a [Option<String>],
    path: &'a str,
    depth: usize,
    kind: char,
    /// Whether an action may be performed on the path.
    reached: bool,
    acts: bool,
    pruned: Certainty,
    outside: bool,
}

impl<'a> PathEvaluation<'a> {
    fn asked(words: &'a [Option<String>], path: &'a str, depth: usize, kind: char) -> Self {
        let (acts, outside) = (false, false);
        let pruned = Certainty::No;
        let mut one =
            Self { rest: words, path, depth, kind, reached: false, acts, pruned, outside };
        let mut holds = one.list(Certainty::Yes, 0);
        // An expression that cannot be parsed decides nothing.
        if !one.rest.is_empty() {
            holds = Certainty::Perhaps;
            one.reached = true;
        }
        // Without an action, what holds is printed.
        one.reached |= !one.acts && holds != Certainty::No;
        one.reached &= !one.outside;
        one
    }

    fn next_is(&self, signs: &[&str]) -> bool {
        self.rest
            .first()
            .is_some_and(|word| word.as_deref().is_some_and(|word| signs.contains(&word)))
    }

    fn skip(&mut self) -> Option<String> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        first.clone()
    }

    /// Alternatives, as far as the bracket that closes them.
    fn list(&mut self, reached: Certainty, deep: usize) -> Certainty {
        let mut holds = self.all(reached, deep);
        while self.next_is(&["-o", "-or", ","]) {
            let sign = self.skip();
            let comma = sign.as_deref() == Some(",");
            let open = if comma { Certainty::Yes } else { holds.not() };
            let other = self.all(reached.min(open), deep);
            holds = if comma { other } else { holds.max(other) };
        }
        holds
    }

    fn all(&mut self, reached: Certainty, deep: usize) -> Certainty {
        let mut holds = Certainty::Yes;
        while !self.rest.is_empty() && !self.next_is(&["-o", "-or", ",", ")"]) {
            if self.next_is(&["-a", "-and"]) {
                self.skip();
                continue;
            }
            let one = self.test(reached.min(holds), deep);
            holds = holds.min(one);
        }
        holds
    }

    fn test(&mut self, reached: Certainty, deep: usize) -> Certainty {
        if deep > 20 {
            self.rest = &[];
            self.reached = true;
            return Certainty::Perhaps;
        }
        let Some(word) = self.skip() else { return Certainty::Perhaps };
        match word.as_str() {
            "!" | "-not" => self.test(reached, deep + 1).not(),
            "(" => {
                let holds = self.list(reached, deep + 1);
                if self.next_is(&[")"]) {
                    self.skip();
                }
                holds
            }
            "-name" | "-iname" | "-path" | "-ipath" | "-wholename" | "-iwholename" => {
                let Some(glob) = self.skip() else { return Certainty::Perhaps };
                let whole = word.contains("path") || word.contains("whole");
                let folds = word.starts_with("-i");
                let path = if folds { self.path.to_lowercase() } else { self.path.to_owned() };
                let glob = if folds { glob.to_lowercase() } else { glob };
                match whole {
                    true => Certainty::of(gix_glob::wildmatch(
                        glob.as_str().into(),
                        path.as_str().into(),
                        Mode::empty(),
                    )),
                    false => Certainty::of(name_matches(&glob, &path)),
                }
            }
            "-type" => {
                let kinds = self.skip();
                kinds.map_or(Certainty::Perhaps, |kinds| Certainty::of(kinds.contains(self.kind)))
            }
            "-maxdepth" | "-mindepth" => {
                let number = self.skip().and_then(|text| text.parse::<usize>().ok());
                let outside = |number: usize| match word.as_str() {
                    "-maxdepth" => self.depth > number,
                    _ => self.depth < number,
                };
                self.outside |= number.is_some_and(outside);
                Certainty::Yes
            }
            "-prune" => {
                self.pruned = self.pruned.max(reached);
                Certainty::Yes
            }
            "-true" | "-depth" | "-follow" | "-xdev" | "-mount" | "-noleaf" | "-daystart" => {
                Certainty::Yes
            }
            "-false" => Certainty::No,
            "-print" | "-print0" | "-delete" | "-ls" | "-quit" => {
                self.act(reached);
                Certainty::Yes
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                self.act(reached);
                while let Some((first, rest)) = self.rest.split_first() {
                    self.rest = rest;
                    if first.as_deref().is_some_and(|word| word == ";" || word == "+") {
                        break;
                    }
                }
                Certainty::Perhaps
            }
            _ => {
                // Most other tests have a value.
                let valued = self.rest.first().is_some_and(|next| {
                    next.as_deref().is_none_or(|next| !next.starts_with(['-', '!', '(', ')', ',']))
                });
                if valued && word.starts_with('-') {
                    self.skip();
                }
                Certainty::Perhaps
            }
        }
    }

    fn act(&mut self, reached: Certainty) {
        self.acts = true;
        self.reached |= reached != Certainty::No;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(expression: &str) -> bool {
        let words: Vec<Field> = expression.split_whitespace().map(Field::text).collect();
        !files_of_git(".", &words).is_empty()
    }

    #[test]
    fn search_reaches_git_unless_it_is_excluded() {
        for expression in [
            "",
            "-type f",
            "-type f -exec x {} +",
            "-name *",
            "-name HEAD -exec x {} ;",
            "-name *.rs -o -type f",
            "-name *.rs -o -type f -exec x {} +",
            "! -name *.rs",
            "-not -path ./target/* -type f",
            "-path ./target -prune -o -type f -print",
            "-mtime -1 -type f",
            "( -name *.rs -o -name c* ) -print",
        ] {
            assert!(reaches(expression), "{expression}");
        }
        for expression in [
            "-name *.rs",
            "-name *.rs -exec x {} +",
            "-type f -name *.md -exec x {} ;",
            "( -name *.rs -o -name *.toml ) -exec x {} +",
            "-type f ! -path ./.git/* -not -name .git -exec x {} +",
            "-path ./.git -prune -o -type f -exec x {} +",
            "-name .git -prune -o -type f -print",
            "-type f -not -path */.git* -print0",
            "-maxdepth 1 -name *.txt",
            "-path ./src/* -type f",
        ] {
            assert!(!reaches(expression), "{expression}");
        }
    }
}
