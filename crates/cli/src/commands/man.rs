//! `bailiwick man`: the manual pages.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use clap::{Args, Command};
use clap_mangen::roff::{Roff, roman};

use super::grouped_help::{EXIT_CODES, command_line};
use crate::failure::Failure;
use crate::output;

/// The width of manual pages.
const PAGE_WIDTH: usize = 80;

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick man ~/.local/share/man/man1 && man bailiwick-run")]
pub struct Man {
    /// The directory; created if it is missing
    #[arg(value_name = "DIR")]
    pages: PathBuf,
}

impl Man {
    /// Writes one page for each command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let directory = context.directory.join(&self.pages);
        let mut root = command_line(PAGE_WIDTH).disable_help_subcommand(true);
        root.build();
        std::fs::create_dir_all(&directory).and_then(|()| write_pages(root, &directory)).map_err(
            |error| Failure::general(format!("cannot write to {}: {error}", directory.display())),
        )?;
        output::note(format_args!("manual pages written to {}", directory.display()));
        Ok(())
    }
}

/// Writes the pages of a command, and of those below it.
fn write_pages(command: Command, directory: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below.clone(), directory)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut file = std::fs::File::create(directory.join(format!("{name}.1")))?;
    write_page(command, &mut file)
}

fn write_page(command: Command, file: &mut dyn Write) -> io::Result<()> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    let usage = synopsis(&command);
    let page = clap_mangen::Man::new(command.override_usage(usage));
    page.render_title(file)?;
    page.render_name_section(file)?;
    page.render_synopsis_section(file)?;
    page.render_description_section(file)?;
    page.render_options_section(file)?;
    if has_subcommands {
        page.render_subcommands_section(file)?;
    }
    let mut roff = Roff::new();
    // Titles have sections of their own.
    let is_title =
        |line: &&str| ["Example", "Exit codes"].iter().any(|title| line.starts_with(title));
    let examples = after.lines().filter(|line| !line.is_empty() && !is_title(line));
    let examples = examples.map(|line| line.strip_prefix("  ").unwrap_or(line));
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for example in examples {
        roff.text([roman(example)]);
    }
    roff.control("fi", []);
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(EXIT_CODES)]);
    roff.to_writer(file)?;
    page.render_version_section(file)
}

/// How a command is called: its own options with the names of their values, and its arguments.
fn synopsis(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or(command.get_name()).to_owned()];
    let own = |arg: &&clap::Arg| {
        let asks = ["help", "version"].contains(&arg.get_id().as_str());
        !arg.is_hide_set() && !arg.is_positional() && !arg.is_global_set() && !asks
    };
    for option in command.get_arguments().filter(own) {
        let shown = option.to_string();
        words.push(if option.is_required_set() { shown } else { format!("[{shown}]") });
    }
    words.push("[GLOBAL OPTIONS]".to_owned());
    words.extend(command.get_positionals().map(ToString::to_string));
    if command.has_subcommands() {
        words.push("<COMMAND>".to_owned());
    }
    words.join(" ")
}
