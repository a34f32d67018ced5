//! Reads an agent's report (Markdown in many styles): its fields, claims and findings.

pub(crate) mod claims;
pub(crate) mod fields;
pub(crate) mod findings;
pub(crate) mod grades;
pub(crate) mod line_delta;
pub(crate) mod lines;
pub(crate) mod touched;

#[cfg(test)]
mod tests;
