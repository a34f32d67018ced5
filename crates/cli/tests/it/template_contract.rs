//! The contract of agent templates, sentence by sentence, and the tests of each sentence.

use std::collections::BTreeSet;

use bailiwick_engine::delegating::wait::Status;
use bailiwick_kit::templates::file;
use bailiwick_model::Source;
use bailiwick_model::template::AgentType;

use crate::workspace;

/// A sentence of the contract, and the tests for it: a file below `crates/`, and a name in it.
type Sentence = (&'static str, &'static [(&'static str, &'static str)]);

const FILE: &str = "kit/tests/it/templates/file.rs";
const BLOCKS: &str = "kit/tests/it/templates/blocks.rs";
const DISCOVERY: &str = "kit/tests/it/templates/discovery.rs";
const ASSIGNMENT: &str = "kit/tests/it/templates/assignment.rs";
const LIST: &str = "kit/tests/it/templates/list.rs";
const SHIPPED: &str = "kit/tests/it/templates/shipped.rs";
const LINTS: &str = "kit/tests/it/lints/templates.rs";
const TOOLS: &str = "policy/src/tool_lists.rs";
const AGENTS: &str = "cli/tests/it/agents.rs";
const DELEGATION: &str = "cli/tests/it/conformance/delegation.rs";
const ROOT: &str = "cli/tests/it/conformance/root_session.rs";
const CHILDREN: &str = "cli/tests/it/conformance/children.rs";
const FAMILIES: &str = "cli/tests/it/conformance/families.rs";
const HERE: &str = "cli/tests/it/template_contract.rs";

const USER_CONTRACT: &[Sentence] = &[
    (
        "a template is loaded from the first source that has it",
        &[
            (DISCOVERY, "template_is_loaded_from_the_first_source_in_order_of_priority"),
            (AGENTS, "template_source_with_the_highest_priority_is_used"),
        ],
    ),
    (
        "project: from the current directory up to the nearest .git, the nearest first",
        &[
            (DISCOVERY, "project_scope_goes_from_the_current_directory_up_to_the_root"),
            (AGENTS, "project_templates_are_ignored_outside_a_repository"),
        ],
    ),
    ("user: ~/.codex/.agents", &[(AGENTS, "template_source_with_the_highest_priority_is_used")]),
    (
        "embedded templates are the last",
        &[
            (AGENTS, "template_source_with_the_highest_priority_is_used"),
            (AGENTS, "unwritable_user_directory_is_reported_and_embedded_templates_are_used"),
        ],
    ),
    (
        "if the user's directory has no file of an embedded name, all are copied there",
        &[
            (SHIPPED, "if_the_directory_has_no_file_of_an_embedded_name_all_are_copied"),
            (SHIPPED, "if_the_directory_has_one_nothing_is_copied"),
            (AGENTS, "user_directory_without_shipped_templates_gets_all_of_them"),
            (AGENTS, "root_session_copies_templates_to_the_user_directory_once"),
        ],
    ),
    (
        "agent_type is snake_case or kebab-case after trimming, else `invalid agent_type`",
        &[
            (DISCOVERY, "invalid_agent_type_error_shows_the_valid_form"),
            (DISCOVERY, "stem_is_trimmed_and_lower_case_and_the_extension_has_any_case"),
        ],
    ),
    (
        "frontmatter: description, model, reasoning_effort, read_only, agent_names, both lists",
        &[(FILE, "use_this_minimal_template_skeleton")],
    ),
    (
        "named blocks: <!-- agent_name: <name> -->",
        &[(BLOCKS, "persona_blocks_must_use_exact_markers")],
    ),
    (
        "with agent_name its block is taken",
        &[(ASSIGNMENT, "if_agent_name_is_given_its_named_block_is_used")],
    ),
    (
        "else the default block, and if that is empty the only named one",
        &[
            (ASSIGNMENT, "otherwise_the_default_block_is_used"),
            (ASSIGNMENT, "if_the_default_block_is_empty_the_only_named_block_is_used"),
        ],
    ),
    (
        "else selecting a persona is an error",
        &[
            (ASSIGNMENT, "otherwise_a_persona_must_be_selected"),
            (ASSIGNMENT, "selection_matches_the_contract_for_random_templates"),
        ],
    ),
    (
        "overrides of spawn_agent go first",
        &[
            (ASSIGNMENT, "overrides_go_before_persona_before_role_before_inherited"),
            (CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona"),
        ],
    ),
    (
        "then the defaults of the persona",
        &[
            (ASSIGNMENT, "overrides_go_before_persona_before_role_before_inherited"),
            (CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona"),
        ],
    ),
    (
        "then those of the template",
        &[
            (ASSIGNMENT, "overrides_go_before_persona_before_role_before_inherited"),
            (CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona"),
        ],
    ),
    (
        "then what is inherited",
        &[
            (ASSIGNMENT, "overrides_go_before_persona_before_role_before_inherited"),
            (FAMILIES, "child_inherits_unset_settings_of_its_parent"),
        ],
    ),
    (
        "read_only: true forces the read-only sandbox",
        &[
            (ASSIGNMENT, "read_only_true_forces_read_only"),
            (FAMILIES, "child_of_a_read_only_agent_is_read_only"),
        ],
    ),
    (
        "without read_only the sandbox is inherited",
        &[
            (ASSIGNMENT, "without_read_only_the_sandbox_is_inherited"),
            (FAMILIES, "child_of_a_read_only_agent_is_read_only"),
            (FAMILIES, "child_has_the_sandbox_level_of_its_parent"),
        ],
    ),
    (
        "tools are limited only by allow_list and deny_list",
        &[(TOOLS, "policy_is_applied_only_if_the_template_has_allow_list_or_deny_list")],
    ),
    (
        "entries are exact names or globs of * and ?, and no regular expressions",
        &[
            (TOOLS, "entries_are_exact_names_or_globs_and_never_regular_expressions"),
            (FILE, "regex_syntax_is_refused"),
        ],
    ),
    (
        "capitals count, and deny_list goes before allow_list",
        &[(TOOLS, "matching_is_case_sensitive"), (TOOLS, "on_conflict_deny_list_has_priority")],
    ),
    (
        "orchestrator has no allow_list: all tools, with spawn_agent",
        &[
            (SHIPPED, "orchestrator_has_no_allow_list"),
            (AGENTS, "only_orchestrators_may_call_spawn_agent"),
        ],
    ),
    (
        "worker and explorer have lists without spawn_agent, with update_plan and the listings",
        &[
            (SHIPPED, "worker_and_explorer_may_plan_and_list_but_not_spawn_agents"),
            (AGENTS, "only_orchestrators_may_call_spawn_agent"),
        ],
    ),
    (
        "list_agents answers with agents alone unless it is expanded",
        &[(LIST, "default_answer_has_agents_without_count_model_effort_or_prompt")],
    ),
    (
        "each has agent_type, description, allow_list and deny_list",
        &[
            (LIST, "agent_type_description_allow_list_and_deny_list_are_always_there"),
            (LIST, "missing_list_is_null_and_an_empty_one_is_empty"),
        ],
    ),
    (
        "agent_names is there only if there are personas",
        &[(LIST, "agent_names_is_shown_only_if_the_role_has_personas")],
    ),
    (
        "each persona has name and description",
        &[
            (BLOCKS, "each_entry_must_contain_name_and_description"),
            (ROOT, "errors_have_the_text_of_the_contract"),
        ],
    ),
    ("the option agent_type filters", &[(LIST, "agent_type_filters_by_one_role")]),
    (
        "the option expanded is false by default",
        &[
            (LIST, "list_agents_schema_supports_filter_and_expanded_options"),
            (LIST, "other_arguments_are_refused"),
        ],
    ),
    (
        "an agent_type that cannot be one: `invalid agent_type`",
        &[(LIST, "invalid_agent_type_returns_invalid_agent_type")],
    ),
    (
        "one that no source has: `missing agent template: <agent_type>`",
        &[(LIST, "valid_agent_type_without_a_template_returns_missing_agent_template")],
    ),
    (
        "expanded: model, reasoning_effort and default_prompt of the template",
        &[(LIST, "expanded_adds_model_effort_and_prompt_to_role_and_personas")],
    ),
    (
        "expanded: model, reasoning_effort and prompt of each persona",
        &[(LIST, "expanded_adds_model_effort_and_prompt_to_role_and_personas")],
    ),
    ("description is mandatory", &[(FILE, "description_at_role_level_is_mandatory")]),
    (
        "the default prompt, from the frontmatter to the first marker, is mandatory",
        &[
            (BLOCKS, "default_prompt_block_is_the_text_before_the_first_marker"),
            (FILE, "default_prompt_block_must_be_non_empty"),
        ],
    ),
    (
        "where the contract is broken list_agents returns an error",
        &[
            (LIST, "when_the_contract_is_broken_list_agents_returns_an_error"),
            (LIST, "bad_templates_are_listed_as_errors_by_name"),
        ],
    ),
];

const PASSPORT: &[Sentence] = &[
    (
        "there is a tool list_agents; spawn_agent takes persona, model, effort and note",
        &[
            (ROOT, "errors_have_the_text_of_the_contract"),
            (ROOT, "agent_can_be_spawned_awaited_messaged_and_closed"),
        ],
    ),
    (
        "the lists of a template limit the tools of those that it starts",
        &[
            (DELEGATION, "claude_spawns_a_gated_agent"),
            (DELEGATION, "codex_spawns_a_gated_agent"),
            (DELEGATION, "gemini_spawns_a_gated_agent"),
            (DELEGATION, "opencode_spawns_a_gated_agent"),
        ],
    ),
    (
        "without allow_list a child has all tools",
        &[(TOOLS, "without_allow_list_all_tools_except_denied_ones_are_allowed")],
    ),
    ("a badly named file is no template", &[(DISCOVERY, "invalid_file_names_are_reported")]),
];

const RUNBOOK: &[Sentence] = &[
    (
        "1. the stem of the file is the agent_type",
        &[(DISCOVERY, "stem_is_trimmed_and_lower_case_and_the_extension_has_any_case")],
    ),
    (
        "1. snake_case or kebab-case",
        &[(DISCOVERY, "invalid_agent_type_error_shows_the_valid_form")],
    ),
    (
        "1. spawn_agent in allow_list says whether it orchestrates",
        &[(AGENTS, "only_orchestrators_may_call_spawn_agent")],
    ),
    (
        "1. a minimal policy is an allow_list, and a deny_list besides",
        &[
            (TOOLS, "empty_allow_list_allows_nothing"),
            (TOOLS, "on_conflict_deny_list_has_priority"),
        ],
    ),
    (
        "2. it lies in the project, with the user, or is embedded",
        &[(AGENTS, "template_source_with_the_highest_priority_is_used")],
    ),
    ("2. description is mandatory", &[(FILE, "description_at_role_level_is_mandatory")]),
    ("2. agent_names is optional", &[(FILE, "agent_names_is_optional")]),
    (
        "2. each entry of agent_names has name and description",
        &[(BLOCKS, "each_entry_must_contain_name_and_description")],
    ),
    (
        "2. model and effort may stand at the template and at a persona",
        &[(CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona")],
    ),
    (
        "2. read_only: no writes and no network",
        &[(FAMILIES, "child_of_a_read_only_agent_is_read_only")],
    ),
    (
        "2. both lists are optional",
        &[(TOOLS, "policy_is_applied_only_if_the_template_has_allow_list_or_deny_list")],
    ),
    (
        "2. values are names and masks; regular expressions are not interpreted",
        &[(FILE, "regex_syntax_is_refused")],
    ),
    (
        "2. without allow_list the child keeps all tools",
        &[(TOOLS, "without_allow_list_all_tools_except_denied_ones_are_allowed")],
    ),
    (
        "3. the default prompt is required, before the first marker",
        &[(BLOCKS, "default_prompt_block_is_the_text_before_the_first_marker")],
    ),
    ("3. exact markers", &[(BLOCKS, "persona_blocks_must_use_exact_markers")]),
    (
        "3. every name has its block",
        &[(BLOCKS, "for_every_agent_names_name_a_matching_persona_block_must_exist")],
    ),
    (
        "3. no block without its name",
        &[
            (BLOCKS, "do_not_add_persona_blocks_not_declared_in_yaml"),
            (BLOCKS, "blocks_without_agent_names_are_refused"),
        ],
    ),
    (
        "4. the skeleton is right as it stands",
        &[(FILE, "use_this_minimal_template_skeleton"), (SHIPPED, "skeleton_is_valid")],
    ),
    ("5. description is not empty", &[(FILE, "description_must_be_non_empty")]),
    ("5. the default prompt is not empty", &[(FILE, "default_prompt_block_must_be_non_empty")]),
    (
        "5. a persona has its entry and its section",
        &[
            (BLOCKS, "for_every_agent_names_name_a_matching_persona_block_must_exist"),
            (BLOCKS, "persona_without_a_prompt_is_refused"),
        ],
    ),
    (
        "5. without personas there is no agent_names",
        &[(LIST, "agent_names_is_shown_only_if_the_role_has_personas")],
    ),
    (
        "6. spawn_agent selects by agent_type and agent_name",
        &[(CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona")],
    ),
    (
        "6. call, persona, template, inherited",
        &[
            (ASSIGNMENT, "overrides_go_before_persona_before_role_before_inherited"),
            (FAMILIES, "child_inherits_unset_settings_of_its_parent"),
        ],
    ),
    (
        "6. the tool policy is applied to the child",
        &[(CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona")],
    ),
    (
        "6. read_only is set before overrides are validated",
        &[(ASSIGNMENT, "read_only_is_enforced_before_any_override_is_checked")],
    ),
    (
        "7. there is a check to run",
        &[
            (LINTS, "valid_templates_have_no_problem"),
            (LINTS, "each_problem_of_a_template_is_reported_once"),
        ],
    ),
    (
        "8. list_agents shows a new role with its lists",
        &[
            (AGENTS, "agents_list_prints_what_the_list_agents_tool_returns"),
            (ROOT, "errors_have_the_text_of_the_contract"),
        ],
    ),
    (
        "8. with a filter and expanded",
        &[
            (ROOT, "list_agents_filters_and_expands"),
            (LIST, "agent_type_filters_by_one_role"),
            (LIST, "expanded_adds_model_effort_and_prompt_to_role_and_personas"),
        ],
    ),
    (
        "8. with an invalid agent_type",
        &[
            (ROOT, "errors_have_the_text_of_the_contract"),
            (AGENTS, "unknown_template_names_are_reported_as_the_contract_specifies"),
        ],
    ),
    (
        "8. spawn it without persona and with each",
        &[(CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona")],
    ),
    (
        "8. model, effort and tools of the child are as resolved",
        &[(CHILDREN, "child_gets_prompt_model_effort_and_tools_of_its_persona")],
    ),
    ("9. the documents say what there is", &[(HERE, "guide_names_every_key_of_a_template")]),
    (
        "9. and who owns, closes and ends whom",
        &[(HERE, "guide_explains_reach_and_states_of_agents")],
    ),
];

const FAILURE_MODES: &[Sentence] = &[
    (
        "`agent_name requires a non-default agent_type`",
        &[
            (ASSIGNMENT, "agent_name_requires_a_non_default_agent_type"),
            (ROOT, "errors_have_the_text_of_the_contract"),
        ],
    ),
    (
        "list_agents fails on a missing description or default prompt",
        &[(LIST, "when_the_contract_is_broken_list_agents_returns_an_error")],
    ),
    (
        "`invalid agent_type \"...\": expected snake_case or kebab-case ...`",
        &[
            (DISCOVERY, "invalid_agent_type_error_shows_the_valid_form"),
            (LIST, "invalid_agent_type_returns_invalid_agent_type"),
        ],
    ),
    (
        "`missing agent template: <agent_type>`",
        &[
            (DISCOVERY, "missing_agent_template"),
            (LIST, "valid_agent_type_without_a_template_returns_missing_agent_template"),
        ],
    ),
    (
        "a persona without its block, or a block without its persona",
        &[
            (BLOCKS, "for_every_agent_names_name_a_matching_persona_block_must_exist"),
            (BLOCKS, "do_not_add_persona_blocks_not_declared_in_yaml"),
        ],
    ),
    (
        "a model that is not known",
        &[
            (ASSIGNMENT, "unknown_model_is_rejected"),
            (ROOT, "errors_have_the_text_of_the_contract"),
        ],
    ),
    (
        "an effort that the model does not support",
        &[
            (ASSIGNMENT, "effort_that_the_model_does_not_support_is_rejected"),
            (ROOT, "errors_have_the_text_of_the_contract"),
        ],
    ),
];

/// Whether a file has a test with this name: a function with `#[test]` among its attributes.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_function = |line: &&str| {
        line.strip_prefix("fn ")
            .is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
    };
    let Some(index) = lines.iter().position(is_function) else { return false };
    let above = lines[..index].iter().rev();
    above
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .any(|line| *line == "#[test]")
}

#[test]
fn every_sentence_of_the_contract_has_tests() {
    let parts = [PASSPORT, USER_CONTRACT, RUNBOOK, FAILURE_MODES];
    let crates = workspace().join("crates");
    let mut listed = BTreeSet::new();
    for (sentence, tests) in parts.into_iter().flatten() {
        assert!(listed.insert(*sentence), "listed twice: {sentence}");
        assert!(!tests.is_empty(), "no test for: {sentence}");
        for (file, name) in *tests {
            let text = std::fs::read_to_string(crates.join(file));
            let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
            // Long tests are in a separate file of the module.
            let tests_file = crates.join(file.trim_end_matches(".rs")).join("tests.rs");
            let text = text + &std::fs::read_to_string(tests_file).unwrap_or_default();
            assert!(has_test(&text, name), "{file} has no test {name}, for: {sentence}");
        }
    }
    assert_eq!(parts.map(<[Sentence]>::len), [4, 35, 34, 7], "a sentence was added or removed");
    // The control: other functions are not tests.
    assert!(!has_test("fn x() {}", "x") && !has_test("#[test]\nfn xy() {}", "x"));
    assert!(has_test("#[test]\n/// So.\nfn x() {}", "x"));
}

#[test]
fn guide_names_every_key_of_a_template() {
    let source = Source::new("x.md", "---\ndescription: x\nnothing: 1\n---\nDo.\n");
    let problems = file::parse(&AgentType::parse("x").unwrap(), &source).unwrap_err();
    let help = problems[0].help.clone().unwrap();
    let (_, keys) = help.split_once("nown here: ").unwrap();
    let keys: Vec<&str> = keys.split(", ").collect();
    assert!(keys.contains(&"`read_only`") && keys.contains(&"`max_turns`"), "{keys:?}");
    let guide = std::fs::read_to_string(workspace().join("docs/guides/templates.md")).unwrap();
    for key in keys {
        assert!(guide.contains(key), "docs/guides/templates.md does not name {key}");
    }
}

/// Ownership, closing and the states of an agent, in the words of the tools.
#[test]
fn guide_explains_reach_and_states_of_agents() {
    let guide = std::fs::read_to_string(workspace().join("docs/guides/delegation.md")).unwrap();
    let none = String::new;
    let all = [
        Status::PendingInit,
        Status::Running,
        Status::Completed(none()),
        Status::Errored(none()),
        Status::Shutdown,
        Status::NotFound,
    ];
    for label in all.iter().map(Status::label) {
        assert!(guide.contains(&format!("| `{label}` |")), "the guide does not name {label}");
    }
    for (words, file) in [
        ("is not one of the agents below you", "service.rs"),
        ("Not permitted to close agents outside your subtree.", "send_input.rs"),
    ] {
        let code = workspace().join("crates/engine/src/delegating").join(file);
        assert!(std::fs::read_to_string(code).unwrap().contains(words), "{file}: {words}");
        assert!(guide.contains(&format!("`{words}`")), "the guide does not quote `{words}`");
    }
    for words in ["and all below it, leaves first", "An agent reaches only what is below it."] {
        assert!(guide.contains(words), "the guide does not say: {words}");
    }
}
