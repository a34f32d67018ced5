//! Printing: results on standard output, everything else on standard error.

mod exit;
mod sentence;
mod table;
mod verification;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use bailiwick_engine::notices::{Notice, Notices};
use bailiwick_model::{Problem, Severity};
use clap::ValueEnum;
use serde::Serialize;
use textwrap::core::display_width;

use crate::failure::Failure;

use self::sentence::sentence;

pub use self::exit::finish;
pub use self::table::{Column, table, table_with};
pub use self::verification::{print_verification, verification_outcome};

/// How a listing is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs.
    Json,
}

/// The option that every listing has.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct FormatOption {
    /// How the result is shown
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "human")]
    pub format: Format,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    /// The choice in the arguments, read before parsing, because parsing prints the help.
    pub fn of_arguments(arguments: impl Iterator<Item = std::ffi::OsString>) -> Self {
        let mut words = arguments.take_while(|word| word != "--");
        let mut colour = Self::default();
        while let Some(word) = words.next() {
            let Some(word) = word.to_str() else { continue };
            let value = match word.strip_prefix("--color") {
                Some("") => words.next().and_then(|value| value.into_string().ok()),
                Some(rest) => rest.strip_prefix('=').map(str::to_owned),
                None => None,
            };
            if let Some(value) = value.and_then(|value| Self::from_str(&value, false).ok()) {
                colour = value;
            }
        }
        colour
    }

    /// The same for help.
    pub fn of_help(self) -> clap::ColorChoice {
        match self {
            Self::Auto => clap::ColorChoice::Auto,
            Self::Always => clap::ColorChoice::Always,
            Self::Never => clap::ColorChoice::Never,
        }
    }

    /// The word on a command line for the choice of everything that prints.
    pub fn chosen() -> &'static str {
        match anstream::ColorChoice::global() {
            anstream::ColorChoice::Auto => "auto",
            anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => "always",
            anstream::ColorChoice::Never => "never",
        }
    }

    /// Applies it to all output.
    pub fn choose(self) {
        match self {
            Self::Auto => {}
            Self::Always => anstream::ColorChoice::Always.write_global(),
            Self::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

/// Strong text.
pub const BOLD: Style = Style::new().bold();
/// Text that steps back.
pub const DIM: Style = Style::new().dimmed();
/// Something good.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// Highlights a warning.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// Something wrong.
pub const RED: Style = AnsiColor::Red.on_default();

/// A text in a style.
pub fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line of the result.
pub fn line(text: impl fmt::Display) {
    text_out(format_args!("{text}\n"));
}

/// Prints a part of the result. A terminal gets only text and its style; an error of printing is
/// reported at the end.
pub fn text_out(text: impl fmt::Display) {
    let mut out = anstream::stdout();
    let written = match io::stdout().is_terminal() {
        true => write!(out, "{}", tame(&text.to_string())),
        false => write!(out, "{text}"),
    };
    remember(written.and_then(|()| out.flush()));
}

/// Prints text that has no style: for programs byte for byte, for people without what would steer their
/// terminal.
pub fn plain(text: &str) {
    let terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    let written = match terminal {
        true => out.write_all(tame(text).as_bytes()),
        false => out.write_all(text.as_bytes()),
    };
    remember(written.and_then(|()| out.flush()));
}

/// Begins with an empty screen, where there is one.
pub fn clear_screen() {
    if io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        remember(out.write_all(b"\x1b[2J\x1b[H").and_then(|()| out.flush()));
    }
}

/// Whether a character is invisible: it has no width, or changes the direction of its neighbours.
pub fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// A text without what would steer a terminal, but for its lines and for styles in which it can be read.
pub fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (piece, kept) = match c {
            '\x1b' => match style_at(rest) {
                Some(style) => (style, style),
                None => ("\x1b", " "),
            },
            '\n' | '\t' => (rest.get(..1).unwrap_or_default(), rest.get(..1).unwrap_or_default()),
            c if c.is_control() => (rest.get(..c.len_utf8()).unwrap_or_default(), " "),
            c if is_hidden(c) => (rest.get(..c.len_utf8()).unwrap_or_default(), ""),
            c => {
                let own = rest.get(..c.len_utf8()).unwrap_or_default();
                (own, own)
            }
        };
        tamed.push_str(kept);
        rest = rest.get(piece.len()..).unwrap_or_default();
    }
    tamed
}

/// The style that a text begins with: one of ours, or one that hides nothing.
fn style_at(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("\x1b[")?;
    let length = inside.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let (numbers, after) = inside.split_at_checked(length)?;
    let conceals = numbers.split(';').any(|number| number == "8");
    (after.starts_with('m') && !conceals).then_some(())?;
    text.get(.."\x1b[".len() + length + 1)
}

/// Why a result could not be printed, the first time that happened.
static UNPRINTED: OnceLock<String> = OnceLock::new();

/// A reader that has closed the pipe needs no more output: the command continues, and keeps its exit code.
fn remember(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            UNPRINTED.get_or_init(|| error.to_string());
        }
        Ok(()) | Err(_) => {}
    }
}

/// Why a part of the result was not printed, if one was not.
pub fn unprinted() -> Option<&'static str> {
    UNPRINTED.get().map(String::as_str)
}

/// The first line of a text, not too long.
pub fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::general(format!("the result cannot be written as JSON: {error}"))
    })?;
    plain(&(text + "\n"));
    Ok(())
}

/// Prints a value as one line of JSON, for a stream of values.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| {
        Failure::general(format!("the result cannot be written as JSON: {error}"))
    })?;
    plain(&(text + "\n"));
    Ok(())
}

/// Prints what was done: a line for people, or a value for programs.
pub fn done(
    format: Format,
    text: impl fmt::Display,
    value: &impl Serialize,
) -> Result<(), Failure> {
    match format {
        Format::Human => {
            line(text);
            Ok(())
        }
        Format::Json => json(value),
    }
}

/// Prints text for programs on standard error, unchanged.
pub fn plain_error(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether text beside the result goes to the log.
static TO_LOG: AtomicBool = AtomicBool::new(false);

/// From now on, notes beside the result are written to the log: there is no terminal.
pub fn speak_to_the_log() {
    TO_LOG.store(true, Ordering::Relaxed);
}

/// Prints a text beside the result.
pub fn aside(text: impl fmt::Display) {
    if TO_LOG.load(Ordering::Relaxed) {
        let text = text.to_string();
        tracing::info!(said = %anstream::adapter::strip_str(&text), "told");
        return;
    }
    let mut out = anstream::stderr();
    let _ = writeln!(out, "{}", tame(&text.to_string()));
}

/// Whether notes, progress and next steps are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out notes, progress and next steps from now on.
pub fn choose_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether notes, progress and next steps are left out.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

fn unless_quiet(text: impl fmt::Display) {
    if !is_quiet() {
        aside(text);
    }
}

/// Prints a note.
pub fn note(text: impl fmt::Display) {
    unless_quiet(sentence(&format!("{} {text}", styled(YELLOW, "note:"))));
}

/// Prints progress.
pub fn progress(text: impl fmt::Display) {
    unless_quiet(styled(DIM, text));
}

/// Receives what services report: it is printed beside the result.
pub fn notices() -> Notices {
    Notices::to(|notice| match notice {
        Notice::Note(text) => note(text),
        Notice::Progress(text) => progress(text),
        Notice::Problems(all) => problems(all),
    })
}

/// Prints the next step.
pub fn next_step(text: impl fmt::Display) {
    unless_quiet(format_args!("{} {text}", styled(GREEN, "next:")));
}

/// Prints an error, and what to do about it.
pub fn error(text: &str, help: Option<&str>) {
    aside(sentence(&format!("{} {text}", styled(RED.bold(), "error:"))));
    if let Some(help) = help {
        aside(sentence(&format!(" {} {help}", styled(GREEN, "help:"))));
    }
}

/// Shows problems in people's files on standard error, each with its place.
pub fn problems(problems: &[Problem]) {
    for problem in problems {
        aside(rendered(problem).trim_end());
    }
}

/// A problem with the lines around it.
pub fn rendered(problem: &Problem) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let width = width();
    let terminal = terminal_size::terminal_size().is_some();
    // A reader of a pipe looks for whole sentences.
    let folded = |text: &str, before: usize| match terminal {
        true => folded_to(width.saturating_sub(before).max(20), text, "", "").join("\n"),
        false => text.to_owned(),
    };
    let title = folded(&problem.message, problem.code.len() + "warning[]: ".len());
    let title = level.primary_title(title).id(problem.code);
    let source = &problem.place.source;
    let text: &str = &source.text;
    let span = problem.place.span.clone().filter(|span| text.get(span.clone()).is_some());
    let mut group: Group<'_> = match span {
        Some(span) => title.element(
            Snippet::source(text)
                .path(&*source.file)
                .annotation(AnnotationKind::Primary.span(span)),
        ),
        None => title.element(Origin::path(&*source.file)),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(folded(help, "    = help: ".len())));
    }
    let renderer = Renderer::styled().decor_style(DecorStyle::Unicode).term_width(width);
    format!("{}\n", renderer.render(&[group]))
}

/// How wide the terminal is; 80 where there is none.
pub fn width() -> usize {
    let size = terminal_size::terminal_size();
    size.map_or(80, |(terminal_size::Width(columns), _)| usize::from(columns).max(40))
}

/// Prints a text in as many lines as it needs, behind a title.
pub fn wrapped(title: &str, text: &str) {
    wrapped_behind(title, &" ".repeat(display_width(title)), text);
}

/// The same, with an indentation for every line but the first. Output that is not for a terminal stays on one line.
pub fn wrapped_behind(title: &str, indent: &str, text: &str) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !io::stdout().is_terminal() {
        return line(format_args!("{title}{text}").to_string().trim_end());
    }
    for text in folded_to(width(), &text, title, indent) {
        line(text.trim_end());
    }
}

/// A text folded at spaces to this width.
pub fn folded_to(width: usize, text: &str, first: &str, further: &str) -> Vec<String> {
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(further)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

/// A text folded at spaces to the width of the terminal; one of more lines than `max_lines` is cut.
pub fn folded(text: &str, first: &str, further: &str, max_lines: usize) -> Vec<String> {
    let lines = folded_to(width(), text, first, further);
    if lines.len() <= max_lines {
        return lines;
    }
    // The mark of the cut must fit as well, and styles must end before it.
    let mut lines = folded_to(width().saturating_sub(2), text, first, further);
    lines.truncate(max_lines);
    if let Some(last) = lines.last_mut() {
        let reset = if last.contains('\u{1b}') { "\u{1b}[0m" } else { "" };
        *last = format!("{last} …{reset}");
    }
    lines
}

/// A text cut to `room` columns of a terminal, with a sign that it was cut.
pub fn shortened(text: &str, room: usize) -> String {
    if display_width(text) <= room {
        return text.to_owned();
    }
    let kept = fitting(text.chars(), room.saturating_sub(1));
    format!("{}…", kept.trim_end())
}

/// A text cut in its middle to `room` columns: of a path or a command both ends matter.
pub fn shortened_middle(text: &str, room: usize) -> String {
    if display_width(text) <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let first = fitting(text.chars(), kept / 3);
    let last = fitting(text.chars().rev(), kept.saturating_sub(kept / 3));
    format!("{first}…{}", last.chars().rev().collect::<String>())
}

/// As many of these as fit into `room` columns.
fn fitting(text: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    text.take_while(|c| {
        used += display_width(c.encode_utf8(&mut [0; 4]));
        used <= room
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_except_styles_are_removed() {
        for (text, tamed) in [
            ("plain ünï 🦀\tx\n", "plain ünï 🦀\tx\n"),
            ("\x1b[2J\x1b[Hgone", " [2J [Hgone"),
            ("a\rb\x07\x7f\u{9b}2J", "a b   2J"),
            ("\x1b]0;title\x07", " ]0;title "),
            ("\x1b[8mhidden", " [8mhidden"),
            ("\x1b[1;8mhidden", " [1;8mhidden"),
            ("rm \u{202e}txt.exe\u{202c} \u{2066}x\u{2069}", "rm txt.exe x"),
            ("a\u{200b}b\u{feff}c\u{200f}", "abc"),
            ("\x1b", " "),
            ("\x1b[31", " [31"),
        ] {
            assert_eq!(tame(text), tamed, "{text:?}");
        }
        for ours in [styled(RED.bold(), "no"), styled(DIM, "x"), styled(YELLOW, "note:")] {
            assert_eq!(tame(&ours), ours);
        }
    }

    #[test]
    fn colour_option_is_read_only_before_a_double_dash() {
        let read = |line: &str| Colour::of_arguments(line.split(' ').map(Into::into));
        assert_eq!(read("--color never help"), Colour::Never);
        assert_eq!(read("help run --color=always"), Colour::Always);
        assert_eq!(read("help run"), Colour::Auto);
        assert_eq!(read("exec -- x --color never"), Colour::Auto);
    }
}
