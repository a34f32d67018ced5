//! The changes of a run: every file, every line, and comments on lines that reach the agent.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::LocalRunDiff;
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;
use serde::Deserialize;

use crate::highlight::{Sides, Span, language};
use crate::layout::{Layout, Section, html};
use crate::patch::{FilePatch, Hunk, LineKind, PatchLine};
use crate::run::{RunHeader, Tab, follow_side};
use crate::run_diff::{CommentRoute, Side, View, changed_files, comment_route, read};
use crate::site::{Site, query};
use crate::text::{line, number, visible};

/// More lines than this have no colours for their language, so that the page of a large change stays small.
const MAX_COLOURED: usize = 5_000;
/// A browser lays out this many lines at once, and only where they are seen; the stylesheet knows their height.
const LINES_PER_BLOCK: usize = 200;

#[derive(Template)]
#[template(path = "changes.html")]
struct ChangesPage {
    layout: Layout,
    header: RunHeader,
    files: Vec<FileView>,
    left_out: Vec<String>,
    added: usize,
    removed: usize,
    /// Why there is no diff.
    missing: Option<String>,
    view: View,
    can_comment: bool,
    /// Why no comment is possible.
    no_comment: Option<String>,
    /// Whether a comment was sent.
    is_sent: bool,
    /// How many files have no colours because the change is large.
    uncoloured: usize,
    max_coloured: String,
}

struct FileView {
    number: usize,
    path: String,
    notes: Vec<String>,
    added: usize,
    removed: usize,
    hunks: Vec<HunkView>,
    /// How wide the columns of the line numbers are, in digits.
    digits: usize,
}

struct HunkView {
    header: String,
    digest: String,
    blocks: Vec<Block>,
    /// The line on which a comment is written if the person chooses no line.
    comment_place: String,
}

/// Rows that a browser lays out together.
struct Block {
    rows: Vec<RowView>,
    is_full: bool,
}

/// A row of the table: one line, or two side by side.
struct RowView {
    kind: LineKind,
    left: Option<LineView>,
    right: Option<LineView>,
    /// The form for a comment is below this row.
    form: Option<CommentForm>,
}

#[derive(Clone)]
struct LineView {
    kind: LineKind,
    old: Option<u64>,
    new: Option<u64>,
    spans: Vec<Span>,
    /// The line as the address of a comment has it.
    place: String,
}

struct CommentForm {
    file: String,
    side: Side,
    line: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    #[serde(default)]
    view: View,
    /// The line on which the person writes a comment: `2n14` is line 14 of the new second file.
    #[serde(default)]
    c: String,
    #[serde(default)]
    sent: bool,
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let address = match query::<Address>(&parts) {
        Ok(address) => address,
        Err(error) => return site.error(Some(&session), &error),
    };
    match changes_page(site, &session, name, &address).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn changes_page(
    site: &Site,
    session: &Session,
    name: &str,
    address: &Address,
) -> Result<ChangesPage, ApiError> {
    let (detail, diff) = read(site, session, name).await?;
    let (diff, missing) = match diff {
        Ok(diff) => (diff, None),
        Err(gone) => (LocalRunDiff::default(), Some(gone.to_string())),
    };
    let mut layout = site.frame(session, line(&detail.run.name, 200)).await?.layout;
    layout.section = Section::Runs;
    follow_side(&mut layout, &detail);
    let header = RunHeader::read(site, session, &detail, Tab::Changes).await?;
    let files = changed_files(&diff);
    let (can_comment, no_comment) = match comment_route(site, session, &detail).await? {
        CommentRoute::Agent(_) | CommentRoute::Dispatch(_) => (true, None),
        CommentRoute::NotPermitted => {
            (false, Some("commenting needs a token with scope operator".to_owned()))
        }
        CommentRoute::Impossible(why) => (false, Some(line(&why, 300))),
    };
    let mut coloured = MAX_COLOURED;
    let comment = address.c.as_str();
    let mut uncoloured = 0;
    let views = files.iter().enumerate().map(|(index, file)| {
        let is_coloured = lines(file) <= coloured;
        uncoloured += usize::from(!is_coloured && language(&file.path).is_some());
        coloured = coloured.saturating_sub(lines(file));
        FileView::new(index + 1, file, address.view, is_coloured, comment)
    });
    let views: Vec<FileView> = views.collect();
    Ok(ChangesPage {
        layout,
        header,
        added: files.iter().map(|file| file.added).sum(),
        removed: files.iter().map(|file| file.removed).sum(),
        files: views,
        left_out: diff.left_out.iter().map(|path| visible(path)).collect(),
        missing,
        view: address.view,
        can_comment,
        no_comment,
        is_sent: address.sent,
        uncoloured,
        max_coloured: number(u64::try_from(MAX_COLOURED).unwrap_or(u64::MAX)),
    })
}

fn lines(file: &FilePatch) -> usize {
    file.hunks.iter().map(|hunk| hunk.lines.len()).sum()
}

/// How many digits the largest line number has.
fn digits(file: &FilePatch) -> usize {
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let largest = lines.filter_map(|line| line.new.max(line.old)).max().unwrap_or(0);
    largest.to_string().len()
}

fn blocks(rows: Vec<RowView>) -> Vec<Block> {
    let mut rows = rows.into_iter();
    let blocks = std::iter::from_fn(|| {
        let rows: Vec<RowView> = rows.by_ref().take(LINES_PER_BLOCK).collect();
        (!rows.is_empty()).then_some(Block { is_full: rows.len() == LINES_PER_BLOCK, rows })
    });
    blocks.collect()
}

impl FileView {
    fn new(number: usize, file: &FilePatch, view: View, coloured: bool, comment: &str) -> Self {
        let hunk = |hunk: &Hunk| HunkView::new(number, file, hunk, view, coloured, comment);
        Self {
            number,
            path: file.path.clone(),
            notes: file.notes.clone(),
            added: file.added,
            removed: file.removed,
            hunks: file.hunks.iter().map(hunk).collect(),
            digits: digits(file),
        }
    }
}

impl HunkView {
    fn new(
        number: usize,
        file: &FilePatch,
        hunk: &Hunk,
        arrangement: View,
        coloured: bool,
        comment: &str,
    ) -> Self {
        let mut sides = Sides::new(language(&file.path).filter(|_| coloured));
        let view = |line: &PatchLine| {
            let spans = sides.spans(line.kind, &line.text);
            let place = match (line.new, line.old) {
                (Some(new), _) => format!("{number}n{new}"),
                (None, Some(old)) => format!("{number}o{old}"),
                (None, None) => String::new(),
            };
            LineView { kind: line.kind, old: line.old, new: line.new, spans, place }
        };
        let lines: Vec<LineView> = hunk.lines.iter().map(view).collect();
        let form = |line: &LineView| {
            let (side, at) = match (line.new, line.old) {
                (Some(new), _) => (Side::New, new),
                (None, old) => (Side::Old, old?),
            };
            (line.place == comment).then(|| CommentForm { file: file.path.clone(), side, line: at })
        };
        let row = |left: Option<LineView>, right: Option<LineView>| {
            let of = |one: &Option<LineView>| one.as_ref().and_then(form);
            let kind = left.as_ref().or(right.as_ref()).map_or(LineKind::Context, |one| one.kind);
            RowView { kind, form: of(&right).or_else(|| of(&left)), left, right }
        };
        let at = |index: Option<usize>| index.and_then(|index| lines.get(index)).cloned();
        let changed = lines.iter().find(|line| line.kind != LineKind::Context);
        let comment_place = changed.map(|line| line.place.clone()).unwrap_or_default();
        let rows = match arrangement {
            View::Unified => lines.iter().map(|line| row(Some(line.clone()), None)).collect(),
            View::Split => {
                hunk.pairs().into_iter().map(|(left, right)| row(at(left), at(right))).collect()
            }
        };
        Self {
            header: hunk.header.clone(),
            digest: hunk.digest(&file.path),
            blocks: blocks(rows),
            comment_place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_file_is_split_into_blocks_with_every_line() {
        let patch = (1..=450)
            .fold("diff --git a/a b/a\n@@ -0,0 +1,450 @@\n".to_owned(), |text, line| {
                format!("{text}+line {line}\n")
            });
        let files = crate::patch::files(&patch, &["a".to_owned()]);
        let view = FileView::new(1, &files[0], View::Unified, true, "");
        let blocks = &view.hunks[0].blocks;
        let lengths: Vec<(usize, bool)> =
            blocks.iter().map(|block| (block.rows.len(), block.is_full)).collect();
        assert_eq!(lengths, [(200, true), (200, true), (50, false)]);
        let rows = blocks.iter().flat_map(|block| &block.rows);
        let lines: Vec<u64> = rows.filter_map(|row| row.left.as_ref()?.new).collect();
        assert_eq!(lines, Vec::from_iter(1..=450));
        assert_eq!(view.digits, 3);
    }
}
