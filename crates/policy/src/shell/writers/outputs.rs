//! Output options with a file or directory, of any program: `--junitxml=x`, `--outfile x`.

use bailiwick_model::well_known::is_build_output;

use super::super::WriteKind;
use super::super::field::Field;
use super::super::walk::Walker;
use super::options::named_values;
use crate::word_list::words;

const FILES: &[&str] = words!(
    "--output --output-file --out --out-file --outfile --outFile --junitxml --junit-xml \
    --report-file --log-file --resultlog --write-out-file --save-to --dump-to"
);
const DIRECTORIES: &[&str] =
    words!("--out-dir --outdir --outDir --output-dir --output-directory --report-dir");

/// Notes what such options name. What looks like no file is a format: `--output json`.
pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) {
    for (options, kind) in [(FILES, WriteKind::Change), (DIRECTORIES, WriteKind::WriteBelow)] {
        for option in options {
            let attached = format!("{option}=");
            for value in named_values(arguments, &[option, attached.as_str()]) {
                let path = value.to_string();
                let file = kind == WriteKind::WriteBelow || path.contains(['/', '.']);
                if file && !is_build_output(&path) && path != "-" {
                    walker.wrote(value, kind, name);
                }
            }
        }
    }
}
