//! `bailiwick get`: lists resources.

mod watch;

use std::collections::BTreeMap;
use std::str::FromStr;

use bailiwick_client::FleetClient;
use bailiwick_fleet::ports::{Selection, indexed_fields};
use bailiwick_resources::{AnyObject, Kind};
use clap::Args;
use serde_json::{Value, json};

use super::access::FleetAccess;
use super::columns::{header, row};
use super::json_path::Expression;
use super::named::{Named, fetch, named};
use super::{Namespace, documents, now};
use crate::failure::Failure;
use crate::output;

/// The number of objects in one read.
const PAGE: usize = 500;

/// List resources
///
/// Select runs by the fields status, source, stack, taskKind, pool, repository, branch,
/// pullRequest, issue and rule.
///
/// `-o jsonpath=EXPRESSION` prints what one expression of RFC 9535 selects, a line for each result;
/// templates are not supported. If one object is named, `$` is that object; else the objects are in
/// `$.items`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick get stacks\n  bailiwick get stacks,pools\n  bailiwick get \
                  runs --field status=running --field stack=fixer\n  bailiwick get runs --sort-by \
                  .status.completedAt\n  bailiwick get run adr-… -o yaml\n  bailiwick get runs -o \
                  jsonpath='{.items[*].metadata.name}'\n  bailiwick get approvals --watch"
)]
pub struct Get {
    /// KIND[,KIND…] [NAME…], or KIND/NAME…
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    #[command(flatten)]
    namespace: Namespace,
    /// List objects of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only objects with this label
    #[arg(short = 'l', long = "selector", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Only objects with this value in a field
    #[arg(long = "field", value_name = "FIELD=VALUE", value_parser = pair)]
    fields: Vec<(String, String)>,
    /// Maximum number of objects, newest first
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Sort by a field, as .metadata.name; default: oldest first
    #[arg(long, value_name = "JSONPATH", value_parser = Expression::parse)]
    sort_by: Option<Expression>,
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
    /// Output format: human, wide, yaml, json, name or jsonpath=EXPRESSION
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "human")]
    shown: ShownAs,
}

/// How objects are shown.
#[derive(Debug, Clone)]
enum ShownAs {
    /// A table for people.
    Human,
    /// The table, with every column.
    Wide,
    /// Documents.
    Yaml,
    /// For programs.
    Json,
    /// Kinds and names alone.
    Name,
    /// The selection of an expression.
    JsonPath(Expression),
}

impl FromStr for ShownAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.split_once('=')) {
            ("human", _) => Ok(Self::Human),
            ("wide", _) => Ok(Self::Wide),
            ("yaml", _) => Ok(Self::Yaml),
            ("json", _) => Ok(Self::Json),
            ("name", _) => Ok(Self::Name),
            (_, Some(("jsonpath", expression))) => {
                Expression::parse(expression).map(Self::JsonPath)
            }
            _ => Err("use human, wide, yaml, json, name or jsonpath=EXPRESSION".to_owned()),
        }
    }
}

/// A key and its value.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("write `{text}` as KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The found objects of one kind.
struct Found {
    kind: Kind,
    objects: Vec<AnyObject>,
}

impl Get {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let all = named(&self.objects)?;
        for one in &all {
            self.require_known_fields(one.kind)?;
        }
        let namespace = fleet.namespace(&self.namespace);
        let one_object = matches!(all.as_slice(), [one] if one.names.len() == 1);
        if self.watch {
            let [one] = all.as_slice() else {
                return Err(Failure::usage("watch one kind at a time"));
            };
            return fleet.ask(async |client| {
                let (mut objects, version) = self.find(client, one, &namespace).await?;
                self.sort(&mut objects)?;
                let found = Found { kind: one.kind, objects };
                self.show(std::slice::from_ref(&found), one_object)?;
                self.follow(client, one, &namespace, (version, &found.objects)).await
            });
        }
        let found = fleet.ask(async |client| {
            let mut found = Vec::new();
            for one in &all {
                let (mut objects, _) = self.find(client, one, &namespace).await?;
                self.sort(&mut objects)?;
                found.push(Found { kind: one.kind, objects });
            }
            Ok(found)
        })?;
        self.show(&found, one_object)
    }

    fn require_known_fields(&self, kind: Kind) -> Result<(), Failure> {
        let known: Vec<&str> = indexed_fields(kind).iter().map(|(name, _)| *name).collect();
        match self.fields.iter().find(|(field, _)| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some((field, _)) if known.is_empty() => {
                Err(Failure::usage(format!("{kind} cannot be selected by `{field}`")))
            }
            Some((field, _)) => {
                let message = format!("{kind} cannot be selected by `{field}`");
                Err(Failure::usage(message).help(format!("use one of {}", known.join(", "))))
            }
        }
    }

    /// The objects, and the version to watch from.
    async fn find(
        &self,
        client: &dyn FleetClient,
        one: &Named,
        namespace: &str,
    ) -> Result<(Vec<AnyObject>, u64), Failure> {
        if !one.names.is_empty() {
            let version = match self.watch {
                true => client.list(&self.selection(one.kind, namespace, 1)).await?.version,
                false => 0,
            };
            return Ok((fetch(client, one, namespace).await?, version));
        }
        let most = self.last.unwrap_or(usize::MAX);
        let mut selection = self.selection(one.kind, namespace, PAGE.min(most));
        let mut found = Vec::new();
        loop {
            let page = client.list(&selection).await?;
            found.extend(page.objects);
            if found.len() >= most || page.next.is_none() {
                found.truncate(most);
                return Ok((found, page.version));
            }
            selection.after = page.next;
        }
    }

    fn selection(&self, kind: Kind, namespace: &str, limit: usize) -> Selection {
        let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
        Selection {
            namespace: (!self.all_namespaces).then(|| namespace.to_owned()),
            labels: map(&self.labels),
            fields: map(&self.fields),
            limit,
            newest_first: self.last.is_some(),
            ..Selection::of(kind)
        }
    }

    fn sort(&self, objects: &mut Vec<AnyObject>) -> Result<(), Failure> {
        let Some(by) = &self.sort_by else { return Ok(()) };
        let mut keyed = Vec::new();
        for object in objects.drain(..) {
            keyed.push((value(&object)?, object));
        }
        keyed.sort_by(|(one, _), (other, _)| by.compare(one, other));
        objects.extend(keyed.into_iter().map(|(_, object)| object));
        Ok(())
    }

    fn show(&self, found: &[Found], one_object: bool) -> Result<(), Failure> {
        let all = || found.iter().flat_map(|found| &found.objects);
        match &self.shown {
            ShownAs::Json => match (all().next(), one_object) {
                (Some(object), true) => output::json(object),
                (_, _) => output::json(&all().collect::<Vec<_>>()),
            },
            ShownAs::JsonPath(expression) => {
                let root = match (all().next(), one_object) {
                    (Some(object), true) => value(object)?,
                    (_, _) => json!({ "items": all().map(value).collect::<Result<Vec<_>, _>>()? }),
                };
                expression.select(&root).into_iter().for_each(output::line);
                Ok(())
            }
            ShownAs::Yaml => {
                for (number, object) in all().enumerate() {
                    if number > 0 {
                        output::line("---");
                    }
                    output::text_out(documents::yaml(object)?);
                }
                Ok(())
            }
            ShownAs::Name => {
                for object in all() {
                    output::line(format_args!("{}/{}", object.kind.short(), object.metadata.name));
                }
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide => {
                self.tables(found);
                Ok(())
            }
        }
    }

    fn tables(&self, found: &[Found]) {
        let mut shown = 0;
        for Found { kind, objects } in found {
            if objects.is_empty() {
                output::note(format_args!("no {}", kind.plural()));
                continue;
            }
            if shown > 0 {
                output::line("");
            }
            shown += 1;
            let wide = self.is_wide();
            let rows: Vec<Vec<String>> =
                objects.iter().map(|object| row(object, wide, now())).collect();
            output::table(&header(*kind, wide), &rows);
        }
    }

    fn is_wide(&self) -> bool {
        matches!(self.shown, ShownAs::Wide)
    }
}

fn value(object: &AnyObject) -> Result<Value, Failure> {
    serde_json::to_value(object).map_err(|error| Failure::general(error.to_string()))
}
