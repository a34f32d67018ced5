//! The requests of workers reach the port with their credential and lease, and each of its errors has a status.

use std::sync::{Arc, Mutex};

use bailiwick_fleet::workers::{
    ByteStream, Chunk, FinishReport, JoinAnswer, JoinRequest, Lease, LeaseError, PollAnswer,
    PollRequest, ProgressAnswer, ProgressReport, RenewRequest, WorkerAnswer, WorkerApi,
    WorkerError, WorkerServer, check_version,
};
use bailiwick_server::Settings;
use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::{TestServer, start, start_server};

/// The result for each secret.
fn outcome(secret: &str) -> Result<(), WorkerError> {
    match secret {
        "right" => Ok(()),
        "lost" => Err(LeaseError.into()),
        "late" => Err(WorkerError::Unavailable("the disk /secret/place is full".to_owned())),
        "busy" => Err(WorkerError::NotReady("the commits are being packed; ask again".to_owned())),
        "odd" => Err(WorkerError::Refused("the name is odd".to_owned())),
        "old" => Err(check_version("1.4.0", "1.1.0").unwrap_err().into()),
        _ => Err(WorkerError::Unauthorized),
    }
}

#[derive(Debug, Default)]
struct ScriptedWorkers {
    calls: Mutex<Vec<String>>,
}

impl ScriptedWorkers {
    fn call<'a, T: Send + 'a>(
        &'a self,
        secret: &str,
        what: String,
        answer: T,
    ) -> WorkerAnswer<'a, T> {
        let result = outcome(secret);
        if result.is_ok() {
            self.calls.lock().unwrap().push(what);
        }
        Box::pin(async move { result.map(|()| answer) })
    }
}

/// A bundle in several chunks.
struct Parts(std::vec::IntoIter<Vec<u8>>);

impl ByteStream for Parts {
    fn next(&mut self) -> Chunk<'_> {
        let next = self.0.next();
        Box::pin(async move { Ok(next) })
    }
}

fn joined() -> JoinAnswer {
    let (worker, credential) = ("one".to_owned(), "bwc_1".to_owned());
    JoinAnswer { worker, credential, valid_seconds: 60 }
}

fn lease_text(lease: &Lease) -> String {
    format!("{} {}", lease.agent, lease.fence)
}

impl WorkerApi for ScriptedWorkers {
    fn join<'a>(&'a self, token: &'a str, request: JoinRequest) -> WorkerAnswer<'a, JoinAnswer> {
        self.call(token, format!("join {} {}", request.pool, request.name), joined())
    }

    fn renew<'a>(
        &'a self,
        credential: &'a str,
        request: RenewRequest,
    ) -> WorkerAnswer<'a, JoinAnswer> {
        let cores = request.capabilities.map(|offered| offered.cores);
        self.call(credential, format!("renew {cores:?}"), joined())
    }

    fn poll<'a>(
        &'a self,
        credential: &'a str,
        request: PollRequest,
    ) -> WorkerAnswer<'a, PollAnswer> {
        let PollRequest { version, has_room, wait_millis, follows } = request;
        let answer = PollAnswer { assignment: None, drain: true };
        self.call(
            credential,
            format!("poll {version} {has_room} {wait_millis} {follows:?}"),
            answer,
        )
    }

    fn repository<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        has: &'a [String],
    ) -> WorkerAnswer<'a, Box<dyn ByteStream>> {
        let parts = Parts(vec![b"PA".to_vec(), b"CK".to_vec()].into_iter());
        let what = format!("repository {} {has:?}", lease_text(lease));
        self.call(credential, what, Box::new(parts) as Box<dyn ByteStream>)
    }

    fn report<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        report: ProgressReport,
    ) -> WorkerAnswer<'a, ProgressAnswer> {
        let what = format!("report {} {}", lease_text(lease), report.attempts);
        self.call(credential, what, ProgressAnswer { stored: 7, ..ProgressAnswer::default() })
    }

    fn send_work<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        bundle: Vec<u8>,
    ) -> WorkerAnswer<'a, ()> {
        self.call(credential, format!("work {} {}", lease_text(lease), bundle.len()), ())
    }

    fn finish<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        finish: FinishReport,
    ) -> WorkerAnswer<'a, ()> {
        self.call(credential, format!("finish {} {}", lease_text(lease), finish.ending), ())
    }
}

impl WorkerServer for ScriptedWorkers {
    fn authenticate<'a>(&'a self, credential: &'a str) -> WorkerAnswer<'a, ()> {
        let outcome = match outcome(credential) {
            Err(error @ WorkerError::Unauthorized) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        };
        Box::pin(async move { outcome })
    }
}

async fn with_workers() -> (TestServer, Arc<ScriptedWorkers>) {
    let scripted = Arc::new(ScriptedWorkers::default());
    let workers: Arc<dyn WorkerServer> = scripted.clone();
    let settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        workers: Some(workers),
        ..Settings::default()
    };
    (start(settings).await, scripted)
}

fn join() -> Value {
    json!({ "version": "1.0.0", "pool": "inside", "name": "one", "capabilities": {} })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_reaches_the_port_with_its_lease() {
    let (server, scripted) = with_workers().await;
    let send = async |method: &str, path: &str, body: &Value| {
        let request = HttpRequest::new(method, path).token("right");
        let request = if body.is_null() { request } else { request.json(body) };
        server.execute(request).await.expect(200)
    };
    let response = send("POST", "/workers/v1/join", &join()).await.json();
    assert_eq!(response, json!({ "worker": "one", "credential": "bwc_1", "validSeconds": 60 }));
    // Older workers send no body and no list of followed attempts.
    send("POST", "/workers/v1/renew", &Value::Null).await;
    let offered = json!({ "version": "1.0.0", "capabilities": { "cores": 3 } });
    send("POST", "/workers/v1/renew", &offered).await;
    let path = "/workers/v1/poll?version=1.0.0&room=1&wait=50";
    for more in ["", "&follows=", "&follows=a,b"] {
        let response = send("GET", &format!("{path}{more}"), &Value::Null).await.json();
        assert_eq!(response, json!({ "drain": true }));
    }
    let body = json!({ "fence": 3, "has": ["abc"] });
    let bundle = send("POST", "/workers/v1/attempts/mend/repository", &body).await;
    assert_eq!(bundle.body, b"PACK");
    let body = json!({ "fence": 3, "report": { "attempts": 2, "newer": "field" } });
    let response = send("POST", "/workers/v1/attempts/mend/report", &body).await.json();
    assert_eq!(response["stored"], 7);
    send("PUT", "/workers/v1/attempts/mend/work?fence=3", &json!([1])).await;
    let body = json!({ "fence": 3, "finish": { "ending": "completed", "detail": "done" } });
    send("POST", "/workers/v1/attempts/mend/finish", &body).await;
    let expected = [
        "join inside one",
        "renew None",
        "renew Some(3)",
        "poll 1.0.0 true 50 None",
        "poll 1.0.0 true 50 Some([])",
        "poll 1.0.0 true 50 Some([\"a\", \"b\"])",
        "repository mend 3 [\"abc\"]",
        "report mend 3 2",
        "work mend 3 3",
        "finish mend 3 completed",
    ];
    assert_eq!(*scripted.calls.lock().unwrap(), expected);
}

/// What workers of 0.1 send in the query of a request.
const QUERIES: &str = include_str!("../../../fleet/tests/data/worker-protocol/0.1/queries.json");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_older_and_newer_workers_are_accepted() {
    let (server, scripted) = with_workers().await;
    let queries: Value = serde_json::from_str(QUERIES).unwrap();
    for more in ["", "&ofANewerVersion=1"] {
        for query in queries["poll"].as_array().unwrap() {
            let path = format!("/workers/v1/poll?{}{more}", query.as_str().unwrap());
            server.execute(HttpRequest::new("GET", &path).token("right")).await.expect(200);
        }
        for query in queries["work"].as_array().unwrap() {
            let path = format!("/workers/v1/attempts/mend/work?{}{more}", query.as_str().unwrap());
            let request = HttpRequest::new("PUT", &path).token("right").json(&json!([1]));
            server.execute(request).await.expect(200);
        }
    }
    let once =
        ["poll 0.1.0 true 15000 None", "poll 0.1.0 false 0 Some([\"a\", \"b\"])", "work mend 3 3"];
    assert_eq!(*scripted.calls.lock().unwrap(), [once, once].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_error_has_a_status_and_reveals_no_server_details() {
    let (server, scripted) = with_workers().await;
    for (secret, status, code, part) in [
        ("wrong", 401, "UNAUTHORIZED", "join again"),
        ("lost", 409, "LEASE_LOST", "another claim"),
        ("old", 409, "VERSION_SKEW", "1.1.0 and the server 1.4.0"),
        ("odd", 422, "REFUSED", "the name is odd"),
        ("late", 503, "UNAVAILABLE", "see the server log"),
        ("busy", 503, "UNAVAILABLE", "ask again"),
    ] {
        let request = HttpRequest::new("POST", "/workers/v1/renew").token(secret);
        let reply = server.execute(request).await.expect(status);
        assert_eq!(reply.code(), code);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains(part) && !text.contains("/secret/place"), "{text}");
    }
    server.execute(HttpRequest::new("POST", "/workers/v1/renew")).await.expect(401);
    assert!(scripted.calls.lock().unwrap().is_empty());
    // A server without workers accepts no credential.
    let server = start_server().await;
    let request = HttpRequest::new("POST", "/workers/v1/renew").token("right");
    server.execute(request).await.expect(401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_of_an_unknown_worker_is_not_parsed() {
    let (server, scripted) = with_workers().await;
    for call in
        ["renew", "attempts/mend/repository", "attempts/mend/report", "attempts/mend/finish"]
    {
        let path = format!("/workers/v1/{call}");
        for (secret, status) in [("wrong", 401), ("right", 400)] {
            let request = HttpRequest::new("POST", &path).token(secret);
            let request = request.header("Content-Type", "application/json").bytes("{");
            server.execute(request).await.expect(status);
        }
    }
    assert!(scripted.calls.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_has_its_own_maximum_size() {
    const KIB: usize = 1024;
    let (server, _) = with_workers().await;
    for (method, call, accepted, refused) in [
        ("POST", "renew", 200 * KIB, 300 * KIB),
        ("POST", "attempts/mend/repository", 200 * KIB, 300 * KIB),
        ("POST", "attempts/mend/report", 3_500 * KIB, 4_500 * KIB),
        ("POST", "attempts/mend/finish", 8_500 * KIB, 9_500 * KIB),
        ("PUT", "attempts/mend/work?fence=3", 30_000 * KIB, 33_000 * KIB),
    ] {
        for (length, is_accepted) in [(accepted, true), (refused, false)] {
            let body = json!({
                "fence": 3,
                "report": {},
                "finish": { "ending": "completed", "detail": "done" },
                "more": "x".repeat(length),
            });
            let path = format!("/workers/v1/{call}");
            let request = HttpRequest::new(method, &path).token("right").json(&body);
            let status = if is_accepted { 200 } else { 413 };
            server.execute(request).await.expect(status);
        }
    }
}
