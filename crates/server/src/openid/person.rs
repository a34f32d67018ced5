//! The person that the claims describe: a name, groups, and the scope that follows from them.

use bailiwick_fleet::ports::TokenScope;
use serde_json::Value;
use thiserror::Error;

use super::id_token::Claims;
use crate::sign_in_settings::SignInSettings;

const MAX_GROUPS: usize = 1_000;
const MAX_GROUP_LENGTH: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    pub(crate) scope: TokenScope,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PersonError {
    #[error("the provider does not send the claim `{0}`, which names the person")]
    Nameless(String),
    #[error("the provider has not verified the email address")]
    Unverified,
    #[error("the claim `{0}` is not a list of at most {MAX_GROUPS} group names")]
    Groups(String),
    #[error("`{0}` is in no group that may use this server")]
    NoScope(String),
}

pub(crate) fn person(claims: &Claims, settings: &SignInSettings) -> Result<Person, PersonError> {
    let claim = &settings.username_claim;
    let name = claims.get(claim).and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(PersonError::Nameless(claim.clone()));
    }
    // Anybody could claim another person's address.
    let verified = claims.get("email_verified").is_some_and(|value| *value == Value::Bool(true));
    if claim == "email" && !verified {
        return Err(PersonError::Unverified);
    }
    let groups = groups(claims, &settings.groups_claim)?;
    let granted = settings.group_scopes.iter().filter(|(group, _)| groups.contains(group));
    let scope = granted.map(|(_, scope)| *scope).max().max(settings.default_scope);
    let scope = scope.ok_or_else(|| PersonError::NoScope(name.to_owned()))?;
    Ok(Person { name: name.to_owned(), groups, scope })
}

fn groups(claims: &Claims, claim: &str) -> Result<Vec<String>, PersonError> {
    let invalid = || PersonError::Groups(claim.to_owned());
    let name = |value: &Value| {
        let text = value.as_str().filter(|text| (1..=MAX_GROUP_LENGTH).contains(&text.len()));
        text.map(str::to_owned).ok_or_else(invalid)
    };
    let mut groups: Vec<String> = match claims.get(claim) {
        None | Some(Value::Null) => Vec::new(),
        // Some providers send a single group as a text.
        Some(one @ Value::String(_)) => vec![name(one)?],
        Some(Value::Array(all)) if all.len() <= MAX_GROUPS => {
            all.iter().map(name).collect::<Result<_, _>>()?
        }
        Some(Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err(invalid());
        }
    };
    groups.sort();
    groups.dedup();
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> SignInSettings {
        SignInSettings {
            issuer: "https://id.example".to_owned(),
            client_id: "bailiwick".to_owned(),
            client_secret: None,
            public_url: "https://bailiwick.example".to_owned(),
            username_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
            requested_scopes: Vec::new(),
            group_scopes: vec![
                ("devs".to_owned(), TokenScope::Operator),
                ("leads".to_owned(), TokenScope::Approver),
            ],
            default_scope: None,
            lifetime: std::time::Duration::from_secs(60),
        }
    }

    fn person_of(claims: Value, settings: &SignInSettings) -> Result<Person, PersonError> {
        person(claims.as_object().unwrap(), settings)
    }

    #[test]
    fn highest_scope_of_the_groups_applies() {
        let both =
            person_of(json!({ "sub": "ada", "groups": ["leads", "devs", "devs"] }), &settings());
        let both = both.unwrap();
        assert_eq!((both.name.as_str(), both.scope), ("ada", TokenScope::Approver));
        assert_eq!(both.groups, ["devs", "leads"]);
        let one = person_of(json!({ "sub": "ada", "groups": "devs" }), &settings()).unwrap();
        assert_eq!(one.scope, TokenScope::Operator);
    }

    #[test]
    fn person_without_a_known_group_needs_a_default_scope() {
        for claims in [json!({ "sub": "eve" }), json!({ "sub": "eve", "groups": ["others"] })] {
            let refused = person_of(claims.clone(), &settings());
            assert_eq!(refused, Err(PersonError::NoScope("eve".to_owned())));
            let open = SignInSettings { default_scope: Some(TokenScope::Viewer), ..settings() };
            assert_eq!(person_of(claims, &open).unwrap().scope, TokenScope::Viewer);
        }
    }

    #[test]
    fn claims_of_wrong_types_are_refused() {
        assert!(matches!(person_of(json!({}), &settings()), Err(PersonError::Nameless(_))));
        assert!(matches!(
            person_of(json!({ "sub": 7 }), &settings()),
            Err(PersonError::Nameless(_))
        ));
        for groups in [json!([1]), json!({ "devs": true }), json!([""]), json!(vec!["x"; 1_001])] {
            let refused = person_of(json!({ "sub": "ada", "groups": groups }), &settings());
            assert!(matches!(refused, Err(PersonError::Groups(_))), "{groups}");
        }
    }

    #[test]
    fn unverified_email_address_is_refused() {
        let by_email = SignInSettings { username_claim: "email".to_owned(), ..settings() };
        let claims = |verified: Value| json!({ "email": "ada@example.org", "groups": ["devs"], "email_verified": verified });
        assert!(person_of(claims(json!(true)), &by_email).is_ok());
        for verified in [json!(false), json!("true"), Value::Null] {
            assert_eq!(person_of(claims(verified), &by_email), Err(PersonError::Unverified));
        }
    }
}
