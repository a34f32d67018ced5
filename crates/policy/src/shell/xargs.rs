//! `xargs`: what it reads, behind its command or in the places that stand for it.

use super::field::{Field, Piece};
use super::redirect::Input;

/// More lines than this are as good as unknown.
const MAX_COUNT: usize = 8;

/// The commands that `xargs` starts: one for each line that it reads, if those are known.
pub(super) fn commands(arguments: &[Field], command: &[Field], input: &Input) -> Vec<Vec<Field>> {
    let before = arguments.len().saturating_sub(command.len());
    let options = arguments.get(..before).unwrap_or_default();
    let names = named(options, input);
    let Some(place) = place(options) else {
        let more = names.map_or_else(|| vec![Field::unknown_many()], <[Field]>::to_vec);
        return vec![[command, &more].concat()];
    };
    let plain = is_plain(options);
    if let Some(names) = names.filter(|_| plain) {
        return names.iter().map(|name| put(command, &place, name)).collect();
    }
    match lines(input).filter(|_| plain) {
        Some(lines) => {
            let value = |line: &String| Field::text(line.as_str());
            let with = |line: &String| put(command, &place, &value(line));
            lines.iter().map(with).collect()
        }
        None => {
            let mut argv = put(command, &place, &Field::unknown());
            // Other options may take the place away and put the words behind the command.
            if !plain {
                argv.push(Field::unknown_many());
            }
            vec![argv]
        }
    }
}

/// The commands that it starts with files of git that may be among those it reads.
pub(super) fn of_git(
    arguments: &[Field],
    command: &[Field],
    input: &Input,
) -> impl Iterator<Item = Vec<Field>> {
    let before = arguments.len().saturating_sub(command.len());
    let options = arguments.get(..before).unwrap_or_default();
    let files = match input {
        Input::Names(found) if !reads_elsewhere(options) => found.of_git.clone(),
        Input::Names(_) | Input::Inherited | Input::Pipe | Input::Text(_) | Input::File(_) => {
            Vec::new()
        }
    };
    let place = place(options);
    let command = command.to_vec();
    files.into_iter().map(move |file| match &place {
        Some(place) => put(&command, place, &Field::text(file)),
        None => command.iter().cloned().chain([Field::text(file)]).collect(),
    })
}

/// The names that it reads, if they are known to be names of files.
fn named<'a>(options: &[Field], input: &'a Input) -> Option<&'a [Field]> {
    match input {
        Input::Names(found) if !reads_elsewhere(options) => Some(&found.fields),
        Input::Names(_) | Input::Inherited | Input::Pipe | Input::Text(_) | Input::File(_) => None,
    }
}

/// Whether it may read another file, or take names apart at odd places.
fn reads_elsewhere(options: &[Field]) -> bool {
    let mut words = options.iter();
    while let Some(field) = words.next() {
        let Some(word) = field.known() else { return true };
        match word.as_str() {
            "-d" | "--delimiter"
                if words.next().and_then(Field::known).is_none_or(|sign| sign != "\\n") =>
            {
                return true;
            }
            "-d" | "--delimiter" => {}
            "-d\\n" | "--delimiter=\\n" => {}
            _ if word.starts_with("-a")
                || word.starts_with("-d")
                || word.starts_with("-E")
                || word.starts_with("--arg")
                || word.starts_with("--del") =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// The placeholder for the input.
fn place(arguments: &[Field]) -> Option<String> {
    let texts: Vec<String> =
        arguments.iter().map(|field| field.known().unwrap_or_default()).collect();
    let at = texts.iter().position(|text| text.starts_with("-I"))?;
    let option = texts.get(at)?;
    match option.strip_prefix("-I").filter(|text| !text.is_empty()) {
        Some(text) => Some(text.to_owned()),
        None => texts.get(at + 1).cloned(),
    }
}

/// Whether there is one `-I` and nothing else that changes what is read or how it is put in.
fn is_plain(options: &[Field]) -> bool {
    let known: Option<Vec<String>> = options.iter().map(Field::known).collect();
    let Some(known) = known else { return false };
    let (mut places, mut words) = (0, known.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "-I" => {
                places += 1;
                words.next();
            }
            "-P" => {
                words.next();
            }
            "-r" | "--no-run-if-empty" | "-t" | "--verbose" | "--" => {}
            _ if word.starts_with("-I") => places += 1,
            _ if word.strip_prefix("-P").is_some_and(|count| count.parse::<u32>().is_ok()) => {}
            _ => return false,
        }
    }
    places == 1
}

/// The lines of its input, if they are known and literal; quotes and backslashes would be removed.
fn lines(input: &Input) -> Option<Vec<String>> {
    let Input::Text(Some(texts)) = input else { return None };
    let [text] = texts.as_slice() else { return None };
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.trim_start_matches([' ', '\t']).to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    let plain = |line: &String| !line.contains(['\'', '"', '\\']) && !line.ends_with([' ', '\t']);
    (!lines.is_empty() && lines.len() <= MAX_COUNT && lines.iter().all(plain)).then_some(lines)
}

/// A command with a value in place of the placeholder.
fn put(command: &[Field], place: &str, value: &Field) -> Vec<Field> {
    let one = |field: &Field| match field.known() {
        Some(_) if place.is_empty() => Field::unknown(),
        Some(text) => {
            let mut whole = Vec::new();
            for (index, part) in text.split(place).enumerate() {
                if index > 0 {
                    whole.extend(value.pieces().iter().cloned());
                }
                whole.push(Piece::Text(part.to_owned()));
            }
            let empty = |piece: &Piece| matches!(piece, Piece::Text(text) if text.is_empty());
            if whole.len() > 1 {
                whole.retain(|piece| !empty(piece));
            }
            Field::of(whole)
        }
        // In an unknown text, the placeholder may be anywhere.
        None if field.may_be_many() => Field::unknown_many(),
        None => Field::unknown(),
    };
    command.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str], at: usize, text: Option<&str>) -> Vec<String> {
        let fields: Vec<Field> = words.iter().map(|word| Field::text(*word)).collect();
        let input = match text {
            Some(text) => Input::Text(Some(vec![text.to_owned()])),
            None => Input::Pipe,
        };
        let started = commands(&fields, &fields[at..], &input);
        let line =
            |argv: &Vec<Field>| argv.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        started.iter().map(line).collect()
    }

    #[test]
    fn text_around_the_placeholder_is_kept() {
        assert_eq!(shown(&["-I{}", "touch", ".git/{}"], 1, None), ["touch .git/…"]);
        assert_eq!(shown(&["-I", "@", "@", "b@c@"], 2, Some("x\n y\n")), ["x bxcx", "y bycy"]);
        assert_eq!(shown(&["-I{}", "-n1", "a", "{}"], 2, Some("x")), ["a … …"]);
        assert_eq!(shown(&["-I{}", "a", "{}"], 1, Some("x 'y'")), ["a …"]);
        assert_eq!(shown(&["-n1", "a"], 1, Some("x")), ["a …"]);
    }
}
