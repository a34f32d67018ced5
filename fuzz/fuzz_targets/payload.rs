//! Whatever the payload, it is refused or decided, twice in the same way, and a denial has a reason.
#![no_main]

use std::sync::OnceLock;

use bailiwick_policy::dialects::{AllowedReply, Dialect};
use bailiwick_policy::shell::hide_contained_panics;
use bailiwick_policy::{Decision, Facts, Policy, decide};
use libfuzzer_sys::fuzz_target;

const POLICY: &str = r#"{"format":1,"role":"fuzz","tools":["Bash","Read","Write","Edit","mcp__*"],
"rules":[{"capability":"policy::no-git-ops","gate":"gates::policy_no_git_ops","tools":["Bash"],
"severity":"block"},{"capability":"scope::files-whitelist","gate":"gates::scope_files_whitelist",
"tools":["Edit","Write","Bash"],"severity":"block"},{"capability":"safety::no-mass-delete",
"gate":"gates::safety_no_mass_delete","tools":["Bash"],"severity":"warn"}],
"whitelist":["src/**"],"escalation":"ask-via-return"}"#;

fn policy() -> &'static Policy {
    static READ: OnceLock<Policy> = OnceLock::new();
    READ.get_or_init(|| Policy::parse(POLICY.as_bytes()).expect("a policy"))
}

fuzz_target!(init: hide_contained_panics(), |data: &[u8]| {
    let Some((first, payload)) = data.split_first() else { return };
    let dialect = Dialect::ALL[usize::from(*first) % Dialect::ALL.len()];
    let servers = ["gov".to_owned()];
    let read = dialect.read(payload, &servers);
    assert_eq!(read, dialect.read(payload, &servers), "not the same twice");
    let facts = Facts {
        root: "/work/repo".to_owned(),
        home: Some("/home/agent".to_owned()),
        directory: Some("/work/repo".to_owned()),
        ..Facts::default()
    };
    let decision = match read {
        Ok(call) => decide(policy(), &call, &facts),
        Err(error) => Decision::undecidable(error.to_string()),
    };
    let answer = dialect.answer(&decision, AllowedReply::Silent);
    assert!(matches!(answer.exit, 0 | 2));
    assert!(answer.exit == 0 || !answer.stderr.trim().is_empty(), "a denial without a word");
});
