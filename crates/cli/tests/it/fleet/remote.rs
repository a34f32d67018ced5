//! Every verb of the fleet prints the same with the local database and over a server.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use bailiwick_cli::Bailiwick;
use bailiwick_fleet::ports::{FleetStore as _, Write};
use bailiwick_resources::{AgentApproval, AnyObject, Metadata, Moment, Object};
use bailiwick_testkit::scratch::Ran;
use clap::CommandFactory as _;
use serde_json::{Value, json};

use super::covered::{FLEET, leaves};
use super::triggers::store_delivery;
use super::{Place, Serving, config_map, document};

/// A server with a login, and its database.
struct LocalAndRemote {
    place: Place,
    serving: Serving,
}

/// Verbs that are not fleet verbs over a server, and why.
const LOCAL_ONLY: [&str; 8] = [
    // The server itself.
    "serve",
    // Logins are files of this machine.
    "login",
    "logout",
    "contexts_list",
    "contexts_use",
    "contexts_current",
    "contexts_delete",
    // Schemas are part of the program.
    "api-resources",
];

/// Verbs that need an object. Each is called for a missing one, and must print the same error.
const OF_MISSING_OBJECTS: &[&str] = &[
    "describe configmap none",
    "delete configmap none",
    "edit configmap none",
    "explain stack/none",
    "wait configmap/map --for colour=red",
    "runs logs adr-none",
    "runs logs adr-none -f",
    "runs cancel adr-none",
    "runs retry adr-none",
    "runs resume adr-none",
    "runs continue adr-none -m x",
    "runs fork adr-none -m x",
    "runs refresh-context adr-none --reason x",
    "runs start app none --task x",
    "runs start none fixer --task x",
    "trigger test none --delivery wd-none",
    "trigger test broken --delivery wd-none",
    "trigger replay none wd-none",
    "trigger fire none --repository app",
    "trigger materialize none --delivery wd-none",
    "trigger enable none",
    "trigger pause none",
    "trigger resume none",
    "trigger disable none",
    "trigger archive none",
    "workspaces show none",
    "workspaces provision none --repository none",
    "workspaces link /nowhere --repository none",
    "workspaces unlink none --issue 1",
    "workspaces pin none",
    "workspaces unpin none",
    "workspaces note none words",
    "workspaces archive none",
    "workspaces cleanup none",
    "workspaces recover none",
    "workspaces rebase none",
    "secrets rm none",
    "tokens revoke tok-none",
    "approvals approve aap-none",
    "approvals deny aap-none",
    "approvals show aap-none",
];

/// Reading verbs.
const READING: &[&str] = &[
    "get configmaps",
    "get configmaps -o wide",
    "get configmaps -o yaml",
    "get configmaps -o json",
    "get configmaps -o name",
    "get configmap map -o json",
    "get configmap map -o jsonpath={.spec.data.k}",
    "get stacks,pools",
    "get stacks,pools -o json",
    "get stacks,pools,configmaps --sort-by .metadata.name -o jsonpath={.items[*].metadata.name}",
    "get configmaps -A -l team=x",
    "get configmaps --last 1",
    "get triggers --field state=draft",
    "get triggers --field colour=red",
    "get configmap none",
    "get things",
    "get runs",
    "describe stack fixer",
    "describe stack/fixer pool/inside -o json",
    "explain stack/fixer",
    "explain stack/fixer -o json",
    "diff -f changed.json",
    "diff -f changed.json -o json",
    "diff -f same.json",
    "diff -f wrong.json",
    "apply -f changed.json --dry-run",
    "apply -f changed.json --dry-run -o json",
    "apply -f wrong.json",
    "delete -f same.json --dry-run",
    "wait configmap/none --for delete",
    "wait configmap/map --for delete --timeout 1s",
    "secrets list",
    "secrets list -o json",
    "tokens list",
    "tokens list -o json",
    "audit --last 5",
    "audit --event TokenCreated -o json",
    "workspaces list",
    "approvals list",
    "approvals list -o json",
];

/// Changing verbs, in this order. `{}` is the name of a different object for each way.
const CHANGING: &[&str] = &[
    "apply -f {}.json",
    "apply -f {}.json",
    "get configmap {} -o jsonpath={.spec}",
    "edit configmap {}",
    "delete configmap {} --dry-run",
    "delete -f {}.json",
    "secrets set {} key --from-file {}.json",
    "secrets rm {}",
    "trigger enable rule-{}",
    "trigger pause rule-{}",
    "trigger resume rule-{} --reason why",
    "trigger disable rule-{}",
    "trigger archive rule-{}",
    "workspaces provision {} --repository app --issue 42",
    "workspaces pin {}",
    "workspaces archive {}",
    "workspaces unpin {}",
    "workspaces note {} words",
    "workspaces unlink {} --issue 42",
    "workspaces archive {}",
    "workspaces recover {}",
    "workspaces rebase {}",
    "workspaces cleanup {}",
];

impl LocalAndRemote {
    fn new() -> Self {
        Self::at(Place::ready())
    }

    fn at(place: Place) -> Self {
        let mut rules = place.documents();
        // No run starts during the test.
        let mut pool = rules.remove(2);
        pool["spec"]["paused"] = json!(true);
        let mut rule = rules.pop().unwrap();
        let mut labelled = config_map("map", "1");
        labelled["metadata"]["labels"] = json!({ "team": "x" });
        let mut documents = vec![pool, labelled];
        for name in ["left", "right"] {
            rule["metadata"]["name"] = json!(format!("rule-{name}"));
            documents.push(rule.clone());
            place.scratch.write(&format!("{name}.json"), &config_map(name, "1").to_string());
        }
        place.apply(&documents).expect_code(0);
        place.scratch.write(
            "same.json",
            &config_map("map", "1")
                .to_string()
                .replace("\"name\"", "\"labels\":{\"team\":\"x\"},\"name\""),
        );
        place.scratch.write("changed.json", &config_map("map", "2").to_string());
        let wrong = document("ConfigMap", "d", json!({ "unknown": 1 }));
        place.scratch.write("wrong.json", &wrong.to_string());
        let serving = Serving::start(&place);
        let both = Self { place, serving };
        let user = both.place.scratch.run("id", &["-un"]).out;
        let token = both.place.json(&["tokens", "new", user.trim(), "--scope", "admin"]);
        both.log_in("team", token["token"].as_str().unwrap()).expect_code(0);
        both
    }

    fn server(&self) -> String {
        format!("http://{}", self.serving.address)
    }

    fn log_in(&self, name: &str, token: &str) -> Ran {
        let server = self.server();
        self.place.run_with_input(&["login", &server, "--context", name, "--token-stdin"], token)
    }

    fn run_in(&self, context: &str, line: &str) -> Ran {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.place.scratch.command(crate::BAILIWICK);
        command.args(["--context", context]).args(words);
        command.env("EDITOR", "sed -i s/k:.*/k:\\ edited/");
        Ran::from(command.output().unwrap())
    }

    /// Asserts that the output is the same, except for ages, which change meanwhile.
    fn expect_same_read(&self, line: &str) -> Ran {
        let before = self.run_in("local", line);
        let remote = self.run_in("team", line);
        if remote != before {
            let after = self.run_in("local", line);
            assert_eq!(without_ages(&remote), without_ages(&after), "{line}");
        }
        remote
    }

    /// Asserts that the output is the same except for the name of the object.
    fn expect_same_change(&self, line: &str) -> Ran {
        let run_with_name = |context: &str, name: &str| {
            let ran = self.run_in(context, &line.replace("{}", name));
            let without_name = |text: &str| text.replace(name, "NAME");
            Ran { code: ran.code, out: without_name(&ran.out), err: without_name(&ran.err) }
        };
        let (local, remote) = (run_with_name("local", "left"), run_with_name("team", "right"));
        assert_eq!(local, remote, "{line}");
        remote
    }

    /// Asserts that the output about two runs, one for each way, is the same.
    fn expect_same_runs(&self, verbs: &[&str]) {
        let start = "runs start app fixer --task x -o json";
        let name = |context: &str| {
            let output = self.run_in(context, start).expect_code(0).out;
            let output: Value = serde_json::from_str(&output).unwrap();
            (output["run"].as_str().unwrap().to_owned(), output["phase"].clone())
        };
        let (left, right) = (name("local"), name("team"));
        assert_eq!(left.1, right.1);
        for verb in verbs {
            let run_with_name = |context: &str, name: &str| {
                let ran = self.run_in(context, &verb.replace("{}", name));
                let anonymous = |word: &str| {
                    let other = word.starts_with("adr-") && word != name;
                    if other { "OTHER" } else { word }.replace(name, "RUN")
                };
                let without_names = |text: &str| {
                    text.split_inclusive([' ', '\n', '`', '/'])
                        .map(|word| {
                            let bare = word.trim_end_matches([' ', '\n', '`', '/']);
                            anonymous(bare) + word.strip_prefix(bare).unwrap_or_default()
                        })
                        .collect::<String>()
                };
                Ran { code: ran.code, out: without_names(&ran.out), err: without_names(&ran.err) }
            };
            assert_eq!(run_with_name("local", &left.0), run_with_name("team", &right.0), "{verb}");
        }
        for verb in ["describe run", "get -o json run"] {
            self.expect_same_read(&format!("{verb} {}", left.0)).expect_code(0);
        }
        self.expect_same_read(&format!("explain run/{}", left.0)).expect_code(0);
    }
}

/// The verb of a line: `runs_start` of `runs start app fixer`.
fn verb(line: &str) -> String {
    let mut command = Bailiwick::command();
    let mut name = Vec::new();
    for word in line.split(' ') {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        name.push(word.to_owned());
        command = next;
    }
    name.join("_")
}

const OF_RUNS: &[&str] = &[
    "get run {} -o jsonpath={.status.phase}",
    "runs logs {}",
    "runs resume {}",
    "runs continue {} -m more",
    "runs fork {} -m other",
    "runs cancel {} --reason why",
    "runs logs {} --attempt 9",
    "wait run/{} --for phase=cancelled",
    "wait run/{} --for phase=succeeded",
    "runs logs {} -f",
    "runs retry {}",
    "runs cancel {}",
    "wait run/{} --for phase=cancelled",
];

#[test]
fn every_fleet_verb_is_tested_locally_and_over_a_server() {
    let mut verbs = BTreeSet::new();
    for name in FLEET {
        let command = Bailiwick::command().find_subcommand(name).unwrap().clone();
        leaves(&command, name, &mut verbs);
    }
    let called: BTreeSet<String> = [OF_MISSING_OBJECTS, READING, CHANGING, OF_RUNS]
        .concat()
        .iter()
        .map(|line| verb(line))
        .collect();
    let local: BTreeSet<String> = LOCAL_ONLY.iter().map(ToString::to_string).collect();
    let special = BTreeSet::from(["runs_start".to_owned(), "tokens_new".to_owned()]);
    let missing: Vec<&String> = verbs
        .iter()
        .filter(|verb| ![&called, &local, &special].iter().any(|set| set.contains(*verb)))
        .collect();
    assert!(missing.is_empty(), "not tested over a server: {missing:?}");
}

#[test]
fn every_fleet_verb_prints_the_same_over_a_server() {
    let both = LocalAndRemote::new();
    // Positive control: the server answers only with the login.
    assert_eq!(both.run_in("team", "get configmap map -o name").expect_code(0).out, "cm/map\n");
    assert_eq!(both.run_in("none", "get configmaps").expect_code(2).out, "");
    for line in OF_MISSING_OBJECTS {
        let ran = both.expect_same_read(line);
        assert_ne!(ran.code, 0, "{line}: {ran:?}");
    }
    for line in READING {
        both.expect_same_read(line);
    }
    for line in CHANGING {
        both.expect_same_change(line);
    }
    both.expect_same_runs(OF_RUNS);
    for line in ["tokens new bob", "tokens new bob --scope admin --expires-after 1d -o json"] {
        let shape = |context: &str| {
            let ran = both.run_in(context, line).expect_code(0);
            assert!(ran.out.contains("bwk_") && !ran.err.contains("bwk_"), "{ran:?}");
            (ran.out.len(), ran.err.len())
        };
        assert_eq!(shape("local"), shape("team"), "{line}");
    }
    assert_eq!(
        both.run_in("local", "tokens new b@d!").err,
        both.run_in("team", "tokens new b@d!").err
    );
}

/// Replaces each age by a word, and the blanks between columns by one.
fn without_ages(ran: &Ran) -> Ran {
    let is_age = |word: &str| {
        let number = word.trim_end_matches(['s', 'm', 'h', 'd']);
        word.len() == number.len() + 1 && number.parse::<u64>().is_ok()
    };
    let normalized_line = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let normalized = |text: &str| text.lines().map(normalized_line).collect::<Vec<_>>().join("\n");
    Ran { code: ran.code, out: normalized(&ran.out), err: normalized(&ran.err) }
}

/// Without the names of executions, which differ each time.
fn without_executions(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', '"', '/']);
    words.filter(|word| !word.starts_with("ate-")).collect()
}

#[test]
fn verbs_of_a_rule_with_a_delivery_print_the_same_over_a_server() {
    let place = Place::new();
    let delivery = store_delivery(&place);
    let both = LocalAndRemote::at(place);
    for format in ["human", "json"] {
        let line = format!("trigger test rule-left --delivery {delivery} -o {format}");
        let ran = both.expect_same_read(&line).expect_code(0);
        assert!(ran.out.contains("A check failed"), "{}", ran.out);
    }
    both.expect_same_change("trigger enable rule-{}").expect_code(0);
    for verb in ["materialize rule-{} --delivery", "replay rule-{}"] {
        let run_with_name = |context: &str, name: &str| {
            let line = format!("trigger {} {delivery}", verb.replace("{}", name));
            let ran = both.run_in(context, &line).expect_code(0);
            (without_executions(&ran.out), ran.err.is_empty())
        };
        let (local, remote) = (run_with_name("local", "left"), run_with_name("team", "right"));
        assert_eq!(local, remote, "{verb}");
    }
    let refused = both.expect_same_change("trigger fire rule-{} --repository app");
    assert!(refused.code != 0 && refused.err.contains("`manual`"), "{}", refused.err);
}

/// Adds an approval that waits for a person.
fn add_approval(place: &Place, name: &str) {
    let spec: AgentApproval = serde_json::from_value(json!({
        "dispatchRun": "adr-1", "requestedBy": { "kind": "agent-stack", "name": "fixer" },
        "action": { "type": { "class": "escalation" }, "target": "inside", "summary": "may it run" },
        "policyReasons": [], "artifactRefs": [], "artifactDigest": "0".repeat(64),
        "expiresAt": "2999-01-01T00:00:00Z",
    }))
    .unwrap();
    let object = AnyObject::of(&Object::new(Metadata::named(name), spec)).unwrap();
    place.with_store(async |store| {
        store.commit(vec![Write::Create(object)], Moment::from_millis(1)).await.unwrap();
    });
}

#[test]
fn approvals_are_listed_and_decided_the_same_over_a_server() {
    let both = LocalAndRemote::new();
    for name in ["aap-left", "aap-right", "aap-no-left", "aap-no-right"] {
        add_approval(&both.place, name);
    }
    let listed = both.expect_same_read("approvals list").expect_code(0);
    assert_eq!(listed.out.lines().count(), 4, "{}", listed.out);
    both.expect_same_read("approvals list -o json").expect_code(0);
    both.expect_same_change("approvals approve aap-{}").expect_code(0);
    both.expect_same_change("approvals approve aap-{}").expect_code(2);
    both.expect_same_change("approvals deny aap-no-{} -o json").expect_code(0);
    let phase = |name: &str| both.place.json(&["get", "approval", name])["status"]["phase"].clone();
    assert_eq!((phase("aap-right"), phase("aap-no-right")), (json!("approved"), json!("rejected")));
    let agent = both.run_in("team", "approvals approve ada-1 q1").expect_code(2);
    assert!(agent.err.contains("approvals list"), "{}", agent.err);
}

#[test]
fn get_watch_and_wait_work_over_a_server() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let both = LocalAndRemote::new();
    let mut command = both.place.scratch.command(crate::BAILIWICK);
    command.args(["get", "configmaps", "--watch", "-l", "team=x"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME") && next().starts_with("map"));
    let mut other = config_map("map", "2");
    both.place.apply(std::slice::from_ref(&other)).expect_code(0);
    assert!(next().starts_with("left"));
    other["metadata"]["labels"] = json!({ "team": "x" });
    both.place.apply(&[other]).expect_code(0);
    assert!(next().starts_with("modified"));
    let mut command = both.place.scratch.command(crate::BAILIWICK);
    command.args(["wait", "configmap/map", "--for", "delete"]).stdout(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    both.place.run(&["delete", "configmap", "map"]).expect_code(0);
    assert!(next().starts_with("deleted"));
    assert!(waiting.wait().unwrap().success());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn login_logout_contexts_list_contexts_use_contexts_current_contexts_delete_work() {
    let both = LocalAndRemote::new();
    let Place { scratch, .. } = &both.place;
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        both.place.run(&words)
    };
    let file = scratch.place().join("config/bailiwick/client/contexts.toml");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert_eq!(run("contexts current").expect_code(0).out, "team\n");
    let refused = both.log_in("wrong", "bwk_nobody").expect_code(2);
    assert!(refused.err.contains("does not accept the token"), "{}", refused.err);
    let viewer = both.place.json(&["tokens", "new", "bob", "--scope", "viewer"]);
    let output = both.log_in("look", viewer["token"].as_str().unwrap()).expect_code(0);
    assert!(output.out.contains("as bob (viewer); context look is in use"), "{}", output.out);
    let listed = run("contexts list").expect_code(0).out;
    assert!(
        listed.contains("look") && listed.contains("team") && !listed.contains("wrong"),
        "{listed}"
    );
    assert!(!listed.contains("bwk_") && !run("contexts list -o json").out.contains("bwk_"));
    // The current login is that of a viewer: it may read, and the error names the missing scope.
    run("get configmaps").expect_code(0);
    let denied = run("delete configmap map").expect_code(2);
    assert!(denied.err.contains("scope admin; yours has scope viewer"), "{}", denied.err);
    run("--context team get configmap map").expect_code(0);
    both.place
        .run(&["--context", "team", "tokens", "revoke", viewer["id"].as_str().unwrap()])
        .expect_code(0);
    let revoked = run("get configmaps").expect_code(2);
    assert!(
        revoked.err.contains("revoked") && revoked.err.contains("bailiwick login"),
        "{}",
        revoked.err
    );
    run("contexts use team").expect_code(0);
    run("contexts delete look").expect_code(0);
    run("contexts use look").expect_code(2);
    // `--db` and `--context` exclude each other, and local commands do not work over a server.
    let database = scratch.state().join("bailiwick.db");
    let database = database.to_str().unwrap();
    both.place.run(&["--db", database, "get", "configmap", "map"]).expect_code(0);
    let twice = both.place.run(&["--db", database, "--context", "team", "get", "configmaps"]);
    assert!(
        twice.expect_code(2).err.contains("--context and --db"),
        "the options exclude each other"
    );
    run("--context team ps").expect_code(2);
    assert_eq!(
        run("logout").expect_code(0).out,
        format!("logged out of {} (context team)\n", both.server())
    );
    assert_eq!(run("contexts current").expect_code(0).out, "local\n");
    run("get configmap map").expect_code(0);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("bwk_"));
}

/// The database of this machine is not that of the server.
#[test]
fn workers_are_refused_while_a_login_is_in_use() {
    let both = LocalAndRemote::new();
    let run = |line: &str| both.place.run(&line.split(' ').collect::<Vec<_>>());
    for line in [
        "workers list",
        "workers token --pool inside",
        "workers cordon none",
        "workers uncordon none",
        "workers drain none",
        "workers remove none",
        "--context team workers list",
    ] {
        let refused = run(line).expect_code(2);
        assert!(refused.err.contains("needs the database of the server"), "{}", refused.err);
        assert!(refused.err.contains("--context local"), "{}", refused.err);
    }
    // The control: with the database of this machine they work.
    run("--context local workers list").expect_code(0);
    let database = both.place.scratch.state().join("bailiwick.db");
    run(&format!("--db {} workers list", database.display())).expect_code(0);
}

#[test]
fn login_sends_no_token_unencrypted_and_an_unreachable_server_is_named() {
    let place = Place::bare();
    let login = |server: &str| place.run_with_input(&["login", server, "--token-stdin"], "bwk_x");
    let refused = login("http://fleet.example").expect_code(2);
    assert!(
        refused.err.contains("unencrypted") && refused.err.contains("--insecure-http"),
        "{}",
        refused.err
    );
    login("fleet.example").expect_code(2);
    let unreachable = login("http://127.0.0.1:9").expect_code(1);
    assert!(unreachable.err.contains("cannot reach http://127.0.0.1:9"), "{}", unreachable.err);
    let unreachable =
        place.run_with_input(&["login", "http://127.0.0.1:9"], "bwk_x").expect_code(1);
    assert!(unreachable.err.contains("cannot reach http://127.0.0.1:9"), "{}", unreachable.err);
    let without =
        place.run_with_input(&["login", "http://127.0.0.1:9", "--token"], "bwk_x").expect_code(2);
    assert!(without.err.contains("--token-stdin"), "{}", without.err);
    // A server without an OpenID provider needs a token.
    let serving = Serving::start(&place);
    let server = format!("http://{}", serving.address);
    let without = place.run_with_input(&["login", &server], "").expect_code(2);
    assert!(without.err.contains("--token-stdin"), "{}", without.err);
    assert!(!place.scratch.place().join("config/bailiwick/client").exists(), "nothing is stored");
}

#[test]
fn stopped_server_is_an_error_without_local_fallback() {
    let both = LocalAndRemote::new();
    both.place.run(&["get", "configmap", "map"]).expect_code(0);
    let LocalAndRemote { place, serving } = both;
    drop(serving);
    let unreachable = place.run(&["get", "configmap", "map"]).expect_code(1);
    assert!(
        unreachable.err.contains("cannot reach") && unreachable.err.contains("--context local"),
        "{}",
        unreachable.err
    );
    place.run(&["--context", "local", "get", "configmap", "map"]).expect_code(0);
}
