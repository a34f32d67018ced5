//! Redirections: what is written, and what a command reads.

use brush_parser::ast::{IoFileRedirectKind, IoFileRedirectTarget, IoRedirect};

use super::environment::Value;
use super::field::Field;
use super::walk::Walker;

/// What a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Whatever the whole command reads.
    Inherited,
    /// What another program prints.
    Pipe,
    /// One of these texts; nothing if that is unknown.
    Text(Option<Vec<String>>),
    /// A file.
    File(Field),
}

impl Walker {
    /// Follows redirections; what the command reads then.
    pub(super) fn redirects<'a>(
        &mut self,
        redirects: impl IntoIterator<Item = &'a IoRedirect>,
        input: Input,
    ) -> Input {
        let mut input = input;
        for redirect in redirects {
            match redirect {
                IoRedirect::OutputAndError(word, _) => self.written(&word.value),
                IoRedirect::HereString(_, word) => {
                    input = Input::Text(match self.scalar(&word.value) {
                        Value::OneOf(texts) => Some(texts),
                        Value::Unknown | Value::Array(_) => None,
                    });
                }
                IoRedirect::HereDocument(_, document) => {
                    let text = &document.doc.value;
                    let texts = if document.requires_expansion {
                        self.here_document(text).scalars()
                    } else {
                        Some(vec![text.clone()])
                    };
                    input = Input::Text(texts);
                }
                IoRedirect::File(number, kind, target) => {
                    let reads = self.file(kind, target);
                    if let Some(read) = reads.filter(|_| matches!(number, None | Some(0))) {
                        input = read;
                    }
                }
            }
        }
        input
    }

    fn file(&mut self, kind: &IoFileRedirectKind, target: &IoFileRedirectTarget) -> Option<Input> {
        let reads = matches!(
            kind,
            IoFileRedirectKind::Read
                | IoFileRedirectKind::ReadAndWrite
                | IoFileRedirectKind::DuplicateInput
        );
        match target {
            IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                self.aside(&subshell.list);
                reads.then_some(Input::Pipe)
            }
            IoFileRedirectTarget::Fd(_) => reads.then_some(Input::Pipe),
            IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                if reads && !matches!(kind, IoFileRedirectKind::ReadAndWrite) {
                    let fields = self.word(&word.value).into_iter().next().unwrap_or_default();
                    return Some(fields.into_iter().next().map_or(Input::Pipe, Input::File));
                }
                self.written(&word.value);
                reads.then_some(Input::Pipe)
            }
        }
    }

    fn written(&mut self, word: &str) {
        for fields in self.word(word) {
            let descriptor = |field: &Field| {
                field.known().is_some_and(|text| {
                    text == "-" || text.trim_end_matches('-').bytes().all(|b| b.is_ascii_digit())
                })
            };
            let written = fields.into_iter().filter(|field| !descriptor(field));
            self.reading.writes.extend(written);
        }
    }
}
