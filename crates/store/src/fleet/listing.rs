//! Pages of objects. One statement reads a page, so its objects and its version are consistent.
//!
//! Each filter (index term or namespace) has an ordered list of objects. The statement walks the shortest list
//! from the start of the page and checks each object against the other filters.

use bailiwick_fleet::ports::{FleetError, Page, Selection};
use sqlx::Row as _;

use super::Fleet;
use super::row::columns;
use super::statements::{limit, signed};
use super::terms::{Term, field, label};
use crate::sql::escaped;

/// How far lists are counted to find the shortest one.
const MAX_COUNTED: i64 = 500;

#[derive(Debug, Clone)]
enum Parameter {
    Text(String),
    Number(i64),
}

/// A statement under construction.
#[derive(Debug, Default)]
struct Statement {
    text: String,
    parameters: Vec<Parameter>,
}

impl Statement {
    fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    fn bind(&mut self, value: Parameter) -> &mut Self {
        self.parameters.push(value);
        let placeholder = format!("${}", self.parameters.len());
        self.push(&placeholder)
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.bind(Parameter::Text(value.to_owned()))
    }

    fn number(&mut self, value: i64) -> &mut Self {
        self.bind(Parameter::Number(value))
    }

    async fn rows(self, fleet: &Fleet) -> Result<Vec<sqlx::any::AnyRow>, FleetError> {
        let mut query = sqlx::query(sqlx::AssertSqlSafe(self.text));
        for parameter in self.parameters {
            query = match parameter {
                Parameter::Text(text) => query.bind(text),
                Parameter::Number(number) => query.bind(number),
            };
        }
        query.fetch_all(&fleet.pool).await.map_err(|error| fleet.database_error(&error))
    }
}

/// A filter with its own ordered list of objects.
#[derive(Debug, Clone)]
enum Filter {
    Term(Term),
    Namespace(String),
}

impl Filter {
    /// Starts a condition on the list of this filter, with `name` as its alias.
    fn list(&self, selection: &Selection, name: &str, statement: &mut Statement) {
        match self {
            Self::Term((term, value)) => {
                statement.push(&format!("resource_terms {name} WHERE {name}.term = ")).text(term);
                statement.push(&format!(" AND {name}.value = ")).text(value);
            }
            Self::Namespace(namespace) => {
                statement.push(&format!("resources {name} WHERE {name}.kind = "));
                statement.text(selection.kind.as_str());
                statement.push(&format!(" AND {name}.namespace = ")).text(namespace);
            }
        }
    }
}

impl Fleet {
    pub(crate) async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        let after = match &selection.after {
            None => None,
            Some(text) => Some(
                text.parse::<u64>().map_err(|_| FleetError::InvalidContinuation(text.clone()))?,
            ),
        };
        let filters = self.filters(selection).await?;
        let rows = page(selection, after, &filters).rows(self).await?;
        let mut page = Page::default();
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let read = || Ok((row.try_get::<i64, _>(0)?, row.try_get::<Option<i64>, _>(1)?));
            let (version, born) =
                read().map_err(|error: sqlx::Error| self.database_error(&error))?;
            page.version = version.unsigned_abs();
            found.extend(born.map(|born| (born, row)));
        }
        // Sorted here, because the database would copy whole rows to sort them.
        found.sort_by_key(|(born, _)| *born);
        if selection.newest_first {
            found.reverse();
        }
        if found.len() > selection.limit {
            found.truncate(selection.limit);
            page.next = found.last().map(|(born, _)| born.to_string());
        }
        for (_, row) in found {
            page.objects.push(self.stored(selection.kind, row, 1)?.object);
        }
        Ok(page)
    }

    /// The filters of a selection, the one with the shortest list first.
    async fn filters(&self, selection: &Selection) -> Result<Vec<Filter>, FleetError> {
        let kind = selection.kind;
        let labels = selection.labels.iter().map(|(name, value)| (label(kind, name), value));
        let fields = selection.fields.iter().map(|(name, value)| (field(kind, name), value));
        let terms = fields.chain(labels).map(|(term, value)| Filter::Term((term, escaped(value))));
        let namespace = selection.namespace.clone().map(Filter::Namespace);
        let filters: Vec<Filter> = terms.chain(namespace).collect();
        if filters.len() < 2 {
            return Ok(filters);
        }
        let mut counting = Statement::default();
        for (number, filter) in filters.iter().enumerate() {
            counting.push(if number == 0 { "SELECT " } else { ", " });
            counting.push("(SELECT COUNT(*) FROM (SELECT 1 FROM ");
            filter.list(selection, "l", &mut counting);
            counting.push(&format!(" LIMIT {MAX_COUNTED}) AS c)"));
        }
        let rows = counting.rows(self).await?;
        let row = rows.first().ok_or_else(|| self.unavailable("the count has no result"))?;
        let mut counted = Vec::with_capacity(filters.len());
        for (number, filter) in filters.into_iter().enumerate() {
            let count: i64 = row.try_get(number).map_err(|error| self.database_error(&error))?;
            counted.push((count, filter));
        }
        counted.sort_by_key(|(count, _)| *count);
        Ok(counted.into_iter().map(|(_, filter)| filter).collect())
    }
}

/// The statement of a page, with one object more than the limit.
fn page(selection: &Selection, after: Option<u64>, filters: &[Filter]) -> Statement {
    let mut statement = Statement::default();
    statement.push("SELECT v.version, ").push(&columns("r"));
    statement.push(
        " FROM (SELECT COALESCE(MAX(version), 0) AS version FROM resource_changes) v \
         LEFT JOIN (SELECT l.born FROM ",
    );
    match filters.split_first() {
        None => {
            statement.push("resources l WHERE l.kind = ").text(selection.kind.as_str());
        }
        Some((shortest, others)) => {
            shortest.list(selection, "l", &mut statement);
            for other in others {
                statement.push(" AND EXISTS (SELECT 1 FROM ");
                other.list(selection, "o", &mut statement);
                statement.push(" AND o.born = l.born)");
            }
        }
    }
    if let Some(after) = after {
        statement.push(if selection.newest_first { " AND l.born < " } else { " AND l.born > " });
        statement.number(signed(after));
    }
    let order = if selection.newest_first { "DESC" } else { "ASC" };
    let count = match selection.limit {
        0 => 0,
        max => limit(max).saturating_add(1),
    };
    // The limit is part of the text: as a parameter it would make SQLite prepare the statement again.
    statement.push(&format!(" ORDER BY l.born {order} LIMIT {count}"));
    statement.push(") p ON TRUE LEFT JOIN resources r ON r.born = p.born");
    statement
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bailiwick_fleet::ports::Selection;
    use bailiwick_resources::Kind;
    use sqlx::Row as _;

    use super::page;
    use crate::{Location, Store};

    /// According to the query plan, only the page is scanned and nothing is sorted.
    #[tokio::test]
    async fn no_page_scans_all_objects() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Location::file(directory.path().join("x.db"))).await.unwrap();
        let all_runs = Selection::of(Kind::AgentDispatchRun);
        let in_namespace = Selection { namespace: Some("default".to_owned()), ..all_runs.clone() };
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let one_term = all_runs.clone().field("status", "failed");
        let many_terms =
            Selection { labels, ..in_namespace.clone().field("stack", "x").field("status", "y") };
        for selection in [all_runs, in_namespace, one_term, many_terms] {
            for (newest_first, after) in [(true, None), (false, Some(7)), (true, Some(9))] {
                let selection = Selection { newest_first, ..selection.clone() };
                let filters = store.fleet.filters(&selection).await.unwrap();
                // Each list can be the shortest one.
                for rotation in 0..filters.len().max(1) {
                    let mut filters = filters.clone();
                    filters.rotate_left(rotation);
                    let mut statement = page(&selection, after, &filters);
                    // SQLite would prepare it again for each page.
                    assert!(!statement.text.contains("LIMIT $"), "{}", statement.text);
                    statement.text.insert_str(0, "EXPLAIN QUERY PLAN ");
                    let rows = statement.rows(&store.fleet).await.unwrap();
                    let plan: Vec<String> = rows.iter().map(|row| row.get(3)).collect();
                    let searched = plan.iter().any(|step| step.starts_with("SEARCH l "));
                    assert!(searched, "{plan:#?}");
                    let page = ["SCAN v", "SCAN p LEFT-JOIN"];
                    let slow = plan.iter().find(|step| {
                        let scanned = step.starts_with("SCAN") && !page.contains(&step.as_str());
                        scanned || step.contains("TEMP B-TREE")
                    });
                    assert_eq!(slow, None, "{plan:#?}");
                }
            }
        }
    }
}
