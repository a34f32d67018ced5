//! The fleet pages of a server with objects of every kind: their content, and the actions they offer and accept.

use std::collections::BTreeSet;

use bailiwick_fleet::ports::{TokenScope, Write};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AnyObject, Kind};
use serde_json::json;

use crate::browser::form;
use crate::page_sources::attribute;
use crate::scripted_fleet::{objects, serve_fleet, serve_fleet_at};
use crate::scripted_runs::{HOSTILE, serve};

const RULE: &str = "/ui/fleet/objects/default/agenttriggerrules/mend";
const WORKSPACE: &str = "/ui/fleet/objects/default/agentworkspaces/ws-1";
const REVIEW: &str = "/ui/fleet/permissions?stack=fixer&repository=o%2Fn";
pub(crate) const POOL: &str = "apiVersion: bailiwick.dev/v1alpha1\nkind: RunnerPool\nmetadata:\n  name: pool\n\
                    spec:\n  capacity: 3\n  trustTier: trusted\n  serviceAccountRef: runner\n";

/// A copy of an object with another name.
fn copy_of(name: &str, copy: &str) -> AnyObject {
    let mut object = objects().into_iter().find(|one| one.metadata.name == name).unwrap();
    object.metadata.name = copy.to_owned();
    object
}

/// Every page of the fleet.
pub(crate) fn addresses() -> Vec<String> {
    let mut all: Vec<String> =
        ["/ui/board", "/ui/numbers", "/ui/fleet", "/ui/fleet/audit", "/ui/fleet/edit", REVIEW]
            .map(str::to_owned)
            .to_vec();
    for object in objects() {
        let (plural, name) = (object.kind.plural(), &object.metadata.name);
        all.push(format!("/ui/fleet/kinds/{plural}"));
        all.push(format!("/ui/fleet/objects/default/{plural}/{name}"));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_text_is_escaped_on_every_fleet_page() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    for path in addresses() {
        let reply = browser.get(&path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert!(!reply.text.contains(HOSTILE) && !reply.text.contains("<script>"), "{path}");
        assert!(!reply.text.contains('\u{202e}') && !reply.text.contains('\u{1b}'), "{path}");
        assert!(reply.text.len() < 200_000, "{path}: {} bytes", reply.text.len());
        for inline in [" onclick=", " onerror=alert(1)>", " style=", "<style", "javascript:"] {
            assert!(!reply.text.contains(inline), "{path}: {inline}");
        }
    }
    // The text itself is shown.
    for path in [RULE, WORKSPACE, REVIEW, "/ui/fleet/audit"] {
        let page = browser.get(path).await.text;
        assert!(page.contains("script&#62;alert(1)"), "{path}: {page}");
    }
    let trial = browser.post(&format!("{RULE}/test"), &form(&[("delivery", "wd-1")])).await;
    assert_eq!(trial.status, 200, "{}", trial.text);
    assert!(trial.text.contains("The rule matches") && !trial.text.contains("<script>"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_has_a_list_and_failing_conditions_show_advice() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let kinds = browser.get("/ui/fleet").await.text;
    for kind in Kind::ALL {
        let list = format!("/ui/fleet/kinds/{}", kind.plural());
        assert!(kinds.contains(&format!("href=\"{list}\"")), "{list}");
        let reply = browser.get(&list).await;
        assert_eq!(reply.status, 200, "{list}: {}", reply.text);
    }
    assert!(kinds.contains("Needs attention") && kinds.contains("MissingSecretGrant"), "{kinds}");
    let stack = browser.get("/ui/fleet/objects/default/agentstacks/fixer").await.text;
    let advice =
        bailiwick_fleet::explanation::advice(bailiwick_resources::Reason::MissingSecretGrant);
    let advice = advice.unwrap().split(['\'', '`', '<', '&', '"']).next().unwrap();
    assert!(stack.contains("SecretsAdmitted") && stack.contains(advice), "{stack}");
    assert!(stack.contains("of an older generation"), "{stack}");
    let empty = browser.get("/ui/fleet/kinds/agentskills").await.text;
    assert!(empty.contains("bailiwick api-resources AgentSkill"), "{empty}");
    assert_eq!(browser.get("/ui/fleet/kinds/nothing").await.status, 404);
    assert_eq!(browser.get("/ui/fleet/objects/default/agentstacks/nobody").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_page_actions_are_sent_through_the_api() {
    let (server, fleet) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let page = browser.get(RULE).await.text;
    for verb in ["pause", "disable", "archive", "replay", "materialize", "fire"] {
        assert!(page.contains(&format!("value=\"{verb}\"")), "{verb}: {page}");
    }
    assert!(!page.contains("value=\"resume\""), "an active rule cannot be resumed");
    assert!(page.contains("ate-1") && page.contains("value=\"wd-1\""), "{page}");
    let encode = |fields: &[(&str, &str)]| form(fields);
    let action_path = format!("{RULE}/rule");
    let paused = encode(&[("action", "pause"), ("reason", "noisy"), ("generation", "1")]);
    let reply = browser.post(&action_path, &paused).await;
    assert_eq!((reply.status, reply.header("location")), (303, RULE), "{}", reply.text);
    let execution = "/ui/fleet/objects/default/agenttriggerexecutions/ate-1";
    for action in ["replay", "materialize", "fire"] {
        let fields = encode(&[("action", action), ("delivery", "wd-1"), ("repository", "o/n")]);
        let reply = browser.post(&action_path, &fields).await;
        assert_eq!((reply.status, reply.header("location")), (303, execution), "{}", reply.text);
    }
    assert_eq!(browser.post(&action_path, &encode(&[("action", "explode")])).await.status, 400);
    assert_eq!(
        fleet.calls(),
        [
            "ada pause mend Some(1) noisy",
            "ada replay mend wd-1",
            "ada materialize mend wd-1",
            "ada fire mend o/n"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_pages_neither_offer_nor_accept_what_the_scope_forbids() {
    let scopes =
        [TokenScope::Viewer, TokenScope::Operator, TokenScope::Approver, TokenScope::Admin];
    for scope in scopes {
        let (server, fleet) = serve_fleet().await;
        let mut browser = server.signed_in(scope).await;
        let is_operator = scope >= TokenScope::Operator;
        let is_admin = scope >= TokenScope::Admin;
        let rule = browser.get(RULE).await.text;
        assert_eq!(rule.contains("value=\"pause\""), is_operator, "{scope:?}");
        assert_eq!(rule.contains("/fleet/edit"), is_admin, "{scope:?}");
        let kinds = browser.get("/ui/fleet").await.text;
        assert_eq!(kinds.contains("/fleet/edit"), is_admin, "{scope:?}");
        assert_eq!(kinds.contains("/fleet/audit"), is_admin, "{scope:?}");
        let workspace = browser.get(WORKSPACE).await.text;
        assert_eq!(workspace.contains("value=\"archive\""), is_operator, "{scope:?}");
        let delivery = browser.get("/ui/fleet/objects/default/webhookdeliveries/wd-1").await.text;
        assert_eq!(delivery.contains("id=\"payload\""), is_operator, "{scope:?}");
        let editor = browser.get("/ui/fleet/edit").await.text;
        assert_eq!(editor.contains("value=\"apply\""), is_admin, "{scope:?}");
        let audit = browser.get("/ui/fleet/audit").await.status;
        assert_eq!(audit, if is_admin { 200 } else { 403 }, "{scope:?}");

        let expected_status = |permitted: bool, status_if_permitted: u16| {
            if permitted { status_if_permitted } else { 403 }
        };
        let reply = browser.post(&format!("{RULE}/rule"), &form(&[("action", "pause")])).await;
        assert_eq!(reply.status, expected_status(is_operator, 303), "{scope:?}");
        let reply = browser.post(&format!("{RULE}/test"), &form(&[("delivery", "wd-1")])).await;
        assert_eq!(reply.status, expected_status(is_operator, 200), "{scope:?}");
        let reply =
            browser.post(&format!("{WORKSPACE}/workspace"), &form(&[("action", "pin")])).await;
        assert_eq!(reply.status, expected_status(is_operator, 303), "{scope:?}");
        let reply = browser.post("/ui/workspaces", &form(&[("action", "provision")])).await;
        assert_eq!(reply.status, expected_status(is_operator, 303), "{scope:?}");
        for action in ["check", "apply"] {
            let reply =
                browser.post("/ui/fleet/edit", &form(&[("text", POOL), ("action", action)])).await;
            assert_eq!(
                reply.status,
                expected_status(is_admin, 200),
                "{scope:?} {action}: {}",
                reply.text
            );
        }
        assert_eq!(fleet.calls().len(), if is_operator { 4 } else { 0 }, "{:?}", fleet.calls());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_changes_require_the_same_origin() {
    let (server, fleet) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let paths = [
        format!("{RULE}/rule"),
        format!("{RULE}/test"),
        format!("{WORKSPACE}/workspace"),
        "/ui/workspaces".to_owned(),
        "/ui/fleet/edit".to_owned(),
    ];
    for path in &paths {
        let reply =
            browser.post_with(path, "action=pause", &[("origin", "http://evil.example")]).await;
        assert_eq!(reply.status, 403, "{path}");
    }
    assert_eq!(fleet.calls(), Vec::<String>::new());
    assert_eq!(browser.post(&paths[0], "action=pause").await.status, 303, "positive control");
    let mut signed_out = crate::browser::Browser::new(server.address);
    for path in addresses() {
        assert_eq!(signed_out.get(&path).await.status, 303, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn editor_validates_shows_a_diff_and_applies() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let editor_form = |text: &str, action: &str| form(&[("text", text), ("action", action)]);
    let unsafe_object =
        browser.get("/ui/fleet/edit?kind=runnerpools&namespace=default&name=pool").await;
    assert_eq!(unsafe_object.status, 409, "a label has hidden characters: {}", unsafe_object.text);
    let template = browser.get("/ui/fleet/edit?kind=agentskills").await.text;
    assert!(template.contains("kind: AgentSkill"), "{template}");
    let wrong = POOL.replace("capacity: 3", "capacity: many");
    let reply = browser.post("/ui/fleet/edit", &editor_form(&wrong, "check")).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    assert!(reply.text.contains("role=\"alert\"") && reply.text.contains("capacity: many"));
    let reply = browser.post("/ui/fleet/edit", &editor_form("a: [", "check")).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    let hidden = POOL.replace("name: pool", "name: pool # \u{202e}");
    let reply = browser.post("/ui/fleet/edit", &editor_form(&hidden, "apply")).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    assert!(reply.text.contains("hidden characters") && reply.text.contains("⟨U+202E⟩"));
    let reply = browser.post("/ui/fleet/edit", &editor_form(POOL, "check")).await.text;
    assert!(reply.contains("class=\"add\"") && reply.contains("capacity: 3"), "{reply}");
    let unchanged = browser.get("/ui/fleet/objects/default/runnerpools/pool").await.text;
    assert!(unchanged.contains("capacity: 2"), "a check changes nothing: {unchanged}");
    let reply = browser.post("/ui/fleet/edit", &editor_form(POOL, "apply")).await.text;
    assert!(reply.contains("configured"), "{reply}");
    let changed = browser.get("/ui/fleet/objects/default/runnerpools/pool").await.text;
    assert!(changed.contains("capacity: 3"), "{changed}");
    let editor = browser.get("/ui/fleet/edit?kind=runnerpools&namespace=default&name=pool").await;
    assert!(editor.text.contains("capacity: 3"), "{}", editor.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_copy_button_works_and_copies_an_element_of_its_page() {
    let (server, _) = serve_fleet().await;
    server.add_approval().await;
    // The payload of the other delivery is shortened, so that it has no button.
    let bytes = b"{\"short\":1}".to_vec();
    let digest = Sha256Hex::of(&bytes).to_string();
    let mut delivery = copy_of("wd-1", "wd-short");
    delivery.spec["payloadDigest"] = json!(digest);
    server.write(vec![Write::Blob { digest, bytes }, Write::Create(delivery)]).await;
    let short = "/ui/fleet/objects/default/webhookdeliveries/wd-short".to_owned();
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let own = ["", "/changes", "/checks", "/context", "/policy", "/cost", "/lineage", "/artifacts"];
    let own = own.map(|tab| format!("/ui/local/fix-42{tab}"));
    let pages = addresses().into_iter().chain(own).chain(["/ui/inbox".to_owned(), short]);
    let mut copied = BTreeSet::new();
    for path in pages {
        let page = browser.get(&path).await.text;
        for part in page.split("<button").skip(1) {
            let tag = part.split('>').next().unwrap();
            let Some(id) = attribute(tag, "data-copy") else { continue };
            assert_eq!(attribute(tag, "class").as_deref(), Some("copy"), "{path}: {tag}");
            assert!(!tag.contains(" hidden"), "{path}: {tag}");
            assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{path}: {id}");
            copied.insert(id);
        }
    }
    // Positive control: these are on different pages.
    for id in ["payload", "declared", "grants", "what-default-aap-1"] {
        assert!(copied.contains(id), "{id}: {copied:?}");
    }
}

/// The hidden fields of the editor, and a text to send with them.
fn opened_form(editor: &str, text: &str, action: &str) -> String {
    let (_, rest) = editor.split_once("action=\"/ui/fleet/edit\"").unwrap();
    let tags =
        rest.split("<input ").skip(1).map(|tag| format!(" {}", tag.split('>').next().unwrap()));
    let hidden = tags.filter(|tag| tag.contains("type=\"hidden\""));
    let hidden: Vec<(String, String)> = hidden
        .map(|tag| (attribute(&tag, "name").unwrap(), attribute(&tag, "value").unwrap()))
        .collect();
    assert_eq!(hidden.len(), 5, "{hidden:?}");
    let fields = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    form(&fields.chain([("text", text), ("action", action)]).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn editor_refuses_to_undo_a_change_that_it_has_not_shown() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let apply = |text: &str| form(&[("text", text), ("action", "apply")]);
    let with_capacity = |capacity: &str| POOL.replace("capacity: 3", capacity);
    browser.post("/ui/fleet/edit", &apply(POOL)).await;
    let address = "/ui/fleet/edit?kind=runnerpools&namespace=default&name=pool";
    let opened = browser.get(address).await.text;
    // Somebody else changes the object meanwhile.
    let other = browser.post("/ui/fleet/edit", &apply(&with_capacity("capacity: 4"))).await;
    assert!(other.text.contains("configured"), "{}", other.text);
    for action in ["check", "apply"] {
        let own = opened_form(&opened, &with_capacity("capacity: 5"), action);
        let reply = browser.post("/ui/fleet/edit", &own).await;
        assert_eq!(reply.status, 409, "{action}: {}", reply.text);
        assert!(reply.text.contains("capacity: 5"), "the text is kept: {}", reply.text);
        assert!(reply.text.contains("edit what is stored now"), "{}", reply.text);
        let again = browser.post("/ui/fleet/edit", &opened_form(&reply.text, POOL, action)).await;
        assert_eq!(again.status, 409, "the second attempt undoes it neither: {}", again.text);
    }
    let stored = browser.get("/ui/fleet/objects/default/runnerpools/pool").await.text;
    assert!(stored.contains("capacity: 4"), "{stored}");

    // Positive controls: without a change in between, twice, and with a change of the status only.
    let mut editor = browser.get(address).await.text;
    for capacity in ["capacity: 6", "capacity: 7"] {
        let reply = browser
            .post("/ui/fleet/edit", &opened_form(&editor, &with_capacity(capacity), "apply"))
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        editor = reply.text;
    }
    let mut pool = objects().into_iter().find(|one| one.metadata.name == "pool").unwrap();
    pool.metadata.resource_version = 0;
    pool.status = json!({ "observedGeneration": 1 });
    server.write(vec![Write::Status(pool)]).await;
    let own = opened_form(&editor, &with_capacity("capacity: 8"), "apply");
    let reply = browser.post("/ui/fleet/edit", &own).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let stored = browser.get("/ui/fleet/objects/default/runnerpools/pool").await.text;
    assert!(stored.contains("capacity: 8"), "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permission_review_shows_missing_grants_as_graph_table_and_yaml() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get(REVIEW).await.text;
    assert!(page.contains("<svg class=\"graph\"") && page.contains("node missing"), "{page}");
    assert!(page.contains("<td>Missing secret grant</td>"), "{page}");
    assert!(page.contains("kind: AgentSecretGrant"), "{page}");
    assert!(page.contains("would be denied") && !page.contains("Check in the editor"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_opens_at_its_end_and_links_to_all_older_entries() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let mut address = "/ui/fleet/audit".to_owned();
    let mut seen = Vec::new();
    for _ in 0..10 {
        let page = browser.get(&address).await.text;
        let events = page.split("<code>Event").skip(1);
        seen.extend(events.map(|part| part.split('<').next().unwrap().parse::<u32>().unwrap()));
        let older = page.split("rel=\"next\" href=\"").nth(1);
        let Some(older) = older.and_then(|rest| rest.split('"').next()) else { break };
        address = older.replace("&#38;", "&");
    }
    let expected: Vec<u32> = (0..450).rev().collect();
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_links_have_the_path_prefix() {
    let (server, _) = serve_fleet_at("/agents").await;
    let mut browser = server.signed_in_below(TokenScope::Admin, "/agents").await;
    for path in addresses() {
        let page = browser.get(&format!("/agents{path}")).await.text;
        let links = page.split("href=\"").skip(1).chain(page.split("action=\"").skip(1));
        let links = links.filter_map(|part| part.split('"').next());
        for link in links.filter(|link| link.starts_with('/')) {
            assert!(link.starts_with("/agents/ui/"), "{path}: {link}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_fleet_page_explains_how_to_declare_resources() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let page = browser.get("/ui/fleet").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Nothing is declared yet") && page.text.contains("bailiwick apply"));
    let review = browser.get("/ui/fleet/permissions").await.text;
    assert!(review.contains("A review needs a stack and a repository"), "{review}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn board_has_every_stage_claims_workspaces_and_sessions() {
    let (server, fleet) = serve_fleet().await;
    let mut viewer = server.signed_in(TokenScope::Viewer).await;
    let page = viewer.get("/ui/board").await.text;
    for label in ["Needs you", "Working", "Verifying", "Ready to land", "Landed", "Failed"] {
        assert!(page.contains(&format!("aria-label=\"{label}\"")), "{label}: {page}");
    }
    assert_eq!(page.matches("data-row=\"run-fix-42\"").count(), 1, "a run is in one column");
    assert!(page.contains("<td>17</td>") && page.contains("/ui/local/fix-42"), "{page}");
    for link in ["agentworkspaces/ws-1", "agentsessions/as-1", "agentdispatchruns/adr-1"] {
        assert!(page.contains(link), "{link}: {page}");
    }
    assert!(!page.contains("value=\"provision\""), "a viewer cannot create a workspace");
    let mut operator = server.signed_in(TokenScope::Operator).await;
    assert!(operator.get("/ui/board").await.text.contains("value=\"provision\""));
    let form = form(&[("action", "provision"), ("repository", "o/n")]);
    let reply = operator.post("/ui/workspaces", &form).await;
    let created = "/ui/fleet/objects/default/agentworkspaces/made-1";
    assert_eq!((reply.status, reply.header("location")), (303, created), "{}", reply.text);
    assert_eq!(fleet.calls(), ["ada provision made-1 false"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn board_column_counts_every_run_and_links_to_hidden_ones() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let column = |page: &str, label: &str| {
        let (_, rest) = page.split_once(&format!("aria-label=\"{label}\"")).unwrap();
        rest.split("</section>").next().unwrap().to_owned()
    };
    // One run of the control plane is running.
    let few = column(&browser.get("/ui/board").await.text, "Working");
    assert!(few.contains(">1</span>") && !few.contains("shown."), "{few}");
    server.runs.set_working(250);
    let page = browser.get("/ui/board").await.text;
    let many = column(&page, "Working");
    assert!(many.contains(">251</span>"), "{many}");
    assert_eq!(many.matches("data-row=").count(), 25, "{many}");
    assert!(many.contains("25 shown. <a href=\"/ui/runs?group=working\">"), "{many}");
    // Runs that are not loaded are counted, too.
    let before = column(&page, "Landed");
    assert!(before.contains(">0</span>") && !before.contains("shown."), "{before}");
    server.runs.set_working(2_000);
    server.runs.set_landed(98_765);
    let page = browser.get("/ui/board").await.text;
    let all = column(&page, "Working");
    assert!(all.contains(">2\u{202f}001</span>"), "{all}");
    let landed = column(&page, "Landed");
    assert!(landed.contains(">98\u{202f}765</span>"), "{landed}");
    let link = "0 shown. <a href=\"/ui/runs?group=ended\">All ended runs</a>";
    assert!(landed.contains(link), "{landed}");
    // An incomplete count is marked with a plus sign.
    server.runs.make_counts_incomplete();
    let page = browser.get("/ui/board").await.text;
    assert!(column(&page, "Working").contains(">2\u{202f}001+</span>"), "{page}");
    assert!(column(&page, "Landed").contains(">98\u{202f}765</span>"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn board_list_links_to_older_objects() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let board = browser.get("/ui/board").await.text;
    assert!(!board.contains(">Older "), "positive control: {board}");
    let link = |kind: Kind, number: u32| {
        let item = json!({ "kind": "issue", "repository": "o/n", "id": number.to_string() });
        let mut object = copy_of("ws-1", &format!("{}-{number}", kind.short()));
        object.kind = kind;
        object.spec = json!({
            "workItemRef": item, "sessionRef": "as-1", "linkSource": "automation-derived",
            "createdBy": "ada",
        });
        object.status = json!(null);
        if kind == Kind::WorkItemWorkspaceLink {
            object.spec["workspaceRef"] = json!("ws-1");
            object.spec.as_object_mut().unwrap().remove("sessionRef");
        }
        Write::Create(object)
    };
    let mut writes = Vec::new();
    for number in 0..51 {
        writes.push(Write::Create(copy_of("ws-1", &format!("ws-new-{number}"))));
        writes.push(Write::Create(copy_of("as-1", &format!("as-new-{number}"))));
        writes.push(link(Kind::WorkItemSessionLink, number));
        writes.push(link(Kind::WorkItemWorkspaceLink, number));
    }
    server.write(writes).await;
    let board = browser.get("/ui/board").await.text;
    let path = |kind: Kind, name: &str| format!("default/{}/{name}\"", kind.plural());
    for (kind, label, oldest) in [
        (Kind::AgentWorkspace, "Older workspaces", "ws-new-0"),
        (Kind::AgentSession, "Older sessions", "as-new-0"),
        (Kind::WorkItemSessionLink, "Older links to sessions", "sessionlink-0"),
        (Kind::WorkItemWorkspaceLink, "Older links to workspaces", "workspacelink-0"),
    ] {
        let (before, _) = board.split_once(&format!("\">{label}</a>")).expect(label);
        let older = before.rsplit("href=\"").next().unwrap();
        assert!(!board.contains(&path(kind, oldest)), "{label}: {board}");
        let page = browser.get(older).await.text;
        assert!(page.contains(&path(kind, oldest)), "{older}: {page}");
        // It has no object that the board shows.
        let newest = oldest.replace("-0", "-50");
        assert!(!page.contains(&path(kind, &newest)), "{older}: {page}");
    }
    assert!(board.contains(&path(Kind::AgentWorkspace, "ws-new-50")), "{board}");
    assert!(board.contains("50 shown. <a href=\"/ui/fleet/kinds/agentsessions?after="), "{board}");
    // Both lists have the work items 1 to 50.
    assert!(board.contains("<bdi>o/n#50</bdi>") && !board.contains("<bdi>o/n#0</bdi>"), "{board}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_plot_has_a_table_and_data_files() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get("/ui/numbers?days=7").await.text;
    for plot in ["runs", "denials", "stacks", "roles", "models", "phases", "queue"] {
        assert!(page.contains(&format!("id=\"{plot}\"")), "{plot}");
    }
    assert_eq!(page.matches("<svg class=\"graph plot\" viewBox").count(), 7, "{page}");
    assert_eq!(page.matches(", table\">").count(), 7, "{page}");
    assert!(page.contains("$1.25") && page.contains("1 min"), "{page}");
    let csv = browser.get("/ui/numbers.csv?days=7").await;
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8");
    assert!(csv.header("content-disposition").starts_with("attachment"));
    assert!(csv.text.contains("denials,") && csv.text.contains(",3,,,,"), "{}", csv.text);
    let json = browser.get("/ui/numbers.json?days=7").await;
    let json: serde_json::Value = serde_json::from_str(&json.text).unwrap();
    assert_eq!(json["denials"][0]["count"], 3);
    assert_eq!(browser.get("/ui/numbers?days=0").await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_and_its_dispatch_run_link_to_each_other() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let (agent, run) = ("/ui/local/fix-42", "/ui/fleet/objects/default/agentdispatchruns/adr-9");
    let link = |address: &str| format!("<a href=\"{address}\"><bdi>");
    let before = browser.get(agent).await.text;
    assert!(!before.contains(&link(run)), "positive control: {before}");
    let mut object = copy_of("adr-2", "adr-9");
    object.status = json!({ "phase": "running", "agentMuxRunId": "fix-42" });
    server.write(vec![Write::Create(object.clone()), Write::Status(object)]).await;
    for tab in ["", "/changes", "/checks", "/context"] {
        let page = browser.get(&format!("{agent}{tab}")).await.text;
        assert!(page.contains(&link(run)), "{tab}: {page}");
    }
    let page = browser.get(run).await.text;
    assert!(page.contains(&link(agent)), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comment_on_the_work_of_a_finished_attempt_continues_its_run() {
    let (server, fleet) = serve_fleet().await;
    server.runs.make_managed();
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let page_path = "/ui/local/fix-42/changes?c=1n3";
    let comment = |page: &str| -> String {
        let part = page.split("<form id=\"c\"").nth(1).expect("the form is below the line");
        let file = attribute(part, "value").unwrap();
        let file = file.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"");
        let file = file.replace("&#39;", "'").replace("&#38;", "&");
        form(&[("file", &file), ("side", "new"), ("line", "3"), ("text", "Why?")])
    };
    let target = "/ui/local/fix-42/comment";
    let without_run = browser.get(page_path).await.text;
    let why = "commented on: <bdi>it belongs to a run of the control plane</bdi>";
    assert!(without_run.contains(why) && !without_run.contains(target), "{without_run}");

    let mut object = copy_of("adr-2", "adr-9");
    object.status =
        json!({ "phase": "succeeded", "attempts": ["ada-9"], "agentMuxRunId": "fix-42" });
    server.write(vec![Write::Create(object.clone()), Write::Status(object.clone())]).await;
    let page = browser.get(page_path).await.text;
    assert!(!page.contains("No line can be commented on"), "{page}");
    let comment = comment(&page);
    let mut viewer = server.signed_in(TokenScope::Viewer).await;
    let refused = viewer.get(page_path).await.text;
    assert!(refused.contains("commenting needs a token with scope operator"), "{refused}");
    assert_eq!(viewer.post(target, &comment).await.status, 403);
    assert_eq!(fleet.calls(), Vec::<String>::new());
    let sent = browser.post(target, &comment).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    let calls = fleet.calls();
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert!(call.starts_with("ada continue adr-9 Comment on src/lib.rs"), "{call}");
    assert!(call.ends_with(", line 3:\n> two\n\nWhy?"), "{call}");

    object.status["phase"] = json!("running");
    server.write(vec![Write::Status(object)]).await;
    let page = browser.get(page_path).await.text;
    assert!(page.contains("commented on: <bdi>it has not ended; cancel it first</bdi>"), "{page}");
    assert_eq!(browser.post(target, &comment).await.status, 409);
    assert_eq!(fleet.calls().len(), 1, "nothing is sent");
    assert_eq!(server.runs.changes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_and_agents_of_its_earlier_attempts_link_to_each_other() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let (agent, run) = ("/ui/local/fix-42", "/ui/fleet/objects/default/agentdispatchruns/adr-9");
    let link = |address: &str| format!("<a href=\"{address}\"><bdi>");
    let mut object = copy_of("adr-2", "adr-9");
    let child = json!({ "run": "adr-child", "subagent": "reviewer", "contextDigest": "" });
    object.status =
        json!({ "phase": "running", "agentMuxRunId": "newest", "childSubagentRuns": [child] });
    server.write(vec![Write::Create(object.clone()), Write::Status(object)]).await;
    let before = browser.get(run).await.text;
    assert!(before.contains(&link("/ui/local/newest")), "{before}");
    assert!(!before.contains(&link(agent)), "positive control: {before}");
    let attempt = |number: u32, agent: &str| {
        let mut object = copy_of("ada-1", &format!("ada-9-{number}"));
        object.spec["agentDispatchRun"] = json!("adr-9");
        object.spec["number"] = json!(number);
        object.status = json!({ "agentMuxRunId": agent });
        [Write::Create(object.clone()), Write::Status(object)]
    };
    server.write([attempt(1, "fix-42"), attempt(2, "newest")].concat()).await;
    let page = browser.get(run).await.text;
    assert!(page.contains(&link(agent)) && page.contains(">Attempt 1 "), "{page}");
    assert_eq!(page.matches(&link("/ui/local/newest")).count(), 2, "{page}");
    let subagent = link("/ui/fleet/objects/default/agentdispatchruns/adr-child");
    assert!(page.contains(&subagent) && !page.contains(" shown."), "{page}");
    let earlier = browser.get(agent).await.text;
    assert!(earlier.contains(&link(run)), "{earlier}");
    // If some attempts are not shown, the page links to all of them.
    let more = (3..=51).flat_map(|number| attempt(number, "newest"));
    server.write(more.collect()).await;
    let page = browser.get(run).await.text;
    let all = "50 shown. <a href=\"/ui/fleet/kinds/agentdispatchattempts?namespace=default\">";
    assert!(page.contains(all) && !page.contains(">Attempt 1 "), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workspace_notes_are_edited_as_a_whole() {
    let (server, _) = serve_fleet().await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let notes = format!("\nfirst\n{}the end", "x".repeat(30_000));
    let mut object = copy_of("ws-1", "ws-9");
    object.spec["notes"] = json!(notes);
    server.write(vec![Write::Create(object)]).await;
    let page = browser.get("/ui/fleet/objects/default/agentworkspaces/ws-9").await.text;
    // A browser drops the first newline of a text area.
    let area = format!("<textarea id=\"notes\" name=\"notes\" rows=\"3\">\n{notes}</textarea>");
    assert!(page.contains(&area), "{page}");
    let marks = "hidden characters, which are shown as marks";
    assert!(!page.contains(marks), "positive control: {page}");
    let page = browser.get(WORKSPACE).await.text;
    assert!(page.contains(marks) && page.contains("⟨U+202E⟩"), "{page}");
}
