//! Words to fields: quoting, variables, arrays, substitutions.
//!
//! Every expansion has alternatives: lists of fields, of which the shell will see one.

mod parameters;

use brush_parser::word::{Parameter, ParameterExpr, SpecialParameter, TildeExpr, WordPiece};

use super::environment::Value;
use super::field::{Field, FieldBuilder, Piece};
use super::walk::Walker;
use super::{HiddenReason, ansi_c, parse};

/// More alternatives than this count as unknown.
const MAX_COUNT: usize = 16;

/// How a word is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// Split at blanks; patterns are patterns.
    Unquoted,
    /// One unchanged piece.
    Quoted,
}

impl Walker {
    /// The fields that a word of a command may expand to.
    pub(super) fn word(&mut self, word: &str) -> Vec<Vec<Field>> {
        if let Some(field) = self.plain_word(word) {
            // More words are put behind the first.
            let mut fields = Vec::with_capacity(4);
            fields.push(field);
            return vec![fields];
        }
        let Some(words) = parse::braces(word) else {
            let _ = self.scalar(word);
            return vec![vec![Field::unknown_many()]];
        };
        let mut all = vec![Vec::new()];
        for word in words {
            let pieces = match split_tilde_value(&word) {
                Some((name, value)) => parse::word(value).map(|pieces| {
                    std::iter::once(WordPiece::Text(name.to_owned())).chain(pieces).collect()
                }),
                None => parse::word(&word),
            };
            let ends = self.pieces(pieces, &word, Quoting::Unquoted);
            all = product(all, ends);
        }
        all
    }

    /// The field of a word in which nothing is expanded.
    fn plain_word(&mut self, word: &str) -> Option<Field> {
        let text = literal_text(word).filter(|_| !word.is_empty())?;
        self.spend(word.len()).then(|| {
            // Without quotes it has no character that could run something.
            if text.len() < word.len() {
                self.data(text);
            }
            Field::text(text)
        })
    }

    /// Puts the fields of another word behind those of a command.
    pub(super) fn append_word(
        &mut self,
        mut alternatives: Vec<Vec<Field>>,
        word: &str,
    ) -> Vec<Vec<Field>> {
        if let [only] = alternatives.as_mut_slice()
            && let Some(field) = self.plain_word(word)
        {
            only.push(field);
            return alternatives;
        }
        let more = self.word(word);
        product(alternatives, more)
    }

    /// The possible texts of a word that is not split: in an assignment, behind `<<<`.
    pub(super) fn scalar(&mut self, word: &str) -> Value {
        if let Some(text) = literal_text(word)
            && self.spend(word.len())
        {
            self.data(text);
            return Value::one_of(vec![text.to_owned()]);
        }
        let pieces = parse::word(word);
        self.one(pieces, word)
    }

    pub(super) fn here_document(&mut self, text: &str) -> Value {
        let pieces = parse::here_document(text);
        self.one(pieces, text)
    }

    fn one(&mut self, pieces: Option<Vec<WordPiece>>, text: &str) -> Value {
        let alternatives = self.pieces(pieces, text, Quoting::Quoted);
        let single = |fields: &Vec<Field>| match fields.as_slice() {
            [] => Some(Field::text("")),
            [field] => Some(field.clone()),
            _ => None,
        };
        alternatives
            .iter()
            .map(single)
            .collect::<Option<Vec<Field>>>()
            .map_or(Value::Unknown, Value::fields)
    }

    fn pieces(
        &mut self,
        pieces: Option<Vec<WordPiece>>,
        text: &str,
        quoting: Quoting,
    ) -> Vec<Vec<Field>> {
        let Some(pieces) = pieces else {
            self.hide(HiddenReason::Unreadable, text);
            return vec![vec![Field::unknown_many()]];
        };
        // Words inside words are read more than once.
        if !self.spend(text.len() + 100) {
            return vec![vec![Field::unknown_many()]];
        }
        let mut growing = vec![FieldBuilder::default()];
        let mut lost = false;
        for piece in &pieces {
            growing = self.piece(growing, piece, quoting);
            if growing.len() > MAX_COUNT {
                // The rest may still run something.
                lost = true;
                growing = vec![FieldBuilder::default()];
            }
        }
        if lost {
            return vec![vec![Field::unknown_many()]];
        }
        let alternatives: Vec<Vec<Field>> = growing.into_iter().map(FieldBuilder::finish).collect();
        for field in alternatives.iter().flatten() {
            self.data(&field.to_string());
        }
        alternatives
    }

    fn piece(
        &mut self,
        growing: Vec<FieldBuilder>,
        piece: &WordPiece,
        quoting: Quoting,
    ) -> Vec<FieldBuilder> {
        match piece {
            WordPiece::Text(text) => each(growing, |one| match quoting {
                Quoting::Unquoted => one.unquoted(text),
                Quoting::Quoted => one.quoted(text),
            }),
            WordPiece::SingleQuotedText(text) => each(growing, |one| one.quoted(text)),
            WordPiece::AnsiCQuotedText(text) => match ansi_c::decode(text) {
                Some(text) => each(growing, |one| one.quoted(&text)),
                None => each(growing, FieldBuilder::unknown),
            },
            WordPiece::DoubleQuotedSequence(inner)
            | WordPiece::GettextDoubleQuotedSequence(inner) => {
                let mut growing = growing;
                if !inner.iter().any(|piece| is_all_positional(&piece.piece)) {
                    growing = each(growing, |one| one.quoted(""));
                }
                for piece in inner {
                    growing = self.piece(growing, &piece.piece, Quoting::Quoted);
                }
                growing
            }
            WordPiece::EscapeSequence(text) => {
                let text = text.strip_prefix('\\').unwrap_or(text);
                each(growing, |one| one.quoted(text))
            }
            WordPiece::TildeExpansion(tilde) => {
                let home = match tilde {
                    TildeExpr::Home => self.home(None),
                    TildeExpr::UserHome(user) => self.home(Some(user)),
                    TildeExpr::WorkingDir => self.pwd(),
                    TildeExpr::OldWorkingDir
                    | TildeExpr::NthDirFromTopOfDirStack { .. }
                    | TildeExpr::NthDirFromBottomOfDirStack { .. } => Field::unknown(),
                };
                each(growing, |one| one.value(&home))
            }
            WordPiece::CommandSubstitution(text)
            | WordPiece::BackquotedCommandSubstitution(text) => {
                self.substitution(text);
                let printed = self.printed(text).map(|field| vec![field]);
                self.values(growing, printed, quoting)
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.arithmetic(&expression.value);
                each(growing, |one| one.value(&Field::of(vec![Piece::Name])))
            }
            WordPiece::ParameterExpansion(expression) => {
                self.parameter(growing, expression, quoting)
            }
        }
    }

    fn unknown(&self, growing: Vec<FieldBuilder>, quoting: Quoting) -> Vec<FieldBuilder> {
        each(growing, |one| match quoting {
            Quoting::Unquoted => one.unknown_many(),
            Quoting::Quoted => one.unknown(),
        })
    }

    /// One of the texts, split or not; unknown if they are unknown.
    fn texts(
        &self,
        growing: Vec<FieldBuilder>,
        texts: Option<Vec<String>>,
        quoting: Quoting,
    ) -> Vec<FieldBuilder> {
        let values = texts.map(|texts| texts.into_iter().map(Field::text).collect());
        self.values(growing, values, quoting)
    }

    /// One of the values, split or not; unknown if they are unknown.
    fn values(
        &self,
        growing: Vec<FieldBuilder>,
        values: Option<Vec<Field>>,
        quoting: Quoting,
    ) -> Vec<FieldBuilder> {
        let Some(values) = values else { return self.unknown(growing, quoting) };
        if quoting == Quoting::Unquoted && self.environment.odd_splitting {
            return self.unknown(growing, quoting);
        }
        let with = |one: &FieldBuilder| {
            let grow = |value: &Field| {
                let mut one = one.clone();
                match quoting {
                    Quoting::Unquoted => one.split_value(value),
                    Quoting::Quoted => one.value(value),
                }
                one
            };
            values.iter().map(grow).collect::<Vec<_>>()
        };
        growing.iter().flat_map(with).collect()
    }

    /// All texts, as separate fields.
    fn fields(
        &self,
        growing: Vec<FieldBuilder>,
        texts: Option<Vec<String>>,
        quoting: Quoting,
    ) -> Vec<FieldBuilder> {
        let Some(texts) = texts else { return each(growing, FieldBuilder::unknown_many) };
        if quoting == Quoting::Unquoted && self.environment.odd_splitting {
            return each(growing, FieldBuilder::unknown_many);
        }
        each(growing, |one| {
            for (index, text) in texts.iter().enumerate() {
                if index > 0 {
                    one.end();
                }
                match quoting {
                    Quoting::Unquoted => one.split(text),
                    Quoting::Quoted => one.quoted(text),
                }
            }
        })
    }

    /// Reads the substitutions of a text that is not analysed otherwise.
    pub(super) fn substitutions_in(&mut self, text: &str) {
        if text.contains("$(") || text.contains('`') || text.contains("${") {
            // Once with its quotes as they are, and once as if everything in them were expanded.
            if text.contains(['"', '\'', '\\']) && parse::word(text).is_some() {
                let _ = self.scalar(text);
            }
            let quoted = format!("\"{}\"", text.replace('"', "\\\""));
            let _ = self.scalar(&quoted);
        }
    }
}

/// The text of a word in which nothing is expanded: plain characters, or one pair of quotes around all of it.
fn literal_text(word: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:,@%+".contains(&byte);
    if word.bytes().all(plain) {
        return Some(word);
    }
    let single = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let double = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let double = double.filter(|text| !text.contains(['"', '$', '`', '\\']));
    single.filter(|text| !text.contains('\'')).or(double)
}

/// Splits `name=~/file`: the shell expands a tilde behind the `=` of what looks like an assignment.
fn split_tilde_value(word: &str) -> Option<(&str, &str)> {
    let at = word.find('=')?;
    let (name, value) = word.split_at(at + 1);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '=';
    let named = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
    (named && value.starts_with('~')).then_some((name, value))
}

/// Whether a piece is `$@` or `${array[@]}`: in double quotes, they are no argument if they are empty.
fn is_all_positional(piece: &WordPiece) -> bool {
    matches!(
        piece,
        WordPiece::ParameterExpansion(ParameterExpr::Parameter {
            parameter: Parameter::Special(SpecialParameter::AllPositionalParameters { .. })
                | Parameter::NamedWithAllIndices { .. },
            ..
        })
    )
}

fn each(mut growing: Vec<FieldBuilder>, grow: impl Fn(&mut FieldBuilder)) -> Vec<FieldBuilder> {
    growing.iter_mut().for_each(grow);
    growing
}

/// All combinations of a list of the first and a list of the second.
pub(super) fn product(starts: Vec<Vec<Field>>, ends: Vec<Vec<Field>>) -> Vec<Vec<Field>> {
    let mut starts = starts;
    let mut ends = ends;
    if let ([start], [end]) = (starts.as_mut_slice(), ends.as_mut_slice()) {
        start.append(end);
        return starts;
    }
    if let [end] = ends.as_slice() {
        starts.iter_mut().for_each(|start| start.extend(end.iter().cloned()));
        return starts;
    }
    if starts.len() * ends.len() > MAX_COUNT {
        return product(starts, vec![common_part(&ends)]);
    }
    let with = |start: &Vec<Field>| {
        ends.iter().map(|end| [start.clone(), end.clone()].concat()).collect::<Vec<_>>()
    };
    starts.iter().flat_map(with).collect()
}

/// The common part of these lists.
fn common_part(lists: &[Vec<Field>]) -> Vec<Field> {
    let Some((first, others)) = lists.split_first() else { return Vec::new() };
    if others.iter().any(|other| other.len() != first.len()) {
        return vec![Field::unknown_many()];
    }
    let common = |(index, field): (usize, &Field)| {
        let same = others.iter().all(|other| other.get(index) == Some(field));
        if same { field.clone() } else { Field::unknown() }
    };
    first.iter().enumerate().map(common).collect()
}
