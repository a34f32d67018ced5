//! What a client is told when something is not done: one shape for all of it.

use axum::body::Body;
use axum::response::Response;
use bailiwick_fleet::ports::{ActionError, ActionReason, FleetError};
use bailiwick_fleet::resources::DeclareError;
use bailiwick_resources::{Fault, ObjectError};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why something was not done.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) resource: String,
    pub(crate) reasons: Vec<ActionReason>,
    pub(crate) retry_after: Option<u64>,
}

/// The body of every answer that is an error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// What is wrong.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetail {
    /// A stable code.
    pub code: String,
    /// What is wrong, and what would be right.
    pub message: String,
    /// What joins this answer with the server's log.
    pub correlation_id: String,
    /// What it is about, as `AgentStack/default/mender`; empty if nothing.
    pub resource: String,
    /// Each fault by itself.
    pub reasons: Vec<ActionReason>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            resource: String::new(),
            reasons: Vec::new(),
            retry_after: None,
        }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
    }

    pub(crate) fn too_many(message: impl Into<String>, seconds: u64) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", message);
        Self { retry_after: Some(seconds), ..problem }
    }

    /// Unavailable, and in so many seconds perhaps not.
    pub(crate) fn busy(message: impl Into<String>, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..Self::unavailable(message) }
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let message = format!("the body is longer than the {most} bytes that are taken here");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message)
    }

    /// Well-formed, and yet not what it must be.
    pub(crate) fn invalid(faults: &[Fault]) -> Self {
        let message = match faults {
            [fault] => format!("{}: {}", fault.field, fault.message),
            faults => format!("there are {} faults", faults.len()),
        };
        let reasons = faults
            .iter()
            .map(|fault| ActionReason {
                code: "Invalid".to_owned(),
                field: fault.field.clone(),
                message: fault.message.clone(),
            })
            .collect();
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID", message);
        Self { reasons, ..problem }
    }

    pub(crate) fn fault(field: &str, message: impl Into<String>) -> Self {
        Self::invalid(&[Fault::new(field, message)])
    }

    #[must_use]
    pub(crate) fn about(mut self, resource: impl Into<String>) -> Self {
        self.resource = resource.into();
        self
    }

    /// JSON that does not fit: 400 if it is no JSON, 422 if it is another one than was asked for.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::fault("", error.to_string()),
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => Self::bad(format!("this is no JSON: {error}")),
        }
    }

    pub(crate) fn response(self, correlation: &str) -> Response {
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code.to_owned(),
                message: self.message,
                correlation_id: correlation.to_owned(),
                resource: self.resource,
                reasons: self.reasons,
            },
        };
        let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap_or_default()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<FleetError> for Problem {
    fn from(error: FleetError) -> Self {
        let message = error.to_string();
        match error {
            FleetError::NotFound { kind, namespace, name } => {
                Self::not_found(message).about(format!("{kind}/{namespace}/{name}"))
            }
            FleetError::AlreadyExists { kind, namespace, name } => {
                Self::conflict("ALREADY_EXISTS", message)
                    .about(format!("{kind}/{namespace}/{name}"))
            }
            FleetError::Conflict { kind, namespace, name, .. } => {
                Self::conflict("CONFLICT", message).about(format!("{kind}/{namespace}/{name}"))
            }
            FleetError::Gone { .. } => Self::new(StatusCode::GONE, "GONE", message),
            FleetError::Unopened { value, why } => {
                tracing::error!(what = value, why, "a value of a secret cannot be opened");
                Self::unavailable("a value of a secret cannot be opened; the log says why")
            }
            FleetError::Unavailable(why) => {
                // What a store says of itself may name files: it is for the log, not for the client.
                tracing::error!(why, "the store does not work");
                Self::unavailable("the store does not answer; the log says why")
            }
        }
    }
}

impl From<DeclareError> for Problem {
    fn from(error: DeclareError) -> Self {
        let message = error.to_string();
        match error {
            DeclareError::Store(error) => error.into(),
            DeclareError::Shape(error) => error.into(),
            DeclareError::Faulty { kind, name, faults } => {
                Self::invalid(&faults).about(format!("{kind}/{name}"))
            }
            DeclareError::Recorded { .. } => Self::forbidden("KIND_DENIED", message),
            DeclareError::Secret { .. } => Self::fault("kind", message),
            DeclareError::Twice { .. } => Self::fault("documents", message),
        }
    }
}

impl From<ObjectError> for Problem {
    fn from(error: ObjectError) -> Self {
        let message = error.to_string();
        let field = match &error {
            ObjectError::Version { .. } => "apiVersion",
            ObjectError::Kind { .. } => "kind",
            ObjectError::Shape { why, .. } if why.starts_with("status") => "status",
            ObjectError::Shape { .. } => "spec",
        };
        Self::fault(field, message)
    }
}

impl From<ActionError> for Problem {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::Store(error) => error.into(),
            ActionError::NotFound(message) => Self::not_found(message),
            ActionError::Denied { message, reasons } => {
                Self { reasons, ..Self::forbidden("POLICY_DENIED", message) }
            }
            ActionError::Conflict { code, message } => {
                let reason = ActionReason { code, field: String::new(), message: message.clone() };
                Self { reasons: vec![reason], ..Self::conflict("CONFLICT", message) }
            }
            ActionError::Invalid(faults) => Self::invalid(&faults),
            ActionError::TooMany(message) => Self::too_many(message, 5),
            ActionError::Unavailable(message) => Self::unavailable(message),
        }
    }
}
