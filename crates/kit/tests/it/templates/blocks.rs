//! Named blocks: what is a marker, and that personas and blocks match.

use super::{refused, refused_at, template};

const HEAD: &str =
    "---\ndescription: Mine.\nagent_names:\n  - name: strict\n    description: Careful.\n---\n";

fn with_body(body: &str) -> String {
    format!("{HEAD}{body}")
}

const STRICT: &str = "<!-- agent_name: strict -->\nTake care.\n";

#[test]
fn default_prompt_block_is_the_text_before_the_first_marker() {
    let found = template(&with_body(&format!("\n\n  Do it.\n\nWell.\n\n{STRICT}")));
    assert_eq!(found.default_prompt, "  Do it.\n\nWell.");
    assert_eq!(found.personas[0].prompt, "Take care.");
}

#[test]
fn for_every_agent_names_name_a_matching_persona_block_must_exist() {
    let problem = refused_at(&with_body("Do it.\n"));
    let expected = "auditor.md:4:11: invalid agent_names: missing agent_name block for \"strict\"";
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn do_not_add_persona_blocks_not_declared_in_yaml() {
    let body = format!("Do it.\n{STRICT}<!-- agent_name: fast -->\nHurry.\n");
    let problem = refused_at(&with_body(&body));
    let expected = "auditor.md:10:1: invalid agent_names: missing agent_names entry for \"fast\"";
    assert_eq!(problem, expected);
}

#[test]
fn blocks_without_agent_names_are_refused() {
    for keys in ["", "agent_names: []\n"] {
        let text = format!("---\ndescription: Mine.\n{keys}---\nDo it.\n{STRICT}");
        let messages = refused(&text);
        assert_eq!(
            messages,
            ["found agent_name blocks but frontmatter agent_names is missing"],
            "{keys}"
        );
    }
}

#[test]
fn each_entry_must_contain_name_and_description() {
    let text = |entry: &str| {
        format!("---\ndescription: Mine.\nagent_names:\n  - {entry}\n---\nDo it.\n{STRICT}")
    };
    for entry in ["name: strict", "{name: strict, description: ''}"] {
        let messages = refused(&text(entry));
        assert_eq!(messages, ["missing description for agent_name \"strict\""], "{entry}");
    }
    for entry in ["description: Careful.", "{name: '', description: Careful.}"] {
        let messages = refused(&text(entry));
        assert!(
            messages.contains(&"invalid agent_names: a persona needs a name".to_owned()),
            "{entry}"
        );
    }
    let messages = refused(&text("{name: strict, description: Careful., allow_list: [x]}"));
    assert_eq!(messages, ["invalid YAML: unknown key `allow_list`"]);
    template(&text("{name: strict, description: Careful.}"));
}

#[test]
fn names_are_lower_case_on_both_sides() {
    let text =
        HEAD.replace("strict", "' Strict'") + "Do it.\n<!-- agent_name:  STRICT-->\nTake care.\n";
    assert_eq!(template(&text).personas[0].name, "strict");
}

#[test]
fn duplicates_are_refused() {
    let duplicate = refused(&with_body(&format!("Do it.\n{STRICT}{STRICT}")));
    assert_eq!(duplicate, ["invalid agent_names: duplicate agent_name block for \"strict\""]);
    let entries = HEAD.replace(
        "    description: Careful.\n",
        "    description: Careful.\n  - name: STRICT\n    description: Other.\n",
    );
    let duplicate = refused(&format!("{entries}Do it.\n{STRICT}"));
    assert_eq!(duplicate, ["invalid agent_names: duplicate agent_names entry for \"strict\""]);
}

#[test]
fn marker_inside_of_a_code_fence_is_text() {
    for (open, close) in
        [("```", "```"), ("~~~~ md", "~~~~~"), ("   ```md", "```"), ("- x\n    ```", "    ```")]
    {
        let body = format!("Do it:\n{open}\n<!-- agent_name: fast -->\n{close}\n{STRICT}");
        let found = template(&with_body(&body));
        assert!(found.default_prompt.contains("<!-- agent_name: fast -->"), "{open}");
        assert_eq!(found.personas.len(), 1);
    }
    // An invalid fence hides nothing.
    for open in ["``", "`` ` ``", "``` a`b"] {
        let body = format!("Do it:\n{open}\n<!-- agent_name: fast -->\n{STRICT}");
        let messages = refused(&with_body(&body));
        assert_eq!(
            messages,
            ["invalid agent_names: missing agent_names entry for \"fast\""],
            "{open}"
        );
    }
}

#[test]
fn unclosed_fence_does_not_hide_a_persona_silently() {
    let problem = refused_at(&with_body(&format!("Do it:\n```\n{STRICT}")));
    assert!(problem.contains("missing agent_name block for \"strict\""), "{problem}");
    assert!(problem.contains("inside of a code fence"), "{problem}");
}

#[test]
fn persona_blocks_must_use_exact_markers() {
    for marker in [
        "<!--agent_name: fast-->",
        "<!-- agent_name fast -->",
        "<!-- agent-name: fast -->",
        "<!-- Agent_Name: fast -->",
        "<!-- agent_name: fast",
        "<!-- agent_name: fast --> and more",
        "<!-- agent_name: -->",
        "<!-- agent_name: a > b -->",
    ] {
        let messages = refused(&with_body(&format!("Do it.\n{marker}\nHurry.\n{STRICT}")));
        assert_eq!(messages.len(), 1, "{marker}: {messages:?}");
    }
    let comment = "<!-- the agent_name is chosen by the caller -->";
    let found = template(&with_body(&format!("Do it.\n{comment}\n{STRICT}")));
    assert_eq!(found.default_prompt, format!("Do it.\n{comment}"));
}

#[test]
fn persona_without_a_prompt_is_refused() {
    let messages = refused(&with_body("Do it.\n<!-- agent_name: strict -->\n\n"));
    assert_eq!(messages, ["the agent_name block of \"strict\" is empty"]);
}

/// An extra line of dashes would turn the limits after it into text.
#[test]
fn frontmatter_that_continues_after_its_end_is_refused() {
    for body in [
        "allow_list: []\n---\nDo it.\n",
        "\n\nread_only: true\n---\nDo it.\n",
        "---\nallow_list: []\n---\nDo it.\n",
    ] {
        let messages = refused(&format!("---\ndescription: Mine.\n---\n{body}"));
        let expected = "the frontmatter ends above, and this would be read as text";
        assert_eq!(messages, [expected], "{body:?}");
    }
    let text = "---\ndescription: Mine.\nallow_list: []\n---\nDo: it.\n---\nallow_list: more\n";
    let found = template(text);
    assert_eq!(found.default_prompt, "Do: it.\n---\nallow_list: more");
}
