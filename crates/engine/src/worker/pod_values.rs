//! Values that a cluster mounts for the worker of a Job: files in one directory, by the names of variables.

use std::io;
use std::path::Path;

use crate::failure::Failure;

/// Adds the values with these names to variables.
pub(super) fn add(
    variables: &mut Vec<(String, String)>,
    directory: Option<&Path>,
    names: &[String],
) -> Result<(), Failure> {
    for name in names {
        let value = read(directory, name)?;
        if variables.iter().any(|(known, _)| known == name) {
            return Err(Failure::refused(format!("{name} has two values: one is of the pod")));
        }
        variables.push((name.clone(), value));
    }
    Ok(())
}

fn read(directory: Option<&Path>, name: &str) -> Result<String, Failure> {
    let is_variable = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !is_variable(name) {
        return Err(Failure::refused(format!("`{name}` is not the name of a value of a pod")));
    }
    let Some(directory) = directory else {
        return Err(Failure::refused(format!("this worker has no value {name} of a pod"))
            .help("update the operator for Jobs, which mounts the values of an attempt"));
    };
    let file = directory.join(name);
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::refused(format!("{} is not there", file.display()))
                .help("update the operator for Jobs, which mounts the values of an attempt"));
        }
        Err(error) => {
            return Err(Failure::general(format!("{} cannot be read: {error}", file.display())));
        }
    };
    String::from_utf8(bytes)
        .map_err(|_| Failure::refused(format!("the value {name} is not text in UTF-8")))
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::add;

    #[test]
    fn values_are_read_by_name_and_anything_else_is_refused() {
        let scratch = Scratch::bare();
        let place = &scratch.place().join("values");
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join("IDENTITY_TOKEN"), "a token\n").unwrap();
        std::fs::write(place.join("BINARY"), [0xff, 0xfe]).unwrap();
        std::fs::write(scratch.place().join("OUTSIDE"), "not a value").unwrap();
        let read = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut all = vec![("KNOWN".to_owned(), "before".to_owned())];
            add(&mut all, Some(place), &names).map(|()| all).map_err(|error| error.in_one_line())
        };
        let token = ("IDENTITY_TOKEN".to_owned(), "a token\n".to_owned());
        assert_eq!(read(&["IDENTITY_TOKEN"]).unwrap().last(), Some(&token));
        for (name, expected) in [
            ("MISSING", "is not there"),
            ("BINARY", "not text in UTF-8"),
            ("../OUTSIDE", "not the name of a value"),
            ("", "not the name of a value"),
        ] {
            let error = read(&[name]).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
        std::fs::write(place.join("KNOWN"), "another").unwrap();
        assert!(read(&["KNOWN"]).unwrap_err().contains("two values"));
        assert!(add(&mut Vec::new(), None, &["IDENTITY_TOKEN".to_owned()]).is_err());
        add(&mut Vec::new(), None, &[]).unwrap();
    }
}
