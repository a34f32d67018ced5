//! Projects that only a Makefile builds.

use super::files::Directory;
use super::stack::Stack;
use super::tool::Tool;

/// A default target of this name does something else than to build or to check.
const NOT_A_CHECK: [&str; 14] = [
    "clean", "deploy", "dev", "down", "help", "install", "publish", "push", "release", "run",
    "serve", "start", "stop", "up",
];

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let file = directory.first_of(&["GNUmakefile", "makefile", "Makefile"])?;
    let mut stack = Stack::new(Tool::Make, directory.path(), file);
    stack.programs = vec!["make"];
    let makefile = Makefile::parse(&directory.read(file).unwrap_or_default());
    stack.commands = makefile.check().into_iter().collect();
    Some(stack)
}

#[derive(Default)]
struct Makefile {
    targets: Vec<String>,
    default: Option<String>,
}

impl Makefile {
    /// Reads the targets of the text itself; included files are not read.
    fn parse(text: &str) -> Self {
        let mut makefile = Self::default();
        for line in text.lines() {
            if let Some(goal) = line.strip_prefix(".DEFAULT_GOAL") {
                let goal = goal.trim_start_matches([' ', ':', '?', '=']).trim();
                makefile.default = Some(goal.to_owned());
            } else {
                makefile.targets.extend(targets(line).map(str::to_owned));
            }
        }
        makefile
    }

    fn check(&self) -> Option<String> {
        let has = |name: &str| self.targets.iter().any(|target| target == name);
        for name in ["test", "check", "tests"] {
            if has(name) {
                return Some(format!("make {name}"));
            }
        }
        let default = self.default.as_ref().or(self.targets.first())?;
        if !NOT_A_CHECK.contains(&default.as_str()) {
            return Some("make".to_owned());
        }
        ["all", "build"].into_iter().find(|name| has(name)).map(|name| format!("make {name}"))
    }
}

/// The targets of a rule; none if the line is not a rule.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let rule = line.split_once(':').filter(|(before, after)| {
        let begins = !line.starts_with([' ', '\t', '#', '.']);
        begins
            && !before.contains(['=', '$', '#', '"', '('])
            && !after.trim_start_matches(':').starts_with('=')
    });
    let names = rule.map(|(before, _)| before).unwrap_or_default();
    names.split_whitespace().filter(|name| !name.contains('%'))
}
