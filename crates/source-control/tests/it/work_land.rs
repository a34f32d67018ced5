//! Landing: the branch gets exactly the verified tree, or stays where it was.

use bailiwick_control::ports::{
    Base, LandError, Landed, Landing, Merge, Method, Snapshot, Work as _,
};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};

/// What an agent would land on the base as it is now.
pub(crate) fn verified(agent: &Agent) -> (Base, Snapshot, String) {
    let (base, snapshot) = agent.snapshot();
    match agent.work().merge(&base, &snapshot).unwrap() {
        Merge::Clean { tree } => (base, snapshot, tree),
        Merge::Conflicts(conflicts) => panic!("{conflicts:?}"),
    }
}

pub(crate) fn landing(agent: &Agent, method: Method) -> Landing {
    let (base, work, tree) = verified(agent);
    Landing {
        agent: agent.id.to_string(),
        branch: base.branch,
        expected: Some(base.tip.clone()),
        onto: base.tip,
        work,
        tree,
        method,
        message: format!("Land {}\n\nVerified-by: test\n", agent.id),
    }
}

fn land(agent: &Agent, landing: &Landing) -> Result<Landed, LandError> {
    agent.work().land(landing)
}

fn tip(scratch: &Scratch) -> String {
    scratch.git(&["rev-parse", "main"]).trim().to_owned()
}

fn tree(scratch: &Scratch, revision: &str) -> String {
    scratch.git(&["rev-parse", &format!("{revision}^{{tree}}")]).trim().to_owned()
}

fn status(scratch: &Scratch) -> String {
    scratch.git(&["status", "--porcelain", "--untracked-files=all"])
}

#[test]
fn each_method_gives_the_verified_tree_and_a_clean_checkout() {
    for method in [Method::Merge, Method::Squash, Method::Rebase] {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        agent.write("src/lib.rs", "fn one() {}\n");
        agent.commit(&scratch, "Shorten");
        agent.write("new.txt", "new\n");
        scratch.write("other.txt", "other\n");
        let before = scratch.commit("Meanwhile");
        let wanted = landing(&agent, method);
        let landed = land(&agent, &wanted).unwrap();
        assert_eq!(tip(&scratch), landed.commit, "{method:?}");
        assert_eq!(tree(&scratch, "main"), wanted.tree, "{method:?}");
        assert_eq!(status(&scratch), "", "{method:?}");
        assert_eq!(scratch.read("new.txt"), "new\n");
        assert_eq!(landed.checkouts, [scratch.root().canonicalize().unwrap()]);
        let log = scratch.git(&["log", "--format=%s", &format!("{before}..main")]);
        let expected = match method {
            Method::Merge => "Land ag-1\nThe work of ag-1, with what is not committed\nShorten\n",
            Method::Squash => "Land ag-1\n",
            Method::Rebase => "Land ag-1\nShorten\n",
        };
        assert_eq!(log, expected);
    }
}
