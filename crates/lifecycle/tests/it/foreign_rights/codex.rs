//! The rules of Codex, with random files.

use std::cell::Cell;

use super::*;

const FEATURES: [(&str, &[&str]); 4] = [
    ("shell_tool", &["Bash", "Typing"]),
    ("apply_patch_freeform", &["Edit", "Write"]),
    ("web_search_request", &["WebSearch"]),
    ("multi_agent", &["Agent", "AgentMessage"]),
];

#[test]
fn import_allows_no_more_than_the_codex_original() {
    let modes = ["", "read-only", "workspace-write", "danger-full-access"];
    let features = prop::collection::vec(prop::option::of(any::<bool>()), 4);
    let allowed = Cell::new(0);
    proptest!(|(mode in select(modes.to_vec()), features in features, remark in any::<bool>())| {
        let mut text = if remark { "# bailiwick tools: Read, Bash\n".to_owned() } else { String::new() };
        text += "name = \"a\"\ndescription = \"b\"\ndeveloper_instructions = \"c\"\n";
        if !mode.is_empty() {
            text += &format!("sandbox_mode = \"{mode}\"\n");
        }
        text += "[features]\n";
        for ((name, _), on) in FEATURES.iter().zip(&features) {
            if let Some(on) = on {
                text += &format!("{name} = {on}\n");
            }
        }
        allowed.set(allowed.get() + check(&read(Format::Codex, &text), |tool, class| {
            let off = FEATURES.iter().zip(&features).any(|((_, tools), on)| {
                *on == Some(false) && tools.contains(&tool)
            });
            let read_only = mode == "read-only" && class == Class::Writes;
            let listed = !remark || ["Read", "Bash"].contains(&tool);
            !off && !read_only && listed
        })?);
    });
    assert!(allowed.get() > 500, "only {} tools were allowed by both", allowed.get());
}
