//! Words to fields: quoting, variables, arrays, substitutions.
//!
//! Every expansion gives alternatives: lists of fields, one of which the shell will see.

use brush_parser::word::{
    Parameter, ParameterExpr, ParameterTestType, ParameterTransformOp, SpecialParameter, TildeExpr,
    WordPiece,
};

use super::environment::Value;
use super::field::{Field, FieldBuilder, Piece};
use super::walk::Walker;
use super::{HiddenReason, ansi_c, parse};

/// More alternatives than this are as good as unknown.
const MAX_COUNT: usize = 16;

/// How a word is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// Split at blanks; patterns are patterns.
    Unquoted,
    /// One piece, as it is.
    Quoted,
}

impl Walker {
    /// The fields that a word of a command may stand for.
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
            let pieces = match behind_equals(&word) {
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

    /// The field that a word stands for if nothing in it is expanded.
    fn plain_word(&mut self, word: &str) -> Option<Field> {
        let text = plainly(word).filter(|_| !word.is_empty())?;
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

    /// The texts that a word may stand for where it is not split: in an assignment, behind `<<<`.
    pub(super) fn scalar(&mut self, word: &str) -> Value {
        if let Some(text) = plainly(word)
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
        // Words inside of words are looked at more than once.
        if !self.spend(text.len() + 100) {
            return vec![vec![Field::unknown_many()]];
        }
        let mut growing = vec![FieldBuilder::default()];
        let mut lost = false;
        for piece in &pieces {
            growing = self.piece(growing, piece, quoting);
            if growing.len() > MAX_COUNT {
                // What the rest of it runs is still to be seen.
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

    /// All of the texts, each a field of its own.
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

    fn parameter(
        &mut self,
        growing: Vec<FieldBuilder>,
        expression: &ParameterExpr,
        quoting: Quoting,
    ) -> Vec<FieldBuilder> {
        if let Some((_, true)) = parameter_of(expression) {
            self.evaluates("${!…}");
        }
        if let ParameterExpr::Parameter { parameter, indirect: false } = expression {
            return self.plain(growing, parameter, quoting);
        }
        if let ParameterExpr::UseDefaultValues {
            parameter, indirect: false, default_value, ..
        }
        | ParameterExpr::AssignDefaultValues {
            parameter,
            indirect: false,
            default_value,
            ..
        } = expression
        {
            let given = self.value(parameter);
            // `:-` also stands in for what is empty.
            let or_empty = matches!(
                expression,
                ParameterExpr::UseDefaultValues { test_type: ParameterTestType::UnsetOrNull, .. }
                    | ParameterExpr::AssignDefaultValues {
                        test_type: ParameterTestType::UnsetOrNull,
                        ..
                    }
            );
            let default = self.default(default_value.as_deref().unwrap_or_default(), quoting);
            let given = match parameter {
                Parameter::Named(name) if self.is_for(name, &default) => default.clone(),
                Parameter::Named(_)
                | Parameter::NamedWithIndex { .. }
                | Parameter::NamedWithAllIndices { .. }
                | Parameter::Positional(_)
                | Parameter::Special(_) => given,
            };
            let both = given.possible().zip(default.possible());
            let values = both.map(|(mut given, default)| {
                given
                    .retain(|value| !or_empty || value.known().is_none_or(|text| !text.is_empty()));
                [given, default].concat()
            });
            let assigns = matches!(expression, ParameterExpr::AssignDefaultValues { .. });
            match parameter {
                Parameter::Named(name) if assigns => {
                    self.is_set(name);
                    let value = values.clone().map_or(Value::Unknown, Value::fields);
                    self.environment.set(name, value);
                }
                Parameter::NamedWithIndex { name, .. }
                | Parameter::NamedWithAllIndices { name, .. }
                    if assigns =>
                {
                    self.environment.forget(name);
                }
                Parameter::Named(_)
                | Parameter::NamedWithIndex { .. }
                | Parameter::NamedWithAllIndices { .. }
                | Parameter::Positional(_)
                | Parameter::Special(_) => {}
            }
            return self.values(growing, values, quoting);
        }
        // For what its subscript runs.
        if let Some((parameter, _)) = parameter_of(expression) {
            let _ = self.value(parameter);
        }
        if let ParameterExpr::UseAlternativeValue { indirect: false, alternative_value, .. } =
            expression
        {
            let value = self.default(alternative_value.as_deref().unwrap_or_default(), quoting);
            let none = Field::text("");
            let values = value.possible().map(|values| [values, vec![none]].concat());
            return self.values(growing, values, quoting);
        }
        if let ParameterExpr::Transform { op: ParameterTransformOp::PromptExpand, .. } = expression
        {
            self.hide(HiddenReason::RunsText, "${…@P}");
        }
        if let ParameterExpr::Substring { .. } | ParameterExpr::Parameter { .. } = expression {
            self.evaluates("an expansion");
        }
        for text in inner_texts(expression) {
            self.substitutions_in(&text);
        }
        let trimmed = self.trimmed(expression);
        self.values(growing, trimmed, quoting)
    }

    /// Whether a variable that the command leaves alone is the usual one for this program, as in
    /// `${CARGO:-cargo}`: what people set it to is another path to the same.
    fn is_for(&self, name: &str, default: &Value) -> bool {
        let program = default.scalars().and_then(|texts| match texts.as_slice() {
            [text] => Some(text.rsplit('/').next().unwrap_or(text).to_owned()),
            _ => None,
        });
        let Some(program) = program else { return false };
        let usual = match name {
            "CC" => matches!(program.as_str(), "cc" | "gcc" | "clang"),
            "CXX" => matches!(program.as_str(), "c++" | "g++" | "clang++"),
            _ => {
                let own = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
                own.to_ascii_uppercase() == name
            }
        };
        usual && name != "GIT" && self.environment.is_untouched(name)
    }

    /// The word inside of an expansion. In double quotes and here documents its single quotes are
    /// plain characters, so that what is between them is expanded as well.
    fn default(&mut self, word: &str, quoting: Quoting) -> Value {
        let value = self.scalar(word);
        if quoting == Quoting::Unquoted || !word.contains('\'') {
            return value;
        }
        self.substitutions_in(word);
        Value::Unknown
    }

    fn plain(
        &mut self,
        growing: Vec<FieldBuilder>,
        parameter: &Parameter,
        quoting: Quoting,
    ) -> Vec<FieldBuilder> {
        match parameter {
            Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate }) => {
                let texts = self.environment.positional.clone();
                match (concatenate, quoting) {
                    (true, Quoting::Quoted) => {
                        let joined = texts.filter(|_| !self.environment.odd_splitting);
                        self.texts(growing, joined.map(|texts| vec![texts.join(" ")]), quoting)
                    }
                    _ => self.fields(growing, texts, quoting),
                }
            }
            Parameter::NamedWithAllIndices { name, concatenate } => {
                let texts = match self.environment.get(name) {
                    Value::Array(texts) => Some(texts),
                    // It may have been an array, of which only the first element was set again.
                    Value::OneOf(_) | Value::Unknown | Value::Fields(_) => None,
                };
                match (concatenate, quoting) {
                    (true, Quoting::Quoted) => {
                        let joined = texts.filter(|_| !self.environment.odd_splitting);
                        self.texts(growing, joined.map(|texts| vec![texts.join(" ")]), quoting)
                    }
                    _ => self.fields(growing, texts, quoting),
                }
            }
            Parameter::Positional(_)
            | Parameter::Special(_)
            | Parameter::Named(_)
            | Parameter::NamedWithIndex { .. } => {
                let values = self.value(parameter).possible();
                self.values(growing, values, quoting)
            }
        }
    }

    pub(super) fn value(&mut self, parameter: &Parameter) -> Value {
        match parameter {
            Parameter::Named(name) => self.named(name),
            Parameter::Positional(number) => {
                let index = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
                match (&self.environment.positional, index) {
                    (Some(texts), Some(index)) => {
                        Value::text(texts.get(index).cloned().unwrap_or_default())
                    }
                    _ => Value::Unknown,
                }
            }
            Parameter::NamedWithIndex { name, index } => {
                self.substitutions_in(index);
                if index.parse::<usize>().is_err() {
                    self.evaluates(index);
                }
                match (self.environment.get(name), index.parse::<usize>()) {
                    (Value::Array(texts), Ok(index)) => {
                        Value::text(texts.get(index).cloned().unwrap_or_default())
                    }
                    (value @ Value::OneOf(_), Ok(0)) => value,
                    _ => Value::Unknown,
                }
            }
            // Numbers, in every case.
            Parameter::Special(
                SpecialParameter::ProcessId
                | SpecialParameter::LastExitStatus
                | SpecialParameter::PositionalParameterCount,
            ) => Value::fields(vec![Field::of(vec![Piece::Name])]),
            Parameter::Special(_) | Parameter::NamedWithAllIndices { .. } => Value::Unknown,
        }
    }

    /// Whatever a text that is not otherwise followed may run by substitution.
    pub(super) fn substitutions_in(&mut self, text: &str) {
        if text.contains("$(") || text.contains('`') || text.contains("${") {
            // With its quotes as they are, and with everything in them taken for what is expanded.
            if text.contains(['"', '\'', '\\']) && parse::word(text).is_some() {
                let _ = self.scalar(text);
            }
            let quoted = format!("\"{}\"", text.replace('"', "\\\""));
            let _ = self.scalar(&quoted);
        }
    }
}

/// The text that a word stands for if nothing in it is expanded: plain characters, or one pair of quotes around
/// all of it.
fn plainly(word: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:,@%+".contains(&byte);
    if word.bytes().all(plain) {
        return Some(word);
    }
    let single = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let double = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let double = double.filter(|text| !text.contains(['"', '$', '`', '\\']));
    single.filter(|text| !text.contains('\'')).or(double)
}

/// `name=~/file`: a tilde behind the `=` of what looks like an assignment stands for a directory.
fn behind_equals(word: &str) -> Option<(&str, &str)> {
    let at = word.find('=')?;
    let (name, value) = word.split_at(at + 1);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '=';
    let named = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
    (named && value.starts_with('~')).then_some((name, value))
}

/// `$@` and `${array[@]}` in double quotes are no argument at all when they are empty.
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

/// Every list of the first behind which stands every list of the second.
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
        return product(starts, vec![either(&ends)]);
    }
    let with = |start: &Vec<Field>| {
        ends.iter().map(|end| [start.clone(), end.clone()].concat()).collect::<Vec<_>>()
    };
    starts.iter().flat_map(with).collect()
}

/// What all of these lists have in common.
fn either(lists: &[Vec<Field>]) -> Vec<Field> {
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

/// What is expanded, and whether its value names what is really expanded.
fn parameter_of(expression: &ParameterExpr) -> Option<(&Parameter, bool)> {
    match expression {
        ParameterExpr::Parameter { parameter, indirect }
        | ParameterExpr::UseDefaultValues { parameter, indirect, .. }
        | ParameterExpr::AssignDefaultValues { parameter, indirect, .. }
        | ParameterExpr::IndicateErrorIfNullOrUnset { parameter, indirect, .. }
        | ParameterExpr::UseAlternativeValue { parameter, indirect, .. }
        | ParameterExpr::ParameterLength { parameter, indirect }
        | ParameterExpr::RemoveSmallestSuffixPattern { parameter, indirect, .. }
        | ParameterExpr::RemoveLargestSuffixPattern { parameter, indirect, .. }
        | ParameterExpr::RemoveSmallestPrefixPattern { parameter, indirect, .. }
        | ParameterExpr::RemoveLargestPrefixPattern { parameter, indirect, .. }
        | ParameterExpr::Substring { parameter, indirect, .. }
        | ParameterExpr::Transform { parameter, indirect, .. }
        | ParameterExpr::UppercaseFirstChar { parameter, indirect, .. }
        | ParameterExpr::UppercasePattern { parameter, indirect, .. }
        | ParameterExpr::LowercaseFirstChar { parameter, indirect, .. }
        | ParameterExpr::LowercasePattern { parameter, indirect, .. }
        | ParameterExpr::ReplaceSubstring { parameter, indirect, .. } => {
            Some((parameter, *indirect))
        }
        ParameterExpr::VariableNames { .. } | ParameterExpr::MemberKeys { .. } => None,
    }
}

/// The texts inside an expansion that the shell expands as well.
fn inner_texts(expression: &ParameterExpr) -> Vec<String> {
    let mut texts = Vec::new();
    let mut add = |text: &Option<String>| texts.extend(text.clone());
    match expression {
        ParameterExpr::UseDefaultValues { default_value: text, .. }
        | ParameterExpr::AssignDefaultValues { default_value: text, .. }
        | ParameterExpr::IndicateErrorIfNullOrUnset { error_message: text, .. }
        | ParameterExpr::UseAlternativeValue { alternative_value: text, .. }
        | ParameterExpr::RemoveSmallestSuffixPattern { pattern: text, .. }
        | ParameterExpr::RemoveLargestSuffixPattern { pattern: text, .. }
        | ParameterExpr::RemoveSmallestPrefixPattern { pattern: text, .. }
        | ParameterExpr::RemoveLargestPrefixPattern { pattern: text, .. }
        | ParameterExpr::UppercaseFirstChar { pattern: text, .. }
        | ParameterExpr::UppercasePattern { pattern: text, .. }
        | ParameterExpr::LowercaseFirstChar { pattern: text, .. }
        | ParameterExpr::LowercasePattern { pattern: text, .. } => add(text),
        ParameterExpr::Substring { offset, length, .. } => {
            add(&Some(offset.value.clone()));
            add(&length.as_ref().map(|length| length.value.clone()));
        }
        ParameterExpr::ReplaceSubstring { pattern, replacement, .. } => {
            add(&Some(pattern.clone()));
            add(replacement);
        }
        ParameterExpr::Parameter { .. }
        | ParameterExpr::ParameterLength { .. }
        | ParameterExpr::Transform { .. }
        | ParameterExpr::VariableNames { .. }
        | ParameterExpr::MemberKeys { .. } => {}
    }
    texts
}
