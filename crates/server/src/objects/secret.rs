//! Values that nobody may see: they go in, and never come out of the API again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, Values, Write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::asked::{Answer, Asked, ok};
use crate::problem::Problem;

const MOST_KEYS: usize = 64;
const LONGEST_VALUE: usize = 1024 * 1024;

/// Values to be set; keys that are not named keep theirs.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
pub struct SecretValues {
    /// Values that are text.
    pub values: BTreeMap<String, String>,
    /// Values that are not, in base64.
    pub base64_values: BTreeMap<String, String>,
}

fn is_key(key: &str) -> bool {
    (1..=253).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The values as bytes. No error repeats one.
fn bytes(asked: &Asked) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let shape = "send {\"values\": {\"key\": \"text\"}} or {\"base64Values\": {\"key\": \"…\"}}";
    let given: SecretValues = asked.json().map_err(|problem| Problem {
        message: shape.to_owned(),
        reasons: Vec::new(),
        ..problem
    })?;
    let mut values: BTreeMap<String, Vec<u8>> =
        given.values.into_iter().map(|(key, value)| (key, value.into_bytes())).collect();
    for (key, value) in given.base64_values {
        let field = format!("base64Values.{key}");
        let value =
            STANDARD.decode(value).map_err(|_| Problem::fault(&field, "this is no base64"))?;
        if values.insert(key, value).is_some() {
            return Err(Problem::fault(&field, "this key is among the values too"));
        }
    }
    if values.is_empty() || values.len() > MOST_KEYS {
        return Err(Problem::fault("values", format!("send from 1 to {MOST_KEYS} keys")));
    }
    for (key, value) in &values {
        if !is_key(key) {
            let message = "a key is made of letters, digits, `-`, `_` and `.`";
            return Err(Problem::fault("values", message));
        }
        if value.is_empty() || value.len() > LONGEST_VALUE {
            let message = format!("a value has from 1 to {LONGEST_VALUE} bytes");
            return Err(Problem::fault(&format!("values.{key}"), message));
        }
    }
    Ok(values)
}

pub(crate) async fn set_secret<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(&[])?;
    let target = asked.target()?;
    let values = bytes(asked)?;
    let keys: Vec<&String> = values.keys().collect();
    let subject = format!("Secret/{}/{}", target.namespace, target.name);
    let line = asked.audit("AgentSecretRotated", subject, json!({ "keys": keys }));
    let (namespace, name) = (target.namespace, target.name);
    let set = Write::Secret { namespace, name, values: Values(values) };
    let applied = app.store.commit(vec![set, Write::Audit(line)], asked.now).await?;
    ok(&applied.objects.first())
}
