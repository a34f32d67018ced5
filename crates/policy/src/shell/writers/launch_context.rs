//! Programs that start another one elsewhere, or with other variables: `env -C`, `sudo -D`.

use super::super::environment::Value;
use super::super::field::Field;
use super::super::walk::Walker;
use super::super::working_directories::WorkingDirectories;
use super::options::beginning;

impl Walker {
    /// Runs `act` with the directory and variables that a wrapper program sets for its child.
    pub(in super::super) fn surrounded(
        &mut self,
        name: &str,
        arguments: &[Field],
        work: impl FnOnce(&mut Self),
    ) {
        match name {
            "env" | "sudo" | "doas" | "su" | "runuser" | "find" => self.in_subshell(|walker| {
                walker.surround(name, arguments);
                work(walker);
            }),
            _ => work(self),
        }
    }

    fn surround(&mut self, name: &str, arguments: &[Field]) {
        let known: Vec<String> =
            arguments.iter().map(|field| field.known().unwrap_or_default()).collect();
        let any = |names: &[&str]| known.iter().any(|word| names.contains(&word.as_str()));
        match name {
            "find" => {
                if any(&["-execdir", "-okdir"]) {
                    self.environment.working_directories = WorkingDirectories::lost();
                    self.moved = true;
                }
                return;
            }
            "env" => {}
            // Another user, another home.
            _ => self.environment.foreign = true,
        }
        if any(&["-i", "-l", "-", "--login"]) && name != "env" {
            self.environment.working_directories = WorkingDirectories::lost();
            self.moved = true;
        }
        let mut rest = arguments.iter();
        while let Some(field) = rest.next() {
            let (head, tail) = beginning(field);
            let letter = if name == "sudo" { "-D" } else { "-C" };
            if head == "--" {
                continue;
            }
            if tail.is_none() && (head == letter || head == "--chdir") {
                let target = rest.next().cloned().unwrap_or_else(Field::unknown);
                self.go(&target);
            } else if let Some(value) =
                head.strip_prefix("--chdir=").or_else(|| head.strip_prefix(letter))
            {
                let value = Field::text(value);
                self.go(&tail.map_or(value.clone(), |tail| value.joined(&tail)));
            } else if head.starts_with('-') {
                self.environment.foreign = true;
                if ["-u", "--unset"].contains(&head) && name == "env" {
                    rest.next();
                }
            } else if let Some((variable, value)) = head.split_once('=') {
                let value = Field::text(value);
                let value = tail.map_or(value.clone(), |tail| value.joined(&tail));
                self.environment.export(variable, Value::fields(vec![value]));
            } else if name == "env" {
                break;
            }
        }
    }

    /// Goes to a directory; if that does not work nothing is started.
    fn go(&mut self, target: &Field) {
        let (there, _) = self.environment.working_directories.enter(target);
        self.environment.working_directories = there;
        self.moved = true;
    }
}
