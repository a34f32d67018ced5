//! The filters of the list of runs, as the address has them.

use bailiwick_resources::{EventSource, RunPhase};
use serde::Deserialize;

use crate::fleet::word;
use crate::text::encoded;

/// The query of the page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct RunsQuery {
    pub(crate) group: String,
    pub(crate) text: String,
    status: String,
    source: String,
    stack: String,
    task_kind: String,
    pool: String,
    branch: String,
    pull_request: String,
    issue: String,
    rule: String,
    pub(crate) after: String,
}

/// A field of the form.
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// The values to choose from; empty if any text can be written.
    pub(crate) options: Vec<String>,
}

fn joined<'q>(pairs: impl IntoIterator<Item = (&'static str, &'q str)>) -> String {
    let set = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let set: Vec<String> = set.map(|(key, value)| format!("{key}={}", encoded(value))).collect();
    set.join("&")
}

impl RunsQuery {
    /// The filters that only runs of the control plane have, with their labels.
    fn fleet(&self) -> [(&'static str, &'static str, &str); 9] {
        [
            ("status", "Status", &self.status),
            ("source", "Source", &self.source),
            ("stack", "Stack", &self.stack),
            ("taskKind", "Task kind", &self.task_kind),
            ("pool", "Runner pool", &self.pool),
            ("branch", "Branch", &self.branch),
            ("pullRequest", "Pull request", &self.pull_request),
            ("issue", "Issue", &self.issue),
            ("rule", "Rule", &self.rule),
        ]
    }

    pub(crate) fn fields(&self) -> Vec<Field> {
        let field = |(key, label, value): (&'static str, &'static str, &str)| Field {
            key,
            label,
            value: value.to_owned(),
            options: match key {
                "status" => RunPhase::ALL.iter().map(|phase| phase.as_str().to_owned()).collect(),
                "source" => EventSource::ALL.iter().map(word).collect(),
                _ => Vec::new(),
            },
        };
        self.fleet().into_iter().map(field).collect()
    }

    pub(crate) fn has_fields(&self) -> bool {
        self.fleet().iter().any(|(_, _, value)| !value.is_empty())
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let own = [("group", self.group.as_str()), ("text", self.text.as_str())];
        own.into_iter().chain(self.fleet().into_iter().map(|(key, _, value)| (key, value)))
    }

    /// The filters without a cursor, as the page and the API write them.
    pub(crate) fn filter(&self) -> String {
        joined(self.pairs())
    }

    /// The same filters in another group.
    pub(crate) fn in_group(&self, group: &str) -> Self {
        Self { group: group.to_owned(), ..self.clone() }
    }

    /// The query of this page with another cursor.
    pub(crate) fn page(&self, after: &str) -> String {
        joined(self.pairs().chain([("after", after)]))
    }

    pub(crate) fn api_path(&self, size: usize) -> String {
        let query = joined(self.pairs().chain([("continue", self.after.as_str())]));
        let separator = if query.is_empty() { "" } else { "&" };
        format!("/api/v1alpha1/all-runs?limit={size}{separator}{query}")
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_server::FLEET_FILTERS;

    use super::*;

    #[test]
    fn query_has_every_api_filter_and_contains_only_set_filters() {
        let query =
            RunsQuery { text: "a&b".to_owned(), issue: "7".to_owned(), ..RunsQuery::default() };
        assert_eq!(query.fleet().map(|(key, ..)| key), FLEET_FILTERS);
        assert_eq!(query.filter(), "text=a%26b&issue=7");
        assert_eq!(query.page("x~"), "text=a%26b&issue=7&after=x~");
        assert_eq!(query.api_path(2), "/api/v1alpha1/all-runs?limit=2&text=a%26b&issue=7");
        assert_eq!(RunsQuery::default().api_path(2), "/api/v1alpha1/all-runs?limit=2");
        assert!(query.has_fields() && !RunsQuery::default().has_fields());
    }
}
