//! Context bundles: what is taken out, what is cut, what stays.

mod assembly;
mod label_rules;
mod redaction;
