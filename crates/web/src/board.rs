//! The board: how far each run is, work items, workspaces, sessions, and who has claimed which paths.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{
    LocalClaim, LocalClaims, LocalRun, LocalRunGroup, LocalRunList, LocalRunStage, TokenScope,
};
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, Kind, Moment, RunPhase, WorkItemRef, WorkItemSessionLink,
    WorkItemWorkspaceLink,
};
use bailiwick_server::{ApiError, ObjectList, Session, StageCounts};
use hyper::StatusCode;

use crate::clock::now;
use crate::fleet::list::ObjectRow;
use crate::fleet::{object_path, word};
use crate::layout::{Layout, Section, html};
use crate::runs::group_name;
use crate::site::Site;
use crate::text::{Time, duration, encoded, line, number};

const MAX_NAME: usize = 80;
const MAX_LINE: usize = 160;
/// Runs that are read at once.
const PAGE_SIZE: usize = 100;
/// The pages of each group in which the newest runs of each stage are looked for.
const MAX_PAGES: [(LocalRunGroup, usize); 4] = [
    (LocalRunGroup::NeedsYou, 10),
    (LocalRunGroup::Working, 10),
    (LocalRunGroup::Ready, 10),
    (LocalRunGroup::Ended, 1),
];
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
    /// The addresses and labels of the lists with older links of work items.
    older_work_items: Vec<(String, &'static str)>,
    workspaces: Vec<ObjectRow>,
    /// The address of the list that continues after these, if there are more.
    older_workspaces: Option<String>,
    sessions: Vec<ObjectRow>,
    older_sessions: Option<String>,
    can_act: bool,
    is_empty: bool,
}

struct Column {
    stage: LocalRunStage,
    label: &'static str,
    cards: Vec<Card>,
    count: String,
    /// Whether there are more runs than cards.
    has_more: bool,
    list: RunsLink,
}

/// The list with every run of a column.
struct RunsLink {
    group: &'static str,
    label: &'static str,
}

impl RunsLink {
    fn of(stage: LocalRunStage) -> Self {
        let (group, label) = match stage {
            LocalRunStage::NeedsYou | LocalRunStage::ReadyToLand => {
                (LocalRunGroup::NeedsYou, "All runs that need you")
            }
            LocalRunStage::Working | LocalRunStage::Verifying => {
                (LocalRunGroup::Working, "All working runs")
            }
            LocalRunStage::Landed | LocalRunStage::Failed => {
                (LocalRunGroup::Ended, "All ended runs")
            }
        };
        Self { group: group_name(group), label }
    }
}

/// The newest agents of this machine of each group.
async fn local_runs(
    site: &Site,
    session: &Session,
    counts: &StageCounts,
) -> Result<Vec<LocalRun>, ApiError> {
    let mut runs: Vec<LocalRun> = Vec::new();
    for (group, max_pages) in MAX_PAGES {
        let name = group_name(group);
        let first = format!("/api/v1alpha1/local/runs?group={name}&limit={PAGE_SIZE}");
        let mut path = first.clone();
        for _ in 0..max_pages {
            let page: LocalRunList = site.api.get(session, &path).await?;
            runs.extend(page.items);
            let Some(next) = page.next.filter(|_| !is_enough(group, &runs, counts)) else { break };
            path = format!("{first}&continue={}", encoded(&next));
        }
    }
    // A run is in one group; a server that answers otherwise must not double it.
    let mut seen = BTreeSet::new();
    runs.retain(|run| seen.insert(run.id.clone()));
    Ok(runs)
}

/// Whether every column has its cards of a group.
fn is_enough(group: LocalRunGroup, runs: &[LocalRun], counts: &StageCounts) -> bool {
    let is_full = |stage: &LocalRunStage| {
        let read = runs.iter().filter(|run| run.stage == *stage).count();
        read >= MAX_CARDS || u64::try_from(read).is_ok_and(|read| read >= counts.of(*stage))
    };
    stages_of(group).iter().all(is_full)
}

/// The stages that runs of a group have.
fn stages_of(group: LocalRunGroup) -> &'static [LocalRunStage] {
    match group {
        LocalRunGroup::NeedsYou => {
            &[LocalRunStage::NeedsYou, LocalRunStage::ReadyToLand, LocalRunStage::Failed]
        }
        LocalRunGroup::Working => &[LocalRunStage::Working, LocalRunStage::Verifying],
        LocalRunGroup::Ready => &[LocalRunStage::NeedsYou],
        LocalRunGroup::Ended => &[LocalRunStage::Landed, LocalRunStage::Failed],
    }
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
    expires_at: String,
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

/// The newest objects of a kind, and the address of the list that continues after them, if there are more.
async fn objects(
    site: &Site,
    session: &Session,
    kind: Kind,
) -> Result<(Vec<AnyObject>, Option<String>), ApiError> {
    let path = format!("/api/v1alpha1/{}?order=newest&limit={MAX_OBJECTS}", kind.plural());
    let list: ObjectList = site.api.get(session, &path).await?;
    let all = format!("{}/fleet/kinds/{}", site.base, kind.plural());
    let older = list.metadata.next.map(|next| format!("{all}?after={}", encoded(&next)));
    Ok((list.items, older))
}

/// Every stage with its newest runs, and how many there are.
async fn columns(site: &Site, session: &Session, now: Moment) -> Result<Vec<Column>, ApiError> {
    let counts: StageCounts = site.api.get(session, "/api/v1alpha1/all-runs/stages").await?;
    let local = local_runs(site, session, &counts).await?;
    let mut cards: Vec<(LocalRunStage, Card)> =
        local.iter().map(|run| (run.stage, local_card(&site.base, run, now))).collect();
    let (fleet, _) = objects(site, session, Kind::AgentDispatchRun).await?;
    cards.extend(fleet.iter().filter_map(|object| fleet_card(&site.base, object, now)));
    let column = |stage: LocalRunStage| {
        let (own, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut cards).into_iter().partition(|(of, _)| *of == stage);
        cards = rest;
        // A run can have come in since they were counted.
        let count = counts.of(stage).max(u64::try_from(own.len()).unwrap_or(u64::MAX));
        // Only open runs are left out, and none of them has landed.
        let is_cut = counts.is_incomplete && stage != LocalRunStage::Landed;
        let cards: Vec<Card> = own.into_iter().map(|(_, card)| card).take(MAX_CARDS).collect();
        Column {
            stage,
            label: label(stage),
            has_more: is_cut || u64::try_from(cards.len()).is_ok_and(|shown| shown < count),
            cards,
            count: format!("{}{}", number(count), if is_cut { "+" } else { "" }),
            list: RunsLink::of(stage),
        }
    };
    Ok(LocalRunStage::ALL.into_iter().map(column).collect())
}

async fn board_page(site: &Site, session: &Session) -> Result<BoardPage, ApiError> {
    let now = now();
    let mut layout = site.frame(session, "Board").await?.layout;
    layout.section = Section::Board;
    layout.live = Some("topic=runs".to_owned());
    let columns = columns(site, session, now).await?;
    let claims: LocalClaims = site.api.get(session, "/api/v1alpha1/local/claims").await?;
    let rows = |objects: Vec<AnyObject>| {
        objects.iter().map(|object| ObjectRow::new(&site.base, object, now)).collect()
    };
    let (to_sessions, older_to_sessions) =
        objects(site, session, Kind::WorkItemSessionLink).await?;
    let (to_workspaces, older_to_workspaces) =
        objects(site, session, Kind::WorkItemWorkspaceLink).await?;
    let older_links = [
        (older_to_workspaces, "Older links to workspaces"),
        (older_to_sessions, "Older links to sessions"),
    ];
    let older_links = older_links.into_iter().filter_map(|(href, label)| Some((href?, label)));
    let (workspaces, older_workspaces) = objects(site, session, Kind::AgentWorkspace).await?;
    let (sessions, older_sessions) = objects(site, session, Kind::AgentSession).await?;
    Ok(BoardPage {
        is_empty: columns.iter().all(|column| column.cards.is_empty()),
        columns,
        claims: claims.items.iter().map(|claim| claim_line(&site.base, claim, now)).collect(),
        work_items: work_items(&site.base, &to_sessions, &to_workspaces),
        older_work_items: older_links.collect(),
        workspaces: rows(workspaces),
        older_workspaces,
        sessions: rows(sessions),
        older_sessions,
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

/// None for a run with an agent: it is shown as that agent.
fn fleet_card(base: &str, object: &AnyObject, now: Moment) -> Option<(LocalRunStage, Card)> {
    let run = object.typed::<AgentDispatchRun>().ok()?;
    if run.status.ledger_run_id.is_some() {
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
        expires_at: claim.expires_at.to_string(),
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
