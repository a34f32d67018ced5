//! Assignments: what variables hold, and which of them the shell or a program runs.

use brush_parser::ast::{self, Assignment, AssignmentName, AssignmentValue};

use super::environment::Value;
use super::field::Field;
use super::walk::{MAX_SETTINGS, Walker, assignment_name, runs_its_value};
use super::{HiddenReason, VariableSet, inline};

impl Walker {
    /// Assignments in front of a command apply to that command alone, but builtins and functions may keep them, so
    /// they are joined with the known values. Returns what a program certainly receives.
    pub(super) fn temporarily(&mut self, assignments: &[&Assignment]) -> Vec<(String, Value)> {
        if assignments.is_empty() {
            return Vec::new();
        }
        let before = self.environment.clone();
        for assignment in assignments {
            self.assign(assignment);
        }
        let plain = |assignment: &&&Assignment| {
            matches!(assignment.value, AssignmentValue::Scalar(_))
                && matches!(assignment.name, AssignmentName::VariableName(_))
        };
        let names = assignments.iter().filter(plain).map(|each| assignment_name(each));
        let previous = names.map(|name| (name.to_owned(), self.environment.get(name))).collect();
        self.join_environment(before);
        previous
    }

    pub(super) fn assign(&mut self, assignment: &Assignment) {
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => self.scalar(&word.value),
            AssignmentValue::Array(elements) => self.array(elements),
        };
        let name = match &assignment.name {
            AssignmentName::VariableName(name) => name,
            AssignmentName::ArrayElementName(name, index) => {
                self.is_set(name);
                self.arithmetic(index);
                return self.environment.forget(name);
            }
        };
        self.runs_value(name);
        inline::variable(self, name, value.scalars());
        // With `declare -i` what is assigned is evaluated.
        if self.environment.odd.contains(name) {
            self.evaluates(name);
        }
        if self.environment.frozen.contains(name) {
            self.leave_command();
        }
        let value = match assignment.append {
            false => value,
            true => appended(self.environment.get(name), value),
        };
        for text in value.scalars().into_iter().flatten() {
            self.data(&text);
            // The rest may be appended later.
            self.quoted_code |= text.ends_with('$');
            self.quoted_subscript |= text.ends_with('[');
        }
        self.note_setting(name, value.scalars());
        self.environment.set(name, value);
    }

    /// A variable of this name is set, to something that is not known.
    pub(super) fn is_set(&mut self, name: &str) {
        self.runs_value(name);
        self.note_setting(name, None);
    }

    /// The same, to this value.
    pub(super) fn is_set_to(&mut self, name: &str, value: &str) {
        self.runs_value(name);
        self.note_setting(name, Some(vec![value.to_owned()]));
    }

    pub(super) fn runs_value(&mut self, name: &str) {
        if runs_its_value(name) {
            self.hide(HiddenReason::RunsText, name);
        }
    }

    /// A variable is set to one of these, for the shell or for a program.
    pub(super) fn note_setting(&mut self, name: &str, values: Option<Vec<String>>) {
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return;
        }
        let values = values.map_or_else(|| vec![None], |all| all.into_iter().map(Some).collect());
        for value in values {
            let setting = VariableSet { name: name.to_owned(), value };
            if self.reading.sets.contains(&setting) {
                continue;
            }
            if self.reading.sets.len() >= MAX_SETTINGS {
                return self.hide(HiddenReason::TooComplex, name);
            }
            self.reading.sets.push(setting);
        }
    }

    pub(super) fn array(&mut self, elements: &[(Option<ast::Word>, ast::Word)]) -> Value {
        let mut all = Some(Vec::new());
        for (index, element) in elements {
            if let Some(index) = index {
                self.arithmetic(&index.value);
                all = None;
            }
            let alternatives = self.word(&element.value);
            let texts = match alternatives.as_slice() {
                [fields] => fields.iter().map(Field::known).collect::<Option<Vec<String>>>(),
                _ => None,
            };
            all = all.zip(texts).map(longer);
        }
        all.map_or(Value::Unknown, Value::array)
    }
}

fn appended(before: Value, more: Value) -> Value {
    match (before, more) {
        (Value::OneOf(before), Value::OneOf(more)) => {
            let joined = before.iter().flat_map(|a| more.iter().map(move |b| format!("{a}{b}")));
            Value::one_of(joined.collect())
        }
        (Value::Array(before), Value::Array(more)) => Value::array([before, more].concat()),
        (
            before @ (Value::OneOf(_) | Value::Fields(_)),
            more @ (Value::OneOf(_) | Value::Fields(_)),
        ) => {
            let both = before.possible().zip(more.possible());
            let joined = |(before, more): (Vec<Field>, Vec<Field>)| {
                let with = |a: &Field| more.iter().map(|b| a.joined(b)).collect::<Vec<_>>();
                Value::fields(before.iter().flat_map(with).collect())
            };
            both.map_or(Value::Unknown, joined)
        }
        _ => Value::Unknown,
    }
}

fn longer<T>((mut all, more): (Vec<T>, Vec<T>)) -> Vec<T> {
    all.extend(more);
    all
}
