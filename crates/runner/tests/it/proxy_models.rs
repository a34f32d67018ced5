//! The models that a run may use through the proxy.

use bailiwick_runner::proxy::{ModelApi, Models};
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};
use serde_json::json;

use crate::proxy_lab::{Lab, Notification, Recorder, beginning};

fn named(model: &str) -> Models {
    Models::Named { own: vec![model.to_owned()], side: vec!["small-*".to_owned()] }
}

#[test]
fn model_that_is_not_of_the_run_is_refused_in_every_wire() {
    for wire in [ModelApi::Anthropic, ModelApi::Responses, ModelApi::Chat, ModelApi::Gemini] {
        let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
        let recorder = Recorder::allowing();
        let lab = Lab::with_models(wire, &model.base_url(), &recorder, named("m"));
        let (path, mut body) = beginning(wire);
        assert_eq!(lab.post(path, &body).status, 200, "{wire:?}");
        let path = path.replace("/m:", "/other:");
        if wire != ModelApi::Gemini {
            body["model"] = json!("other");
        }
        let refused = lab.post(&path, &body);
        assert_eq!(refused.status, 400, "{wire:?}");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("`other`") && message.contains("[agent]"), "{message}");
        assert_eq!(model.requests().len(), 1, "{wire:?}");
        let notifications = recorder.notifications();
        let is_rejection = |notification: &Notification| matches!(notification, Notification::Rejected(what) if what.contains("other"));
        assert!(notifications.iter().any(is_rejection), "{notifications:?}");
        assert_eq!(recorder.requests().len(), 1);
    }
}

#[test]
fn small_models_of_the_program_are_allowed() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
    let recorder = Recorder::allowing();
    let lab = Lab::with_models(ModelApi::Anthropic, &model.base_url(), &recorder, named("m"));
    let (path, mut body) = beginning(ModelApi::Anthropic);
    body["model"] = json!("small-1");
    assert_eq!(lab.post(path, &body).status, 200);
}

/// Google and Amazon name the model in the path; then Claude Code names none in the body.
#[test]
fn body_cannot_name_another_model_than_its_path() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
    let recorder = Recorder::allowing();
    let lab = Lab::with_models(ModelApi::Gemini, &model.base_url(), &recorder, named("m"));
    let (path, mut body) = beginning(ModelApi::Gemini);
    body["model"] = json!("models/other");
    assert_eq!(lab.post(path, &body).status, 400);
    assert!(model.requests().is_empty());
}
