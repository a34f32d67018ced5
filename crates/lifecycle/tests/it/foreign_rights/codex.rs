//! The rule of Codex, and files that are random.

use std::cell::Cell;

use super::*;

const FEATURES: [(&str, &[&str]); 4] = [
    ("shell_tool", &["Bash", "Typing"]),
    ("apply_patch_freeform", &["Edit", "Write"]),
    ("web_search_request", &["WebSearch"]),
    ("multi_agent", &["Agent", "AgentMessage"]),
];

#[test]
fn an_import_may_no_more_than_its_original() {
    let modes = ["", "read-only", "workspace-write", "danger-full-access"];
    let features = prop::collection::vec(prop::option::of(any::<bool>()), 4);
    let both = Cell::new(0);
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
        both.set(both.get() + check(&read(Format::Codex, &text), |tool, class| {
            let off = FEATURES.iter().zip(&features).any(|((_, tools), on)| {
                *on == Some(false) && tools.contains(&tool)
            });
            let shut = mode == "read-only" && class == Class::Writes;
            let listed = !remark || ["Read", "Bash"].contains(&tool);
            !off && !shut && listed
        })?);
    });
    assert!(both.get() > 500, "only {} tools were allowed by both", both.get());
}
