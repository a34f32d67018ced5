//! Every verb of the fleet prints the same with this machine's database and over a server with a login.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use bailiwick_cli::Bailiwick;
use bailiwick_fleet::ports::{FleetStore as _, Write};
use bailiwick_resources::{AgentApproval, AnyObject, Metadata, Moment, Object};
use bailiwick_testkit::scratch::Ran;
use clap::CommandFactory as _;
use serde_json::{Value, json};

use super::covered::{FLEET, leaves};
use super::triggers::delivered;
use super::{Place, Serving, config_map, document};

/// A server with a login to it, beside its database.
struct Both {
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

/// Verbs that need an object; each is called for one that does not exist, and must say the same.
const OF_NOTHING: &[&str] = &[
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

/// Verbs that read.
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

/// Verbs that change something, in this order. Both ways have an object of their own in place of `{}`.
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

impl Both {
    fn new() -> Self {
        Self::of(Place::ready())
    }

    fn of(place: Place) -> Self {
        let mut rules = place.documents();
        // Nothing starts while the test looks.
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
        let who = both.place.scratch.run("id", &["-un"]).out;
        let token = both.place.json(&["tokens", "new", who.trim(), "--scope", "admin"]);
        both.log_in("team", token["token"].as_str().unwrap()).expect_code(0);
        both
    }

    fn server(&self) -> String {
        format!("http://{}", self.serving.address)
    }

    fn log_in(&self, name: &str, token: &str) -> Ran {
        let server = self.server();
        self.place.given(&["login", &server, "--context", name, "--token-stdin"], token)
    }

    fn ran(&self, context: &str, line: &str) -> Ran {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.place.scratch.command(crate::BAILIWICK);
        command.args(["--context", context]).args(words);
        command.env("EDITOR", "sed -i s/k:.*/k:\\ edited/");
        Ran::from(command.output().unwrap())
    }

    /// The same before or after, but for ages, which change in between.
    fn reads_the_same(&self, line: &str) -> Ran {
        let before = self.ran("local", line);
        let remote = self.ran("team", line);
        if remote != before {
            let after = self.ran("local", line);
            assert_eq!(without_ages(&remote), without_ages(&after), "{line}");
        }
        remote
    }

    /// The same but for the name of the object.
    fn changes_the_same(&self, line: &str) -> Ran {
        let of = |context: &str, name: &str| {
            let ran = self.ran(context, &line.replace("{}", name));
            let plain = |text: &str| text.replace(name, "NAME");
            Ran { code: ran.code, out: plain(&ran.out), err: plain(&ran.err) }
        };
        let (local, remote) = (of("local", "left"), of("team", "right"));
        assert_eq!(local, remote, "{line}");
        remote
    }

    /// Both ways with a run of their own.
    fn runs_the_same(&self, verbs: &[&str]) {
        let start = "runs start app fixer --task x -o json";
        let name = |context: &str| {
            let said = self.ran(context, start).expect_code(0).out;
            let said: Value = serde_json::from_str(&said).unwrap();
            (said["run"].as_str().unwrap().to_owned(), said["phase"].clone())
        };
        let (left, right) = (name("local"), name("team"));
        assert_eq!(left.1, right.1);
        for verb in verbs {
            let of = |context: &str, name: &str| {
                let ran = self.ran(context, &verb.replace("{}", name));
                let own = |word: &str| {
                    let other = word.starts_with("adr-") && word != name;
                    if other { "OTHER" } else { word }.replace(name, "RUN")
                };
                let plain = |text: &str| {
                    text.split_inclusive([' ', '\n', '`', '/'])
                        .map(|word| {
                            let bare = word.trim_end_matches([' ', '\n', '`', '/']);
                            own(bare) + word.strip_prefix(bare).unwrap_or_default()
                        })
                        .collect::<String>()
                };
                Ran { code: ran.code, out: plain(&ran.out), err: plain(&ran.err) }
            };
            assert_eq!(of("local", &left.0), of("team", &right.0), "{verb}");
        }
        for verb in ["describe run", "get -o json run"] {
            self.reads_the_same(&format!("{verb} {}", left.0)).expect_code(0);
        }
        self.reads_the_same(&format!("explain run/{}", left.0)).expect_code(0);
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
fn every_fleet_verb_is_called_both_ways() {
    let mut verbs = BTreeSet::new();
    for name in FLEET {
        let command = Bailiwick::command().find_subcommand(name).unwrap().clone();
        leaves(&command, name, &mut verbs);
    }
    let called: BTreeSet<String> =
        [OF_NOTHING, READING, CHANGING, OF_RUNS].concat().iter().map(|line| verb(line)).collect();
    let local: BTreeSet<String> = LOCAL_ONLY.iter().map(ToString::to_string).collect();
    let made = BTreeSet::from(["runs_start".to_owned(), "tokens_new".to_owned()]);
    let wanting: Vec<&String> = verbs
        .iter()
        .filter(|verb| ![&called, &local, &made].iter().any(|set| set.contains(*verb)))
        .collect();
    assert!(wanting.is_empty(), "not called both ways: {wanting:?}");
}

#[test]
fn every_fleet_verb_prints_the_same_over_a_server() {
    let both = Both::new();
    // The positive control: the server is asked, and the login is what makes it answer.
    assert_eq!(both.ran("team", "get configmap map -o name").expect_code(0).out, "cm/map\n");
    assert_eq!(both.ran("none", "get configmaps").expect_code(2).out, "");
    for line in OF_NOTHING {
        let ran = both.reads_the_same(line);
        assert_ne!(ran.code, 0, "{line}: {ran:?}");
    }
    for line in READING {
        both.reads_the_same(line);
    }
    for line in CHANGING {
        both.changes_the_same(line);
    }
    both.runs_the_same(OF_RUNS);
    for line in ["tokens new bob", "tokens new bob --scope admin --expires-after 1d -o json"] {
        let shape = |context: &str| {
            let ran = both.ran(context, line).expect_code(0);
            assert!(ran.out.contains("bwk_") && !ran.err.contains("bwk_"), "{ran:?}");
            (ran.out.len(), ran.err.len())
        };
        assert_eq!(shape("local"), shape("team"), "{line}");
    }
    assert_eq!(both.ran("local", "tokens new b@d!").err, both.ran("team", "tokens new b@d!").err);
}

/// With a word in place of each age, and a blank in place of as many as align a column.
fn without_ages(ran: &Ran) -> Ran {
    let is_age = |word: &str| {
        let number = word.trim_end_matches(['s', 'm', 'h', 'd']);
        word.len() == number.len() + 1 && number.parse::<u64>().is_ok()
    };
    let of_line = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let of = |text: &str| text.lines().map(of_line).collect::<Vec<_>>().join("\n");
    Ran { code: ran.code, out: of(&ran.out), err: of(&ran.err) }
}

/// Without the names of executions, which are new each time.
fn without_executions(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', '"', '/']);
    words.filter(|word| !word.starts_with("ate-")).collect()
}

#[test]
fn verbs_of_a_rule_with_a_delivery_print_the_same_over_a_server() {
    let place = Place::new();
    let delivery = delivered(&place);
    let both = Both::of(place);
    for format in ["human", "json"] {
        let line = format!("trigger test rule-left --delivery {delivery} -o {format}");
        let ran = both.reads_the_same(&line).expect_code(0);
        assert!(ran.out.contains("A check failed"), "{}", ran.out);
    }
    both.changes_the_same("trigger enable rule-{}").expect_code(0);
    for verb in ["materialize rule-{} --delivery", "replay rule-{}"] {
        let of = |context: &str, name: &str| {
            let line = format!("trigger {} {delivery}", verb.replace("{}", name));
            let ran = both.ran(context, &line).expect_code(0);
            (without_executions(&ran.out), ran.err.is_empty())
        };
        let (local, remote) = (of("local", "left"), of("team", "right"));
        assert_eq!(local, remote, "{verb}");
    }
    let refused = both.changes_the_same("trigger fire rule-{} --repository app");
    assert!(refused.code != 0 && refused.err.contains("`manual`"), "{}", refused.err);
}

/// A question that waits for a person.
fn ask(place: &Place, name: &str) {
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
    let both = Both::new();
    for name in ["aap-left", "aap-right", "aap-no-left", "aap-no-right"] {
        ask(&both.place, name);
    }
    let listed = both.reads_the_same("approvals list").expect_code(0);
    assert_eq!(listed.out.lines().count(), 4, "{}", listed.out);
    both.reads_the_same("approvals list -o json").expect_code(0);
    both.changes_the_same("approvals approve aap-{}").expect_code(0);
    both.changes_the_same("approvals approve aap-{}").expect_code(2);
    both.changes_the_same("approvals deny aap-no-{} -o json").expect_code(0);
    let phase = |name: &str| both.place.json(&["get", "approval", name])["status"]["phase"].clone();
    assert_eq!((phase("aap-right"), phase("aap-no-right")), (json!("approved"), json!("rejected")));
    let agent = both.ran("team", "approvals approve ada-1 q1").expect_code(2);
    assert!(agent.err.contains("approvals list"), "{}", agent.err);
}

#[test]
fn get_watch_and_wait_work_over_a_server() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let both = Both::new();
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
fn login_checks_the_token_and_contexts_list_contexts_use_contexts_current_contexts_delete_and_logout()
 {
    let both = Both::new();
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
    let said = both.log_in("look", viewer["token"].as_str().unwrap()).expect_code(0);
    assert!(said.out.contains("as bob (viewer); context look is in use"), "{}", said.out);
    let listed = run("contexts list").expect_code(0).out;
    assert!(
        listed.contains("look") && listed.contains("team") && !listed.contains("wrong"),
        "{listed}"
    );
    assert!(!listed.contains("bwk_") && !run("contexts list -o json").out.contains("bwk_"));
    // The login in use is that of a viewer: it may look, and the missing scope is named.
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
    // One place at a time, and local commands have no server.
    let database = scratch.state().join("bailiwick.db");
    let database = database.to_str().unwrap();
    both.place.run(&["--db", database, "get", "configmap", "map"]).expect_code(0);
    let twice = both.place.run(&["--db", database, "--context", "team", "get", "configmaps"]);
    assert!(twice.expect_code(2).err.contains("--context and --db"), "one of them");
    run("--context team ps").expect_code(2);
    assert_eq!(
        run("logout").expect_code(0).out,
        format!("logged out of {} (context team)\n", both.server())
    );
    assert_eq!(run("contexts current").expect_code(0).out, "local\n");
    run("get configmap map").expect_code(0);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("bwk_"));
}

#[test]
fn login_sends_no_token_unencrypted_and_an_unreachable_server_is_named() {
    let place = Place::bare();
    let login = |server: &str| place.given(&["login", server, "--token-stdin"], "bwk_x");
    let refused = login("http://fleet.example").expect_code(2);
    assert!(
        refused.err.contains("unencrypted") && refused.err.contains("--insecure-http"),
        "{}",
        refused.err
    );
    login("fleet.example").expect_code(2);
    let nobody = login("http://127.0.0.1:9").expect_code(1);
    assert!(nobody.err.contains("cannot reach http://127.0.0.1:9"), "{}", nobody.err);
    let nobody = place.given(&["login", "http://127.0.0.1:9"], "bwk_x").expect_code(1);
    assert!(nobody.err.contains("cannot reach http://127.0.0.1:9"), "{}", nobody.err);
    let without = place.given(&["login", "http://127.0.0.1:9", "--token"], "bwk_x").expect_code(2);
    assert!(without.err.contains("--token-stdin"), "{}", without.err);
    // A server without an OpenID provider has no other way than a token.
    let serving = Serving::start(&place);
    let server = format!("http://{}", serving.address);
    let without = place.given(&["login", &server], "").expect_code(2);
    assert!(without.err.contains("--token-stdin"), "{}", without.err);
    assert!(!place.scratch.place().join("config/bailiwick/client").exists(), "nothing is stored");
}

#[test]
fn a_server_that_stops_is_an_error_and_never_the_local_database() {
    let both = Both::new();
    both.place.run(&["get", "configmap", "map"]).expect_code(0);
    let Both { place, serving } = both;
    drop(serving);
    let gone = place.run(&["get", "configmap", "map"]).expect_code(1);
    assert!(
        gone.err.contains("cannot reach") && gone.err.contains("--context local"),
        "{}",
        gone.err
    );
    place.run(&["--context", "local", "get", "configmap", "map"]).expect_code(0);
}
