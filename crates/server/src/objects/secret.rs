//! Sets secret values. The API never returns them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, Values, Write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok};

const MAX_KEYS: usize = 64;
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Values to set; other keys keep their values.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
pub struct SecretValues {
    /// Text values.
    pub values: BTreeMap<String, String>,
    /// Binary values in base64.
    pub base64_values: BTreeMap<String, String>,
}

fn is_key(key: &str) -> bool {
    (1..=253).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The values as bytes. Errors never contain a value.
fn bytes(request: &ApiRequest) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let shape = "send {\"values\": {\"key\": \"text\"}} or {\"base64Values\": {\"key\": \"…\"}}";
    let sent: SecretValues = request.json().map_err(|problem| Problem {
        message: shape.to_owned(),
        reasons: Vec::new(),
        ..problem
    })?;
    let mut values: BTreeMap<String, Vec<u8>> =
        sent.values.into_iter().map(|(key, value)| (key, value.into_bytes())).collect();
    for (key, value) in sent.base64_values {
        let field = format!("base64Values.{key}");
        let value = STANDARD
            .decode(value)
            .map_err(|_| Problem::invalid_field(&field, "this is not base64"))?;
        if values.insert(key, value).is_some() {
            return Err(Problem::invalid_field(&field, "this key is also in `values`"));
        }
    }
    if values.is_empty() || values.len() > MAX_KEYS {
        return Err(Problem::invalid_field("values", format!("send from 1 to {MAX_KEYS} keys")));
    }
    for (key, value) in &values {
        if !is_key(key) {
            let message = "a key consists of letters, digits, `-`, `_` and `.`";
            return Err(Problem::invalid_field("values", message));
        }
        if value.is_empty() || value.len() > MAX_VALUE_BYTES {
            let message = format!("a value has from 1 to {MAX_VALUE_BYTES} bytes");
            return Err(Problem::invalid_field(&format!("values.{key}"), message));
        }
    }
    Ok(values)
}

pub(crate) async fn set_secret<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let target = request.target()?;
    let values = bytes(request)?;
    let keys: Vec<&String> = values.keys().collect();
    let subject = format!("Secret/{}/{}", target.namespace, target.name);
    let entry = request.audit("AgentSecretRotated", subject, json!({ "keys": keys }));
    let (namespace, name) = (target.namespace, target.name);
    let set = Write::Secret { namespace, name, values: Values(values) };
    let applied = app.store.commit(vec![set, Write::Audit(entry)], request.now).await?;
    ok(&applied.objects.first())
}
