//! Reads pyproject.toml, setup.py and setup.cfg.

use toml::{Table, Value};

use super::super::files::Directory;
use super::super::stack::quote;

/// Extras and groups with the dependencies of tests, in order of preference.
const FOR_TESTS: [&str; 3] = ["test", "tests", "testing"];
const FOR_DEVELOPMENT: [&str; 3] = ["dev", "develop", "development"];

/// The parts of a Python project's files that matter here.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    /// pyproject.toml is there and cannot be parsed.
    pub(super) malformed: bool,
    /// `pip install -e .` works.
    pub(super) installable: bool,
    /// Extras that tests need.
    pub(super) extras: Vec<String>,
    /// Dependency groups (PEP 735) that tests need.
    pub(super) groups: Vec<Group>,
    /// Optional groups of poetry that tests need.
    pub(super) poetry_groups: Vec<String>,
    pub(super) uses_poetry: bool,
    pub(super) is_uv_workspace: bool,
    /// The requirements of the project and its extras.
    pub(super) installed_text: String,
    pub(super) configures_pytest: bool,
}

/// A dependency group and the packages that it names directly.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) packages: Vec<String>,
}

impl Manifest {
    pub(super) fn read(directory: Directory<'_>) -> Self {
        let mut manifest = match directory.read("pyproject.toml").map(|text| text.parse::<Table>())
        {
            None => Self::default(),
            Some(Ok(table)) => Self::of_pyproject(&table),
            Some(Err(_)) => Self { malformed: true, ..Self::default() },
        };
        let setup_py = directory.read("setup.py").unwrap_or_default();
        let setup_cfg = directory.read("setup.cfg").unwrap_or_default();
        if directory.has("setup.py") || setup_cfg.contains("[metadata]") {
            manifest.installable = true;
        }
        if manifest.extras.is_empty() {
            let names = declared_extras(&setup_py, &setup_cfg);
            manifest.extras = chosen(names.iter().map(String::as_str));
            manifest.installed_text.push_str(&setup_py);
            manifest.installed_text.push_str(&setup_cfg);
        }
        manifest.configures_pytest |= setup_cfg.contains("[tool:pytest]");
        manifest
    }

    fn of_pyproject(table: &Table) -> Self {
        let at = |path: &[&str]| lookup(table, path);
        let keys = |path: &[&str]| {
            let found = at(path).and_then(Value::as_table);
            found.into_iter().flat_map(Table::keys).map(String::as_str)
        };
        let extras = chosen(keys(&["project", "optional-dependencies"]));
        let text_of = |path: &[&str]| at(path).map(Value::to_string).unwrap_or_default();
        let extra_texts =
            extras.iter().map(|extra| text_of(&["project", "optional-dependencies", extra]));
        let installed_text = extra_texts.chain([text_of(&["project", "dependencies"])]).collect();
        let group = |name: String| {
            let packages = at(&["dependency-groups", &name]).and_then(Value::as_array);
            let packages = packages.into_iter().flatten().filter_map(Value::as_str);
            Group { packages: packages.map(str::to_owned).collect(), name }
        };
        let poetry_groups = chosen(keys(&["tool", "poetry", "group"]));
        let optional = |name: &String| {
            at(&["tool", "poetry", "group", name, "optional"]) == Some(&Value::Boolean(true))
        };
        Self {
            malformed: false,
            installable: table.contains_key("project") || table.contains_key("build-system"),
            groups: chosen(keys(&["dependency-groups"])).into_iter().map(group).collect(),
            poetry_groups: poetry_groups.into_iter().filter(optional).collect(),
            uses_poetry: at(&["tool", "poetry"]).is_some(),
            is_uv_workspace: at(&["tool", "uv", "workspace"]).is_some(),
            configures_pytest: at(&["tool", "pytest"]).is_some(),
            extras,
            installed_text,
        }
    }

    /// The arguments with which pip installs the project and what its tests need.
    pub(super) fn editable(&self) -> String {
        match self.extras.is_empty() {
            true => "-e .".to_owned(),
            false => format!("-e {}", quote(&format!(".[{}]", self.extras.join(",")))),
        }
    }
}

fn lookup<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(*key))
}

/// The names for tests, or else those for development.
fn chosen<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let among = |wanted: &[&str]| -> Vec<String> {
        let found = wanted.iter().filter(|name| names.contains(name));
        found.map(|name| (*name).to_owned()).collect()
    };
    let tests = among(&FOR_TESTS);
    if tests.is_empty() { among(&FOR_DEVELOPMENT) } else { tests }
}

/// Extras of setup.cfg's section, and those that setup.py names in quotes.
fn declared_extras(setup_py: &str, setup_cfg: &str) -> Vec<String> {
    let section = setup_cfg.split("[options.extras_require]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let keys = section.lines().filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned()));
    let mut names: Vec<String> = keys.collect();
    if let Some((_, after)) = setup_py.split_once("extras_require") {
        let known = FOR_TESTS.iter().chain(&FOR_DEVELOPMENT);
        let quoted = known.filter(|name| {
            after.contains(&format!("\"{name}\":")) || after.contains(&format!("'{name}':"))
        });
        names.extend(quoted.map(|name| (*name).to_owned()));
    }
    names
}
