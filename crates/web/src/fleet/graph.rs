//! A picture of what a run needs and who grants it, made on the server.

use std::fmt::Write as _;

use bailiwick_fleet::ports::PermissionReview;
use bailiwick_resources::{KeysRef, Kind};

use crate::text::{escaped, line};

/// A need of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// `Role`, `Secret`, `Config map` or a missing grant.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) is_missing: bool,
}

const ROW: usize = 44;
const WIDTH: usize = 760;
const MAX_LABEL: usize = 29;

/// What the run needs, and the grants that are missing.
pub(crate) fn nodes(review: &PermissionReview) -> Vec<Node> {
    let node = |kind, name: String| Node { kind, name, is_missing: false };
    let keys = |keys: &KeysRef| match keys.keys.is_empty() {
        true => keys.name.clone(),
        false => format!("{} ({})", keys.name, keys.keys.join(", ")),
    };
    let mut all: Vec<Node> = Vec::new();
    all.extend(review.required_roles.iter().map(|role| node("Role", role.clone())));
    all.extend(review.required_secrets.iter().map(|one| node("Secret", keys(one))));
    all.extend(review.required_configs.iter().map(|one| node("Config map", keys(one))));
    all.extend(review.missing_grants.iter().map(|grant| Node {
        kind: missing(grant.kind),
        name: format!("{}: {}", grant.suggested_name, grant.reason),
        is_missing: true,
    }));
    all
}

fn missing(kind: Kind) -> &'static str {
    let known = [
        (Kind::AgentSecretGrant, "Missing secret grant"),
        (Kind::AgentConfigGrant, "Missing config grant"),
        (Kind::AgentRoleBinding, "Missing role binding"),
    ];
    known.into_iter().find(|(one, _)| *one == kind).map_or("Missing grant", |(_, text)| text)
}

fn rectangle(out: &mut String, (x, y): (usize, usize), class: &str, kind: &str, name: &str) {
    let whole = escaped(&line(name, 400));
    let short = escaped(&line(name, MAX_LABEL));
    let (above, below) = (y + 14, y + 29);
    let left = x + 8;
    let _ = write!(
        out,
        "<g class=\"node {class}\"><title>{kind} {whole}</title><rect x=\"{x}\" y=\"{y}\" width=\"228\" height=\"36\" \
         rx=\"6\"/><text class=\"kind\" x=\"{left}\" y=\"{above}\">{kind}</text><text x=\"{left}\" \
         y=\"{below}\">{short}</text></g>"
    );
}

/// The picture: stack and identities at the left and in the middle, what is needed at the right. Every text in it is
/// escaped here.
pub(crate) fn picture(stack: &str, review: &PermissionReview, nodes: &[Node]) -> String {
    let rows = nodes.len().max(2);
    let height = rows * ROW + 8;
    let middle = height / 2 - 18;
    let mut edges = String::new();
    let mut shapes = String::new();
    rectangle(&mut shapes, (4, middle), "", "Stack", stack);
    let identity = review.runtime_identity.as_deref().unwrap_or("none");
    let class = if review.runtime_identity.is_none() { "missing" } else { "" };
    rectangle(&mut shapes, (264, middle), class, "Runs as", identity);
    let line_between = |out: &mut String, from: (usize, usize), to: (usize, usize), class: &str| {
        let bend = from.0 + (to.0 - from.0) / 2;
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            out,
            "<path class=\"edge {class}\" d=\"M{x1} {y1} C{bend} {y1} {bend} {y2} {x2} {y2}\"/>"
        );
    };
    line_between(&mut edges, (232, middle + 18), (264, middle + 18), class);
    for (row, node) in nodes.iter().enumerate() {
        let y = 4 + row * ROW;
        let class = if node.is_missing { "missing" } else { "" };
        rectangle(&mut shapes, (526, y), class, node.kind, &node.name);
        line_between(&mut edges, (492, middle + 18), (526, y + 18), class);
    }
    format!(
        "<svg class=\"graph\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"What the run needs; the table below has the same facts\">{edges}{shapes}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::PermissionDecision;
    use bailiwick_resources::MissingGrant;

    use super::*;

    fn review() -> PermissionReview {
        PermissionReview {
            decision: PermissionDecision::Denied,
            runtime_identity: Some("fixer".to_owned()),
            runner_identity: None,
            required_roles: vec!["reader".to_owned()],
            required_secrets: vec![KeysRef {
                name: "<script>\"".to_owned(),
                namespace: None,
                keys: vec!["token".to_owned()],
            }],
            required_configs: Vec::new(),
            missing_grants: vec![MissingGrant {
                kind: Kind::AgentSecretGrant,
                suggested_name: "fixer-key".to_owned(),
                reason: "no grant".to_owned(),
                blocking: true,
            }],
            approval_requirements: Vec::new(),
            yaml_preview: Vec::new(),
            reasons: Vec::new(),
            snapshot_digest: String::new(),
        }
    }

    #[test]
    fn missing_grant_is_marked_and_text_is_escaped() {
        let review = review();
        let nodes = nodes(&review);
        assert_eq!(nodes.iter().filter(|node| node.is_missing).count(), 1);
        let svg = picture("fixer", &review, &nodes);
        assert!(svg.contains("node missing") && svg.contains("Missing secret grant"), "{svg}");
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&quot; (token)"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 5);
    }
}
