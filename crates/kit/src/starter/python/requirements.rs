//! Lists of requirements for pip.

use super::super::files::Directory;

/// The first is needed to run the project; the others for its tests and development.
const NAMES: [&str; 14] = [
    "requirements.txt",
    "requirements/base.txt",
    "requirements-test.txt",
    "requirements-tests.txt",
    "requirements_test.txt",
    "test-requirements.txt",
    "requirements/test.txt",
    "requirements/tests.txt",
    "requirements-dev.txt",
    "requirements_dev.txt",
    "dev-requirements.txt",
    "requirements/dev.txt",
    "requirements/development.txt",
    "requirements-development.txt",
];

/// The lists to install, in the order in which they are named above.
pub(super) fn files(directory: Directory<'_>) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| directory.has(name)).collect()
}
