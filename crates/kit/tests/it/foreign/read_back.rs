//! A template that was written is read back unchanged.

use bailiwick_kit::foreign::{Format, render};
use bailiwick_kit::templates;
use bailiwick_model::Source;
use bailiwick_model::template::{AgentType, ContextLimits, Persona, Template, ToolLists};
use proptest::prelude::*;

use super::imported;

fn line() -> impl Strategy<Value = String> {
    "[ -~äß→]{1,30}".prop_map(|text| format!("a{}z", text.trim()))
}

fn prompt() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-zA-Z#*\"':`. -]{0,20}", 1..5)
        .prop_map(|lines| format!("Do {}.", lines.join("\n")))
        .prop_filter("a fence that is open swallows the markers behind it", |text| {
            !text.contains("``") && !text.contains("~~")
        })
}

fn tools() -> impl Strategy<Value = Option<Vec<String>>> {
    prop::option::of(prop::collection::btree_set("[A-Za-z_*?]{1,12}", 0..4))
        .prop_map(|list| list.map(|list| list.into_iter().collect()))
}

fn persona() -> impl Strategy<Value = Persona> {
    ("[a-z]{3,8}", line(), prop::option::of("[a-z0-9.-]{1,9}"), prompt()).prop_map(
        |(name, description, model, prompt)| Persona {
            name,
            description,
            model,
            reasoning_effort: Some("high".to_owned()),
            prompt,
        },
    )
}

fn template() -> impl Strategy<Value = Template> {
    let names = prop::option::of(prop::collection::btree_set("[a-z]{2,6}", 0..3));
    let numbers = (prop::option::of(0..9u32), prop::option::of(1..99_999u64), any::<bool>());
    let turns = (prop::option::of(1..99u64), prop::option::of(1..999u32));
    let lists = (tools(), tools());
    let personas = prop::collection::vec(persona(), 0..3);
    let metadata = prop::collection::btree_map(line(), any::<String>(), 0..3);
    (line(), prompt(), lists, personas, names, (numbers, turns, metadata)).prop_map(
        |(description, default_prompt, (allow_list, deny_list), mut personas, names, numbers)| {
            personas.sort_by(|left, right| left.name.cmp(&right.name));
            personas.dedup_by(|left, right| left.name == right.name);
            let ((max_depth, estimated_tokens, read_only), (turns, cents), metadata) = numbers;
            Template {
                agent_type: AgentType::parse("mine").expect("a type"),
                description,
                model: Some("gpt-5.5".to_owned()),
                reasoning_effort: None,
                read_only,
                tools: ToolLists { allow_list, deny_list },
                default_prompt,
                personas,
                role: read_only.then(|| "read-only".parse().expect("a role")),
                cli: Some("codex".to_owned()),
                allowed_subagents: names.map(|names| {
                    names.iter().map(|name| AgentType::parse(name).expect("a type")).collect()
                }),
                max_depth,
                estimated_tokens,
                estimated_turns: turns,
                estimated_usd: cents.map(|cents| f64::from(cents) / 100.0),
                max_turns: turns.map(|turns| turns + 7),
                max_minutes: turns.map(|turns| turns + 8),
                context: read_only.then(ContextLimits::default),
                metadata,
            }
        },
    )
}

fn read_back(template: &Template) -> Template {
    let text = render(template);
    templates::file::parse(&template.agent_type, &Source::new("mine.md", text.as_str()))
        .unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
        .template
}

#[test]
fn written_template_is_read_back_unchanged() {
    proptest!(|(template in template())| {
        prop_assert_eq!(read_back(&template), template);
    });
}

#[test]
fn imported_template_is_read_back_unchanged() {
    for (format, lines) in [
        (Format::Claude, "tools: Read, Agent(a, b), mcp__gov\nmodel: opus\npermissionMode: plan\n"),
        (Format::Claude, "disallowedTools: Bash(rm *), Odd\n"),
        (Format::Codex, "sandbox_mode = \"read-only\"\nmodel = \"gpt-5.5\"\n"),
        (Format::Gemini, "tools: [read_file, mcp_gov_*]\nmax_turns: 7\ntimeout_mins: 8\n"),
        (Format::Opencode, "permission:\n  bash: deny\nsteps: 3\n"),
        (Format::Skill, "disallowed-tools: Write\n"),
        (Format::AgentsMd, "Be brief.\n"),
    ] {
        let mut template = imported(format, lines).template;
        // The order of a list has no meaning, and a reader sorts it.
        let lists = [&mut template.tools.allow_list, &mut template.tools.deny_list];
        lists.into_iter().flatten().for_each(|list| list.sort_unstable());
        assert_eq!(read_back(&template), template, "{format}");
    }
}
