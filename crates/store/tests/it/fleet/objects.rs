//! Random objects for the tests.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    AuditEntry, IncomingDelivery, PersonRecord, SESSION_ID_PREFIX, SavedFilter, TokenRecord,
    TokenScope,
};
use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{
    API_VERSION, AnyObject, ForgeKind, Kind, Metadata, Moment, WebhookDelivery,
};
use bailiwick_testkit::random::Random;
use serde_json::{Value, json};

/// The kinds of random objects.
pub(crate) const KINDS: [Kind; 5] = [
    Kind::AgentDispatchRun,
    Kind::AgentStack,
    Kind::ConfigMap,
    Kind::AgentApproval,
    Kind::AgentTriggerExecution,
];
pub(crate) const NAMESPACES: [&str; 2] = ["default", "other"];
pub(crate) const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
/// Words with and without a meaning in SQL or in patterns.
pub(crate) const WORDS: [&str; 9] =
    ["x", "y", "", "null", "7", "o'clock; --", "%_*", "Ünïcödé \u{1f980}", "nul\u{0}inside"];

/// Digests of stored bytes that objects name.
pub(crate) const DIGESTS: [&str; 3] = [
    "1111111111111111111111111111111111111111111111111111111111111111",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

pub(crate) fn pick<'a, T: ?Sized>(random: &mut Random, from: &[&'a T]) -> &'a T {
    from[random.below(from.len())]
}

pub(crate) fn moment(random: &mut Random) -> Moment {
    Moment::from_millis(1_790_000_000_000 + random.number() % 1_000_000_000)
}

fn value(random: &mut Random) -> Value {
    match random.below(9) {
        0 => Value::Null,
        7 => match random.below(3) {
            0 => json!({ "deep": [{ "digest": format!("sha256:{}", pick(random, &DIGESTS)) }] }),
            _ => json!(pick(random, &DIGESTS)),
        },
        1 => json!(random.below(3)),
        // Numbers with a long shortest representation: rounding would change them.
        2 => json!(f64::from_bits(0x3fb9_9999_0000_0000 | (random.number() >> 32))),
        3 => json!({ "inner": pick(random, &WORDS) }),
        4 => json!([pick(random, &WORDS), random.number()]),
        // Few different values, so that a selection matches several objects.
        5 | 6 => json!(pick(random, &["x", "y"])),
        _ => json!(pick(random, &WORDS)),
    }
}

fn fields(random: &mut Random, names: &[&str]) -> Value {
    let mut fields = serde_json::Map::new();
    for name in names {
        if !random.once_in(3) {
            fields.insert((*name).to_owned(), value(random));
        }
    }
    Value::Object(fields)
}

pub(crate) fn spec(random: &mut Random) -> Value {
    let names = ["agentStack", "taskKind", "dispatchRun", "decision", "triggerRule", "free"];
    let mut spec = fields(random, &names);
    if random.once_in(2) {
        spec["sourceRefs"] = fields(random, &["pullRequest", "issue"]);
    }
    spec
}

pub(crate) fn status(random: &mut Random) -> Value {
    if random.once_in(4) { Value::Null } else { fields(random, &["phase", "agentMuxRunId"]) }
}

pub(crate) fn labels(random: &mut Random) -> BTreeMap<String, String> {
    let count = random.below(4);
    let label = |random: &mut Random| {
        let name = pick(random, &["team", "Ünïcödé \u{1f980}", "status", "o'clock; --"]);
        (name.to_owned(), pick(random, &WORDS).to_owned())
    };
    (0..count).map(|_| label(random)).collect()
}

pub(crate) fn object(random: &mut Random) -> AnyObject {
    let kind = KINDS[random.below(KINDS.len())];
    AnyObject {
        api_version: API_VERSION.to_owned(),
        kind,
        metadata: Metadata {
            namespace: pick(random, &NAMESPACES).to_owned(),
            labels: labels(random),
            annotations: labels(random),
            // The store must ignore these fields.
            uid: "forged".to_owned(),
            generation: 77,
            ..Metadata::named(pick(random, &NAMES))
        },
        spec: spec(random),
        status: status(random),
    }
}

pub(crate) fn delivery(name: &str, payload: &[u8], received_at: Moment) -> IncomingDelivery {
    IncomingDelivery {
        name: name.to_owned(),
        spec: WebhookDelivery {
            forge: ForgeKind::Gitea,
            delivery_id: name.to_owned(),
            event: "push".to_owned(),
            repository: "acme".to_owned(),
            payload_digest: Sha256Hex::of(payload).to_string(),
            bytes: payload.len() as u64,
            received_at,
            happened_at: None,
            headers: BTreeMap::from([("x-event".to_owned(), "push".to_owned())]),
        },
        payload: payload.to_vec(),
    }
}

pub(crate) fn token(random: &mut Random) -> TokenRecord {
    let scopes =
        [TokenScope::Viewer, TokenScope::Operator, TokenScope::Approver, TokenScope::Admin];
    let optional_moment = |random: &mut Random| random.once_in(2).then(|| moment(random));
    let prefix = if random.once_in(2) { SESSION_ID_PREFIX } else { "" };
    TokenRecord {
        id: format!("{prefix}{}", pick(random, &NAMES)),
        actor: pick(random, &WORDS).to_owned(),
        scope: scopes[random.below(4)],
        digest: pick(random, &["d1", "d2", "d3", "d4"]).to_owned(),
        created_at: moment(random),
        expires_at: optional_moment(random),
        revoked_at: optional_moment(random),
    }
}

pub(crate) fn person(random: &mut Random) -> PersonRecord {
    PersonRecord {
        name: pick(random, &WORDS).to_owned(),
        groups: (0..random.below(3)).map(|_| pick(random, &NAMES).to_owned()).collect(),
        signed_in_at: moment(random),
        valid_until: moment(random),
    }
}

/// The people who have filters.
pub(crate) const OWNERS: [&str; 2] = ["ada", "bob"];

pub(crate) fn filter(random: &mut Random) -> SavedFilter {
    SavedFilter {
        owner: pick(random, &OWNERS).to_owned(),
        name: pick(random, &WORDS).to_owned(),
        query: pick(random, &WORDS).to_owned(),
    }
}

pub(crate) fn audit(random: &mut Random) -> AuditEntry {
    AuditEntry {
        at: moment(random),
        actor: pick(random, &WORDS).to_owned(),
        event: "AgentApprovalDecision".to_owned(),
        subject: format!("AgentApproval/default/{}", pick(random, &NAMES)),
        correlation: labels(random),
        detail: value(random),
    }
}
