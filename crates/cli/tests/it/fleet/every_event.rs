//! The events of `real_gitea/events.rs`, sent by the stand-in with everything that is surprising in those of a real
//! Gitea: each that a rule matches starts one run.

use std::collections::BTreeMap;

use bailiwick_testkit::forge::{Told, Webhook};
use serde_json::{Value, json};

use super::{Place, SECRET, Serving, document};
use crate::real_gitea::events::{STARTED, rules};

const AUTHOR: [&str; 4] = ["-c", "user.name=Dev", "-c", "user.email=dev@example.org"];

/// A server with the rules, on the stand-in, and the number of sent deliveries.
struct Site {
    place: Place,
    serving: Serving,
    sent: usize,
}

impl Site {
    fn new() -> Self {
        let place = Place::bare();
        let set = |name: &str, key: &str, value: &str| {
            place.run_with_input(&["secrets", "set", name, key], value).expect_code(0);
        };
        set("webhook", "key", SECRET);
        set("forge", "token", &place.forge.token());
        let mut documents = place.documents();
        documents.retain(|one| one["kind"] != "AgentTriggerRule");
        for document in &mut documents {
            match document["kind"].as_str() {
                Some("AgentServiceAccount") => {
                    document["spec"]["allowedRunnerPools"] = json!(["inside", "outside"]);
                }
                // Nobody takes the attempts: only what starts them is tested.
                Some("RunnerPool") => document["spec"]["runsOn"] = json!("workers"),
                _ => {}
            }
        }
        let outside = json!({
            "capacity": 1, "trustTier": "untrusted", "serviceAccountRef": "runner",
            "runsOn": "workers",
        });
        documents.push(document("RunnerPool", "outside", outside));
        place.apply(&documents).expect_code(0);
        for account in ["pusher", "contributor", "labeller", "checker", "releaser", "dev"] {
            place.forge.permit(account, "write");
        }
        let serving = Serving::start(&place);
        place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
        let rules = rules().into_iter().map(|mut rule| {
            rule["spec"]["agentStack"] = json!("fixer");
            rule
        });
        place.apply(&rules.collect::<Vec<_>>()).expect_code(0);
        Self { place, serving, sent: 0 }
    }

    fn deliver(&mut self, webhook: &Webhook) {
        let hook = format!("http://{}/webhooks/app", self.serving.address);
        let (status, answer) = webhook.deliver(&hook, SECRET);
        assert_eq!(status, 202, "{}: {answer}", webhook.event);
        self.sent += 1;
    }

    fn tell(&mut self, told: &Told) -> Webhook {
        let webhook = self.place.forge.webhook(told);
        self.deliver(&webhook);
        webhook
    }

    /// Makes a commit on the forge, and has a reference name it.
    fn commit(&self, reference: &str, message: &str) -> String {
        let make = ["commit-tree", "main^{tree}", "-p", "main", "-m", message];
        let commit = self.place.forge.git(&[&AUTHOR[..], &make].concat()).trim().to_owned();
        self.place.forge.git(&["update-ref", reference, &commit]);
        commit
    }

    /// The number of runs that each rule has started, once every delivery is evaluated.
    fn started_runs(&self) -> BTreeMap<String, usize> {
        self.place.wait_for("the evaluation of every delivery", || {
            let evaluated = self.place.json(&["get", "deliveries", "--field", "evaluated=true"]);
            (evaluated.as_array()?.len() >= self.sent).then_some(())
        });
        let mut count = BTreeMap::new();
        for execution in self.place.json(&["get", "executions"]).as_array().unwrap() {
            if execution["spec"]["decision"] == "created" {
                let rule = execution["spec"]["triggerRule"].as_str().unwrap_or_default();
                *count.entry(rule.to_owned()).or_default() += 1;
            }
        }
        count
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn each_event_with_its_surprises_starts_one_run() {
    let mut site = Site::new();
    let before = site.place.forge.git(&["rev-parse", "main"]).trim().to_owned();
    let after = site.commit("refs/heads/main", "Pushed");
    let files = vec![text("src/pushed.txt")];
    site.tell(&Told::Push { branch: text("main"), before, after: after.clone(), files });
    // A pushed tag is also reported as created, and an annotated one by the id of its object.
    site.place.forge.git(&["tag", "light", &after]);
    site.tell(&Told::Tag { name: text("light"), commit: after.clone() });
    site.tell(&Told::Create { tag: text("light"), object: after.clone() });
    let tag = ["tag", "-a", "heavy", "-m", "An annotated tag", &after];
    site.place.forge.git(&[&AUTHOR[..], &tag].concat());
    let object = site.place.forge.git(&["rev-parse", "heavy"]).trim().to_owned();
    assert_ne!(object, after, "the control: the tag is an object of its own");
    let name = text("heavy");
    site.tell(&Told::AnnotatedTag { name, object: object.clone(), commit: after.clone() });
    site.tell(&Told::Create { tag: text("heavy"), object });
    // The whole set of labels is sent: the second time, the first label is not new.
    let issue = site.place.forge.add_issue("Work", "");
    site.tell(&Told::Label { number: issue, label: text("agent") });
    site.tell(&Told::Label { number: issue, label: text("other") });
    // A comment that is sent again has another id.
    let comment = |body: &str| Told::Comment { number: issue, by: text("dev"), body: text(body) };
    let mut again = site.tell(&comment("Please, /agent, do it."));
    again.delivery = text("00000000-0000-4000-8000-ffffffffffff");
    site.deliver(&again);
    site.tell(&comment("Nobody is asked here."));
    let topic = site.commit("refs/heads/topic", "Topic");
    let (before, files) = (text(&"0".repeat(40)), vec![text("src/topic.txt")]);
    site.tell(&Told::Push { branch: text("topic"), before, after: topic, files });
    let pull = site.place.forge.add_pull("A topic", "topic", "main");
    // One head is reported as opened and as synchronized.
    for action in ["opened", "synchronized"] {
        site.tell(&Told::PullRequest { number: pull, action: text(action) });
    }
    let (verdict, body) = (text("COMMENT"), text("Look again, /agent."));
    site.tell(&Told::Review { number: pull, by: text("dev"), verdict, body });
    let (state, context) = (text("failure"), text("build"));
    site.tell(&Told::Status { commit: after, state, context });
    site.place.forge.add_release("light", "Notes.");
    site.tell(&Told::Release { tag: text("light"), action: text("updated") });
    site.tell(&Told::Test);
    // A pull request from a fork.
    let offer = site.commit("refs/heads/offered", "Offer");
    let offered = site.place.forge.add_fork_pull("An offer", "stranger/app", "offer", &offer);
    site.place.forge.git(&["update-ref", &format!("refs/pull/{offered}/head"), &offer]);
    site.tell(&Told::PullRequest { number: offered, action: text("opened") });
    let expected: BTreeMap<String, usize> =
        STARTED.map(|(rule, count)| (rule.to_owned(), count)).into();
    let started = site.started_runs();
    let report = |kind: &str| site.place.run(&["get", kind]).out;
    assert_eq!(started, expected, "{}\n{}", report("deliveries"), report("executions"));
    let stored: Value = site.place.json(&["get", "deliveries"]);
    assert_eq!(stored.as_array().unwrap().len(), site.sent, "each delivery is stored");
}
