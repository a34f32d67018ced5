//! How a Python project is tested.

use super::super::files::Directory;
use super::manifest::Manifest;

/// The maximum number of test files to read for their imports.
const MAX_READ: usize = 20;

/// The program that runs the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Runner {
    Pytest,
    /// `manage.py test`
    Django,
    /// `python -m unittest`, with these arguments
    Unittest(String),
    /// There are no tests.
    Nothing,
}

impl Runner {
    pub(super) fn of(directory: Directory<'_>, manifest: &Manifest) -> Self {
        let tests: Vec<&str> = directory.below().filter(|path| is_test(path)).collect();
        let declared = manifest.configures_pytest
            || directory.has("pytest.ini")
            || directory.has("conftest.py")
            || directory.read("tox.ini").is_some_and(|text| text.contains("pytest"));
        if declared && (!tests.is_empty() || directory.has("pytest.ini")) {
            return Self::Pytest;
        }
        if tests.is_empty() {
            return Self::Nothing;
        }
        let texts: Vec<String> =
            tests.iter().take(MAX_READ).filter_map(|path| directory.read(path)).collect();
        if texts.iter().any(|text| text.contains("pytest")) {
            return Self::Pytest;
        }
        if directory.has("manage.py") {
            return Self::Django;
        }
        if texts.iter().any(|text| text.contains("unittest")) {
            return Self::Unittest(discovery(directory, &tests));
        }
        Self::Pytest
    }

    /// The command; `module` starts Python up to and with `-m`.
    pub(super) fn command(&self, module: &str) -> Option<String> {
        match self {
            Self::Pytest => Some(format!("{module} pytest")),
            Self::Django => {
                Some(format!("{} manage.py test", module.trim_end_matches("-m").trim_end()))
            }
            Self::Unittest(arguments) => Some(format!("{module} unittest{arguments}")),
            Self::Nothing => None,
        }
    }
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let hidden = path.split('/').any(|part| part.starts_with('.') || part == "node_modules");
    let named = name.starts_with("test_") || name.ends_with("_test.py") || name == "tests.py";
    named && name.ends_with(".py") && !hidden
}

/// unittest finds tests at the top and in packages; elsewhere it needs a start directory.
fn discovery(directory: Directory<'_>, tests: &[&str]) -> String {
    let place = tests.iter().find_map(|path| Some(path.split_once('/')?.0));
    match place {
        Some(place) if !tests.iter().any(|path| !path.contains('/')) => {
            let is_package = directory.has(&format!("{place}/__init__.py"));
            let top = if is_package { " -t ." } else { "" };
            format!(" discover -s {}{top}", super::quote(place))
        }
        Some(_) | None => String::new(),
    }
}
