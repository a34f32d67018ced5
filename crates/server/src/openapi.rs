//! The OpenAPI description: paths from the table of routes, schemas from the types.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ApprovalPreview, ChecksAnswer, DecisionAnswer, DecisionRequest, DispatchRequest,
    ExecutionAnswer, FireRequest, LifecycleAnswer, LifecycleRequest, LocalAnswerRequest,
    LocalArtifacts, LocalClaims, LocalExplanation, LocalJob, LocalJobs, LocalLineage, LocalOutcome,
    LocalQuestions, LocalRunContext, LocalRunCost, LocalRunDetail, LocalRunDiff, LocalRunEvents,
    LocalRunList, LocalRunPolicy, LocalVerbRequest, LocalVerifications, PermissionQuestion,
    PermissionReview, ReplayRequest, RuleSample, RuleTrial, RunAnswer, RunEvents, RunVerbRequest,
    SavedFilter, WorkspaceAnswer, WorkspaceRequest, indexed_fields,
};
use bailiwick_fleet::resources::AccessRequest;
use bailiwick_fleet::workers::{JoinAnswer, JoinRequest, RenewRequest};
use bailiwick_resources::{Kind, object_schema};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::answers::RecentAnswers;
use crate::numbers::Numbers;
use crate::objects::{ApplyAnswer, ApplyRequest, AuditList, DiffAnswer, ObjectList, SecretValues};
use crate::problem::ErrorBody;
use crate::request::scope_name;
use crate::routes::{Access, Call, LocalPart, Route, WorkerCall, routes};
use crate::run_list::{self, RunList};
use crate::saved_filters::{SaveFilterRequest, SavedFilters};
use crate::sign_in::{DeviceAnswer, DeviceTokenRequest, IdTokenRequest};
use crate::stage_counts::StageCounts;
use crate::tokens::{TokenAnswer, TokenList, TokenRequest, TokenView, WhoAmI};
use crate::webhooks::DeliveryAnswer;

const JSON: &str = "application/json";
const ERRORS: [(&str, &str); 9] = [
    ("400", "The request is malformed."),
    ("401", "The token is invalid, or the signature is wrong."),
    ("403", "The token does not permit this, or nobody may do it."),
    ("404", "There is nothing with this name."),
    ("409", "Conflict: another version, already decided, or already existing."),
    ("413", "The body is too large."),
    ("422", "The request is well-formed but invalid."),
    ("429", "Too many requests; see `Retry-After`."),
    ("503", "Unavailable here or now."),
];

/// The request and response of a route.
struct Shapes {
    body: Option<Value>,
    status: &'static str,
    content: &'static str,
    answer: Value,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn object(kind: Option<Kind>, generator: &mut SchemaGenerator) -> Value {
    match kind {
        Some(kind) => object_schema(kind, generator).to_value(),
        None => json!({ "$ref": "#/components/schemas/AnyResource" }),
    }
}

fn shapes(route: &Route, generator: &mut SchemaGenerator) -> Shapes {
    let returns = |status, answer| Shapes { body: None, status, content: JSON, answer };
    let plain = |content| Shapes {
        body: None,
        status: "200",
        content,
        answer: json!({ "type": "string" }),
    };
    let accepts = |body, status, answer| Shapes { body: Some(body), status, content: JSON, answer };
    let g = generator;
    match route.call {
        Call::Index | Call::Health | Call::Ready | Call::Metrics => plain("text/plain"),
        Call::OpenApi => returns("200", json!({ "type": "object" })),
        Call::List => returns("200", of::<ObjectList>(g)),
        Call::Create => accepts(object(route.kind, g), "201", object(route.kind, g)),
        Call::Read | Call::Delete => returns("200", object(route.kind, g)),
        Call::Replace => accepts(object(route.kind, g), "200", object(route.kind, g)),
        Call::Patch => accepts(json!({ "type": "object" }), "200", object(route.kind, g)),
        Call::Status => accepts(json!({ "type": "object" }), "403", of::<ErrorBody>(g)),
        Call::Apply => accepts(of::<ApplyRequest>(g), "200", of::<ApplyAnswer>(g)),
        Call::Diff => accepts(of::<ApplyRequest>(g), "200", of::<DiffAnswer>(g)),
        Call::WhoAmI => returns("200", of::<WhoAmI>(g)),
        Call::SetSecret => accepts(of::<SecretValues>(g), "200", object(route.kind, g)),
        Call::RecordAccess => accepts(of::<AccessRequest>(g), "200", object(route.kind, g)),
        Call::Events => plain("text/event-stream"),
        Call::RunEvents => returns("200", of::<RunEvents>(g)),
        Call::Run(_) => accepts(of::<RunVerbRequest>(g), "202", of::<RunAnswer>(g)),
        Call::Dispatch => accepts(of::<DispatchRequest>(g), "202", of::<RunAnswer>(g)),
        Call::Decide => accepts(of::<DecisionRequest>(g), "200", of::<DecisionAnswer>(g)),
        Call::TryRule => accepts(of::<RuleSample>(g), "200", of::<RuleTrial>(g)),
        Call::Lifecycle => accepts(of::<LifecycleRequest>(g), "200", of::<LifecycleAnswer>(g)),
        Call::Replay => accepts(of::<ReplayRequest>(g), "202", of::<ExecutionAnswer>(g)),
        Call::Fire => accepts(of::<FireRequest>(g), "202", of::<ExecutionAnswer>(g)),
        Call::Materialize => accepts(of::<RuleSample>(g), "202", of::<ExecutionAnswer>(g)),
        Call::Review => accepts(of::<PermissionQuestion>(g), "200", of::<PermissionReview>(g)),
        Call::Provision | Call::ActOnWorkspace => {
            accepts(of::<WorkspaceRequest>(g), "202", of::<WorkspaceAnswer>(g))
        }
        Call::PreviewApproval => returns("200", of::<ApprovalPreview>(g)),
        Call::Checks => returns("200", of::<ChecksAnswer>(g)),
        Call::Capabilities => returns("200", of::<BTreeMap<String, Value>>(g)),
        Call::Tokens => returns("200", of::<TokenList>(g)),
        Call::MintToken => accepts(of::<TokenRequest>(g), "201", of::<TokenAnswer>(g)),
        Call::RevokeToken => returns("200", of::<TokenView>(g)),
        Call::Audit => returns("200", of::<AuditList>(g)),
        Call::Blob => plain("application/octet-stream"),
        Call::Webhook => accepts(json!({}), "202", of::<DeliveryAnswer>(g)),
        Call::Login => {
            Shapes { body: None, status: "303", content: "text/plain", answer: json!({}) }
        }
        Call::LoginCallback => plain("text/html"),
        Call::Logout => returns("200", of::<TokenView>(g)),
        Call::StartDevice => returns("200", of::<DeviceAnswer>(g)),
        Call::DeviceToken => accepts(of::<DeviceTokenRequest>(g), "201", of::<TokenAnswer>(g)),
        Call::ExchangeIdToken => accepts(of::<IdTokenRequest>(g), "201", of::<TokenAnswer>(g)),
        Call::RecentAnswers => returns("200", of::<RecentAnswers>(g)),
        Call::SavedFilters => returns("200", of::<SavedFilters>(g)),
        Call::SaveFilter => accepts(of::<SaveFilterRequest>(g), "201", of::<SavedFilter>(g)),
        Call::DeleteFilter => returns("200", of::<SavedFilter>(g)),
        Call::RunList => returns("200", of::<RunList>(g)),
        Call::StageCounts => returns("200", of::<StageCounts>(g)),
        Call::LocalRuns => returns("200", of::<LocalRunList>(g)),
        Call::LocalRun => returns("200", of::<LocalRunDetail>(g)),
        Call::LocalRunEvents => returns("200", of::<LocalRunEvents>(g)),
        Call::LocalRunDiff => returns("200", of::<LocalRunDiff>(g)),
        Call::LocalRunChecks => returns("200", of::<LocalVerifications>(g)),
        Call::LocalPart(part) => returns(
            "200",
            match part {
                LocalPart::Context => of::<LocalRunContext>(g),
                LocalPart::Policy => of::<LocalRunPolicy>(g),
                LocalPart::Cost => of::<LocalRunCost>(g),
                LocalPart::Lineage => of::<LocalLineage>(g),
                LocalPart::Artifacts => of::<LocalArtifacts>(g),
            },
        ),
        Call::LocalExplain => returns("200", of::<LocalExplanation>(g)),
        Call::LocalArtifact => plain("application/octet-stream"),
        Call::LocalQuestions => returns("200", of::<LocalQuestions>(g)),
        Call::LocalClaims => returns("200", of::<LocalClaims>(g)),
        Call::Numbers => returns("200", of::<Numbers>(g)),
        Call::LocalAnswer => accepts(of::<LocalAnswerRequest>(g), "200", of::<LocalOutcome>(g)),
        Call::LocalJobs => returns("200", of::<LocalJobs>(g)),
        Call::LocalJob => returns("200", of::<LocalJob>(g)),
        Call::LocalVerb(verb) if verb.is_job() => {
            accepts(of::<LocalVerbRequest>(g), "202", of::<LocalJob>(g))
        }
        Call::LocalVerb(_) => accepts(of::<LocalVerbRequest>(g), "200", of::<LocalOutcome>(g)),
        Call::Worker(WorkerCall::Join) => accepts(of::<JoinRequest>(g), "200", of::<JoinAnswer>(g)),
        Call::Worker(WorkerCall::Renew) => {
            accepts(of::<RenewRequest>(g), "200", of::<JoinAnswer>(g))
        }
        Call::Worker(WorkerCall::Repository) => {
            Shapes { body: Some(json!({ "type": "object" })), ..plain("application/octet-stream") }
        }
        // What an attempt is launched with changes with the versions of the two.
        Call::Worker(WorkerCall::Poll) => returns("200", json!({ "type": "object" })),
        Call::Worker(WorkerCall::Report | WorkerCall::Finish | WorkerCall::Work) => {
            accepts(json!({ "type": "object" }), "200", json!({ "type": "object" }))
        }
    }
}

/// The query parameters of a route.
fn query(call: Call) -> &'static [&'static str] {
    match call {
        Call::List => &[
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "order",
            "watch",
            "resourceVersion",
        ],
        Call::Events => &["kind", "labelSelector", "watch", "resourceVersion"],
        Call::RunEvents => &["attempt", "watch", "after", "limit", "resourceVersion"],
        Call::Create | Call::Replace | Call::Patch | Call::Apply => &["dryRun"],
        Call::Delete => &["dryRun", "resourceVersion", "requires"],
        Call::Audit => &["after", "limit"],
        Call::Checks => &["sha"],
        Call::Login => &["next"],
        Call::LoginCallback => &["code", "state", "iss", "error"],
        Call::RunList => run_list::PARAMETERS,
        Call::LocalRuns => &["group", "text", "limit", "continue"],
        Call::LocalRunEvents => &["after", "limit", "wait", "filter", "text"],
        Call::LocalExplain => &["command"],
        Call::LocalQuestions | Call::LocalJobs => &["run"],
        Call::Numbers => &["days"],
        Call::Worker(WorkerCall::Poll) => &["version", "room", "wait", "follows"],
        Call::Worker(WorkerCall::Work) => &["fence"],
        Call::Worker(
            WorkerCall::Join
            | WorkerCall::Renew
            | WorkerCall::Repository
            | WorkerCall::Report
            | WorkerCall::Finish,
        )
        | Call::Index
        | Call::Health
        | Call::Ready
        | Call::Metrics
        | Call::OpenApi
        | Call::Read
        | Call::Status
        | Call::Diff
        | Call::WhoAmI
        | Call::SetSecret
        | Call::RecordAccess
        | Call::Run(_)
        | Call::Dispatch
        | Call::Decide
        | Call::PreviewApproval
        | Call::TryRule
        | Call::Lifecycle
        | Call::Replay
        | Call::Fire
        | Call::Materialize
        | Call::Review
        | Call::Provision
        | Call::ActOnWorkspace
        | Call::Capabilities
        | Call::Tokens
        | Call::MintToken
        | Call::RevokeToken
        | Call::Blob
        | Call::Webhook
        | Call::Logout
        | Call::StartDevice
        | Call::DeviceToken
        | Call::ExchangeIdToken
        | Call::RecentAnswers
        | Call::SavedFilters
        | Call::SaveFilter
        | Call::DeleteFilter
        | Call::StageCounts
        | Call::LocalRun
        | Call::LocalRunDiff
        | Call::LocalClaims
        | Call::LocalRunChecks
        | Call::LocalPart(_)
        | Call::LocalArtifact
        | Call::LocalAnswer
        | Call::LocalJob
        | Call::LocalVerb(_) => &[],
    }
}

fn query_schema(name: &str) -> Value {
    match name {
        "attempt" | "limit" | "after" | "resourceVersion" => {
            json!({ "type": "integer", "minimum": 0 })
        }
        "wait" => json!({
            "type": "integer",
            "minimum": 0,
            "description": "How many milliseconds to wait for an event, if there is none",
        }),
        "group" => json!({ "enum": ["needs-you", "working", "ready", "ended"] }),
        "filter" => json!({ "enum": ["denied", "writes", "commands", "errors"] }),
        "watch" => json!({ "enum": ["0", "1"], "description": "1: a stream of events" }),
        "dryRun" => json!({ "enum": ["All"], "description": "Show the result, change nothing" }),
        "order" => json!({ "enum": ["oldest", "newest"] }),
        "requires" => json!({
            "type": "string",
            "description": "KIND/NAMESPACE/NAME@VERSION: deletes only while that object has this version",
        }),
        _ => json!({ "type": "string" }),
    }
}

/// Whether the namespace is a query parameter.
fn has_namespace_parameter(route: &Route) -> bool {
    let below = route.path.starts_with("/api/agents/") || route.kind.is_some();
    let lists = matches!(route.call, Call::List | Call::Events | Call::Create | Call::Review);
    (below || lists) && !route.path.contains("{namespace}") && route.call != Call::Capabilities
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    for part in route.path.split('/') {
        let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
            continue;
        };
        let schema = if name == "plural" {
            let plurals: Vec<&str> = Kind::ALL.iter().map(|kind| kind.plural()).collect();
            json!({ "enum": plurals })
        } else {
            json!({ "type": "string" })
        };
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    let namespace = has_namespace_parameter(route).then_some("namespace");
    for name in query(route.call).iter().copied().chain(namespace) {
        parameters.push(json!({ "name": name, "in": "query", "schema": query_schema(name) }));
    }
    let streams = matches!(route.call, Call::List | Call::Events | Call::RunEvents);
    if streams {
        let schema = json!({ "type": "integer", "minimum": 0 });
        parameters.push(json!({ "name": "Last-Event-ID", "in": "header", "schema": schema }));
    }
    parameters
}

fn operation_id(route: &Route) -> String {
    let mut id = route.method.as_str().to_owned();
    for part in route.path.split(['/', '-', '.', '{', '}']).filter(|part| !part.is_empty()) {
        let mut letters = part.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.extend(letters);
    }
    id
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let shapes = shapes(route, generator);
    let mut responses = Map::new();
    let error = json!({ JSON: { "schema": { "$ref": "#/components/schemas/ErrorBody" } } });
    for (status, description) in ERRORS {
        responses
            .insert(status.to_owned(), json!({ "description": description, "content": error }));
    }
    let mut content = Map::new();
    content.insert(shapes.content.to_owned(), json!({ "schema": shapes.answer }));
    if matches!(route.call, Call::List | Call::RunEvents) {
        let stream = json!({ "schema": { "type": "string" } });
        content.insert("text/event-stream".to_owned(), stream);
    }
    let done = json!({ "description": "Done.", "content": content });
    responses.insert(shapes.status.to_owned(), done.clone());
    if route.call == Call::Webhook {
        responses.insert("200".to_owned(), done);
    }
    let (security, needs) = match route.access {
        Access::Open => (json!([]), "open".to_owned()),
        Access::Scope(scope) => (json!([{ "token": [] }]), scope_name(scope).to_owned()),
        Access::Signed => (json!([]), "signature".to_owned()),
        Access::Worker => (json!([{ "token": [] }]), "worker".to_owned()),
    };
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses,
        "security": security,
        "x-bailiwick-scope": needs,
    });
    if let (Some(body), Some(operation)) = (shapes.body, operation.as_object_mut()) {
        let kind = if route.call == Call::Patch { "application/merge-patch+json" } else { JSON };
        let required = !matches!(route.call, Call::Run(_) | Call::LocalVerb(_));
        operation.insert(
            "requestBody".to_owned(),
            json!({ "required": required, "content": { kind: { "schema": body } } }),
        );
    }
    operation
}

/// The OpenAPI 3.1 description of the API.
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in routes() {
        let operation = operation(&route, &mut generator);
        let path = paths.entry(route.path.clone()).or_default();
        path.insert(route.method.as_str().to_owned(), operation);
    }
    let kinds: Vec<Value> =
        Kind::ALL.iter().map(|kind| object_schema(*kind, &mut generator).to_value()).collect();
    let _ = of::<ErrorBody>(&mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.insert("AnyResource".to_owned(), json!({ "oneOf": kinds }));
    let selectable: BTreeMap<&str, Vec<&str>> = Kind::ALL
        .iter()
        .filter(|kind| !indexed_fields(**kind).is_empty())
        .map(|kind| {
            (kind.plural(), indexed_fields(*kind).iter().map(|(field, _)| *field).collect())
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bailiwick",
            "version": "v1alpha1",
            "description": "Coding agents inside limits that are written down, enforced and tested.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "x-bailiwick-field-selectors": selectable,
    })
}

/// The JSON Schema of each kind, by its name.
pub fn schemas() -> BTreeMap<&'static str, Value> {
    let schema = |kind: &Kind| {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let schema = object_schema(*kind, &mut generator).to_value();
        let mut root = schema.as_object().cloned().unwrap_or_default();
        let draft = "https://json-schema.org/draft/2020-12/schema";
        root.insert("$schema".to_owned(), Value::from(draft));
        root.insert("title".to_owned(), Value::from(kind.as_str()));
        root.insert("$defs".to_owned(), Value::Object(generator.take_definitions(true)));
        (kind.as_str(), Value::Object(root))
    };
    Kind::ALL.iter().map(schema).collect()
}
