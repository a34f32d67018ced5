//! Stacks and workspaces are judged by the default branch of the forge; the branches of the checkout can be old.

use std::fs;

use serde_json::{Value, json};

use super::{Place, Serving};

impl Place {
    /// The documents, with the instructions `path` in the stack and this default branch.
    fn documents_with(&self, path: &str, default_branch: &str) -> Vec<Value> {
        let mut documents = self.documents();
        for document in &mut documents {
            match document["kind"].as_str() {
                Some("AgentStack") => {
                    document["spec"]["agentsDocRef"] =
                        json!({ "source": "repository", "path": path })
                }
                Some("Repository") => document["spec"]["defaultBranch"] = json!(default_branch),
                _ => {}
            }
        }
        documents
    }

    fn with_credentials() -> Self {
        let place = Self::bare();
        place.run_with_input(&["secrets", "set", "webhook", "key"], super::SECRET).expect_code(0);
        place
            .run_with_input(&["secrets", "set", "forge", "token"], &place.forge.token())
            .expect_code(0);
        place
    }

    fn stack_condition(&self, kind: &str) -> Option<(String, String)> {
        let stack = self.json(&["get", "stack/fixer"]);
        let conditions = stack["status"]["conditions"].as_array()?.clone();
        let found = conditions.into_iter().find(|one| one["type"] == kind)?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason")))
    }
}

#[test]
fn stack_is_judged_by_the_commit_of_the_forge_although_the_local_branch_is_old() {
    let place = Place::with_credentials();
    place.scratch.write("docs/agents.md", "Be brief.\n");
    place.scratch.commit("Add instructions");
    place.forge.take(&place.scratch.root(), "main");
    place.scratch.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    place.apply(&place.documents_with("docs/agents.md", "main")).expect_code(0);
    let serving = Serving::start(&place);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    // What only the local branch has does not count.
    place.scratch.write("docs/local.md", "Be brief.\n");
    place.scratch.commit("Add local instructions");
    place.apply(&place.documents_with("docs/local.md", "main")).expect_code(0);
    let missing = ("False".to_owned(), "AgentsDocMissing".to_owned());
    place.wait_for("the missing instructions", || {
        place.stack_condition("SkillsValidated").filter(|found| *found == missing)
    });
    drop(serving);
}

#[test]
fn stack_becomes_ready_on_a_default_branch_that_the_checkout_lacks() {
    let place = Place::with_credentials();
    place.forge.git(&["branch", "develop", "main"]);
    place.apply(&place.documents_with("src/kept.txt", "develop")).expect_code(0);
    assert_eq!(place.scratch.git(&["branch", "--list", "develop"]), "");
    let serving = Serving::start(&place);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    drop(serving);
}

#[test]
fn workspace_is_compared_and_rebased_with_the_branch_of_the_forge() {
    let place = Place::new();
    let arguments = ["workspaces", "provision", "mend", "--repository", "app"];
    place.run(&arguments).expect_code(0);
    let path = place.scratch.state().join("worktrees/mend");
    place.scratch.write("src/theirs.txt", "theirs\n");
    let tip = place.scratch.commit("Theirs");
    place.forge.take(&place.scratch.root(), "main");
    place.scratch.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let archived = ["workspaces", "archive", "mend"];
    place.run(&archived).expect_code(0);
    place.run(&["workspaces", "restore", "mend"]).expect_code(0);
    let git = &place.json(&["workspaces", "show", "mend"])["workspace"]["status"]["git"];
    assert_eq!((&git["ahead"], &git["behind"]), (&json!(0), &json!(1)));
    place.run(&["workspaces", "rebase", "mend"]).expect_code(0);
    assert_eq!(fs::read_to_string(path.join("src/theirs.txt")).unwrap(), "theirs\n");
    assert_eq!(place.scratch.git(&["rev-parse", "workspace/mend"]).trim(), tip);
    let git = &place.json(&["workspaces", "show", "mend"])["workspace"]["status"]["git"];
    assert_eq!((&git["ahead"], &git["behind"]), (&json!(0), &json!(0)));
}
