//! Compound commands and tests: branches, loops, groups, `[[ … ]]`.

use std::rc::Rc;

use brush_parser::ast::{self, CompoundCommand, ExtendedTestExpr};

use super::environment::Value;
use super::field::{Field, Piece};
use super::redirect::Input;
use super::walk::{MAX_ROUNDS, Walker};
use super::working_directories::WorkingDirectories;
use super::{HiddenReason, exit_states};

/// A loop over at most this many values is walked once for each.
const MAX_UNROLLED: usize = 8;

impl Walker {
    pub(super) fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(one, other) | ExtendedTestExpr::Or(one, other) => {
                self.test(one);
                self.test(other);
            }
            ExtendedTestExpr::Not(one) | ExtendedTestExpr::Parenthesized(one) => self.test(one),
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                if matches!(predicate, ast::UnaryPredicate::ShellVariableIsSetAndAssigned) {
                    self.evaluates(&word.value);
                }
                self.tested(&word.value);
            }
            ExtendedTestExpr::BinaryTest(predicate, one, other) => {
                if is_arithmetic(predicate) {
                    self.evaluates(&one.value);
                }
                self.tested(&one.value);
                self.tested(&other.value);
            }
        }
    }

    /// Both sides of `-eq` are arithmetic, and `-v` looks into subscripts.
    pub(super) fn tested(&mut self, word: &str) {
        match self.scalar(word).scalars() {
            Some(texts) if texts.iter().any(|text| text.contains("$(") || text.contains('`')) => {
                self.hide(HiddenReason::RunsText, word);
            }
            _ => {}
        }
    }

    pub(super) fn compound(&mut self, compound: &CompoundCommand, input: Input) {
        let inherits = input == Input::Inherited;
        match compound {
            CompoundCommand::Arithmetic(command) => {
                let source = Rc::clone(&self.source);
                let span = source.get(command.loc.start.index..command.loc.end.index);
                let sure = span.is_some_and(|text| text.starts_with("((") && text.ends_with("))"));
                if !sure {
                    self.hide(HiddenReason::Unreadable, &command.expr.value);
                }
                self.arithmetic(&command.expr.value);
            }
            CompoundCommand::BraceGroup(group) => self.reading_list(&group.list, inherits),
            CompoundCommand::Subshell(group) => {
                self.in_subshell(|walker| walker.reading_list(&group.list, inherits));
            }
            CompoundCommand::Coprocess(command) => {
                // The parser treats a word in the line above as the name, which bash runs.
                if let Some(name) = &command.name {
                    for argv in self.word(&name.value) {
                        self.in_subshell(|walker| walker.start(&argv, &Input::Pipe, &[]));
                    }
                }
                self.in_subshell(|walker| walker.command(&command.body, Input::Pipe));
            }
            CompoundCommand::IfClause(clause) => self.branches(clause, inherits),
            CompoundCommand::CaseClause(clause) => self.case(clause, inherits),
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                let ast::WhileOrUntilClauseCommand(condition, body, _) = clause;
                self.repeat(|walker| {
                    walker.reading_list(condition, inherits);
                    walker.leave_loop();
                    walker.reading_list(&body.list, inherits);
                });
            }
            CompoundCommand::ForClause(clause) => {
                let mut fields = Vec::new();
                for word in clause.values.iter().flatten() {
                    fields.extend(self.word(&word.value).into_iter().flatten());
                }
                let values = match clause.values {
                    Some(_) => self.each_value(&fields),
                    // Without a list, the positional parameters.
                    None => match &self.environment.positional {
                        Some(texts) if !texts.is_empty() => {
                            let fields: Vec<Field> = texts.iter().map(Field::text).collect();
                            self.each_value(&fields)
                        }
                        _ => vec![Value::Unknown],
                    },
                };
                self.is_set(&clause.variable_name);
                self.repeat(|walker| {
                    for value in &values {
                        let before = walker.environment.clone();
                        walker.environment.set(&clause.variable_name, value.clone());
                        walker.reading_list(&clause.body.list, inherits);
                        if values.len() > 1 {
                            walker.join_environment(before);
                        }
                    }
                });
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for part in parts.into_iter().flatten() {
                    self.arithmetic(&part.value);
                }
                self.repeat(|walker| walker.reading_list(&clause.body.list, inherits));
            }
        }
    }

    /// The values of the variable of a loop: one by one if they are few.
    fn each_value(&self, fields: &[Field]) -> Vec<Value> {
        if fields
            .iter()
            .any(|field| matches!(field.pieces(), [Piece::Unknown | Piece::UnknownMany]))
        {
            return vec![Value::Unknown];
        }
        let values: Vec<Field> = fields.iter().map(Field::single).collect();
        if values.is_empty() {
            return vec![Value::Unknown];
        }
        if values.len() <= MAX_UNROLLED && self.loops < 2 {
            return values.into_iter().map(|field| Value::fields(vec![field])).collect();
        }
        let is_name = |field: &Field| {
            field.known().is_some_and(|text| !text.contains('/') && text.contains(|c| c != '.'))
        };
        let are_names = values.iter().all(is_name);
        let value = Value::fields(values);
        if are_names && value == Value::Unknown {
            return vec![Value::fields(vec![Field::of(vec![Piece::Name])])];
        }
        vec![value]
    }

    /// A list whose commands read what the whole reads; what a pipe or a document gives to several
    /// commands together is not followed, so a shell among them is one that is piped into.
    pub(super) fn reading_list(&mut self, list: &ast::CompoundList, inherits: bool) {
        if inherits {
            return self.list(list);
        }
        let outer = std::mem::replace(&mut self.shared_stdin, true);
        self.list(list);
        self.shared_stdin = outer;
    }

    pub(super) fn branches(&mut self, clause: &ast::IfClauseCommand, inherits: bool) {
        self.reading_list(&clause.condition, inherits);
        let (then, mut otherwise) = self.outcomes();
        self.environment = then;
        self.reading_list(&clause.then, inherits);
        let mut after = std::mem::take(&mut self.environment);
        let mut complete = false;
        for more in clause.elses.iter().flatten() {
            self.environment = otherwise;
            self.outcome = None;
            if let Some(condition) = &more.condition {
                self.reading_list(condition, inherits);
            } else {
                complete = true;
            }
            let (then, not) = self.outcomes();
            self.environment = then;
            otherwise = not;
            self.reading_list(&more.body, inherits);
            after = after.join(std::mem::take(&mut self.environment));
        }
        self.environment = if complete { after } else { after.join(otherwise) };
    }

    pub(super) fn case(&mut self, clause: &ast::CaseClauseCommand, inherits: bool) {
        self.tested(&clause.value.value);
        let before = self.environment.clone();
        let mut after = before.clone();
        for case in &clause.cases {
            for pattern in &case.patterns {
                self.substitutions_in(&pattern.value);
            }
            // A case may be fallen into from the one before.
            self.environment = before.clone().join(after.clone());
            if let Some(list) = &case.cmd {
                self.reading_list(list, inherits);
            }
            after = after.join(std::mem::take(&mut self.environment));
        }
        self.environment = after;
    }

    /// A body that runs any number of times: until nothing new is learnt of the variables.
    pub(super) fn repeat(&mut self, body: impl FnMut(&mut Self)) {
        self.loops += 1;
        self.rounds(body);
        self.loops -= 1;
    }

    pub(super) fn rounds(&mut self, mut body: impl FnMut(&mut Self)) {
        let outer = self.exit_states.of_loop.take();
        let mut at_exits = None;
        for round in 0..MAX_ROUNDS {
            let before = self.environment.clone();
            let traps = self.forget_later;
            body(self);
            self.join_environment(before.clone());
            if let Some(way) = self.exit_states.of_loop.take() {
                self.join_environment(way.clone());
                exit_states::add(&mut at_exits, way);
            }
            if self.environment.same_variables(&before) && self.forget_later == traps {
                break;
            }
            if round + 1 == MAX_ROUNDS {
                for value in self.environment.variables.values_mut() {
                    *value = Value::Unknown;
                }
                self.environment.positional = None;
                self.environment.working_directories = WorkingDirectories::lost();
                let before = self.environment.clone();
                body(self);
                self.join_environment(before);
                self.environment.variables.values_mut().for_each(|value| *value = Value::Unknown);
            }
        }
        // How many loops `break` leaves is not followed.
        self.exit_states.of_loop = outer;
        if let Some(at_exits) = at_exits {
            exit_states::add(&mut self.exit_states.of_loop, at_exits);
        }
    }
}

fn is_arithmetic(predicate: &ast::BinaryPredicate) -> bool {
    matches!(
        predicate,
        ast::BinaryPredicate::ArithmeticEqualTo
            | ast::BinaryPredicate::ArithmeticNotEqualTo
            | ast::BinaryPredicate::ArithmeticLessThan
            | ast::BinaryPredicate::ArithmeticLessThanOrEqualTo
            | ast::BinaryPredicate::ArithmeticGreaterThan
            | ast::BinaryPredicate::ArithmeticGreaterThanOrEqualTo
    )
}
