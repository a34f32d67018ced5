//! The controller of Jobs with an in-memory API server, which stores new objects and refuses duplicates.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bailiwick_kubernetes::jobs::{Cluster, JobPool, OpenAttempt, Problem};
use bailiwick_operator::jobs::{
    AttemptQueue, Failure, JobCluster, JobController, OpenJobs, PoolState, QueueError, QueuedJob,
};
use bailiwick_resources::{JobSettings, PodGrants, PodIdentity, PodProblem, PodToken, TrustTier};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::{Value, json};

/// Objects by their path, and how often each was created.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) stored: BTreeMap<String, Value>,
    created: BTreeMap<String, usize>,
    /// The error with which the creation of Jobs is refused, if any.
    pub(crate) refusal: Option<Value>,
    /// The error with which the creation of objects of a kind is refused, if any.
    pub(crate) refused: Option<(&'static str, u16)>,
    /// A namespace in which nothing can be listed.
    pub(crate) unlisted: Option<String>,
    /// No NetworkPolicy can be applied, as in a namespace that does not exist.
    pub(crate) no_policies: bool,
    /// The number of requests that were not GET requests.
    pub(crate) writes: usize,
}

#[derive(Clone, Default)]
pub(crate) struct ApiServer(pub(crate) Arc<Mutex<Objects>>);

pub(crate) fn status(code: u16, reason: &str) -> (StatusCode, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": "told", "code": code,
    });
    (StatusCode::from_u16(code).unwrap(), body)
}

impl ApiServer {
    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (status, answer) = server.answer(&parts.method, parts.uri.path(), body);
                let answer = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(status).body(answer).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    fn answer(&self, method: &Method, path: &str, mut body: Value) -> (StatusCode, Value) {
        let mut objects = self.0.lock().unwrap();
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        objects.writes += usize::from(*method != Method::GET);
        let unlisted = objects.unlisted.as_ref().map(|namespace| format!("/{namespace}/"));
        if *method == Method::GET && unlisted.is_some_and(|part| path.contains(&part)) {
            return status(403, "Forbidden");
        }
        if *method == Method::GET && objects.stored.contains_key(path) {
            return (StatusCode::OK, objects.stored[path].clone());
        }
        if *method == Method::GET {
            let prefix = format!("{path}/");
            let items = objects.stored.iter().filter(|(path, _)| path.starts_with(&prefix));
            let items: Vec<Value> = items.map(|(_, object)| object.clone()).collect();
            return (StatusCode::OK, json!({ "metadata": {}, "items": items }));
        }
        if *method == Method::DELETE {
            return match objects.stored.remove(path) {
                Some(object) => (StatusCode::OK, object),
                None => status(404, "NotFound"),
            };
        }
        if let Some((plural, code)) = objects.refused
            && path.contains(&format!("/{plural}"))
        {
            return status(code, "Reason");
        }
        if *method == Method::PATCH && objects.no_policies {
            return status(404, "NotFound");
        }
        if *method == Method::PATCH {
            objects.stored.insert(path.to_owned(), body.clone());
            return (StatusCode::OK, body);
        }
        let object_path = format!("{path}/{name}");
        if path.ends_with("/jobs")
            && let Some(refusal) = &objects.refusal
        {
            return (StatusCode::FORBIDDEN, refusal.clone());
        }
        if objects.stored.contains_key(&object_path) {
            return status(409, "AlreadyExists");
        }
        *objects.created.entry(object_path.clone()).or_default() += 1;
        body["metadata"]["uid"] = json!(format!("uid of {name}"));
        objects.stored.insert(object_path, body.clone());
        (StatusCode::CREATED, body)
    }

    /// The names of all objects of a kind.
    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        let part = format!("/{plural}/");
        let objects = self.0.lock().unwrap();
        let paths = objects.stored.keys().filter_map(|path| path.split_once(&part));
        paths.map(|(_, name)| name.to_owned()).collect()
    }

    pub(crate) fn change(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let end = format!("/{plural}/{name}");
        let mut objects = self.0.lock().unwrap();
        let object = objects.stored.iter_mut().find(|(path, _)| path.ends_with(&end)).unwrap();
        change(object.1);
    }

    /// Adds the pod of a Job, as the Job controller and a node would.
    pub(crate) fn add_pod(&self, job: &str, status: Value) {
        let mut objects = self.0.lock().unwrap();
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": format!("uid of {job}"),
            "controller": true,
        });
        let pod =
            json!({ "metadata": { "name": job, "ownerReferences": [owner] }, "status": status });
        objects.stored.insert(format!("/api/v1/namespaces/attempts/pods/{job}"), pod);
    }
}

/// The queue of a server, in memory.
#[derive(Clone, Default)]
pub(crate) struct Queue(Arc<Mutex<QueueState>>);

#[derive(Default)]
pub(crate) struct QueueState {
    open: Vec<OpenAttempt>,
    /// The pools of attempts. Other attempts have a trusted pool with the default settings.
    pools: BTreeMap<String, PoolState>,
    tokens: usize,
    /// How long the last token is valid, in milliseconds.
    valid_millis: u64,
    given_up: Vec<(String, PodProblem)>,
    ended: BTreeSet<String>,
}

impl Queue {
    pub(crate) fn with(attempts: &[&str]) -> Self {
        let queue = Self::default();
        let open = attempts.iter().map(|attempt| OpenAttempt {
            attempt: (*attempt).to_owned(),
            pool: "inside".to_owned(),
            jobs_ended: 0,
            problem: None,
            detail: String::new(),
            is_claimable: true,
            is_cancelled: false,
            is_expired: true,
            queued_millis: 0,
            grants: PodGrants::default(),
        });
        queue.0.lock().unwrap().open.extend(open);
        queue
    }

    pub(crate) fn problem(&self) -> Option<PodProblem> {
        self.0.lock().unwrap().open.first()?.problem
    }

    pub(crate) fn given_up(&self) -> Vec<(String, PodProblem)> {
        self.0.lock().unwrap().given_up.clone()
    }

    /// Ends all attempts.
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock().unwrap();
        let ended: Vec<_> = state.open.drain(..).map(|open| open.attempt).collect();
        state.ended.extend(ended);
    }

    /// Removes all attempts, as if this were another database.
    pub(crate) fn lose(&self) {
        self.0.lock().unwrap().open.clear();
    }

    /// Lets an attempt have its next Job.
    pub(crate) fn restart(&self, attempt: &str) {
        let mut state = self.0.lock().unwrap();
        state.open.iter_mut().find(|open| open.attempt == attempt).unwrap().jobs_ended += 1;
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut OpenAttempt)) {
        change(self.0.lock().unwrap().open.first_mut().unwrap());
    }

    pub(crate) fn in_namespace(&self, attempt: &str, trust_tier: TrustTier, namespace: &str) {
        let settings =
            JobSettings { namespace: Some(namespace.to_owned()), ..JobSettings::default() };
        let pool = JobPool { settings, trust_tier };
        self.set_pool(attempt, PoolState::Jobs(Box::new(pool)));
    }

    pub(crate) fn set_pool(&self, attempt: &str, pool: PoolState) {
        self.0.lock().unwrap().pools.insert(attempt.to_owned(), pool);
    }
}

impl AttemptQueue for Queue {
    async fn open(&self) -> Result<OpenJobs, QueueError> {
        let state = self.0.lock().unwrap();
        let attempts = state.open.iter().map(|open| {
            let pool = state.pools.get(&open.attempt).cloned().unwrap_or_else(|| {
                let settings = JobSettings::default();
                PoolState::Jobs(Box::new(JobPool { settings, trust_tier: TrustTier::Trusted }))
            });
            QueuedJob { open: open.clone(), pool }
        });
        let trusted_namespaces = BTreeSet::from(["trusted".to_owned()]);
        Ok(OpenJobs { attempts: attempts.collect(), trusted_namespaces })
    }

    async fn token(&self, _: &OpenAttempt, valid_millis: u64) -> Result<String, QueueError> {
        let mut state = self.0.lock().unwrap();
        state.tokens += 1;
        state.valid_millis = valid_millis;
        Ok(format!("bwj_{}", state.tokens))
    }

    async fn record(
        &self,
        attempt: &OpenAttempt,
        problem: Option<&Problem>,
        has_ended: bool,
    ) -> Result<(), QueueError> {
        let mut state = self.0.lock().unwrap();
        let open = state.open.iter_mut().find(|open| open.attempt == attempt.attempt).unwrap();
        if open.jobs_ended == attempt.jobs_ended {
            open.jobs_ended += u64::from(has_ended);
            open.problem = problem.map(|problem| problem.kind);
            open.detail = problem.map(|problem| problem.detail.clone()).unwrap_or_default();
        }
        Ok(())
    }

    async fn has_ended(&self, attempt: &str) -> Result<bool, QueueError> {
        Ok(self.0.lock().unwrap().ended.contains(attempt))
    }

    async fn give_up(&self, attempt: &OpenAttempt, problem: &Problem) -> Result<(), QueueError> {
        let mut state = self.0.lock().unwrap();
        state.ended.insert(attempt.attempt.clone());
        state.open.retain(|open| open.attempt != attempt.attempt);
        state.given_up.push((attempt.attempt.clone(), problem.kind));
        Ok(())
    }
}

/// The name of a Job of the installation `bailiwick`.
pub(crate) fn job_name(attempt: &str, number: u64) -> String {
    job_name_of("bailiwick", attempt, number)
}

pub(crate) fn job_name_of(installation: &str, attempt: &str, number: u64) -> String {
    bailiwick_kubernetes::jobs::job_name(&installation.parse().unwrap(), attempt, number)
}

/// A controller whose clock the test sets.
pub(crate) struct Operator {
    controller: JobController<Queue>,
    pub(crate) now: Timestamp,
}

impl Operator {
    pub(crate) fn new(cluster: Cluster, client: kube::Client, queue: &Queue) -> Self {
        let controller = JobController::new(queue.clone(), JobCluster::new(client, cluster));
        Self { controller, now: Timestamp::now() }
    }

    /// Runs a round long after the last one, and expects no failures.
    pub(crate) async fn round(&mut self) {
        self.wait(600);
        let failures = self.failures().await;
        assert!(failures.is_empty(), "{failures:?}");
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) async fn failures(&mut self) -> Vec<Failure> {
        self.controller.round(self.now).await.unwrap()
    }
}

pub(crate) fn cluster(installation: &str, namespace: &str) -> Cluster {
    Cluster {
        installation: installation.parse().unwrap(),
        namespace: namespace.parse().unwrap(),
        other_namespaces: Vec::new(),
        image: "registry.example/bailiwick:1".to_owned(),
        server: "https://agents.example".parse().unwrap(),
        server_networks: Vec::new(),
        model_networks: Vec::new(),
    }
}

pub(crate) fn controller(server: &ApiServer, queue: &Queue) -> Operator {
    controller_in("attempts", server.client(), queue)
}

pub(crate) fn controller_in(namespace: &str, client: kube::Client, queue: &Queue) -> Operator {
    Operator::new(cluster("bailiwick", namespace), client, queue)
}

/// With a second namespace, `untrusted`.
pub(crate) fn controller_of_two_namespaces(server: &ApiServer, queue: &Queue) -> Operator {
    let other_namespaces = vec!["untrusted".parse().unwrap()];
    let cluster = Cluster { other_namespaces, ..cluster("bailiwick", "attempts") };
    Operator::new(cluster, server.client(), queue)
}

pub(crate) fn exited(code: i32) -> Value {
    exited_at(code, "2020-01-01T00:00:00Z")
}

pub(crate) fn exited_at(code: i32, time: &str) -> Value {
    let state =
        json!({ "terminated": { "exitCode": code, "reason": "Error", "finishedAt": time } });
    let container = json!({
        "name": "worker", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    });
    json!({ "phase": "Failed", "containerStatuses": [container] })
}

#[tokio::test]
async fn attempt_gets_one_job_with_any_number_of_operators() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1", "fixer-2"]));
    for _ in 0..3 {
        // Both operators have just started, as after a restart.
        let mut one = controller(&server, &queue);
        let mut other = controller(&server, &queue);
        tokio::join!(one.round(), other.round());
    }
    let mut expected = vec![job_name("fixer-1", 1), job_name("fixer-2", 1)];
    expected.sort();
    assert_eq!(server.names("jobs"), expected);
    assert_eq!(server.names("secrets"), expected);
    assert_eq!(server.names("networkpolicies"), ["bailiwick-attempts-bailiwick"]);
    let created = server.0.lock().unwrap().created.clone();
    assert!(created.values().all(|times| *times == 1) && created.len() == 4, "{created:?}");
    let secret = server.0.lock().unwrap();
    let secret = secret.stored.iter().find(|(path, _)| path.contains("/secrets/")).unwrap().1;
    assert_eq!(secret["metadata"]["ownerReferences"][0]["kind"], "Job");
}

/// An operator ended after it created a Job and before its secret: the next operator adds the secret.
#[tokio::test]
async fn job_without_a_token_gets_one() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut first = controller(&server, &queue);
    for _ in 0..3 {
        first.round().await;
    }
    assert_eq!(queue.0.lock().unwrap().tokens, 1, "the Job has one token");
    let secret = format!("/api/v1/namespaces/attempts/secrets/{}", job_name("fixer-1", 1));
    assert!(server.0.lock().unwrap().stored.remove(&secret).is_some());
    controller(&server, &queue).round().await;
    assert!(server.0.lock().unwrap().stored.contains_key(&secret));
}

#[tokio::test]
async fn lost_pod_gets_a_second_job_and_a_weak_sandbox_ends_the_attempt() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    server.add_pod(&job_name("fixer-1", 1), exited(66));
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::WorkerLost));
    controller.round().await;
    assert!(server.names("jobs").contains(&job_name("fixer-1", 2)));
    server.add_pod(&job_name("fixer-1", 2), json!({ "phase": "Running" }));
    controller.round().await;
    assert_eq!(queue.problem(), None, "the second Job runs");
    server.add_pod(&job_name("fixer-1", 2), exited(65));
    controller.round().await;
    assert_eq!(queue.given_up(), [("fixer-1".to_owned(), PodProblem::SandboxInsufficient)]);
}

#[tokio::test]
async fn job_that_the_api_server_refuses_is_retried() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    server.0.lock().unwrap().refusal = Some(status(403, "Forbidden").1);
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::PodNotAdmitted));
    let quota = json!({
        "metadata": { "name": "agents" }, "spec": { "hard": { "count/jobs.batch": "0" } },
        "status": { "hard": { "count/jobs.batch": "0" }, "used": { "count/jobs.batch": "0" } },
    });
    let path = "/api/v1/namespaces/attempts/resourcequotas/agents".to_owned();
    server.0.lock().unwrap().stored.insert(path, quota);
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::QuotaExceeded));
    server.0.lock().unwrap().refusal = None;
    controller.round().await;
    assert_eq!(server.names("jobs"), [job_name("fixer-1", 1)]);
    controller.round().await;
    assert_eq!(queue.problem(), None);
}

/// A pod can only be an account of its own namespace.
#[tokio::test]
async fn job_has_the_identity_of_its_attempt_and_only_in_its_namespace() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    let identity = |namespace: &str| PodIdentity {
        account: "fixer".to_owned(),
        namespace: Some(namespace.to_owned()),
        image_pull_secrets: Vec::new(),
        token: Some(PodToken { audience: "vault".to_owned(), seconds: 7_200 }),
    };
    queue.change(|open| open.grants = PodGrants { identity: Some(identity("elsewhere")) });
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::PodNotAdmitted));
    assert!(server.names("jobs").is_empty());
    queue.change(|open| open.grants = PodGrants { identity: Some(identity("attempts")) });
    controller.round().await;
    let path = format!("/apis/batch/v1/namespaces/attempts/jobs/{}", job_name("fixer-1", 1));
    let pod = server.0.lock().unwrap().stored[&path]["spec"]["template"]["spec"].clone();
    assert_eq!(pod["serviceAccountName"], "fixer");
    assert_eq!(pod["automountServiceAccountToken"], false);
    let volumes = pod["volumes"].as_array().unwrap();
    let values = volumes.iter().find(|volume| volume["name"] == "values").unwrap();
    let token = &values["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!((&token["audience"], &token["expirationSeconds"]), (&json!("vault"), &json!(7_200)));
}

#[tokio::test]
async fn orphaned_jobs_are_deleted_after_some_time() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1", "fixer-2"]));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    // The second Job has ended without a deletion: it is retained for its log.
    let ended = json!([{ "type": "Complete", "status": "True" }]);
    server.change("jobs", &job_name("fixer-2", 1), |job| {
        job["status"] = json!({ "conditions": ended })
    });
    queue.clear();
    controller.round().await;
    assert_eq!(server.names("jobs").len(), 2, "the worker may be about to exit");
    for _ in 0..20 {
        controller.round().await;
    }
    assert_eq!(server.names("jobs"), [job_name("fixer-2", 1)]);
}

#[tokio::test]
async fn token_is_valid_until_the_deadline_of_its_job() {
    for (deadline, hours) in [(None, 6), (Some("30m"), 6), (Some("9h"), 9)] {
        let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
        let deadline = deadline.map(|text| text.parse().unwrap());
        let settings = JobSettings { deadline, ..JobSettings::default() };
        let pool = JobPool { settings, trust_tier: TrustTier::Trusted };
        queue.set_pool("fixer-1", PoolState::Jobs(Box::new(pool)));
        controller(&server, &queue).round().await;
        assert_eq!(queue.0.lock().unwrap().valid_millis, hours * 3_600_000, "{deadline:?}");
    }
}

/// How many writes an attempt needs that is not the first one of its namespace, and runs to its end.
pub(crate) async fn writes_of_a_later_attempt() -> usize {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1", "fixer-2"]));
    queue.set_pool("fixer-2", PoolState::WithoutJobs);
    let mut controller = controller(&server, &queue);
    controller.round().await;
    let before = server.0.lock().unwrap().writes;
    let settings = JobSettings::default();
    let pool = JobPool { settings, trust_tier: TrustTier::Trusted };
    queue.set_pool("fixer-2", PoolState::Jobs(Box::new(pool)));
    controller.round().await;
    assert!(server.names("jobs").contains(&job_name("fixer-2", 1)));
    let ended = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    server.change("jobs", &job_name("fixer-2", 1), |job| job["status"] = ended);
    queue.clear();
    for _ in 0..3 {
        controller.round().await;
    }
    server.0.lock().unwrap().writes - before
}
