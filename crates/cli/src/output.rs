//! Printing: results on standard output, everything else on standard error.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use bailiwick_model::{Problem, Severity};
use clap::ValueEnum;
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource};
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

/// Prints a piece of the result as it is. What cannot be printed is told at the end.
pub fn text_out(text: impl fmt::Display) {
    let mut out = anstream::stdout();
    remember(write!(out, "{text}").and_then(|()| out.flush()));
}

/// Prints text that has no style, for people or programs, byte for byte.
pub fn plain(text: &str) {
    let mut out = io::stdout().lock();
    remember(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
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
    let _ = writeln!(out, "{text}");
}

/// Says what is worth knowing.
pub fn note(text: impl fmt::Display) {
    aside(format_args!("{} {text}", styled(YELLOW, "note:")));
}

/// Says what is being done.
pub fn progress(text: impl fmt::Display) {
    aside(styled(DIM, text));
}

/// Says what could be done next.
pub fn next_step(text: impl fmt::Display) {
    aside(format_args!("{} {text}", styled(GREEN, "next:")));
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
    let severity = match problem.severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
    };
    let mut diagnostic = MietteDiagnostic::new(problem.message.clone())
        .with_code(problem.code)
        .with_severity(severity);
    let source = &problem.place.source;
    match &problem.place.span {
        Some(span) => diagnostic.labels = Some(vec![LabeledSpan::underline(span.clone())]),
        None => diagnostic.message = format!("{}: {}", source.file, problem.message),
    }
    diagnostic.help = problem.help.clone();
    let named = NamedSource::new(source.file.as_ref(), source.text.to_string());
    let report = miette::Report::new(diagnostic).with_source_code(named);
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode())
        .with_width(width())
        .with_links(false);
    match handler.render_report(&mut text, report.as_ref()) {
        Ok(()) => text,
        Err(_) => format!("{problem}\n"),
    }
}

/// How wide the terminal is; 80 where there is none.
pub fn width() -> usize {
    let size = terminal_size::terminal_size();
    size.map_or(80, |(terminal_size::Width(columns), _)| usize::from(columns).max(40))
}

/// Prints rows with aligned columns. The last column is cut where the terminal ends.
pub fn table(header: &[&str], rows: &[Vec<String>]) {
    let columns = header.len();
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
    for row in rows {
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

/// A text cut to `room` characters, with a sign that it was cut.
pub fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
