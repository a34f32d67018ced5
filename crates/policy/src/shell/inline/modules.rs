//! `python -m module`: modules that run text, write files, or are tools of their own.

use super::code;
use super::configured::configured;
use super::languages::PYTHON;
use crate::shell::field::Field;
use crate::shell::walk::Walker;
use crate::shell::{HiddenReason, WriteKind};

/// Notes what a module does with its arguments.
pub(super) fn analyse(walker: &mut Walker, module: &str, arguments: &[Field]) {
    let operands: Vec<&Field> =
        arguments.iter().filter(|field| !field.to_string().starts_with('-')).collect();
    let has = |options: &[&str]| {
        arguments
            .iter()
            .any(|field| field.known().is_some_and(|text| options.contains(&text.as_str())))
    };
    let all = |walker: &mut Walker, kind: WriteKind| {
        for field in &operands {
            walker.wrote((*field).clone(), kind, module);
        }
    };
    match module {
        "timeit" => timed(walker, arguments),
        "venv" | "virtualenv" => all(walker, WriteKind::WriteBelow),
        // Compiled files are written beside their sources.
        "compileall" => all(walker, WriteKind::WriteBelow),
        "zipfile" | "tarfile" => {
            if has(&["-c", "--create"]) {
                if let Some(file) = operands.first() {
                    walker.wrote((*file).clone(), WriteKind::Change, module);
                }
            } else if has(&["-e", "--extract"]) {
                let here = Field::text(".");
                let place = operands.get(1).map_or(here, |place| (*place).clone());
                walker.wrote(place, WriteKind::WriteBelow, module);
            }
        }
        "json.tool" => {
            if let Some(file) = operands.get(1) {
                walker.wrote((*file).clone(), WriteKind::Change, module);
            }
        }
        "pytest" | "pip" | "tox" | "nox" => configured(walker, module, arguments),
        _ => {}
    }
}

/// `python -m timeit -s setup statement`: all of it is code, but for the values of a few options.
fn timed(walker: &mut Walker, arguments: &[Field]) {
    let mut lines = Vec::new();
    let mut rest = arguments.iter();
    while let Some(field) = rest.next() {
        match field.known() {
            Some(text) if matches!(text.as_str(), "-n" | "-r" | "-u") => {
                rest.next();
            }
            Some(text) if matches!(text.as_str(), "-s" | "-p" | "-c" | "-v" | "--") => {}
            Some(text) => lines.push(text.strip_prefix("--setup=").unwrap_or(&text).to_owned()),
            None => return walker.hide(HiddenReason::ComputedText, "timeit"),
        }
    }
    code::analyse(walker, &PYTHON, &lines.join("\n"));
}
