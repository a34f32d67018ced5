//! Routes of the server itself: objects, tokens, webhooks and sign-in.

use bailiwick_resources::Kind;

use super::{ADMIN, Access, Call, Method, OPERATOR, Row, VIEWER};

/// Routes with their full paths.
pub(super) const ABSOLUTE: &[Row] = {
    use Method::{Delete, Get, Patch, Post, Put};
    const ONE: &str = "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}";
    const SOME: &str = "/api/v1alpha1/namespaces/{namespace}/{plural}";
    const ALL: &str = "/api/v1alpha1/{plural}";
    const SECRET: &str = "/api/v1alpha1/namespaces/{namespace}/secrets/{name}";
    const SECRETS: Option<Kind> = Some(Kind::Secret);
    &[
        (Get, "/", Call::Index, Access::Open, None, "Describe this server"),
        (Get, "/healthz", Call::Health, Access::Open, None, "Check that the server is running"),
        (
            Get,
            "/readyz",
            Call::Ready,
            Access::Open,
            None,
            "Check that the store is available and the control loop is running",
        ),
        (Get, "/metrics", Call::Metrics, VIEWER, None, "Metrics for Prometheus"),
        (Get, "/openapi.json", Call::OpenApi, Access::Open, None, "The OpenAPI description"),
        (Get, ALL, Call::List, VIEWER, None, "List or watch objects of every namespace"),
        (Post, ALL, Call::Create, ADMIN, None, "Create an object"),
        (Get, SOME, Call::List, VIEWER, None, "List or watch objects of a namespace"),
        (Post, SOME, Call::Create, ADMIN, None, "Create an object in a namespace"),
        (Get, ONE, Call::Read, VIEWER, None, "Read an object"),
        (Put, ONE, Call::Replace, ADMIN, None, "Replace an object"),
        (Patch, ONE, Call::Patch, ADMIN, None, "Patch an object"),
        (Delete, ONE, Call::Delete, ADMIN, None, "Delete an object"),
        (
            Put,
            "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}/status",
            Call::Status,
            ADMIN,
            None,
            "Refused: only the control plane writes a status",
        ),
        (
            Put,
            "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}/access",
            Call::RecordAccess,
            ADMIN,
            None,
            "Record what the API server of a cluster says of a binding; for its operator only",
        ),
        (Get, SECRET, Call::Read, VIEWER, SECRETS, "Read the key names of a secret"),
        (Put, SECRET, Call::SetSecret, ADMIN, SECRETS, "Set secret values"),
        (Delete, SECRET, Call::Delete, ADMIN, SECRETS, "Delete a secret"),
        (Post, "/api/v1alpha1/apply", Call::Apply, ADMIN, None, "Apply documents, all or none"),
        (
            Post,
            "/api/v1alpha1/diff",
            Call::Diff,
            ADMIN,
            None,
            "Show what applying documents would change, without values of secrets",
        ),
        (
            Get,
            "/api/v1alpha1/whoami",
            Call::WhoAmI,
            VIEWER,
            None,
            "Show the person and the scope of the token, and the version of the server",
        ),
        (Get, "/api/v1alpha1/events", Call::Events, VIEWER, None, "Watch objects of every kind"),
        (Get, "/api/v1alpha1/tokens", Call::Tokens, ADMIN, None, "List tokens"),
        (Post, "/api/v1alpha1/tokens", Call::MintToken, ADMIN, None, "Create a token, shown once"),
        (Delete, "/api/v1alpha1/tokens/{name}", Call::RevokeToken, ADMIN, None, "Revoke a token"),
        (Get, "/api/v1alpha1/audit", Call::Audit, ADMIN, None, "Read the audit log"),
        (Get, "/api/v1alpha1/blobs/{digest}", Call::Blob, OPERATOR, None, "Read stored bytes"),
        (
            Post,
            "/webhooks/{repository}",
            Call::Webhook,
            Access::Signed,
            None,
            "Receive a signed webhook; it is stored before the response",
        ),
        (Get, "/auth/login", Call::Login, Access::Open, None, "Sign in with the OpenID provider"),
        (
            Get,
            "/auth/callback",
            Call::LoginCallback,
            Access::Open,
            None,
            "Receive a browser from the OpenID provider",
        ),
        (Post, "/auth/logout", Call::Logout, VIEWER, None, "Revoke the token of the request"),
        (
            Post,
            "/auth/device",
            Call::StartDevice,
            Access::Open,
            None,
            "Start a sign-in that a person confirms in a browser",
        ),
        (
            Post,
            "/auth/device/token",
            Call::DeviceToken,
            Access::Open,
            None,
            "Create a token after the person has confirmed",
        ),
        (
            Post,
            "/auth/token",
            Call::ExchangeIdToken,
            Access::Open,
            None,
            "Create a token for an ID token of the OpenID provider",
        ),
    ]
};
