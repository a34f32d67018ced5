//! Checks that each manifest can be assembled. Embedded ones are skipped, because a repository may have other roles
//! under the same names.

use bailiwick_model::Problem;

use crate::kit::Kit;
use crate::layer::Origin;
use crate::manifest::{Program, assemble, find, names};

/// The problems of the manifests of a kit.
pub(super) fn check(kit: &Kit) -> Vec<Problem> {
    let names = match names(kit) {
        Ok(names) => names,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    for name in names {
        match find(kit, &name) {
            Ok(Some(found)) if found.origin != Origin::Embedded => {
                match assemble(kit, &found.manifest, Program::Claude) {
                    Ok(file) => problems.extend(file.warnings),
                    Err(more) => problems.extend(more),
                }
            }
            Ok(Some(_) | None) => {}
            Err(more) => problems.extend(more),
        }
    }
    problems
}
