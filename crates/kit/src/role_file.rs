//! Reading one role's file.

use bailiwick_model::{Problem, Role, RoleName, Source, toml_file};

use crate::capability_file::bad_pattern;
use crate::layer::Layer;

/// Reads and checks the role `name` from its file.
pub(crate) fn read(name: &RoleName, source: &Source) -> Result<Role, Vec<Problem>> {
    let role: Role = toml_file::parse_all(source)?;
    let mut problems = Vec::new();
    let written = &role.role.name;
    if written.get_ref() != name {
        let message = format!("the name is `{}`, but the file says `{name}`", written.get_ref());
        problems.push(
            Problem::error("name-mismatch", source.at(written.span()), message)
                .help(format!("write name = \"{name}\", or rename the file")),
        );
    }
    for pattern in role.tools.iter().flat_map(|tools| &tools.bash_patterns_allowed) {
        problems.extend(bad_pattern(pattern.get_ref(), source.at(pattern.span())));
    }
    for tool in role.tools.iter().flat_map(|tools| tools.allowed.iter().chain(&tools.ask)) {
        if tool.get_ref().trim().is_empty() {
            let place = source.at(tool.span());
            problems.push(Problem::error("bad-tool", place, "an empty text names no tool"));
        }
    }
    if problems.is_empty() { Ok(role) } else { Err(problems) }
}

/// The roles that a layer has, and its files that cannot be one.
pub(crate) fn names(layer: &Layer) -> Result<(Vec<RoleName>, Vec<Problem>), Vec<Problem>> {
    let root = layer.layout.roles();
    let (mut names, mut problems) = (Vec::new(), Vec::new());
    for file in layer.list(root)? {
        let Some(stem) = file.strip_suffix(".toml") else {
            continue;
        };
        match RoleName::parse(stem) {
            Ok(name) => names.push(name),
            Err(error) => {
                let place = Source::new(layer.shown(&format!("{root}/{file}")), "").whole();
                problems.push(Problem::error("bad-name", place, error.to_string()));
            }
        }
    }
    Ok((names, problems))
}
