//! Context bundles: redaction, limits and assembly.

mod assembly;
mod label_rules;
mod redaction;
