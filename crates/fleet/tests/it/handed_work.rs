//! The binding of a run to its issue: its phase, and where its files are stored for the next agent.

use bailiwick_fleet::ports::{Fleet as _, IssueBinding, WorkStorage};
use bailiwick_resources::Kind;
use serde_json::{Value, json};

use crate::dispatch::{caller, reconcile, request, start_plane};

async fn launched_with(policy: &Value) -> IssueBinding {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = policy.clone();
        } else if object.kind == Kind::Repository {
            object.spec["issueMemory"] = json!(true);
        }
    })
    .await;
    let mut dispatch_request = request("r");
    dispatch_request.source_refs.issue = Some(7);
    plane.api.dispatch(&caller("ada"), "default", dispatch_request).await.unwrap();
    reconcile(&plane).await;
    let launched = plane.engine.launched.lock().unwrap();
    launched.first().unwrap().issue.clone().unwrap()
}

#[tokio::test]
async fn files_leave_the_machine_only_if_allowed_without_approval() {
    use WorkStorage::{OnMachine, WithIssue};
    let work = ["work-reference"];
    let mode = |mode: &str| json!({ "allowedTargets": work, "modes": { "work-reference": mode } });
    let cases = [
        (json!({ "allowedTargets": work }), WithIssue),
        (mode("auto"), WithIssue),
        (mode("always-approve"), OnMachine),
        (mode("denied"), OnMachine),
        (json!({}), OnMachine),
        (json!({ "allowedTargets": ["create-branch"] }), OnMachine),
        (json!({ "allowedTargets": work, "requireApproval": true }), OnMachine),
    ];
    for (policy, expected) in cases {
        let binding = launched_with(&policy).await;
        assert_eq!(binding.work_storage, expected, "{policy}");
        assert_eq!(binding.phase.unwrap().as_str(), "repair");
    }
}

#[test]
fn binding_without_the_field_keeps_the_files_on_their_machine() {
    let read = |binding: Value| serde_json::from_value::<IssueBinding>(binding).unwrap();
    let old = json!({ "issue": "acme/app#7" });
    assert_eq!(read(old).work_storage, WorkStorage::OnMachine);
    let new = json!({ "issue": "acme/app#7", "handed_work": "with-issue" });
    assert_eq!(read(new).work_storage, WorkStorage::WithIssue);
}
