//! All pages in a real Chromium: both themes, two widths, axe-core, no CSP report, no request to another origin.

use std::path::PathBuf;

use bailiwick_testkit::browser::{chromium, node_packages};
use serde_json::Value;

use crate::fleet_pages::POOL;
use crate::scripted_fleet::serve_fleet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_accessible_and_safe_in_a_browser() {
    let (server, _) = serve_fleet().await;
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser/visit.mjs");
    let scratch = std::env::temp_dir().join(format!("bailiwick-web-{}", std::process::id()));
    let screenshots = std::env::var_os("SCREENSHOTS").map_or_else(|| scratch, PathBuf::from);
    let mut addresses = crate::fleet_pages::addresses();
    // One page of each template is enough.
    let objects = ["/kinds/agenttriggerrules", "/fixer", "/mend", "/wd-1", "/ws-1", "/adr-1"];
    addresses.retain(|path| {
        let is_object = path.contains("/kinds/") || path.contains("/objects/");
        !is_object || objects.iter().any(|end| path.ends_with(end))
    });
    // The pages of a run in which every text is hostile.
    server.runs.permit_all_actions();
    let changes = ["changes?c=1n1", "changes?view=split&c=1n2"];
    let parts = ["checks", "context", "policy?command=x", "cost", "lineage", "artifacts"];
    let parts = parts.into_iter().chain(changes);
    addresses.extend(parts.map(|part| format!("/ui/local/fix-42/{part}")));
    // An inbox with the change of a call and an approval.
    server.add_approval().await;
    addresses.extend(["/ui/local/fix-42", "/ui/inbox", "/ui/sign-in"].map(str::to_owned));
    // The results of forms: the test of a rule, a diff, and a refusal.
    let (check, rule) = ("button[value=check]", "objects/default/agenttriggerrules/mend");
    let test = "form[action$='/test'] button.primary";
    addresses.push(format!("/ui/fleet/{rule} >> {test}"));
    for text in [POOL, "a: ["] {
        addresses.push(format!("/ui/fleet/edit >> {check} >> {text}"));
    }
    let mut node = std::process::Command::new("node");
    node.arg(script)
        .arg(format!("http://{}{}", server.address, server.link))
        .arg(&screenshots)
        .args(&addresses)
        .env("CHROMIUM", chromium())
        .env("NODE_MODULES", node_packages());
    let output = tokio::task::spawn_blocking(move || node.output()).await.unwrap();
    let output = output.expect("node can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let none = serde_json::json!([]);
    assert_eq!(
        report["faults"], none,
        "errors of scripts, CSP reports and pages that are too wide"
    );
    assert_eq!(report["foreign"], none, "requests to other origins");
    assert_eq!(report["violations"], none, "axe-core");
    assert_eq!(report["executed"], false, "hostile text was executed");
    assert_eq!(report["unreached"], none, "controls that the keyboard does not reach");
    let keys = serde_json::json!([true, "/ui/numbers", false, true]);
    assert_eq!(report["keys"], keys, "listed, used, switched off, switched on");
    let (unread, read) = ("· 0 of 1 part read", "· 1 of 1 part read");
    let expected =
        serde_json::json!([[unread, true], [read, false], [read, false], [unread, true]]);
    assert_eq!(
        report["read"], expected,
        "marked as read by keyboard, stored, and marked as unread again"
    );
    assert_eq!(report["visited"], addresses.len() * 4, "two themes, two widths");
    // Positive control: axe-core did run.
    assert!(report["control"].as_str().unwrap().contains("image-alt"), "{report:#}");
}
