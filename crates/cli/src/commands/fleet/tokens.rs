//! `bailiwick tokens`: who may use the API, and for what.

use bailiwick_fleet::ports::TokenScope;
use bailiwick_resources::Span;
use bailiwick_server::{TokenRequest, TokenView};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::access::{FleetAccess, is_missing};
use super::now;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// Create, list and revoke API tokens of `bailiwick serve`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick tokens new ada --scope approver --expires-after 30d\n  \
                  bailiwick tokens list\n  bailiwick tokens revoke tok-…"
)]
pub struct Tokens {
    #[command(subcommand)]
    verb: Verb,
}

/// What a token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// Read
    Viewer,
    /// Also start, cancel and retry runs
    Operator,
    /// Also decide approvals
    Approver,
    /// Also change resources, secrets and tokens
    Admin,
}

impl From<Scope> for TokenScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Viewer => Self::Viewer,
            Scope::Operator => Self::Operator,
            Scope::Approver => Self::Approver,
            Scope::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a token; it is shown only once
    #[command(after_help = "Example:\n  bailiwick tokens new ada --scope approver")]
    New {
        /// The person that the token represents
        person: String,
        /// The scope of the token
        #[arg(long, value_enum, default_value = "viewer")]
        scope: Scope,
        /// Lifetime, as 30d; default: no expiry
        #[arg(long, value_name = "SPAN")]
        expires_after: Option<Span>,
        #[command(flatten)]
        format: FormatOption,
    },
    /// List tokens, without their values
    #[command(after_help = "Example:\n  bailiwick tokens list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Revoke a token
    #[command(after_help = "Example:\n  bailiwick tokens revoke tok-…")]
    Revoke {
        /// Its id
        id: String,
        #[command(flatten)]
        format: FormatOption,
    },
}

impl Tokens {
    /// Whether it works on what a database has.
    pub(crate) fn needs_database(&self) -> bool {
        match self.verb {
            Verb::List { .. } | Verb::Revoke { .. } => true,
            Verb::New { .. } => false,
        }
    }

    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        match self.verb {
            Verb::New { person, scope, expires_after, format } => {
                make(fleet, &person, scope.into(), expires_after, format.format)
            }
            Verb::List { format } => list(fleet, format.format),
            Verb::Revoke { id, format } => revoke(fleet, &id, format.format),
        }
    }
}

fn make(
    fleet: &FleetAccess,
    person: &str,
    scope: TokenScope,
    expires_after: Option<Span>,
    format: Format,
) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if person.is_empty() || person.len() > 128 || !person.chars().all(plain) {
        return Err(Failure::usage(format!("`{person}` cannot name a person"))
            .help("use letters, digits, `-`, `_`, `.` and `@`"));
    }
    let expires_at = expires_after.map(|span| now().plus_millis(span.millis()));
    let request = TokenRequest { actor: person.to_owned(), scope, expires_at };
    let made = fleet.ask(async |client| Ok(client.mint_token(request).await?))?;
    if format == Format::Json {
        return output::json(&json!({ "id": made.record.id, "token": made.token }));
    }
    output::line(&made.token);
    output::note(format_args!("{} for {person}; it is not shown again", made.record.id));
    Ok(())
}

fn list(fleet: &FleetAccess, format: Format) -> Result<(), Failure> {
    let tokens = fleet.ask(async |client| Ok(client.tokens().await?))?;
    if format == Format::Json {
        let shown: Vec<_> = tokens
            .iter()
            .map(|token| {
                json!({
                    "id": token.id, "actor": token.actor, "scope": token.scope,
                    "createdAt": token.created_at, "expiresAt": token.expires_at,
                    "revokedAt": token.revoked_at,
                })
            })
            .collect();
        return output::json(&shown);
    }
    if tokens.is_empty() {
        output::note("no tokens");
        return Ok(());
    }
    let state = |token: &TokenView| match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if end <= now() => "expired".to_owned(),
        (None, Some(end)) => format!("until {end}"),
        (None, None) => "valid".to_owned(),
    };
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|token| {
            vec![
                token.id.clone(),
                token.actor.clone(),
                scope_word(token.scope).to_owned(),
                state(token),
            ]
        })
        .collect();
    let columns = [
        Column::fixed("ID"),
        Column::text("PERSON"),
        Column::fixed("SCOPE"),
        Column::text("STATE"),
    ];
    output::table(&columns, &rows);
    Ok(())
}

/// The name of a scope.
pub(super) fn scope_word(scope: TokenScope) -> &'static str {
    match scope {
        TokenScope::Viewer => "viewer",
        TokenScope::Operator => "operator",
        TokenScope::Approver => "approver",
        TokenScope::Admin => "admin",
    }
}

fn revoke(fleet: &FleetAccess, id: &str, format: Format) -> Result<(), Failure> {
    fleet.ask(async |client| {
        client.revoke_token(id).await.map_err(|error| match is_missing(&error) {
            true => Failure::from(error).help("see them: bailiwick tokens list"),
            false => error.into(),
        })
    })?;
    output::done(format, format_args!("{id} revoked"), &json!({ "id": id, "revoked": true }))
}
