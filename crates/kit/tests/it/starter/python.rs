//! uv, poetry, pip and plain virtual environments.

use bailiwick_kit::starter::Note;

use super::{assert_project, malformed, recognise, shown};

const IGNORE: (&str, &str) = (".gitignore", ".venv/\n*.egg-info/\n");
const PYTEST: (&str, &str) = ("tests/test_a.py", "import pytest\n");
const UNITTEST: (&str, &str) = ("tests/test_a.py", "import unittest\n");
const SOURCE: (&str, &str) = ("src/a/__init__.py", "");

#[test]
fn uv() {
    let project = recognise(&[
        ("pyproject.toml", "[project]\nname = \"a\"\n[dependency-groups]\ndev = [\"pytest\"]\n"),
        ("uv.lock", "[[package]]\nname = \"pytest\"\n"),
        SOURCE,
        PYTEST,
    ]);
    let globs = ["src/**", "tests/**"];
    assert_project(
        &project,
        "uv (uv.lock)",
        &["uv sync --frozen"],
        &["uv run --frozen pytest"],
        &globs,
    );
    let extra =
        "[project]\nname = \"a\"\n[project.optional-dependencies]\ntest = [\"pytest\"]\nx = []\n";
    let project = recognise(&[("pyproject.toml", extra), ("uv.lock", ""), PYTEST]);
    assert_eq!(project.setup, ["uv sync --frozen --extra test"]);
    let project = recognise(&[("pyproject.toml", ""), ("uv.lock", ""), UNITTEST]);
    assert_eq!(project.commands, ["uv run --frozen python -m unittest discover -s tests"]);
}

#[test]
fn poetry() {
    let manifest = ("pyproject.toml", "[tool.poetry]\nname = \"a\"\n");
    let project = recognise(&[manifest, ("poetry.lock", ""), SOURCE, PYTEST]);
    let setup = ["POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"];
    let globs = ["src/**", "tests/**"];
    assert_project(&project, "poetry (poetry.lock)", &setup, &["poetry run pytest"], &globs);
    let group =
        "[tool.poetry]\n[tool.poetry.group.test]\noptional = true\n[tool.poetry.group.dev]\n";
    let project = recognise(&[("pyproject.toml", group), PYTEST]);
    assert!(project.setup[0].ends_with("poetry install --no-interaction --with test"));
    assert_eq!(project.notes, [Note::NoLockFile { file: "poetry.lock".to_owned() }]);
}

#[test]
fn pip_installs_every_list_of_requirements() {
    let project = recognise(&[
        ("requirements.txt", "flask\n"),
        ("requirements-dev.txt", "pytest\n"),
        ("app.py", ""),
        PYTEST,
        IGNORE,
    ]);
    let setup = [
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt -r requirements-dev.txt",
    ];
    let test = [".venv/bin/python -m pytest"];
    assert_project(&project, "pip (requirements.txt)", &setup, &test, &["/*.py", "tests/**"]);

    let missing = recognise(&[("requirements.txt", "flask\n"), PYTEST, IGNORE]);
    assert!(missing.setup[0].ends_with("-r requirements.txt pytest"), "{:?}", missing.setup);
    let untracked = recognise(&[("requirements.txt", "pytest\n"), PYTEST]);
    assert!(
        untracked.setup[0].contains("&& echo '*' > .venv/.gitignore &&"),
        "{:?}",
        untracked.setup
    );
}

#[test]
fn plain_environment_installs_the_project_with_its_test_extras() {
    let manifest = "[build-system]\n[project]\nname = \"a\"\n[project.optional-dependencies]\ntest = [\"pytest\"]\n";
    let project = recognise(&[("pyproject.toml", manifest), SOURCE, PYTEST, IGNORE]);
    let setup = ["python3 -m venv .venv && .venv/bin/pip install -e '.[test]'"];
    let test = [".venv/bin/python -m pytest"];
    assert_project(
        &project,
        "Python venv (pyproject.toml)",
        &setup,
        &test,
        &["src/**", "tests/**"],
    );

    let setup_py = "setup(extras_require={'dev': ['pytest']})";
    let project = recognise(&[("setup.py", setup_py), ("a/__init__.py", ""), PYTEST, IGNORE]);
    assert!(project.setup[0].ends_with("pip install -e '.[dev]'"), "{:?}", project.setup);
    assert_eq!(project.whitelist, ["a/**", "tests/**"], "setup.py is not source");
    let setup_cfg =
        "[metadata]\nname = a\n[options.extras_require]\ntesting =\n  pytest\n[flake8]\n";
    let project = recognise(&[("setup.cfg", setup_cfg), PYTEST, IGNORE]);
    assert!(project.setup[0].ends_with("pip install -e '.[testing]'"), "{:?}", project.setup);
    let group = "[project]\nname = \"a\"\n[dependency-groups]\ntest = [\"pytest>=8\", {include-group = \"x\"}]\n";
    let project = recognise(&[("pyproject.toml", group), PYTEST, IGNORE]);
    assert!(project.setup[0].ends_with("pip install -e . 'pytest>=8'"), "{:?}", project.setup);
    let tools_only = recognise(&[("pyproject.toml", "[tool.ruff]\n"), UNITTEST]);
    assert_eq!(tools_only.setup, [""; 0]);
    assert_eq!(tools_only.commands, ["python3 -m unittest discover -s tests"]);
}

#[test]
fn files_without_a_manifest() {
    let project = recognise(&[("tool.py", ""), ("test_tool.py", "import unittest\n")]);
    assert_project(
        &project,
        "Python venv (test_tool.py)",
        &[],
        &["python3 -m unittest"],
        &["/*.py"],
    );
    let package = [("a.py", ""), UNITTEST, ("tests/__init__.py", "")];
    assert_eq!(recognise(&package).commands, ["python3 -m unittest discover -s tests -t ."]);
    let project = recognise(&[("a.py", ""), ("tests/test_a.py", "def test_a(): pass\n"), IGNORE]);
    assert_eq!(project.setup, ["python3 -m venv .venv && .venv/bin/pip install pytest"]);
    let untested = recognise(&[("a.py", ""), ("b/c.py", "")]);
    assert_eq!((untested.setup.len(), untested.commands.len()), (0, 0));
}

#[test]
fn django_is_tested_with_its_own_command() {
    let files = [
        ("requirements.txt", "django\n"),
        ("manage.py", ""),
        ("shop/tests.py", "from django.test"),
        IGNORE,
    ];
    assert_eq!(recognise(&files).commands, [".venv/bin/python manage.py test"]);
}

#[test]
fn malformed_manifest_is_recognised_by_its_name() {
    for text in ["[project", "\u{0}", "a = [1, ", "[[project]]\n[project.x]"] {
        let project =
            recognise(&[("pyproject.toml", text), ("uv.lock", "\u{0}"), ("setup.cfg", "[[[")]);
        assert_eq!(shown(&project), ["uv (uv.lock)"]);
        assert_eq!(project.setup, ["uv sync --frozen"]);
    }
    assert_eq!(malformed(&recognise(&[("pyproject.toml", "[")])), ["pyproject.toml"]);
    let odd = "project = 1\ntool = []\ndependency-groups = \"x\"\n";
    assert_eq!(shown(&recognise(&[("pyproject.toml", odd)])), ["Python venv (pyproject.toml)"]);
}
