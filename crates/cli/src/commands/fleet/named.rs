//! Objects as people name them: `stack fixer`, `stack/fixer`, `stacks`, `stacks,pools`.

use bailiwick_client::FleetClient;
use bailiwick_fleet::ports::Target;
use bailiwick_resources::{AnyObject, Kind};

use crate::failure::Failure;

/// A kind, and perhaps names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The kind.
    pub kind: Kind,
    /// The names; all of the kind when empty.
    pub names: Vec<String>,
}

/// Reads `KIND[,KIND…] [NAME…]` or `KIND/NAME…`.
pub fn named(words: &[String]) -> Result<Vec<Named>, Failure> {
    let Some((first, rest)) = words.split_first() else {
        return Err(Failure::usage("say which kind").help(KINDS));
    };
    if !first.contains('/') {
        let kinds = first.split(',').map(kind);
        return kinds.map(|kind| Ok(Named { kind: kind?, names: rest.to_vec() })).collect();
    }
    words
        .iter()
        .map(|word| match word.split_once('/') {
            Some((one, name)) => Ok(Named { kind: kind(one)?, names: vec![name.to_owned()] }),
            None => {
                let message = format!("`{word}` has no kind; write every object as KIND/NAME");
                Err(Failure::usage(message))
            }
        })
        .collect()
}

const KINDS: &str = "for example: stacks, triggers, runs, approvals, repositories, pools, secrets";

/// A kind by one of its names.
pub fn kind(text: &str) -> Result<Kind, Failure> {
    text.parse::<Kind>().map_err(|error| Failure::usage(error.to_string()).help(KINDS))
}

/// The objects that are meant, each of which must exist.
pub async fn fetch(
    client: &dyn FleetClient,
    named: &Named,
    namespace: &str,
) -> Result<Vec<AnyObject>, Failure> {
    let mut found = Vec::new();
    for name in &named.names {
        let target = Target { namespace: namespace.to_owned(), name: name.clone() };
        match client.get(named.kind, &target).await? {
            Some(object) => found.push(object),
            None => return Err(missing(named.kind, name)),
        }
    }
    Ok(found)
}

/// The error for an object that does not exist.
pub fn missing(kind: Kind, name: &str) -> Failure {
    let help = format!("see them: bailiwick get {}", kind.plural());
    Failure::usage(format!("there is no {kind} `{name}`")).help(help)
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::{Named, named};

    #[test]
    fn objects_can_be_named_in_two_ways() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let read = named(&words(&["stacks", "a", "b"])).unwrap();
        assert_eq!(read, [Named { kind: Kind::AgentStack, names: words(&["a", "b"]) }]);
        let read = named(&words(&["stack/a", "pool/b"])).unwrap();
        assert_eq!(read.len(), 2);
        let read = named(&words(&["stacks,pools", "a"])).unwrap();
        let names = words(&["a"]);
        let both = [Kind::AgentStack, Kind::RunnerPool];
        assert_eq!(read, both.map(|kind| Named { kind, names: names.clone() }));
        assert!(named(&words(&["stacks,"])).is_err());
        assert!(named(&words(&["stack/a", "b"])).is_err());
        assert!(named(&words(&["stakc"])).is_err());
        assert!(named(&[]).is_err());
    }
}
