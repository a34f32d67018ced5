//! The reason for an action: asked for at a terminal, and never made up.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::output::Format;
use crate::view::forget_typed;

/// The given reason, or the answer to a prompt; none if there is none.
pub fn or_ask(given: Option<String>, question: &str, format: Format) -> Option<String> {
    let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let reason = match given {
        None if somebody && format == Format::Human => ask(question),
        given => given,
    };
    reason.filter(|text| !text.trim().is_empty())
}

fn ask(question: &str) -> Option<String> {
    forget_typed(&std::io::stdin());
    let _ = write!(anstream::stderr(), "{question} (Enter: no reason) ");
    let mut said = String::new();
    std::io::stdin().lock().read_line(&mut said).ok()?;
    Some(said.trim().to_owned())
}
