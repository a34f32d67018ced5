//! The guides as tests: every command and every file that they print is used as printed.
//!
//! A scene creates what its guide assumes (a repository, a forge, agents), sets the values of the placeholders, and
//! follows the guide to its end. A block that no scene uses is a failure.

mod fleet;
pub(crate) mod guide;
mod markdown;
mod place;
mod shell;
mod strictness;

use guide::{Guide, is_followed};

/// Each guide has a module with a `follow`.
macro_rules! scenes {
    ($($scene:ident: $guide:literal;)*) => {
        $(pub(crate) mod $scene;)*

        const FOLLOWED: &[&str] = &[$($guide),*];

        $(
            #[test]
            fn $scene() {
                let mut guide = Guide::read($guide);
                $scene::follow(&mut guide);
                guide.finish();
            }
        )*
    };
}

scenes! {
    readme: "README.md";
    admission: "docs/guides/admission.md";
    agents: "docs/guides/agents.md";
    api: "docs/guides/api.md";
    chain: "docs/guides/chain.md";
    claims: "docs/guides/claims.md";
    delegation: "docs/guides/delegation.md";
    exec: "docs/guides/exec.md";
    gate: "docs/guides/gate.md";
    hooks: "docs/guides/hooks.md";
    import: "docs/guides/import.md";
    kit: "docs/guides/kit.md";
    ledger: "docs/guides/ledger.md";
    manifests: "docs/guides/manifests.md";
    memory: "docs/guides/memory.md";
    postgresql: "docs/guides/postgresql.md";
    run: "docs/guides/run.md";
    serve: "docs/guides/serve.md";
    sub_agents: "docs/guides/sub-agents-and-servers.md";
    task: "docs/guides/task.md";
    team: "docs/guides/team.md";
    templates: "docs/guides/templates.md";
    triggers: "docs/guides/triggers.md";
    tutorial: "docs/tutorial.md";
    verify: "docs/guides/verify.md";
    web: "docs/guides/web.md";
    workers: "docs/guides/workers.md";
    workspaces: "docs/guides/workspaces.md";
    write_back: "docs/guides/write-back.md";
}

/// Guides that are followed by the tests of another program.
const FOLLOWED_ELSEWHERE: [(&str, &str); 1] =
    [("docs/guides/kubernetes.md", "crates/operator/tests/it/guide.rs")];

fn all_guides() -> Vec<String> {
    let guides = std::fs::read_dir(crate::workspace().join("docs/guides")).unwrap();
    let names = guides.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let guides = names.map(|name| format!("docs/guides/{name}"));
    guides.chain(["README.md".to_owned(), "docs/tutorial.md".to_owned()]).collect()
}

#[test]
fn every_guide_with_a_block_is_followed() {
    let mut unused = Vec::new();
    for name in all_guides() {
        let text = std::fs::read_to_string(crate::workspace().join(&name)).unwrap();
        for block in markdown::blocks(&text) {
            let position = format!("{name}:{}", block.line);
            let commands = ["bailiwick ", "kei-", "cargo ", "git ", "curl ", "$ "];
            let looks_run = |line: &str| commands.iter().any(|start| line.starts_with(start));
            assert!(
                is_followed(&block.language) || !block.text.lines().any(looks_run),
                "{position}: a block with commands is not marked `sh`"
            );
            let elsewhere = FOLLOWED_ELSEWHERE.iter().any(|(guide, _)| *guide == name);
            if is_followed(&block.language) && !FOLLOWED.contains(&name.as_str()) && !elsewhere {
                unused.push(position);
            }
        }
    }
    assert!(unused.is_empty(), "no scene in crates/cli/tests/it/guides/ uses {unused:#?}");
    for (guide, test) in FOLLOWED_ELSEWHERE {
        let text = std::fs::read_to_string(crate::workspace().join(test)).unwrap();
        assert!(text.contains(guide), "{test} does not follow {guide}");
    }
}
