//! The board: how far each run is, work items, workspaces, sessions, and who has claimed which paths.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{
    LocalClaim, LocalClaims, LocalRun, LocalRunList, LocalRunStage, TokenScope,
};
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, Kind, Moment, RunPhase, WorkItemRef, WorkItemSessionLink,
    WorkItemWorkspaceLink,
};
use bailiwick_server::{ApiError, ObjectList, Session};
use hyper::StatusCode;

use crate::fleet::list::ObjectRow;
use crate::fleet::{object_path, word};
use crate::layout::{Layout, Section, html};
use crate::site::{Site, now};
use crate::text::{Time, duration, encoded, line};

const MAX_NAME: usize = 80;
const MAX_LINE: usize = 160;
/// Runs of one group that are read; the list of runs has the others.
const MAX_RUNS: usize = 100;
/// Cards of a column; the list of runs has the others.
const MAX_CARDS: usize = 25;
const MAX_OBJECTS: usize = 50;

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    layout: Layout,
    columns: Vec<Column>,
    claims: Vec<ClaimLine>,
    work_items: Vec<WorkItemLine>,
    workspaces: Vec<ObjectRow>,
    sessions: Vec<ObjectRow>,
    can_act: bool,
    is_empty: bool,
}

struct Column {
    stage: LocalRunStage,
    label: &'static str,
    cards: Vec<Card>,
    left_out: usize,
}

struct Card {
    key: String,
    href: String,
    name: String,
    note: String,
    state: String,
    at: Time,
}

struct ClaimLine {
    claim: String,
    href: String,
    run: String,
    repository: String,
    paths: String,
    except: String,
    claimed: Time,
    expires_in: String,
}

struct WorkItemLine {
    name: String,
    kind: String,
    sessions: Vec<(String, String)>,
    workspaces: Vec<(String, String)>,
}

fn label(stage: LocalRunStage) -> &'static str {
    match stage {
        LocalRunStage::NeedsYou => "Needs you",
        LocalRunStage::Working => "Working",
        LocalRunStage::Verifying => "Verifying",
        LocalRunStage::ReadyToLand => "Ready to land",
        LocalRunStage::Landed => "Landed",
        LocalRunStage::Failed => "Failed",
    }
}

/// The column of a run of the control plane.
fn stage(phase: RunPhase) -> LocalRunStage {
    match phase {
        RunPhase::Pending | RunPhase::Queued | RunPhase::Running => LocalRunStage::Working,
        RunPhase::WaitingForApproval => LocalRunStage::NeedsYou,
        RunPhase::Succeeded => LocalRunStage::Landed,
        RunPhase::Failed | RunPhase::Cancelled => LocalRunStage::Failed,
    }
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    match board_page(site, &session).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn objects(site: &Site, session: &Session, kind: Kind) -> Result<Vec<AnyObject>, ApiError> {
    let path = format!("/api/v1alpha1/{}?order=newest&limit={MAX_OBJECTS}", kind.plural());
    Ok(site.api.get::<ObjectList>(session, &path).await?.items)
}

async fn board_page(site: &Site, session: &Session) -> Result<BoardPage, ApiError> {
    let now = now();
    let mut layout = site.frame(session, "Board").await?.layout;
    layout.section = Section::Board;
    layout.live = Some("topic=runs".to_owned());
    let mut runs = Vec::new();
    for group in ["needs-you", "working", "ready", "ended"] {
        let path = format!("/api/v1alpha1/local/runs?group={group}&limit={MAX_RUNS}");
        runs.extend(site.api.get::<LocalRunList>(session, &path).await?.items);
    }
    // A run is in one group; a server that answers otherwise must not double it.
    let mut seen = std::collections::BTreeSet::new();
    runs.retain(|run| seen.insert(run.id.clone()));
    let mut cards: Vec<(LocalRunStage, Card)> =
        runs.iter().map(|run| (run.stage, local_card(&site.base, run, now))).collect();
    let fleet = objects(site, session, Kind::AgentDispatchRun).await?;
    cards.extend(fleet.iter().filter_map(|object| fleet_card(&site.base, object, &seen, now)));
    let columns = LocalRunStage::ALL.into_iter().map(|stage| {
        let (own, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut cards).into_iter().partition(|(of, _)| *of == stage);
        cards = rest;
        let mut own: Vec<Card> = own.into_iter().map(|(_, card)| card).collect();
        let left_out = own.len().saturating_sub(MAX_CARDS);
        own.truncate(MAX_CARDS);
        Column { stage, label: label(stage), cards: own, left_out }
    });
    let columns: Vec<Column> = columns.collect();
    let claims: LocalClaims = site.api.get(session, "/api/v1alpha1/local/claims").await?;
    let rows = |objects: Vec<AnyObject>| {
        objects.iter().map(|object| ObjectRow::new(&site.base, object, now)).collect()
    };
    let sessions = objects(site, session, Kind::WorkItemSessionLink).await?;
    let links = objects(site, session, Kind::WorkItemWorkspaceLink).await?;
    Ok(BoardPage {
        is_empty: columns.iter().all(|column| column.cards.is_empty()),
        columns,
        claims: claims.items.iter().map(|claim| claim_line(&site.base, claim, now)).collect(),
        work_items: work_items(&site.base, &sessions, &links),
        workspaces: rows(objects(site, session, Kind::AgentWorkspace).await?),
        sessions: rows(objects(site, session, Kind::AgentSession).await?),
        can_act: session.scope() >= TokenScope::Operator,
        layout,
    })
}

fn local_card(base: &str, run: &LocalRun, now: Moment) -> Card {
    let place = run.repository.rsplit('/').next().unwrap_or_default();
    let words = [run.role.as_str(), run.agent.as_str(), place];
    let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
    Card {
        key: format!("run-{}", run.id),
        href: format!("{base}/local/{}", encoded(&run.id)),
        name: line(&run.name, MAX_NAME),
        note: line(&words.join(" · "), MAX_LINE),
        state: line(&run.state, MAX_NAME),
        at: Time::new(run.ended_at.unwrap_or(run.created_at), now),
    }
}

/// None for a run whose agent is on this machine: it is shown already.
fn fleet_card(
    base: &str,
    object: &AnyObject,
    shown: &std::collections::BTreeSet<String>,
    now: Moment,
) -> Option<(LocalRunStage, Card)> {
    let run = object.typed::<AgentDispatchRun>().ok()?;
    if run.status.ledger_run_id.as_ref().is_some_and(|agent| shown.contains(agent)) {
        return None;
    }
    let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
    let words =
        format!("{} · {} · {}", run.spec.agent_stack, run.spec.task_kind, run.spec.repository);
    let at = run.status.completed_at.or(object.metadata.creation_timestamp).unwrap_or_default();
    let card = Card {
        key: format!("fleet-{namespace}-{name}"),
        href: object_path(base, namespace, Kind::AgentDispatchRun, name),
        name: line(name, MAX_NAME),
        note: line(&words, MAX_LINE),
        state: run.status.phase.as_str().to_owned(),
        at: Time::new(at, now),
    };
    Some((stage(run.status.phase), card))
}

fn claim_line(base: &str, claim: &LocalClaim, now: Moment) -> ClaimLine {
    let left = claim.expires_at.millis().saturating_sub(now.millis());
    ClaimLine {
        claim: line(&claim.claim, MAX_NAME),
        href: format!("{base}/local/{}", encoded(&claim.run)),
        run: line(&claim.run, MAX_NAME),
        repository: line(&claim.repository, MAX_LINE),
        paths: line(&claim.paths.join(", "), MAX_LINE),
        except: line(&claim.except.join(", "), MAX_LINE),
        claimed: Time::new(claim.claimed_at, now),
        expires_in: duration(left),
    }
}

/// Work items with what is linked to them.
fn work_items(base: &str, sessions: &[AnyObject], workspaces: &[AnyObject]) -> Vec<WorkItemLine> {
    let mut all: Vec<(WorkItemRef, WorkItemLine)> = Vec::new();
    let mut line_of = |item: WorkItemRef| {
        if let Some(index) = all.iter().position(|(known, _)| *known == item) {
            return index;
        }
        let name = line(&format!("{}#{}", item.repository, item.id), MAX_LINE);
        let kind = word(&item.kind);
        all.push((item, WorkItemLine { name, kind, sessions: Vec::new(), workspaces: Vec::new() }));
        all.len() - 1
    };
    let mut links = Vec::new();
    for object in sessions {
        if let Ok(link) = object.typed::<WorkItemSessionLink>() {
            let index = line_of(link.spec.work_item_ref);
            links.push((index, object, Kind::AgentSession, link.spec.session_ref));
        }
    }
    for object in workspaces {
        if let Ok(link) = object.typed::<WorkItemWorkspaceLink>() {
            let index = line_of(link.spec.work_item_ref);
            links.push((index, object, Kind::AgentWorkspace, link.spec.workspace_ref));
        }
    }
    for (index, object, kind, name) in links {
        let Some((_, found)) = all.get_mut(index) else { continue };
        let href = object_path(base, &object.metadata.namespace, kind, &name);
        let shown = (href, line(&name, MAX_NAME));
        let list = match kind == Kind::AgentSession {
            true => &mut found.sessions,
            false => &mut found.workspaces,
        };
        list.push(shown);
    }
    all.into_iter().map(|(_, line)| line).collect()
}
