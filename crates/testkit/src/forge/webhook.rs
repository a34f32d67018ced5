//! Webhooks as a forge sends them: headers, signature, body.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::StandIn;
use super::show::user;
use super::state::{Flavour, State};

/// A webhook that is ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// Such as `workflow_job`.
    pub event: String,
    /// The type in Gitea's words, such as `pull_request_comment`.
    pub event_type: String,
    /// The number of this delivery.
    pub delivery: String,
    /// The payload.
    pub payload: Value,
    flavour: Flavour,
}

impl Webhook {
    /// The bytes that are signed and sent.
    pub fn body(&self) -> Vec<u8> {
        self.payload.to_string().into_bytes()
    }

    /// The headers, signed with this secret.
    pub fn headers(&self, secret: &str) -> Vec<(String, String)> {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
        mac.update(&self.body());
        let signature: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let hub = format!("sha256={signature}");
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("X-GitHub-Event", &self.event),
            ("X-GitHub-Delivery", &self.delivery),
            ("X-Hub-Signature-256", &hub),
        ];
        if self.flavour == Flavour::Gitea {
            // Gitea sends GitHub's headers beside its own.
            headers.extend([
                ("X-Gitea-Event", self.event.as_str()),
                ("X-Gitea-Event-Type", &self.event_type),
                ("X-Gitea-Delivery", &self.delivery),
                ("X-Gitea-Signature", &signature),
            ]);
        }
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        headers.into_iter().map(owned).collect()
    }

    /// Sends it to `http://host:port/path` and gives the status and the body of the answer.
    pub fn deliver(&self, url: &str, secret: &str) -> (u16, String) {
        let rest = url.strip_prefix("http://").expect("an address of http");
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let body = self.body();
        let mut text = format!("POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in self.headers(secret) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut stream = TcpStream::connect(host).expect("somebody listens");
        stream.write_all(&[text.as_bytes(), &body].concat()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (status.unwrap_or(0), body.unwrap_or_default())
    }
}

/// The event of a webhook.
#[derive(Debug, Clone)]
pub enum Told {
    /// A push to a branch.
    Push {
        /// The branch.
        branch: String,
        /// The commit before.
        before: String,
        /// The commit after.
        after: String,
        /// The files that changed.
        files: Vec<String>,
    },
    /// A new tag.
    Tag {
        /// Its name.
        name: String,
        /// The commit.
        commit: String,
    },
    /// A new tag that is an object of its own. Gitea names the object and not the commit.
    AnnotatedTag {
        /// Its name.
        name: String,
        /// The object.
        object: String,
        /// The commit.
        commit: String,
    },
    /// A tag was created. Gitea reports a pushed tag in this way, too.
    Create {
        /// Its name.
        tag: String,
        /// Its object.
        object: String,
    },
    /// A review of a pull request. Gitea sends no id of it.
    Review {
        /// The pull request.
        number: u64,
        /// The author.
        by: String,
        /// `APPROVE`, `REQUEST_CHANGES` or `COMMENT`.
        verdict: String,
        /// The text.
        body: String,
    },
    /// A status of a commit. Gitea names no branch.
    Status {
        /// The commit.
        commit: String,
        /// Such as `failure`.
        state: String,
        /// Its context.
        context: String,
    },
    /// A release that was added before. Gitea reports one of an existing tag as `updated`.
    Release {
        /// Its tag.
        tag: String,
        /// Such as `published`.
        action: String,
    },
    /// A person tests the webhook: on Gitea a push of nothing new, on GitHub a `ping`.
    Test,
    /// Something happened to a pull request, such as `opened` or `synchronized`.
    PullRequest {
        /// Its number.
        number: u64,
        /// The action.
        action: String,
    },
    /// A comment on an issue or a pull request.
    Comment {
        /// The issue or pull request.
        number: u64,
        /// The author.
        by: String,
        /// The text.
        body: String,
    },
    /// The labels of an issue or a pull request are others now.
    Label {
        /// The issue or pull request.
        number: u64,
        /// The added label.
        label: String,
    },
    /// An account has changed the labels of an issue through the API.
    Labelled {
        /// The pull request.
        number: u64,
        /// The author.
        by: String,
    },
    /// A run of a workflow ended.
    RunEnded {
        /// Its id.
        run: u64,
    },
    /// A job ended.
    JobEnded {
        /// Its id.
        job: u64,
    },
}

impl StandIn {
    /// The webhook that reports this.
    pub fn webhook(&self, told: &Told) -> Webhook {
        let mut state = self.state();
        let delivery = format!("00000000-0000-4000-8000-{:012}", state.id());
        let (event, event_type, mut payload) = tell(&mut state, told);
        payload["repository"] = state.show_repository(&state.full_name);
        let flavour = state.flavour;
        Webhook { event: event.into(), event_type: event_type.into(), delivery, payload, flavour }
    }
}

fn tell(state: &mut State, told: &Told) -> (&'static str, &'static str, Value) {
    match told {
        Told::Push { branch, before, after, files } => {
            let commit = json!({
                "id": after, "message": "a commit", "url": "",
                "added": [], "removed": [], "modified": files,
            });
            let payload = json!({
                "ref": format!("refs/heads/{branch}"), "before": before, "after": after,
                "commits": [commit], "total_commits": 1, "head_commit": commit,
                "pusher": user("pusher"), "sender": user("pusher"),
            });
            ("push", "push", payload)
        }
        Told::Tag { name, commit } => {
            let payload = json!({
                "ref": format!("refs/tags/{name}"), "before": "0".repeat(40), "after": commit,
                "commits": [], "total_commits": 0, "head_commit": Value::Null,
                "pusher": user("pusher"), "sender": user("pusher"),
            });
            ("push", "push", payload)
        }
        Told::AnnotatedTag { name, object, commit } => {
            let head = match state.flavour {
                Flavour::Gitea => Value::Null,
                Flavour::Github => json!({ "id": commit, "message": "a commit", "url": "" }),
            };
            let payload = json!({
                "ref": format!("refs/tags/{name}"), "before": "0".repeat(40), "after": object,
                "commits": [], "total_commits": 0, "head_commit": head,
                "pusher": user("pusher"), "sender": user("pusher"),
            });
            ("push", "push", payload)
        }
        Told::Create { tag, object } => {
            let mut payload = json!({ "ref": tag, "ref_type": "tag", "sender": user("pusher") });
            match state.flavour {
                Flavour::Gitea => payload["sha"] = object.as_str().into(),
                Flavour::Github => payload["master_branch"] = "main".into(),
            }
            ("create", "create", payload)
        }
        Told::Review { number, by, verdict, body } => review(state, *number, by, (verdict, body)),
        Told::Status { commit, state: word, context } => {
            let id = state.id();
            let mut payload = json!({
                "id": id, "sha": commit, "state": word, "context": context, "description": "",
                "target_url": "", "commit": { "sha": commit }, "sender": user("checker"),
            });
            if state.flavour == Flavour::Github {
                let is_tip = state.reference("refs/heads/main").as_ref() == Some(commit);
                let branches =
                    is_tip.then(|| json!({ "name": "main", "commit": { "sha": commit } }));
                payload["branches"] = branches.into_iter().collect();
            }
            ("status", "status", payload)
        }
        Told::Release { tag, action } => {
            let release = state.releases.iter().find(|one| one.tag == *tag).expect("a release");
            let payload = json!({
                "action": action, "release": state.show_release(release),
                "sender": user("releaser"),
            });
            ("release", "release", payload)
        }
        Told::Test => test(state),
        Told::PullRequest { number, action } => {
            let payload = json!({
                "action": action, "number": number,
                "pull_request": shown_pull(state, *number), "sender": user("contributor"),
            });
            ("pull_request", "pull_request", payload)
        }
        Told::Comment { number, by, body } => comment(state, *number, by, body),
        Told::Label { number, label } => {
            state.change_label(*number, label, "labeller", true);
            labelled(state, *number, "labeller", Some(label))
        }
        Told::Labelled { number, by } => labelled(state, *number, by, None),
        Told::RunEnded { run } => {
            let run = state.runs.iter().find(|one| one.id == *run).expect("a run");
            let payload = json!({
                "action": "completed",
                "workflow": { "id": run.workflow, "name": run.workflow, "path": run.workflow },
                "workflow_run": state.show_run(run),
                "sender": user("pusher"),
            });
            ("workflow_run", "workflow_run", payload)
        }
        Told::JobEnded { job } => {
            let job = state.jobs.iter().find(|one| one.id == *job).expect("a job");
            let payload = json!({
                "action": "completed",
                "workflow_job": state.show_job(job),
                "sender": user("pusher"),
            });
            ("workflow_job", "workflow_job", payload)
        }
    }
}

fn review(
    state: &mut State,
    number: u64,
    by: &str,
    (verdict, body): (&str, &str),
) -> (&'static str, &'static str, Value) {
    let sent = json!({ "event": verdict, "body": body });
    let review = state.write_review(number, by, sent);
    let mut payload = json!({
        "number": number, "pull_request": shown_pull(state, number), "sender": user(by),
    });
    if state.flavour == Flavour::Github {
        payload["action"] = "submitted".into();
        payload["review"] = state.show_review(&review);
        payload["review"]["state"] = match verdict {
            "APPROVE" => "approved".into(),
            "REQUEST_CHANGES" => "changes_requested".into(),
            _ => "commented".into(),
        };
        return ("pull_request_review", "pull_request_review", payload);
    }
    let (event, event_type) = match verdict {
        "APPROVE" => ("pull_request_approved", "pull_request_review_approved"),
        "REQUEST_CHANGES" => ("pull_request_rejected", "pull_request_review_rejected"),
        _ => ("pull_request_comment", "pull_request_review_comment"),
    };
    payload["action"] = "reviewed".into();
    payload["review"] = json!({ "type": event_type, "content": body });
    (event, event_type, payload)
}

fn test(state: &State) -> (&'static str, &'static str, Value) {
    if state.flavour == Flavour::Github {
        let payload =
            json!({ "zen": "Keep it logically awesome.", "hook_id": 1, "sender": user("pusher") });
        return ("ping", "ping", payload);
    }
    let head = state.reference("refs/heads/main").unwrap_or_else(|| "0".repeat(40));
    let commit = json!({ "id": head, "message": "a commit", "url": "" });
    let payload = json!({
        "ref": "refs/heads/main", "before": head, "after": head, "commits": [commit],
        "total_commits": 1, "head_commit": commit, "pusher": user("pusher"),
        "sender": user("pusher"),
    });
    ("push", "push", payload)
}

/// Gitea sends all current labels, GitHub the added one.
fn labelled(
    state: &State,
    number: u64,
    by: &str,
    label: Option<&str>,
) -> (&'static str, &'static str, Value) {
    let github = state.flavour == Flavour::Github;
    let action = if github { "labeled" } else { "label_updated" };
    let mut payload = json!({ "action": action, "number": number, "sender": user(by) });
    if let Some(label) = label.filter(|_| github) {
        payload["label"] = super::show::label(label);
    }
    if is_pull(state, number) {
        payload["pull_request"] = shown_pull(state, number);
        return ("pull_request", "pull_request_label", payload);
    }
    payload["issue"] = shown_issue(state, number);
    ("issues", "issue_label", payload)
}

fn comment(
    state: &mut State,
    number: u64,
    by: &str,
    body: &str,
) -> (&'static str, &'static str, Value) {
    let comment = state.write_comment(number, body, by);
    let shown = state.show_comment(&comment);
    let pull = is_pull(state, number);
    let mut payload = json!({
        "action": "created", "issue": shown_issue(state, number), "comment": shown,
        "sender": user(by),
    });
    match state.flavour {
        Flavour::Gitea => {
            payload["is_pull"] = pull.into();
            if pull {
                payload["pull_request"] = shown_pull(state, number);
            }
        }
        Flavour::Github if pull => {
            payload["issue"]["pull_request"] = json!({ "url": "https://example.org/pull" });
        }
        Flavour::Github => {}
    }
    ("issue_comment", if pull { "pull_request_comment" } else { "issue_comment" }, payload)
}

fn is_pull(state: &State, number: u64) -> bool {
    state.items.get(&number).is_some_and(|item| item.pull.is_some())
}

fn shown_issue(state: &State, number: u64) -> Value {
    state.show_issue(number, state.items.get(&number).expect("an issue"))
}

fn shown_pull(state: &State, number: u64) -> Value {
    let item = state.items.get(&number).expect("a pull request");
    state.show_pull(number, item, item.pull.as_ref().expect("a pull request"))
}
