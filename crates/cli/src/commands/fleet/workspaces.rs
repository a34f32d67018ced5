//! `bailiwick workspaces`: worktrees with a record, and what can be done with them.

use std::path::PathBuf;

use bailiwick_fleet::ports::{
    Fleet as _, FleetStore, Selection, WorkspaceAnswer, WorkspaceRequest, WorkspaceVerb,
};
use bailiwick_resources::{AnyObject, Kind, WorkItemKind, WorkItemRef};
use clap::{Args, Subcommand};
use serde_json::json;

use super::acting::ask;
use super::columns::{header, row};
use super::named::{Named, fetch};
use super::{Namespace, documents, now};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::wire;

/// Make, link, pin, put away, bring back and rebase workspaces
///
/// A workspace is a worktree on a branch of its own, with a record; runs of the control plane have one
/// each. Nothing that is not committed is ever lost: it forbids a cleanup, and is kept by an archive.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick workspaces list\n  bailiwick workspaces provision mend \
                  --repository app --issue 42\n  bailiwick workspaces archive mend\n  bailiwick \
                  workspaces rebase mend --onto main"
)]
pub struct Workspaces {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Where {
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Args)]
struct Which {
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    name: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Only if it has this version still
    #[arg(long, value_name = "N")]
    expected_version: Option<u64>,
    #[command(flatten)]
    place: Where,
}

/// What work is about.
#[derive(Debug, Args)]
struct Item {
    /// An issue of the repository
    #[arg(long, value_name = "N", conflicts_with_all = ["pr", "card"])]
    issue: Option<u64>,
    /// A pull request of the repository
    #[arg(long, value_name = "N", conflicts_with = "card")]
    pr: Option<u64>,
    /// A card of our own
    #[arg(long, value_name = "ID")]
    card: Option<String>,
}

impl Item {
    fn of(&self, repository: &str) -> Option<WorkItemRef> {
        let item = |kind, id| WorkItemRef { kind, repository: repository.to_owned(), id };
        let issue = self.issue.map(|number| item(WorkItemKind::Issue, number.to_string()));
        let pr = self.pr.map(|number| item(WorkItemKind::PullRequest, number.to_string()));
        let card = self.card.clone().map(|card| item(WorkItemKind::Card, card));
        issue.or(pr).or(card)
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them
    #[command(after_help = "Example:\n  bailiwick workspaces list --state idle -o json")]
    List {
        /// Only in this state: active, idle, archived, missing
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Show one, with what it is joined with
    #[command(after_help = "Example:\n  bailiwick workspaces show mend")]
    Show(Which),
    /// Make one: a worktree on a branch of its own
    #[command(
        after_help = "Example:\n  bailiwick workspaces provision mend --repository app --ref main"
    )]
    Provision {
        /// Its name; made up when left out
        name: Option<String>,
        /// The repository
        #[arg(long, value_name = "NAME")]
        repository: String,
        /// The branch or ref that it begins from; the default branch when left out
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// What is noted about it
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        #[command(flatten)]
        item: Item,
        #[command(flatten)]
        place: Where,
    },
    /// Take a worktree that is there for one, or join one with a work item
    #[command(
        after_help = "Example:\n  bailiwick workspaces link ../app-mend --repository app --pr 7"
    )]
    Link {
        /// The worktree
        path: PathBuf,
        /// Its name; made up when left out
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// The repository
        #[arg(long, value_name = "NAME")]
        repository: String,
        /// The branch that it is to be merged into; the default branch when left out
        #[arg(long, value_name = "BRANCH")]
        onto: Option<String>,
        #[command(flatten)]
        item: Item,
        #[command(flatten)]
        place: Where,
    },
    /// Part one from a work item, or forget a linked one; its files stay
    #[command(after_help = "Example:\n  bailiwick workspaces unlink mend --issue 42")]
    Unlink {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        item: Item,
    },
    /// Keep one until somebody unpins it
    #[command(after_help = "Example:\n  bailiwick workspaces pin mend")]
    Pin(Which),
    /// Keep one no longer than others
    #[command(after_help = "Example:\n  bailiwick workspaces unpin mend")]
    Unpin(Which),
    /// Write something about one; an empty text clears it
    #[command(after_help = "Example:\n  bailiwick workspaces note mend \"Waits for the release.\"")]
    Note {
        #[command(flatten)]
        which: Which,
        /// The text
        text: String,
    },
    /// Put the files of one away; its branch and what is not committed are kept
    #[command(after_help = "Example:\n  bailiwick workspaces archive mend")]
    Archive {
        #[command(flatten)]
        which: Which,
        /// What git ignores may go for good
        #[arg(long)]
        discard_ignored: bool,
    },
    /// Take one away, with its record; refused while anything is not committed
    #[command(after_help = "Example:\n  bailiwick workspaces cleanup mend")]
    Cleanup {
        #[command(flatten)]
        which: Which,
        /// What git ignores may go for good
        #[arg(long)]
        discard_ignored: bool,
    },
    /// Bring the files of one back
    #[command(alias = "restore", after_help = "Example:\n  bailiwick workspaces recover mend")]
    Recover(Which),
    /// Put one on top of its target, and settle what stands in the way
    #[command(
        after_help = "Examples:\n  bailiwick workspaces rebase mend --onto main\n  bailiwick workspaces \
                      rebase mend --files\n  bailiwick workspaces rebase mend --resolved\n  bailiwick \
                      workspaces rebase mend --abort"
    )]
    Rebase {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct How {
    /// Onto another branch than its target
    #[arg(long, value_name = "BRANCH")]
    onto: Option<String>,
    /// Settle what was settled before in the same way
    #[arg(long)]
    auto_resolve: bool,
    /// Tell the files with conflicts, to be opened in an editor
    #[arg(long)]
    files: bool,
    /// The conflicts are settled: go on
    #[arg(long)]
    resolved: bool,
    /// Back to where it was
    #[arg(long)]
    abort: bool,
}

impl How {
    fn verb(&self) -> WorkspaceVerb {
        match self {
            Self { auto_resolve: true, .. } => WorkspaceVerb::RebaseAutoResolve,
            Self { files: true, .. } => WorkspaceVerb::RebaseOpenInEditor,
            Self { resolved: true, .. } => WorkspaceVerb::RebaseMarkResolved,
            Self { abort: true, .. } => WorkspaceVerb::RebaseAbort,
            Self { .. } => WorkspaceVerb::RebaseStart,
        }
    }
}

impl Workspaces {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let of = WorkspaceRequest::of;
        match self.verb {
            Verb::List { state, place } => list(context, state, &place),
            Verb::Show(which) => show(context, &which),
            Verb::Provision { name, repository, reference, note, item, place } => {
                let work_item = item.of(&repository);
                let request = WorkspaceRequest {
                    name,
                    repository: Some(repository),
                    reference,
                    work_item,
                    notes: note,
                    ..of(WorkspaceVerb::Provision)
                };
                act(context, &place, None, request)
            }
            Verb::Link { path, name, repository, onto, item, place } => {
                let path = std::path::absolute(context.directory.join(path));
                let path = path.map_err(|error| Failure::usage(error.to_string()))?;
                let work_item = item.of(&repository);
                let request = WorkspaceRequest {
                    name,
                    path: Some(path.display().to_string()),
                    repository: Some(repository),
                    reference: onto,
                    work_item,
                    ..of(WorkspaceVerb::LinkExisting)
                };
                act(context, &place, None, request)
            }
            Verb::Unlink { which, item } => {
                let mut request = of(WorkspaceVerb::Unlink);
                if item.of("").is_some() {
                    let found = find(context, &which)?;
                    let of = found.spec.get("repository").and_then(|name| name.as_str());
                    request.work_item = item.of(of.unwrap_or_default());
                }
                do_to(context, which, request)
            }
            Verb::Pin(which) => do_to(context, which, of(WorkspaceVerb::Pin)),
            Verb::Unpin(which) => do_to(context, which, of(WorkspaceVerb::Unpin)),
            Verb::Note { which, text } => {
                let request =
                    WorkspaceRequest { notes: Some(text), ..of(WorkspaceVerb::NotesSave) };
                do_to(context, which, request)
            }
            Verb::Archive { which, discard_ignored } => {
                let request = WorkspaceRequest { discard_ignored, ..of(WorkspaceVerb::Archive) };
                do_to(context, which, request)
            }
            Verb::Cleanup { which, discard_ignored } => {
                let request = WorkspaceRequest { discard_ignored, ..of(WorkspaceVerb::Cleanup) };
                do_to(context, which, request)
            }
            Verb::Recover(which) => do_to(context, which, of(WorkspaceVerb::Recover)),
            Verb::Rebase { which, how } => {
                let request = WorkspaceRequest { reference: how.onto.clone(), ..of(how.verb()) };
                do_to(context, which, request)
            }
        }
    }
}

fn do_to(context: &Context, which: Which, request: WorkspaceRequest) -> Result<(), Failure> {
    let Which { name, reason, expected_version, place } = which;
    let request = WorkspaceRequest { reason, expected_version, ..request };
    act(context, &place, Some(&name), request)
}

fn act(
    context: &Context,
    place: &Where,
    name: Option<&str>,
    request: WorkspaceRequest,
) -> Result<(), Failure> {
    let files_only = request.action == WorkspaceVerb::RebaseOpenInEditor;
    let namespace = &place.namespace.namespace;
    let answer = ask(context, async |plane, caller| {
        Ok(plane.act_on_workspace(&caller, namespace, name, request).await?)
    })?;
    if place.format.format == Format::Json {
        return output::json(&answer);
    }
    if files_only {
        for file in &answer.files {
            output::line(file);
        }
        return Ok(());
    }
    tell(&answer);
    Ok(())
}

fn tell(answer: &WorkspaceAnswer) {
    let state = serde_json::to_value(answer.state).unwrap_or_default();
    let state = state.as_str().unwrap_or_default();
    output::line(format_args!("workspace/{} {state}: {}", answer.workspace, answer.message));
    for file in &answer.files {
        output::line(format_args!("  conflict  {file}"));
    }
    if let Some(kept) = &answer.kept {
        output::note(format_args!("what was not committed is kept in {kept}"));
    }
}

fn list(context: &Context, state: Option<String>, place: &Where) -> Result<(), Failure> {
    let mut selection = Selection {
        namespace: Some(place.namespace.namespace.clone()),
        ..Selection::of(Kind::AgentWorkspace)
    };
    if let Some(state) = state {
        const STATES: [&str; 4] = ["active", "idle", "archived", "missing"];
        if !STATES.contains(&state.as_str()) {
            let message = format!("a workspace is never `{state}`");
            return Err(Failure::usage(message).help(format!("use one of {}", STATES.join(", "))));
        }
        selection = selection.field("state", state);
    }
    let found = all(context, selection)?;
    if place.format.format == Format::Json {
        return output::json(&found);
    }
    if found.is_empty() {
        output::note("no workspaces");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(|one| row(one, true, now())).collect();
    output::table(&header(Kind::AgentWorkspace, true), &rows);
    Ok(())
}

fn all(context: &Context, mut selection: Selection) -> Result<Vec<AnyObject>, Failure> {
    wire::with_store(context, async |store| {
        let mut found = Vec::new();
        loop {
            let page = FleetStore::list(store, &selection).await?;
            found.extend(page.objects);
            if page.next.is_none() {
                return Ok(found);
            }
            selection.after = page.next;
        }
    })
}

fn find(context: &Context, which: &Which) -> Result<AnyObject, Failure> {
    let named = Named { kind: Kind::AgentWorkspace, names: vec![which.name.clone()] };
    let namespace = &which.place.namespace.namespace;
    let found = wire::with_store(context, async |store| fetch(store, &named, namespace).await)?;
    found.into_iter().next().ok_or_else(|| Failure::general("it is gone"))
}

fn show(context: &Context, which: &Which) -> Result<(), Failure> {
    let workspace = find(context, which)?;
    let selection =
        Selection::of(Kind::WorkItemWorkspaceLink).field("workspace", which.name.as_str());
    let links = all(context, selection)?;
    if which.place.format.format == Format::Json {
        return output::json(&json!({ "workspace": workspace, "links": links }));
    }
    output::text_out(documents::yaml(&workspace)?);
    for link in &links {
        let text = |pointer: &str| {
            link.spec.pointer(pointer).and_then(|it| it.as_str()).unwrap_or("-").to_owned()
        };
        output::line(format_args!(
            "joined with {} {} of {}",
            text("/workItemRef/kind"),
            text("/workItemRef/id"),
            text("/workItemRef/repository")
        ));
    }
    Ok(())
}
