//! Printing: results on standard output, everything else on standard error.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use bailiwick_model::{Problem, Severity};
use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

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
    /// Makes it the choice of everything that prints.
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
/// Something to look at.
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

/// Prints a piece of the result. A terminal is told nothing but text and its style; what cannot be
/// printed is told at the end.
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

/// Whether a character is not seen, and changes how others are: it turns the direction of what stands
/// around it, or is nothing at all.
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

/// A reader that has gone away has seen enough: the work goes on, and keeps its exit code.
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

/// Prints text for programs on standard error, as it is.
pub fn plain_error(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether what stands beside the result is told to the log.
static TO_LOG: AtomicBool = AtomicBool::new(false);

/// From now on what stands beside the result is a line of the log: nobody sits at a terminal.
pub fn speak_to_the_log() {
    TO_LOG.store(true, Ordering::Relaxed);
}

fn aside(text: impl fmt::Display) {
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

/// Says what is worth knowing.
pub fn note(text: impl fmt::Display) {
    unless_quiet(format_args!("{} {text}", styled(YELLOW, "note:")));
}

/// Says what is being done.
pub fn progress(text: impl fmt::Display) {
    unless_quiet(styled(DIM, text));
}

/// Says what could be done next.
pub fn next_step(text: impl fmt::Display) {
    unless_quiet(format_args!("{} {text}", styled(GREEN, "next:")));
}

/// Says what is wrong, and what to do about it.
pub fn error(text: &str, help: Option<&str>) {
    aside(format_args!("{} {text}", styled(RED.bold(), "error:")));
    if let Some(help) = help {
        aside(format_args!(" {} {help}", styled(GREEN, "help:")));
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
    let folded = |text: &str, before: usize| {
        folded_to(width.saturating_sub(before).max(20), text, "", "").join("\n")
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

/// Prints rows with aligned columns. The last column is cut where the terminal ends.
pub fn table(header: &[&str], rows: &[Vec<String>]) {
    let columns = header.len();
    // A cell is of one line, whoever wrote what is in it.
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| cell.replace(['\n', '\r', '\t'], " ")).collect())
        .collect();
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let lengths = cells.map(|cell| cell.chars().count());
        lengths.chain(header.get(column).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let before_last: usize =
        widths.iter().take(columns.saturating_sub(1)).map(|width| width + 2).sum();
    let room = width().saturating_sub(before_last).max(12);
    let render = |cells: &[String]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let padding = widths.get(column).copied().unwrap_or(0);
            if column + 1 == columns {
                let _ = write!(text, "{}", shortened(cell, room));
            } else {
                let _ = write!(text, "{cell:padding$}  ");
            }
        }
        text.trim_end().to_owned()
    };
    let header: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    line(styled(BOLD, render(&header)));
    for row in &rows {
        line(render(row));
    }
}

/// Prints a text in as many lines as it needs, behind a title.
pub fn wrapped(title: &str, text: &str) {
    wrapped_behind(title, &" ".repeat(title.chars().count()), text);
}

/// The same, with something else in front of every line but the first.
pub fn wrapped_behind(title: &str, indent: &str, text: &str) {
    let room = width().saturating_sub(indent.chars().count()).max(20);
    let (mut current, mut before) = (String::new(), title);
    for word in text.split_whitespace() {
        if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > room {
            line(format_args!("{before}{current}"));
            before = indent;
            current.clear();
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    line(format_args!("{before}{current}"));
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
    let mut lines = folded_to(width(), text, first, further);
    if lines.len() > max_lines {
        lines.truncate(max_lines);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines
}

/// A text cut to `room` characters, with a sign that it was cut.
pub fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_but_text_and_its_style() {
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
}
