//! Refreshing the context of a run: a new digest with a reason, for the next attempt.

use bailiwick_fleet::ports::{
    ActionError, AttemptLaunch, FireRequest, Fleet as _, FleetStore as _, Launched, LaunchedState,
    RunAnswer, RunVerb, RunVerbRequest, Target,
};
use bailiwick_resources::{
    AgentContextBundle, AgentDispatchAttempt, AgentDispatchRun, Kind, Object, RunPhase,
};
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, in_state, only_run, reconcile, request,
    set_state, start_plane,
};

fn target(name: &str) -> Target {
    Target { namespace: "default".to_owned(), name: name.to_owned() }
}

/// A run that reads an issue.
async fn about_an_issue(text: &str) -> (Plane, String) {
    let plane = start_plane(|_| {}).await;
    let rule = json!({
        "lifecycleState": "active", "sources": ["manual"], "agentStack": "fixer",
        "taskKind": "repair", "promptTemplate": "Mend it.",
        "contextBundleTemplate": { "include": ["issue-summary"] },
    });
    declare(&plane, &[document(Kind::AgentTriggerRule, "mend", rule)]).await;
    set_issue_text(&plane, text);
    let fire = FireRequest { repository: "app".to_owned(), ..FireRequest::default() };
    let fired = plane.api.fire(&caller("ada"), &target("mend"), fire).await.unwrap();
    (plane, fired.run.unwrap())
}

fn set_issue_text(plane: &Plane, text: &str) {
    *plane.world.issue_text.lock().unwrap() = Some(text.to_owned());
}

async fn act(
    plane: &Plane,
    run: &str,
    verb: RunVerb,
    (reason, message): (&str, &str),
) -> Result<RunAnswer, ActionError> {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let request = RunVerbRequest { reason, message, expected_generation: None };
    plane.api.act_on_run(&caller("ada"), &target(run), verb, request).await
}

async fn refresh(plane: &Plane, run: &str) -> Result<RunAnswer, ActionError> {
    act(plane, run, RunVerb::RefreshContext, ("the issue was edited", "")).await
}

fn last_launch(plane: &Plane) -> AttemptLaunch {
    plane.engine.launched.lock().unwrap().last().unwrap().clone()
}

async fn last_attempt(
    plane: &Plane,
    run: &Object<AgentDispatchRun>,
) -> Object<AgentDispatchAttempt> {
    let all = all::<AgentDispatchAttempt>(plane).await;
    all.into_iter()
        .find(|one| Some(one.name()) == run.status.attempts.last().map(|n| n.as_str()))
        .unwrap()
}

fn code(refused: Result<RunAnswer, ActionError>) -> String {
    match refused {
        Err(ActionError::Conflict { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn retry_after_a_refresh_reads_the_new_context_and_keeps_the_old_bundle() {
    let (plane, run) = about_an_issue("The door squeaks.").await;
    reconcile(&plane).await;
    let first = only_run(&plane).await;
    assert!(last_launch(&plane).context.contains("The door squeaks."));
    set_issue_text(&plane, "The door is stuck.");
    refresh(&plane, &run).await.unwrap();
    // The running agent keeps its context.
    let during = only_run(&plane).await;
    assert_eq!(during.status.context_bundle_digest, first.status.context_bundle_digest);
    let [pending] = &during.status.context_refreshes[..] else { panic!("{during:?}") };
    assert_eq!(
        (pending.reason.as_str(), pending.requested_by.as_str()),
        ("the issue was edited", "ada")
    );
    assert_eq!(pending.attempt, None);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    act(&plane, &run, RunVerb::Retry, ("", "")).await.unwrap();
    reconcile(&plane).await;
    let context = last_launch(&plane).context;
    assert!(context.contains("The door is stuck.") && context.contains("Mend it."), "{context}");
    assert!(!context.contains("squeaks"), "{context}");
    let after = only_run(&plane).await;
    let attempt = last_attempt(&plane, &after).await;
    let refreshed = &after.status.context_refreshes[0];
    assert_eq!(refreshed.attempt.as_deref(), Some(attempt.name()));
    assert_eq!(attempt.spec.context_bundle_digest, refreshed.digest);
    assert_eq!(after.status.context_bundle_digest.as_ref(), Some(&refreshed.digest));
    assert_eq!(after.spec.context_bundle_ref.as_ref(), Some(&refreshed.bundle));
    let bundles = all::<AgentContextBundle>(&plane).await;
    assert_eq!(bundles.len(), 2);
    for part in bundles.iter().flat_map(|bundle| &bundle.spec.sources) {
        assert!(plane.store.blob(&part.digest).await.unwrap().is_some(), "{part:?}");
    }
    let lines = plane.store.audit(0, 1_000).await.unwrap();
    let line = lines.iter().find(|(_, line)| line.event == "AgentContextRefreshed");
    let detail = &line.unwrap().1.detail;
    assert_eq!(detail["digest"], json!(refreshed.digest));
    assert_eq!(detail["reason"], "the issue was edited");
    // The next retry keeps the new context.
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    act(&plane, &run, RunVerb::Retry, ("", "")).await.unwrap();
    reconcile(&plane).await;
    assert!(last_launch(&plane).context.contains("The door is stuck."));
}

#[tokio::test]
async fn continued_conversation_gets_the_new_sources_once() {
    let (plane, run) = about_an_issue("The door squeaks.").await;
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    set_issue_text(&plane, "The door is stuck.");
    refresh(&plane, &run).await.unwrap();
    let resume_message = |plane: &Plane| last_launch(plane).resume.unwrap_or_default();
    for attempts in [2, 3] {
        act(&plane, &run, RunVerb::Continue, ("", "Go on.")).await.unwrap();
        reconcile(&plane).await;
        let message = resume_message(&plane);
        assert!(message.contains("Go on."), "{message}");
        assert_eq!(message.contains("The door is stuck."), attempts == 2, "{message}");
        let ended = Launched { attempts, ..in_state(LaunchedState::Failed) };
        set_state(&plane, &agent(&plane), ended);
        reconcile(&plane).await;
    }
}

#[tokio::test]
async fn queued_run_starts_with_the_new_context() {
    let (plane, run) = about_an_issue("The door squeaks.").await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
    set_issue_text(&plane, "The door is stuck.");
    refresh(&plane, &run).await.unwrap();
    reconcile(&plane).await;
    let context = last_launch(&plane).context;
    assert!(context.contains("The door is stuck.") && !context.contains("squeaks"), "{context}");
    let run = only_run(&plane).await;
    let attempt = last_attempt(&plane, &run).await;
    assert_eq!(
        run.status.context_bundle_digest.as_ref(),
        Some(&attempt.spec.context_bundle_digest)
    );
    assert_eq!(run.status.attempts.len(), 1);
}

#[tokio::test]
async fn refresh_needs_a_reason_a_rule_and_something_new() {
    let (plane, run) = about_an_issue("The door squeaks.").await;
    reconcile(&plane).await;
    let without = act(&plane, &run, RunVerb::RefreshContext, ("  ", "")).await;
    assert_eq!(code(without), "ReasonMissing");
    assert_eq!(code(refresh(&plane, &run).await), "ContextUnchanged");
    set_issue_text(&plane, "The door is stuck.");
    refresh(&plane, &run).await.unwrap();
    assert_eq!(code(refresh(&plane, &run).await), "ContextUnchanged");
    assert_eq!(only_run(&plane).await.status.context_refreshes.len(), 1);
    // A run without a rule has no sources to fetch.
    let plane = start_plane(|_| {}).await;
    let by_hand = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    assert_eq!(code(refresh(&plane, &by_hand).await), "ContextUnchanged");
}

#[tokio::test]
async fn secret_in_a_refreshed_source_is_removed() {
    let (plane, run) = about_an_issue("The door squeaks.").await;
    reconcile(&plane).await;
    let token = format!("ghp_{}", "a1B2".repeat(9));
    set_issue_text(&plane, &format!("The key is {token}."));
    refresh(&plane, &run).await.unwrap();
    let bundle = only_run(&plane).await.status.context_refreshes[0].bundle.clone();
    let bundles = all::<AgentContextBundle>(&plane).await;
    let bundle = bundles.iter().find(|one| one.name() == bundle).unwrap();
    assert!(!bundle.spec.redactions.is_empty());
    for part in &bundle.spec.sources {
        let text = plane.store.blob(&part.digest).await.unwrap().unwrap();
        assert!(!String::from_utf8(text).unwrap().contains(&token), "{}", part.name);
    }
}
