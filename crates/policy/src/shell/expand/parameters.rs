//! Expansion of parameters: `$name`, `${name:-word}` and the like.

use brush_parser::word::{
    Parameter, ParameterExpr, ParameterTestType, ParameterTransformOp, SpecialParameter,
};

use super::Quoting;
use crate::shell::HiddenReason;
use crate::shell::environment::Value;
use crate::shell::field::{Field, FieldBuilder, Piece};
use crate::shell::walk::Walker;

impl Walker {
    pub(super) fn parameter(
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
            let current = self.value(parameter);
            // `:-` also replaces an empty value.
            let or_empty = matches!(
                expression,
                ParameterExpr::UseDefaultValues { test_type: ParameterTestType::UnsetOrNull, .. }
                    | ParameterExpr::AssignDefaultValues {
                        test_type: ParameterTestType::UnsetOrNull,
                        ..
                    }
            );
            let default = self.default(default_value.as_deref().unwrap_or_default(), quoting);
            let current = match parameter {
                Parameter::Named(name) if self.is_for(name, &default) => default.clone(),
                Parameter::Named(_)
                | Parameter::NamedWithIndex { .. }
                | Parameter::NamedWithAllIndices { .. }
                | Parameter::Positional(_)
                | Parameter::Special(_) => current,
            };
            let both = current.possible().zip(default.possible());
            let values = both.map(|(mut current, default)| {
                current
                    .retain(|value| !or_empty || value.known().is_none_or(|text| !text.is_empty()));
                [current, default].concat()
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
        // Its subscript may run something.
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

    /// Whether a variable that the command does not set is the usual one for this program, as in `${CARGO:-cargo}`:
    /// people set it to another path of the same program.
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

    /// The word in an expansion. In double quotes and here documents, its single quotes are plain characters, so the
    /// text between them is expanded as well.
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
                    // It may be an array of which only the first element was set again.
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

    pub(in crate::shell) fn value(&mut self, parameter: &Parameter) -> Value {
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
            // These are numbers.
            Parameter::Special(
                SpecialParameter::ProcessId
                | SpecialParameter::LastExitStatus
                | SpecialParameter::PositionalParameterCount,
            ) => Value::fields(vec![Field::of(vec![Piece::Name])]),
            Parameter::Special(_) | Parameter::NamedWithAllIndices { .. } => Value::Unknown,
        }
    }
}

/// The parameter of an expansion, and whether its value is the name of the one to expand.
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

/// The texts in an expansion that the shell expands as well.
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
