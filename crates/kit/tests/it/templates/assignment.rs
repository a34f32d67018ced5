//! Owns the promises about what one agent is given: prompt, model, effort, sandbox.

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

/// `default` and these personas, each with a prompt of its own.
fn with_personas(default: &str, names: &[&str]) -> bailiwick_model::Template {
    let entry = |name: &&str| format!("  - name: {name}\n    description: {name}\n");
    let block = |name: &&str| format!("<!-- agent_name: {name} -->\nBe {name}.\n");
    let entries: String = names.iter().map(entry).collect();
    let blocks: String = names.iter().map(block).collect();
    template(&format!("---\ndescription: Mine.\nagent_names:\n{entries}---\n{default}\n{blocks}"))
}

#[test]
fn if_agent_name_is_given_its_named_block_is_taken() {
    let found = with_personas("Do it.", &["strict", "fast"]);
    for asked in ["fast", " FAST "] {
        let selected = select(&found, Some(asked)).unwrap();
        assert_eq!(
            (selected.prompt, selected.persona.unwrap().name.as_str()),
            ("Be fast.", "fast")
        );
    }
}

#[test]
fn otherwise_the_default_block_is_taken() {
    for names in [&["strict"][..], &["strict", "fast"]] {
        let found = with_personas("Do it.", names);
        let selected = select(&found, None).unwrap();
        assert_eq!((selected.prompt, selected.persona), ("Do it.", None));
    }
}

#[test]
fn if_the_default_block_is_empty_the_only_named_block_is_taken() {
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
fn an_unknown_persona_is_refused() {
    let found = template(SKELETON);
    for asked in ["Slow", "", "str"] {
        let error = select(&found, Some(asked)).unwrap_err().to_string();
        let name = asked.to_lowercase();
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
    let asked = asked_type(Some("Auditor"), Some("strict")).unwrap();
    assert_eq!(asked.unwrap().as_str(), "auditor");
    assert!(matches!(asked_type(Some("a b"), None), Err(SelectError::InvalidType(_))));
}

/// Every combination of who says something, against the order of the contract.
#[test]
fn overrides_go_before_persona_before_role_before_inherited() {
    let values = ["call", "persona", "role", "inherited"];
    let by = [SetBy::Call, SetBy::Persona, SetBy::Template, SetBy::Inherited];
    for (models, efforts) in (0..16_u32).flat_map(|one| (0..16_u32).map(move |other| (one, other)))
    {
        let said = |mask: u32, at: usize| (mask & (1 << at) != 0).then(|| values[at]);
        let line = |indent: &str, key: &str, value: Option<&str>| {
            value.map(|value| format!("{indent}{key}: {value}\n")).unwrap_or_default()
        };
        let text = format!(
            "---\ndescription: Mine.\n{}{}agent_names:\n  - name: p\n    description: P.\n{}{}---\nDo it.\n<!-- agent_name: p -->\nBe p.\n",
            line("", "model", said(models, 2)),
            line("", "reasoning_effort", said(efforts, 2)),
            line("    ", "model", said(models, 1)),
            line("    ", "reasoning_effort", said(efforts, 1)),
        );
        let found = template(&text);
        for persona in [None, Some("p")] {
            let expected = |mask: u32| {
                let first = (0..4)
                    .find(|at| said(mask, *at).is_some() && (*at != 1 || persona.is_some()))?;
                Some(Setting { value: values[first].to_owned(), set_by: by[first] })
            };
            let call = Overrides { model: said(models, 0), reasoning_effort: said(efforts, 0) };
            let inherited =
                Inherited { model: said(models, 3), reasoning_effort: said(efforts, 3) };
            let chosen = select(&found, persona).unwrap();
            let got = effective(call, chosen.persona, &found, inherited);
            let wanted = Effective { model: expected(models), reasoning_effort: expected(efforts) };
            assert_eq!(got, wanted, "{models:04b} {efforts:04b} {persona:?}");
        }
    }
}

#[test]
fn an_unknown_model_is_rejected() {
    let known = [model("a", &["low"]), model("b", &[])];
    let found = template(&with_keys(""));
    let call = Overrides { model: Some("c"), reasoning_effort: None };
    let error = assign(&found, None, call, Inherited::default(), &known).unwrap_err();
    assert_eq!(error.to_string(), "unknown model \"c\" for spawn_agent. Available models: a, b");
    // A template's model is checked as well.
    let found = template(&with_keys("model: d"));
    let error =
        assign(&found, None, Overrides::default(), Inherited::default(), &known).unwrap_err();
    assert!(error.to_string().starts_with("unknown model \"d\""), "{error}");
}

/// A name goes before a form, and the first form that fits before those behind it.
#[test]
fn a_model_is_known_by_its_name_or_by_the_form_of_it() {
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
        let given = asks(Some(name), Some(effort)).unwrap();
        assert_eq!(given.settings.model.unwrap().value, name);
    }
    assert_eq!(
        asks(Some("old-x1"), Some("high")).unwrap_err(),
        "reasoning_effort high is not supported for model \"old-x1\". Supported efforts: none, low"
    );
    assert_eq!(
        asks(Some("new"), None).unwrap_err(),
        "unknown model \"new\" for spawn_agent. Available models: big, old-x*, old-*, */*"
    );
    // Where nobody names one, the program takes one that it has by name.
    assert!(asks(None, Some("high")).is_ok() && asks(None, Some("huge")).is_err());
}

#[test]
fn an_effort_that_the_model_does_not_support_is_rejected() {
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
fn what_cannot_be_checked_is_refused() {
    let found = template(&with_keys(""));
    let call = Overrides { model: Some("a"), reasoning_effort: None };
    let error = assign(&found, None, call, Inherited::default(), &[]).unwrap_err();
    assert_eq!(error.to_string(), "Models are being updated; try spawn_agent again in a moment.");
    // Nobody named a model: the effort must do for each that may be taken.
    let known = [model("a", &["low", "high"]), model("b", &["low"])];
    let asks = |effort| {
        let call = Overrides { model: None, reasoning_effort: Some(effort) };
        assign(&found, None, call, Inherited::default(), &known)
    };
    assert!(asks("low").is_ok() && asks("none").is_ok() && asks("high").is_err());
    // A new effort under an inherited model is checked; what is inherited as a whole runs already.
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
        assert!(sandbox.is_read_only(true), "a template cannot give what its parent has not");
    }
}

#[test]
fn an_assignment_is_the_whole_of_it() {
    let found = template(SKELETON);
    let known =
        [model("gpt-5-codex", &["medium", "high"]), model("gpt-5.3-codex-spark", &["medium"])];
    let call = Overrides { model: None, reasoning_effort: Some("none") };
    let given = assign(&found, Some("Strict"), call, Inherited::default(), &known).unwrap();
    assert_eq!(given.agent_name.as_deref(), Some("strict"));
    assert_eq!(given.description, "Conservative validation with explicit risk callouts.");
    assert!(given.prompt.starts_with("Prioritize completeness"));
    assert_eq!(given.sandbox, Sandbox::ReadOnly);
    let set = |setting: Option<Setting>| setting.map(|setting| (setting.value, setting.set_by));
    assert_eq!(set(given.settings.model), Some(("gpt-5-codex".to_owned(), SetBy::Persona)));
    assert_eq!(set(given.settings.reasoning_effort), Some(("none".to_owned(), SetBy::Call)));
    // A persona has its template's tools, never more.
    assert_eq!(given.tools, found.tools);
    assert_eq!(
        assign(&found, None, call, Inherited::default(), &known).unwrap().tools,
        found.tools
    );
}

/// Selection against the contract's three lines, for random templates.
#[test]
fn selection_is_as_the_contract_says_for_random_templates() {
    let mut random = Random::rotating("selection");
    for _ in 0..500 {
        let names: Vec<&str> =
            ["a", "b", "c", "d"].into_iter().filter(|_| random.once_in(2)).collect();
        let default = if random.once_in(2) || names.is_empty() { "Do it." } else { "" };
        let found = with_personas_or_none(default, &names);
        let asked = [None, Some("a"), Some("b"), Some("x")][random.below(4)];
        let expected = match (asked, default, names.as_slice()) {
            (Some(name), _, names) => names.contains(&name).then(|| format!("Be {name}.")),
            (None, "", [only]) => Some(format!("Be {only}.")),
            (None, "", _) => None,
            (None, default, _) => Some(default.to_owned()),
        };
        let got = select(&found, asked).ok().map(|selected| selected.prompt.to_owned());
        assert_eq!(got, expected, "{default:?} {names:?} {asked:?}");
    }
}

fn with_personas_or_none(default: &str, names: &[&str]) -> bailiwick_model::Template {
    if names.is_empty() {
        template(&format!("---\ndescription: Mine.\n---\n{default}\n"))
    } else {
        with_personas(default, names)
    }
}

/// Whatever a call asks for, and whether that can be had or not.
#[test]
fn read_only_holds_before_any_override_is_checked() {
    let found = template(&with_keys("read_only: true"));
    let known = [model("gpt-5-codex", &["medium", "high"])];
    let asked = |model, effort| {
        let call = Overrides { model, reasoning_effort: effort };
        assign(&found, None, call, Inherited::default(), &known)
    };
    assert!(asked(Some("unknown"), None).is_err(), "nothing comes of it");
    assert!(asked(Some("gpt-5-codex"), Some("huge")).is_err(), "nothing comes of it");
    for model in [None, Some("gpt-5-codex")] {
        assert_eq!(asked(model, None).unwrap().sandbox, Sandbox::ReadOnly, "{model:?}");
    }
}
