//! Pages of objects. Each page is one statement: its objects and its version are of one moment.
//!
//! Every way to select is an ordered list of its own: a term's, a namespace's, a kind's. The shortest
//! is walked from where the page begins, and what it finds is looked up in the others.

use bailiwick_fleet::ports::{FleetError, Page, Selection};
use sqlx::Row as _;

use super::Fleet;
use super::row::columns;
use super::terms::{Term, field, label};
use super::values::{limit, signed};

/// How far lists are counted to find the shortest.
const COUNTED: i64 = 500;

/// A value of a statement.
#[derive(Debug, Clone)]
enum Given {
    Text(String),
    Number(i64),
}

/// A statement as it grows.
#[derive(Debug, Default)]
struct Statement {
    text: String,
    given: Vec<Given>,
}

impl Statement {
    fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    fn give(&mut self, value: Given) -> &mut Self {
        self.given.push(value);
        let place = format!("${}", self.given.len());
        self.push(&place)
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.give(Given::Text(value.to_owned()))
    }

    fn number(&mut self, value: i64) -> &mut Self {
        self.give(Given::Number(value))
    }

    async fn rows(self, fleet: &Fleet) -> Result<Vec<sqlx::any::AnyRow>, FleetError> {
        let mut query = sqlx::query(sqlx::AssertSqlSafe(self.text));
        for given in self.given {
            query = match given {
                Given::Text(text) => query.bind(text),
                Given::Number(number) => query.bind(number),
            };
        }
        query.fetch_all(&fleet.pool).await.map_err(|error| fleet.failed(&error))
    }
}

/// One way to select.
#[derive(Debug, Clone)]
enum Way {
    Term(Term),
    Namespace(String),
}

impl Way {
    /// Begins a condition on the list of this way, that is called `name`.
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
    pub(super) async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        let after = match &selection.after {
            None => None,
            Some(text) => Some(text.parse::<u64>().map_err(|_| {
                FleetError::Unavailable(format!(
                    "`{text}` is no place in a list; give back what the page before named as next"
                ))
            })?),
        };
        let ways = self.ways(selection).await?;
        let rows = page(selection, after, &ways).rows(self).await?;
        let mut page = Page::default();
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let read = || Ok((row.try_get::<i64, _>(0)?, row.try_get::<Option<i64>, _>(1)?));
            let (version, born) = read().map_err(|error: sqlx::Error| self.failed(&error))?;
            page.version = version.unsigned_abs();
            found.extend(born.map(|born| (born, row)));
        }
        // The database would copy whole rows to sort them.
        found.sort_by_key(|(born, _)| *born);
        if selection.newest_first {
            found.reverse();
        }
        if found.len() > selection.limit {
            found.truncate(selection.limit);
            page.next = found.last().map(|(born, _)| born.to_string());
        }
        for (_, row) in found {
            page.objects.push(self.kept(selection.kind, row, 1)?.object);
        }
        Ok(page)
    }

    /// The ways to select, the one with the shortest list first.
    async fn ways(&self, selection: &Selection) -> Result<Vec<Way>, FleetError> {
        let kind = selection.kind;
        let labels = selection.labels.iter().map(|(name, value)| (label(kind, name), value));
        let fields = selection.fields.iter().map(|(name, value)| (field(kind, name), value));
        let terms = fields.chain(labels).map(|(term, value)| Way::Term((term, value.clone())));
        let namespace = selection.namespace.clone().map(Way::Namespace);
        let ways: Vec<Way> = terms.chain(namespace).collect();
        if ways.len() < 2 {
            return Ok(ways);
        }
        let mut counting = Statement::default();
        for (number, way) in ways.iter().enumerate() {
            counting.push(if number == 0 { "SELECT " } else { ", " });
            counting.push("(SELECT COUNT(*) FROM (SELECT 1 FROM ");
            way.list(selection, "l", &mut counting);
            counting.push(&format!(" LIMIT {COUNTED}) AS c)"));
        }
        let rows = counting.rows(self).await?;
        let row = rows.first().ok_or_else(|| self.broken("nothing was counted"))?;
        let mut counted = Vec::with_capacity(ways.len());
        for (number, way) in ways.into_iter().enumerate() {
            let count: i64 = row.try_get(number).map_err(|error| self.failed(&error))?;
            counted.push((count, way));
        }
        counted.sort_by_key(|(count, _)| *count);
        Ok(counted.into_iter().map(|(_, way)| way).collect())
    }
}

/// The statement of a page, with one object more than it may have.
fn page(selection: &Selection, after: Option<u64>, ways: &[Way]) -> Statement {
    let mut statement = Statement::default();
    statement.push("SELECT v.version, ").push(&columns("r"));
    statement.push(
        " FROM (SELECT COALESCE(MAX(version), 0) AS version FROM resource_changes) v \
         LEFT JOIN (SELECT l.born FROM ",
    );
    match ways.split_first() {
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
        some => limit(some).saturating_add(1),
    };
    // As part of the text: a statement whose limit is given anew is prepared anew by SQLite.
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

    /// Asked of the database itself: nothing is read through but the page, and nothing is sorted.
    #[tokio::test]
    async fn no_page_reads_through_all_objects() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Location::file(directory.path().join("x.db"))).await.unwrap();
        let all = Selection::of(Kind::AgentDispatchRun);
        let spaced = Selection { namespace: Some("default".to_owned()), ..all.clone() };
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let one = all.clone().field("status", "failed");
        let many = Selection { labels, ..spaced.clone().field("stack", "x").field("status", "y") };
        for selection in [all, spaced, one, many] {
            for (newest_first, after) in [(true, None), (false, Some(7)), (true, Some(9))] {
                let selection = Selection { newest_first, ..selection.clone() };
                let ways = store.fleet.ways(&selection).await.unwrap();
                // Whichever list turns out to be the shortest.
                for turn in 0..ways.len().max(1) {
                    let mut ways = ways.clone();
                    ways.rotate_left(turn);
                    let mut statement = page(&selection, after, &ways);
                    // SQLite would prepare it anew for each page.
                    assert!(!statement.text.contains("LIMIT $"), "{}", statement.text);
                    statement.text.insert_str(0, "EXPLAIN QUERY PLAN ");
                    let rows = statement.rows(&store.fleet).await.unwrap();
                    let plan: Vec<String> = rows.iter().map(|row| row.get(3)).collect();
                    let searched = plan.iter().any(|step| step.starts_with("SEARCH l "));
                    assert!(searched, "{plan:#?}");
                    let page = ["SCAN v", "SCAN p LEFT-JOIN"];
                    let slow = plan.iter().find(|step| {
                        let walked = step.starts_with("SCAN") && !page.contains(&step.as_str());
                        walked || step.contains("TEMP B-TREE")
                    });
                    assert_eq!(slow, None, "{plan:#?}");
                }
            }
        }
    }
}
