//! The request of a spawn, built from a bound task.

use bailiwick_lifecycle::ports::{Preparation, spec_sha};
use bailiwick_lifecycle::{brief, prepare, spawn::Request};
use bailiwick_model::{Source, Task};

use crate::kit_in_memory::{bound, embedded, id};

fn request(task: &str, creator: Option<&str>) -> Request {
    let bound = bound(&embedded(), task);
    let creator = creator.map(str::to_owned);
    Request::new(&bound, id("ag-1"), "base".into(), "/state/ag-1".into(), creator, 7).unwrap()
}

#[test]
fn run_is_recorded_with_the_digest_of_the_written_files() {
    let task = "# why\n[task]\nrole = \"developer\"\nparent-agent = null\n\
                [workspace]\ncopy = [\".env\"]\nsetup = [\"npm ci\"]\n[body]\ntext = \"Go.\"\n";
    let request = request(task, Some("a person"));
    let bound = bound(&embedded(), task);
    assert_eq!(request.files.prompt, brief::compose(&bound).unwrap());
    assert_eq!(request.run.spec_sha, spec_sha(&request.files.task).to_string());
    let written = Task::parse(&Source::new("t", request.files.task.as_str())).unwrap();
    assert_eq!(written.task.agent_id, Some(id("ag-1")));
    assert_eq!(written.body.text, "Go.");
    assert!(request.files.task.starts_with("# why\n"), "{}", request.files.task);
    assert_eq!(request.run.id, id("ag-1"));
    assert_eq!(request.run.branch, "agent/ag-1");
    assert_eq!(request.run.worktree.as_deref(), Some("/state/ag-1"));
    assert_eq!(request.run.dna, Some(prepare::dna(&bound, 7).to_string()));
    assert!(request.run.half_spawned, "no step is done yet");
    assert_eq!(request.base, "base");
    let preparation = Preparation {
        copy: vec![".env".to_owned()],
        setup: vec!["npm ci".to_owned()],
        prefetch: Vec::new(),
        hosts: Vec::new(),
    };
    assert_eq!(request.preparation, preparation);
}

#[test]
fn parent_is_also_the_creator_and_otherwise_the_caller_is() {
    let plain = "[task]\nrole = \"read-only\"\n";
    let child = "[task]\nrole = \"read-only\"\nparent-agent = \"ag-0\"\n";
    let people = |task: &str, creator: Option<&str>| {
        let run = request(task, creator).run;
        (run.parent, run.creator)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(people(plain, None), (None, None));
    assert_eq!(people(plain, Some("me")), (None, some("me")));
    assert_eq!(people(child, None), (some("ag-0"), some("ag-0")));
    assert_eq!(people(child, Some("me")), (some("ag-0"), some("ag-0")));
}
