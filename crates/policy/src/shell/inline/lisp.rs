//! Lisp, above all that of Emacs: calls that start programs or write files.

use super::code::Value;
use super::effects::note_write;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;
use crate::shell::{How, Why};

/// A piece of Lisp.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Symbol(String),
    Text(String),
    List(Vec<Form>),
}

/// Reads expressions and notes what they run and write.
pub(super) fn look(walker: &mut Walker, text: &str) {
    walker.deeper("code", |walker| {
        let mut rest = text.chars().peekable();
        for form in forms(&mut rest, 0) {
            visit(walker, &form);
        }
    });
}

fn forms(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, depth: usize) -> Vec<Form> {
    let mut all = Vec::new();
    while let Some(c) = rest.next() {
        match c {
            '(' | '[' if depth < 60 => all.push(Form::List(forms(rest, depth + 1))),
            ')' | ']' => return all,
            '"' => {
                let mut text = String::new();
                while let Some(c) = rest.next() {
                    match c {
                        '"' => break,
                        '\\' => match rest.next() {
                            Some('n') => text.push('\n'),
                            Some(other) => text.push(other),
                            None => {}
                        },
                        other => text.push(other),
                    }
                }
                all.push(Form::Text(text));
            }
            ';' => while rest.next_if(|c| *c != '\n').is_some() {},
            c if c.is_whitespace() || "'`,#@".contains(c) => {}
            c => {
                let mut name = c.to_string();
                while let Some(c) = rest.next_if(|c| !c.is_whitespace() && !"()[]\";".contains(*c))
                {
                    name.push(c);
                }
                all.push(Form::Symbol(name));
            }
        }
    }
    all
}

fn value(form: Option<&Form>) -> Value {
    match form {
        Some(Form::Text(text)) => Value::Text(text.clone()),
        Some(Form::Symbol(_) | Form::List(_)) | None => Value::Unknown,
    }
}

fn visit(walker: &mut Walker, form: &Form) {
    let Form::List(parts) = form else { return };
    if let Some((Form::Symbol(name), arguments)) = parts.split_first() {
        call(walker, name, arguments);
    }
    for part in parts {
        visit(walker, part);
    }
}

fn call(walker: &mut Walker, name: &str, arguments: &[Form]) {
    let by = walker.through.last().cloned().unwrap_or_default();
    let program = |at: usize, rest: usize| -> Vec<Field> {
        let first = value(arguments.get(at)).fields();
        let rest = arguments.iter().skip(rest).flat_map(|form| value(Some(form)).fields());
        first.into_iter().chain(rest).collect()
    };
    let argv = match name {
        "shell-command"
        | "async-shell-command"
        | "shell-command-to-string"
        | "system"
        | "system*"
        | "shell-command-on-region"
        | "compile"
        | "call-process-shell-command"
        | "process-file-shell-command"
        | "sh"
        | "run-shell-command" => {
            let at = if name == "shell-command-on-region" { 2 } else { 0 };
            return match value(arguments.get(at)) {
                Value::Text(text) => walker.handed_to_shell(&Field::text(text)),
                Value::List(_) | Value::Unknown | Value::Many => {
                    walker.hide(Why::ComputedText, &by);
                }
            };
        }
        "call-process" => program(0, 4),
        "process-file" => program(0, 4),
        "start-process-shell-command" | "start-file-process-shell-command" => {
            return match value(arguments.get(2)) {
                Value::Text(text) => walker.handed_to_shell(&Field::text(text)),
                Value::List(_) | Value::Unknown | Value::Many => {
                    walker.hide(Why::ComputedText, &by);
                }
            };
        }
        "start-process" | "start-file-process" => program(2, 3),
        "call-process-region" => program(2, 6),
        "process-lines" | "run-program" | "uiop:run-program" | "sb-ext:run-program"
        | "subprocess" | "execl" => program(0, 1),
        "make-process" | "eval" | "load-file" if name != "load-file" => {
            return match name {
                "eval" if matches!(arguments.first(), Some(Form::List(_))) => {}
                _ => walker.hide(Why::ComputedText, name),
            };
        }
        "write-region" => {
            return note_write(walker, &value(arguments.get(2)), How::Change, &by, false);
        }
        "write-file"
        | "append-to-file"
        | "make-directory"
        | "with-temp-file"
        | "with-output-to-file"
        | "open-output-file"
        | "call-with-output-file" => {
            let at = if name == "append-to-file" { 2 } else { 0 };
            return note_write(walker, &value(arguments.get(at)), How::Change, &by, false);
        }
        "delete-file" | "delete-directory" => {
            return note_write(walker, &value(arguments.first()), How::DeleteTree, &by, false);
        }
        "rename-file" | "copy-file" | "make-symbolic-link" => {
            return note_write(walker, &value(arguments.get(1)), How::Change, &by, false);
        }
        // Which file that is was decided elsewhere.
        "save-buffer" | "save-some-buffers" | "basic-save-buffer" => {
            return walker.hide(Why::ComputedPath, &by);
        }
        _ => return,
    };
    walker.apart(|walker| walker.started(&argv, &Input::Pipe));
}
