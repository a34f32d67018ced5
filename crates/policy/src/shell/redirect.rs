//! Redirections: what is written, and what a command reads.

use brush_parser::ast::{IoFileRedirectKind, IoFileRedirectTarget, IoHereDocument, IoRedirect};

use super::environment::Value;
use super::field::Field;
use super::walk::Walker;
use super::writers::FoundFiles;
use super::{HiddenReason, WriteKind, documents};

/// The input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// The input of the whole command.
    Inherited,
    /// The output of another program.
    Pipe,
    /// One of these texts; `None` if that is unknown.
    Text(Option<Vec<String>>),
    File(Field),
    /// The names of files, one a line.
    Names(FoundFiles),
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
                IoRedirect::OutputAndError(word, _) => self.written(&word.value, false),
                IoRedirect::HereString(number, word) => {
                    let read = Input::Text(match self.scalar(&word.value) {
                        Value::OneOf(texts) => Some(texts),
                        Value::Unknown | Value::Array(_) | Value::Fields(_) => None,
                    });
                    if matches!(number, None | Some(0)) {
                        input = read;
                    }
                }
                IoRedirect::HereDocument(number, document) => {
                    if !follows_announcement(&self.source, document) {
                        self.hide(HiddenReason::Unreadable, "a here document");
                    }
                    let texts = self.document_texts(document);
                    if matches!(number, None | Some(0)) {
                        input = Input::Text(texts);
                    }
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

    /// The texts that a here document may be.
    pub(super) fn document_texts(&mut self, document: &IoHereDocument) -> Option<Vec<String>> {
        let text = &document.doc.value;
        let lifted = documents::number(text).and_then(|number| self.documents.get(number));
        let text = match lifted {
            Some(document) => document.text.clone()?,
            None if document.requires_expansion => return self.here_document(text).scalars(),
            None => text.clone(),
        };
        self.data(&text);
        self.spend(text.len()).then(|| vec![text])
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
            // Duplicated descriptors are not tracked.
            IoFileRedirectTarget::Duplicate(word) if reads => {
                self.word(&word.value);
                Some(Input::Pipe)
            }
            IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                if reads && !matches!(kind, IoFileRedirectKind::ReadAndWrite) {
                    let fields = self.word(&word.value).into_iter().next().unwrap_or_default();
                    return Some(fields.into_iter().next().map_or(Input::Pipe, Input::File));
                }
                let duplicates = matches!(target, IoFileRedirectTarget::Duplicate(_));
                self.written(&word.value, duplicates);
                reads.then_some(Input::Pipe)
            }
        }
    }

    /// A file that is written; behind `>&`, and only there, a number is a descriptor.
    fn written(&mut self, word: &str, duplicates: bool) {
        for fields in self.word(word) {
            let descriptor = |field: &Field| {
                duplicates
                    && field.known().is_some_and(|text| {
                        let number = text.strip_suffix('-').unwrap_or(&text);
                        number.bytes().all(|byte| byte.is_ascii_digit())
                    })
            };
            // Bash refuses several words here, other shells do not split them.
            if fields.len() > 1 {
                self.wrote(Field::unknown(), WriteKind::Change, ">");
            }
            for field in fields.into_iter().filter(|field| !descriptor(field)) {
                self.wrote(field, WriteKind::Change, ">");
            }
        }
    }
}

/// Whether the text of a here document really follows the line that announces it. The parser gets confused by `((`
/// in a substitution, and two documents on one line are not supported.
fn follows_announcement(source: &str, document: &IoHereDocument) -> bool {
    let delimiter = &document.here_end.value;
    let tag: String = delimiter.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let pending = source.match_indices("<<").filter_map(|(at, _)| {
        let behind = source.get(at + 2..)?;
        let behind = behind.strip_prefix('-').unwrap_or(behind).trim_start_matches([' ', '\t']);
        behind.strip_prefix(delimiter.as_str())
    });
    let body = |rest: &str| {
        let (_, below) = rest.split_once('\n')?;
        below.strip_prefix(document.doc.value.as_str()).map(str::to_owned)
    };
    let mut ends = pending.filter_map(body);
    let line = |end: &String| {
        let line = end.lines().next().unwrap_or_default();
        let line = if document.remove_tabs { line.trim_start_matches('\t') } else { line };
        line == tag
    };
    ends.any(|end| line(&end))
}
