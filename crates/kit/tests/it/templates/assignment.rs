//! The assignment of one agent: prompt, model, effort, sandbox.

use bailiwick_kit::templates::select::{
    Effective, SelectError, SetBy, Setting, asked_type, effective, select,
};
use bailiwick_kit::templates::{Inherited, KnownModel, Overrides, Sandbox, assign};
use bailiwick_testkit::random::Random;

use super::file::SKELETON;
use super::{template, with_keys};

fn model(name: &str, efforts: &[&str]) -> KnownModel {
    let efforts = efforts.iter().map(|effort| (*effort).to_owned()).collect();
    KnownModel { name: name.to_owned(), efforts }
}

/// `default` and these personas, each with its own prompt.
fn with_personas(default: &str, names: &[&str]) -> bailiwick_model::Template {
    let entry = |name: &&str| format!("  - name: {name}\n    description: {name}\n");
    let block = |name: &&str| format!("<!-- agent_name: {name} -->\nBe {name}.\n");
    let entries: String = names.iter().map(entry).collect();
    let blocks: String = names.iter().map(block).collect();
    template(&format!("---\ndescription: Mine.\nagent_names:\n{entries}---\n{default}\n{blocks}"))
}

#[test]
fn if_agent_name_is_given_its_named_block_is_used() {
    let found = with_personas("Do it.", &["strict", "fast"]);
    for requested in ["fast", " FAST "] {
        let selected = select(&found, Some(requested)).unwrap();
        assert_eq!(
            (selected.prompt, selected.persona.unwrap().name.as_str()),
            ("Be fast.", "fast")
        );
    }
}

#[test]
fn otherwise_the_default_block_is_used() {
    for names in [&["strict"][..], &["strict", "fast"]] {
        let found = with_personas("Do it.", names);
        let selected = select(&found, None).unwrap();
        assert_eq!((selected.prompt, selected.persona), ("Do it.", None));
    }
}

#[test]
fn if_the_default_block_is_empty_the_only_named_block_is_used() {
    let found = with_personas("  ", &["strict"]);
    assert_eq!(select(&found, None).unwrap().prompt, "Be strict.");
}

#[test]
fn otherwise_a_persona_must_be_selected() {
    let found = with_personas("", &["strict", "fast"]);
    let error = select(&found, None).unwrap_err();
    assert_eq!(error.to_string(), "agent_type \"auditor\" requires agent_name selection");
    assert_eq!(select(&found, Some("fast")).unwrap().prompt, "Be fast.");
}

#[test]
fn unknown_persona_is_refused() {
    let found = template(SKELETON);
    for requested in ["Slow", "", "str"] {
        let error = select(&found, Some(requested)).unwrap_err().to_string();
        let name = requested.to_lowercase();
        assert_eq!(error, format!("unknown agent_name \"{name}\" for agent_type \"auditor\""));
    }
}

#[test]
fn agent_name_requires_a_non_default_agent_type() {
    for agent_type in [None, Some("default"), Some(" Default ")] {
        let error = asked_type(agent_type, Some("strict")).unwrap_err();
        assert_eq!(error.to_string(), "agent_name requires a non-default agent_type");
        assert_eq!(asked_type(agent_type, None), Ok(None));
    }
    let requested = asked_type(Some("Auditor"), Some("strict")).unwrap();
    assert_eq!(requested.unwrap().as_str(), "auditor");
    assert!(matches!(asked_type(Some("a b"), None), Err(SelectError::InvalidType(_))));
}

/// Every combination of the settings, compared with the order of the contract.
#[test]
fn overrides_go_before_persona_before_role_before_inherited() {
    let values = ["call", "persona", "role", "inherited"];
    let by = [SetBy::Call, SetBy::Persona, SetBy::Template, SetBy::Inherited];
    for (models, efforts) in (0..16_u32)
        .flat_map(|models_mask| (0..16_u32).map(move |efforts_mask| (models_mask, efforts_mask)))
    {
        let setting = |mask: u32, index: usize| (mask & (1 << index) != 0).then(|| values[index]);
        let line = |indent: &str, key: &str, value: Option<&str>| {
            value.map(|value| format!("{indent}{key}: {value}\n")).unwrap_or_default()
        };
        let text = format!(
            "---\ndescription: Mine.\n{}{}agent_names:\n  - name: p\n    description: P.\n{}{}---\nDo it.\n<!-- agent_name: p -->\nBe p.\n",
            line("", "model", setting(models, 2)),
            line("", "reasoning_effort", setting(efforts, 2)),
            line("    ", "model", setting(models, 1)),
            line("    ", "reasoning_effort", setting(efforts, 1)),
        );
        let found = template(&text);
        for persona in [None, Some("p")] {
            let expected = |mask: u32| {
                let first = (0..4).find(|index| {
                    setting(mask, *index).is_some() && (*index != 1 || persona.is_some())
                })?;
                Some(Setting { value: values[first].to_owned(), set_by: by[first] })
            };
            let call =
                Overrides { model: setting(models, 0), reasoning_effort: setting(efforts, 0) };
            let inherited =
                Inherited { model: setting(models, 3), reasoning_effort: setting(efforts, 3) };
            let chosen = select(&found, persona).unwrap();
            let actual = effective(call, chosen.persona, &found, inherited);
            let expected_result =
                Effective { model: expected(models), reasoning_effort: expected(efforts) };
            assert_eq!(actual, expected_result, "{models:04b} {efforts:04b} {persona:?}");
        }
    }
}

#[test]
fn unknown_model_is_rejected() {
    let known = [model("a", &["low"]), model("b", &[])];
    let found = template(&with_keys(""));
    let call = Overrides { model: Some("c"), reasoning_effort: None };
    let error = assign(&found, None, call, Inherited::default(), &known).unwrap_err();
    assert_eq!(error.to_string(), "unknown model \"c\" for spawn_agent. Available models: a, b");
    // A template's model is checked too.
    let found = template(&with_keys("model: d"));
    let error =
        assign(&found, None, Overrides::default(), Inherited::default(), &known).unwrap_err();
    assert!(error.to_string().starts_with("unknown model \"d\""), "{error}");
}

/// An exact name comes before a pattern, and an earlier pattern before a later one.
#[test]
fn model_is_known_by_its_name_or_by_a_pattern() {
    let known = [
        model("big", &["low", "high"]),
        model("old-x*", &["low"]),
        model("old-*", &["low", "high"]),
        model("*/*", &[]),
    ];
    let found = template(&with_keys(""));
    let asks = |model, effort| {
        let call = Overrides { model, reasoning_effort: effort };
        assign(&found, None, call, Inherited::default(), &known).map_err(|error| error.to_string())
    };
    for (name, effort) in
        [("big", "high"), ("old-x1", "low"), ("old-y1", "high"), ("house/small", "none")]
    {
        let assigned = asks(Some(name), Some(effort)).unwrap();
        assert_eq!(assigned.settings.model.unwrap().value, name);
    }
    assert_eq!(
        asks(Some("old-x1"), Some("high")).unwrap_err(),
        "reasoning_effort high is not supported for model \"old-x1\". Supported efforts: none, low"
    );
    assert_eq!(
        asks(Some("new"), None).unwrap_err(),
        "unknown model \"new\" for spawn_agent. Available models: big, old-x*, old-*, */*"
    );
    // If no model is named, the program uses one that it knows by name.
    assert!(asks(None, Some("high")).is_ok() && asks(None, Some("huge")).is_err());
}

#[test]
fn effort_that_the_model_does_not_support_is_rejected() {
    let known = [model("a", &["low", "high"]), model("b", &["none"])];
    let found = template(&with_keys("model: a\nreasoning_effort: max"));
    let error =
        assign(&found, None, Overrides::default(), Inherited::default(), &known).unwrap_err();
    assert_eq!(
        error.to_string(),
        "reasoning_effort max is not supported for model \"a\". Supported efforts: none, low, high"
    );
    let call = Overrides { model: Some("b"), reasoning_effort: Some("low") };
    let error = assign(&found, None, call, Inherited::default(), &known).unwrap_err();
    assert!(error.to_string().ends_with("model \"b\". Supported efforts: none"), "{error}");
    for (model, effort) in [("a", "high"), ("a", "none"), ("b", "none")] {
        let call = Overrides { model: Some(model), reasoning_effort: Some(effort) };
        assign(&found, None, call, Inherited::default(), &known).unwrap();
    }
}

#[test]
fn model_or_effort_that_cannot_be_checked_is_refused() {
    let found = template(&with_keys(""));
    let call = Overrides { model: Some("a"), reasoning_effort: None };
    let error = assign(&found, None, call, Inherited::default(), &[]).unwrap_err();
    assert_eq!(error.to_string(), "Models are being updated; try spawn_agent again in a moment.");
    // No model is named: every possible model must support the effort.
    let known = [model("a", &["low", "high"]), model("b", &["low"])];
    let asks = |effort| {
        let call = Overrides { model: None, reasoning_effort: Some(effort) };
        assign(&found, None, call, Inherited::default(), &known)
    };
    assert!(asks("low").is_ok() && asks("none").is_ok() && asks("high").is_err());
    // A new effort with an inherited model is checked; a completely inherited setting is in use already.
    let inherited = Inherited { model: Some("b"), reasoning_effort: Some("odd") };
    let call = Overrides { model: None, reasoning_effort: Some("high") };
    assert!(assign(&found, None, call, inherited, &known).is_err());
    assert!(assign(&found, None, Overrides::default(), inherited, &known).is_ok());
}

#[test]
fn read_only_true_forces_read_only() {
    let sandbox = Sandbox::of(&template(&with_keys("read_only: true")));
    assert_eq!(sandbox, Sandbox::ReadOnly);
    assert!(sandbox.is_read_only(false) && sandbox.is_read_only(true));
}

#[test]
fn without_read_only_the_sandbox_is_inherited() {
    for keys in ["", "read_only: false"] {
        let sandbox = Sandbox::of(&template(&with_keys(keys)));
        assert!(!sandbox.is_read_only(false), "{keys}");
        assert!(sandbox.is_read_only(true), "a template cannot give more than its parent has");
    }
}

#[test]
fn assignment_contains_everything() {
    let found = template(SKELETON);
    let known =
        [model("gpt-5-codex", &["medium", "high"]), model("gpt-5.3-codex-spark", &["medium"])];
    let call = Overrides { model: None, reasoning_effort: Some("none") };
    let assigned = assign(&found, Some("Strict"), call, Inherited::default(), &known).unwrap();
    assert_eq!(assigned.agent_name.as_deref(), Some("strict"));
    assert_eq!(assigned.description, "Conservative validation with explicit risk callouts.");
    assert!(assigned.prompt.starts_with("Prioritize completeness"));
    assert_eq!(assigned.sandbox, Sandbox::ReadOnly);
    let set = |setting: Option<Setting>| setting.map(|setting| (setting.value, setting.set_by));
    assert_eq!(set(assigned.settings.model), Some(("gpt-5-codex".to_owned(), SetBy::Persona)));
    assert_eq!(set(assigned.settings.reasoning_effort), Some(("none".to_owned(), SetBy::Call)));
    // A persona has its template's tools, never more.
    assert_eq!(assigned.tools, found.tools);
    assert_eq!(
        assign(&found, None, call, Inherited::default(), &known).unwrap().tools,
        found.tools
    );
}

/// Selection compared with the contract's three lines, for random templates.
#[test]
fn selection_matches_the_contract_for_random_templates() {
    let mut random = Random::rotating("selection");
    for _ in 0..500 {
        let names: Vec<&str> =
            ["a", "b", "c", "d"].into_iter().filter(|_| random.once_in(2)).collect();
        let default = if random.once_in(2) || names.is_empty() { "Do it." } else { "" };
        let found = with_personas_or_none(default, &names);
        let requested = [None, Some("a"), Some("b"), Some("x")][random.below(4)];
        let expected = match (requested, default, names.as_slice()) {
            (Some(name), _, names) => names.contains(&name).then(|| format!("Be {name}.")),
            (None, "", [only]) => Some(format!("Be {only}.")),
            (None, "", _) => None,
            (None, default, _) => Some(default.to_owned()),
        };
        let selected_prompt =
            select(&found, requested).ok().map(|selected| selected.prompt.to_owned());
        assert_eq!(selected_prompt, expected, "{default:?} {names:?} {requested:?}");
    }
}

fn with_personas_or_none(default: &str, names: &[&str]) -> bailiwick_model::Template {
    if names.is_empty() {
        template(&format!("---\ndescription: Mine.\n---\n{default}\n"))
    } else {
        with_personas(default, names)
    }
}

/// Whatever a call requests, and whether it is possible or not.
#[test]
fn read_only_is_enforced_before_any_override_is_checked() {
    let found = template(&with_keys("read_only: true"));
    let known = [model("gpt-5-codex", &["medium", "high"])];
    let assign_with = |model, effort| {
        let call = Overrides { model, reasoning_effort: effort };
        assign(&found, None, call, Inherited::default(), &known)
    };
    assert!(assign_with(Some("unknown"), None).is_err(), "it is refused");
    assert!(assign_with(Some("gpt-5-codex"), Some("huge")).is_err(), "it is refused");
    for model in [None, Some("gpt-5-codex")] {
        assert_eq!(assign_with(model, None).unwrap().sandbox, Sandbox::ReadOnly, "{model:?}");
    }
}
