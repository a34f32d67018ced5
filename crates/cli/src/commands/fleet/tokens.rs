//! `bailiwick tokens`: who may use the API, and for what.

use bailiwick_engine::context::Context;
use bailiwick_fleet::ports::{AuditEntry, FleetStore as _, TokenRecord, TokenScope, Write};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{Moment, Span};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::{actor, now};
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// What every token begins with, so that it is recognised where it should not be.
pub const BEGINNING: &str = "bwk_";

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
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::New { person, scope, expires_after, format } => {
                make(context, &person, scope.into(), expires_after, format.format)
            }
            Verb::List { format } => list(context, format.format),
            Verb::Revoke { id, format } => revoke(context, &id, format.format),
        }
    }
}

fn make(
    context: &Context,
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
    let mut random = [0_u8; 40];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::general(format!("there are no random numbers: {error}")))?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (secret, id) = random.split_at(32);
    let token = format!("{BEGINNING}{}", hex(secret));
    let record = TokenRecord {
        id: format!("tok-{}", hex(id)),
        actor: person.to_owned(),
        scope,
        digest: Sha256Hex::of(&token).to_string(),
        created_at: now(),
        expires_at: expires_after.map(|span| now().plus_millis(span.millis())),
        revoked_at: None,
    };
    keep(context, &record, "TokenCreated")?;
    if format == Format::Json {
        return output::json(&json!({ "id": record.id, "token": token }));
    }
    output::line(&token);
    output::note(format_args!("{} for {person}; it is not shown again", record.id));
    Ok(())
}

fn keep(context: &Context, record: &TokenRecord, event: &str) -> Result<(), Failure> {
    let entry = AuditEntry {
        at: now(),
        actor: actor()?,
        event: event.to_owned(),
        subject: format!("Token/{}", record.id),
        correlation: std::collections::BTreeMap::new(),
        detail: json!({ "person": record.actor, "scope": record.scope }),
    };
    with_store(context, async |store| {
        store.commit(vec![Write::Token(record.clone()), Write::Audit(entry)], now()).await?;
        Ok(())
    })
}

fn list(context: &Context, format: Format) -> Result<(), Failure> {
    let tokens = with_store(context, async |store| Ok(store.tokens().await?))?;
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
    let state = |token: &TokenRecord| match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if end <= now() => "expired".to_owned(),
        (None, Some(end)) => format!("until {end}"),
        (None, None) => "valid".to_owned(),
    };
    let word = |scope: TokenScope| match scope {
        TokenScope::Viewer => "viewer",
        TokenScope::Operator => "operator",
        TokenScope::Approver => "approver",
        TokenScope::Admin => "admin",
    };
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|token| {
            vec![token.id.clone(), token.actor.clone(), word(token.scope).to_owned(), state(token)]
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

fn revoke(context: &Context, id: &str, format: Format) -> Result<(), Failure> {
    let tokens = with_store(context, async |store| Ok(store.tokens().await?))?;
    let Some(mut token) = tokens.into_iter().find(|token| token.id == id) else {
        return Err(Failure::usage(format!("there is no token `{id}`"))
            .help("see them: bailiwick tokens list"));
    };
    let now: Moment = now();
    token.revoked_at.get_or_insert(now);
    keep(context, &token, "TokenRevoked")?;
    output::done(format, format_args!("{id} revoked"), &json!({ "id": id, "revoked": true }))
}
