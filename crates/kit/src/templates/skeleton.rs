//! A new template to complete; it is valid.

use bailiwick_model::template::AgentType;

/// The text of a new template.
pub fn skeleton(agent_type: &AgentType) -> String {
    format!(
        "---\n\
         description: Use `{agent_type}` for …\n\
         # The model and how hard it thinks; those of who starts the agent if left out.\n\
         # model: gpt-5-codex\n\
         # reasoning_effort: medium\n\
         # No writes, and no network beyond the model.\n\
         read_only: true\n\
         # The tools that it may use; all of its parent's if left out, none if empty. `*` and `?` match.\n\
         allow_list:\n\
         \x20 - Read\n\
         \x20 - Glob\n\
         \x20 - Grep\n\
         \x20 - update_plan\n\
         \x20 - list_agents\n\
         \x20 - list_active_agents\n\
         # Goes before allow_list.\n\
         deny_list:\n\
         \x20 - spawn_agent\n\
         # Variants of it, each with a block of its own below.\n\
         agent_names:\n\
         \x20 - name: strict\n\
         \x20   description: Checks everything twice and says what it could not check.\n\
         ---\n\
         Say here what an agent of the type `{agent_type}` is to do, and what it returns.\n\
         \n\
         <!-- agent_name: strict -->\n\
         Say here what this variant does instead. It is told this text alone.\n"
    )
}
