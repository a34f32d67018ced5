//! `bailiwick memory`: the issues that keep the state of agents.

mod show;

use bailiwick_engine::context::Context;
use bailiwick_engine::{issues, system};
use bailiwick_memory::{IssueMemory as _, LabelChange, change_labels};
use bailiwick_model::IssueName;
use bailiwick_source_control::issues::{IssueMerge, NewIssue, merge_issues};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// Keep the state of agents in issues, on a forge or in git
///
/// A run that is bound to an issue reads its state from there before it starts, and leaves its result
/// there when it has ended. `#3` is an issue in this repository, under refs/bailiwick/issues/3;
/// `owner/name#42` is one on the forge of a declared repository.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick memory new 'Fix the lexer' --budget 500000\n  bailiwick \
                  memory show '#1'\n  bailiwick memory log acme/app#42"
)]
pub struct Memory {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open an issue in this repository
    #[command(after_help = "Example:\n  bailiwick memory new 'Fix the lexer' --budget 500000")]
    New {
        /// What it is about
        title: String,
        /// What it says
        #[arg(long, value_name = "TEXT", default_value = "")]
        body: String,
        /// A label; can be repeated
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<String>,
        /// Tokens that all runs on it may use together
        #[arg(long, value_name = "TOKENS", value_parser = tokens())]
        budget: Option<u64>,
        #[command(flatten)]
        format: FormatOption,
    },
    /// List the issues in this repository
    #[command(after_help = "Example:\n  bailiwick memory list --all")]
    List {
        /// Include closed issues
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show the state of an issue: budget, phase, what comes next, and what does not fit together
    #[command(
        after_help = "Examples:\n  bailiwick memory show '#1'\n  bailiwick memory show acme/app#42"
    )]
    Show(Named),
    /// Show what happened on an issue, oldest first
    #[command(after_help = "Example:\n  bailiwick memory log '#1'")]
    Log(Named),
    /// Check an issue: fails if anything in it does not fit together
    #[command(after_help = "Example:\n  bailiwick memory verify acme/app#42 -o json")]
    Verify(Named),
    /// Set how many tokens all runs on an issue may use together
    #[command(after_help = "Example:\n  bailiwick memory budget '#1' 800000")]
    Budget {
        /// The issue
        issue: IssueName,
        /// The number of tokens, including those that were used
        #[arg(value_parser = tokens())]
        tokens: u64,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Add and remove labels of an issue
    #[command(after_help = "Example:\n  bailiwick memory label '#1' --add cascade::depth-1")]
    Label {
        /// The issue
        issue: IssueName,
        /// A label to add; can be repeated
        #[arg(long, value_name = "LABEL")]
        add: Vec<String>,
        /// A label to remove; can be repeated
        #[arg(long, value_name = "LABEL")]
        remove: Vec<String>,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Write a comment on an issue
    #[command(after_help = "Example:\n  bailiwick memory comment '#1' 'Start with the tests.'")]
    Comment {
        /// The issue
        issue: IssueName,
        /// What it says
        text: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Close an issue: no run starts on it
    #[command(after_help = "Example:\n  bailiwick memory close '#1'")]
    Close(Named),
    /// Open an issue again, and unlock it
    #[command(after_help = "Example:\n  bailiwick memory reopen '#1'")]
    Reopen(Named),
    /// Merge the issues that git fetched from another clone
    ///
    /// Fetch them first: git fetch origin
    /// '+refs/bailiwick/issues/*:refs/bailiwick/remotes/origin/issues/*'. Publish yours afterwards: git
    /// push origin 'refs/bailiwick/issues/*'.
    #[command(after_help = "Example:\n  bailiwick memory merge origin")]
    Merge {
        /// The remote
        #[arg(default_value = "origin")]
        remote: String,
        #[command(flatten)]
        format: FormatOption,
    },
}

/// The remaining budget is a signed number.
fn tokens() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=i64::MAX.unsigned_abs())
}

#[derive(Debug, Args)]
struct Named {
    /// The issue: `#3`, or `owner/name#42`
    issue: IssueName,
    #[command(flatten)]
    format: FormatOption,
}

impl Memory {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::New { title, body, labels, budget, format } => {
                new(context, NewIssue { title, body, labels }, budget, format.format)
            }
            Verb::List { all, format } => list(context, all, format.format),
            Verb::Show(named) => show::show(context, &named.issue, named.format.format),
            Verb::Log(named) => show::log(context, &named.issue, named.format.format),
            Verb::Verify(named) => show::verify(context, &named.issue, named.format.format),
            Verb::Budget { issue, tokens, format } => {
                budget(context, &issue, tokens, format.format)
            }
            Verb::Label { issue, add, remove, format } => {
                label(context, &issue, LabelChange { add, remove }, format.format)
            }
            Verb::Comment { issue, text, format } => comment(context, &issue, &text, format.format),
            Verb::Close(named) => set_open(context, &named, false),
            Verb::Reopen(named) => set_open(context, &named, true),
            Verb::Merge { remote, format } => merge(context, &remote, format.format),
        }
    }
}

fn new(
    context: &Context,
    new: NewIssue,
    tokens: Option<u64>,
    format: Format,
) -> Result<(), Failure> {
    let number = issues::local(context)?.open(&new).map_err(issues::failure)?;
    let name = IssueName { repository: None, number };
    if let Some(tokens) = tokens {
        let opened = issues::open_named(context, &name)?;
        opened.with(async |protocol| {
            protocol.begin(number, "person", "new", tokens, None).await.map(drop)
        })?;
    }
    if format == Format::Json {
        return output::json(&json!({ "issue": name, "title": new.title }));
    }
    output::line(format_args!("opened    {name}  {}", new.title));
    output::next_step(format_args!("bailiwick run task.toml --issue '{name}'"));
    Ok(())
}

fn list(context: &Context, all: bool, format: Format) -> Result<(), Failure> {
    let local = issues::local(context)?;
    let ours = local.opened().map_err(issues::failure)?;
    for number in local.numbers().map_err(issues::failure)? {
        if !ours.contains(&number) {
            output::note(format_args!(
                "#{number} is left out: it was opened with another key or in another repository"
            ));
        }
    }
    let opened = issues::OpenIssues::open(context, None)?;
    let mut shown = Vec::new();
    for number in ours {
        let loaded = opened.with(async |protocol| protocol.load(number).await)?;
        if all || loaded.read.issue.is_open {
            shown.push(loaded);
        }
    }
    if format == Format::Json {
        let shown: Vec<_> = shown.iter().map(show::summary).collect();
        return output::json(&shown);
    }
    if shown.is_empty() {
        output::note("no open issues in this repository; `bailiwick memory new` opens one");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = shown.iter().map(show::row).collect();
    let columns = [
        Column::fixed("ISSUE"),
        Column::fixed("STATE"),
        Column::fixed("PHASE"),
        Column::number("TOKENS LEFT"),
        Column::text("TITLE"),
    ];
    output::table(&columns, &rows);
    Ok(())
}

fn budget(
    context: &Context,
    issue: &IssueName,
    tokens: u64,
    format: Format,
) -> Result<(), Failure> {
    let opened = issues::open_named(context, issue)?;
    let invocation = format!("budget-{}", system::random_name()?);
    let loaded = opened.with(async |protocol| {
        let loaded = protocol.load(issue.number).await?;
        if loaded.state.checkpoint.is_none() {
            return protocol.begin(issue.number, "person", "new", tokens, None).await;
        }
        protocol.set_budget(issue.number, "person", &invocation, tokens).await
    })?;
    if format == Format::Json {
        return output::json(&show::summary(&loaded));
    }
    let left = loaded.state.checkpoint.map_or(0, |checkpoint| checkpoint.budget.remaining);
    output::line(format_args!("budget    {tokens} tokens for {issue}; {left} left"));
    Ok(())
}

fn label(
    context: &Context,
    issue: &IssueName,
    change: LabelChange,
    format: Format,
) -> Result<(), Failure> {
    let labels = issues::open_named(context, issue)?.with(async |protocol| {
        let read = protocol.memory.read_issue(issue.number).await?;
        let labels = change_labels(&read.issue.labels, &change);
        let change = LabelChange::between(&read.issue.labels, &labels);
        protocol.memory.change_labels(issue.number, &change).await?;
        Ok(labels)
    })?;
    if format == Format::Json {
        return output::json(&json!({ "issue": issue, "labels": labels }));
    }
    output::line(format_args!("labels    {}", labels.join(", ")));
    Ok(())
}

fn comment(
    context: &Context,
    issue: &IssueName,
    text: &str,
    format: Format,
) -> Result<(), Failure> {
    let comment = issues::open_named(context, issue)?
        .with(async |protocol| protocol.memory.post_comment(issue.number, text).await)?;
    if format == Format::Json {
        return output::json(&json!({ "issue": issue, "comment": comment.id }));
    }
    output::line(format_args!("commented {issue}"));
    Ok(())
}

fn set_open(context: &Context, named: &Named, is_open: bool) -> Result<(), Failure> {
    let issue = &named.issue;
    issues::open_named(context, issue)?.with(async |protocol| {
        let read = protocol.memory.read_issue(issue.number).await?;
        if is_open && read.issue.is_locked {
            protocol.memory.set_locked(issue.number, false).await?;
        }
        protocol.memory.set_open(issue.number, is_open).await
    })?;
    if named.format.format == Format::Json {
        return output::json(&json!({ "issue": issue, "open": is_open }));
    }
    output::line(format_args!("{} {issue}", if is_open { "opened   " } else { "closed   " }));
    Ok(())
}

fn merge(context: &Context, remote: &str, format: Format) -> Result<(), Failure> {
    let local = issues::local(context)?;
    let merged = merge_issues(&local, remote).map_err(issues::failure)?;
    let word = |outcome: IssueMerge| match outcome {
        IssueMerge::Unchanged => "unchanged",
        IssueMerge::Added => "added",
        IssueMerge::Forwarded => "forwarded",
        IssueMerge::Merged => "merged",
        IssueMerge::Unrelated => "unrelated",
        IssueMerge::Foreign => "left out",
    };
    if format == Format::Json {
        let merged: Vec<_> = merged
            .iter()
            .map(|(number, outcome)| json!({ "issue": format!("#{number}"), "outcome": word(*outcome) }))
            .collect();
        output::json(&merged)?;
    } else if merged.is_empty() {
        output::note(format_args!(
            "git has fetched no issues from {remote}; see `bailiwick memory merge --help`"
        ));
    } else {
        for (number, outcome) in &merged {
            output::line(format_args!("{:<9} #{number}", word(*outcome)));
        }
    }
    for (number, _) in merged.iter().filter(|(_, outcome)| *outcome == IssueMerge::Foreign) {
        output::note(format_args!(
            "#{number} of {remote} was opened with another key or in another repository; copy memory.key from the \
             machine that opened it"
        ));
    }
    match merged.iter().find(|(_, outcome)| *outcome == IssueMerge::Unrelated) {
        None => Ok(()),
        Some((number, _)) => Err(Failure::usage(format!(
            "#{number} here and #{number} of {remote} were opened independently"
        ))
        .help(format!(
            "open yours again under another number, then: git update-ref -d refs/bailiwick/issues/{number}"
        ))),
    }
}
