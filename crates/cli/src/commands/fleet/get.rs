//! `bailiwick get`: lists resources, and watches them.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_engine::context::Context;
use bailiwick_fleet::ports::{Change, ChangeKind, FleetStore, Selection, indexed_fields};
use bailiwick_resources::{AnyObject, Kind};
use clap::Args;

use super::columns::{header, row};
use super::named::{Named, fetch, named};
use super::{Namespace, ShownAs, documents, now};
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output;
use crate::view::plain;

/// How many objects are read at once.
const PAGE: usize = 500;
/// How long a watch waits before it looks again, in milliseconds.
const WAIT: u64 = 5_000;

/// List resources
///
/// Select runs by the fields status, source, stack, taskKind, pool, repository, branch,
/// pullRequest, issue and rule.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick get stacks\n  bailiwick get runs --field status=running \
                  --field stack=fixer\n  bailiwick get run adr-… -o yaml\n  bailiwick get approvals --watch"
)]
pub struct Get {
    /// KIND [NAME…], or KIND/NAME…
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
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "human")]
    shown: ShownAs,
}

/// A key and its value.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("write `{text}` as KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Where an object is: its namespace and its name.
fn place(object: &AnyObject) -> (String, String) {
    (object.metadata.namespace.clone(), object.metadata.name.clone())
}

impl Get {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let all = named(&self.objects)?;
        for one in &all {
            self.require_known_fields(one.kind)?;
        }
        if self.watch && all.len() > 1 {
            return Err(Failure::usage("watch one kind at a time"));
        }
        with_store(context, async |store| {
            for one in &all {
                let (objects, version) = self.find(store, one).await?;
                self.show(one, &objects)?;
                if self.watch {
                    let shown = objects.iter().map(place).collect();
                    self.follow(store, one, version, shown).await?;
                }
            }
            Ok(())
        })
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

    async fn find<S: FleetStore>(
        &self,
        store: &S,
        one: &Named,
    ) -> Result<(Vec<AnyObject>, u64), Failure> {
        if !one.names.is_empty() {
            let version = store.list(&self.selection(one.kind, 1)).await?.version;
            return Ok((fetch(store, one, &self.namespace.namespace).await?, version));
        }
        let most = self.last.unwrap_or(usize::MAX);
        let mut selection = self.selection(one.kind, PAGE.min(most));
        let mut found = Vec::new();
        loop {
            let page = store.list(&selection).await?;
            found.extend(page.objects);
            if found.len() >= most || page.next.is_none() {
                found.truncate(most);
                return Ok((found, page.version));
            }
            selection.after = page.next;
        }
    }

    fn selection(&self, kind: Kind, limit: usize) -> Selection {
        let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
        Selection {
            namespace: (!self.all_namespaces).then(|| self.namespace.namespace.clone()),
            labels: map(&self.labels),
            fields: map(&self.fields),
            limit,
            newest_first: self.last.is_some(),
            ..Selection::of(kind)
        }
    }

    fn show(&self, one: &Named, objects: &[AnyObject]) -> Result<(), Failure> {
        match self.shown {
            ShownAs::Json => match (objects, one.names.len()) {
                ([object], 1) => output::json(object),
                (all, _) => output::json(&all),
            },
            ShownAs::Yaml => {
                for (number, object) in objects.iter().enumerate() {
                    if number > 0 {
                        output::line("---");
                    }
                    output::text_out(documents::yaml(object)?);
                }
                Ok(())
            }
            ShownAs::Name => {
                for object in objects {
                    output::line(format_args!("{}/{}", object.kind.short(), object.metadata.name));
                }
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide if objects.is_empty() => {
                output::note(format_args!("no {}", one.kind.plural()));
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide => {
                let wide = self.shown == ShownAs::Wide;
                let rows: Vec<Vec<String>> =
                    objects.iter().map(|object| row(object, wide, now())).collect();
                output::table(&header(one.kind, wide), &rows);
                Ok(())
            }
        }
    }

    async fn follow<S: FleetStore>(
        &self,
        store: &S,
        one: &Named,
        mut version: u64,
        mut shown: BTreeSet<(String, String)>,
    ) -> Result<(), Failure> {
        loop {
            store.wait_for_change(version, WAIT).await;
            for change in store.changes(version, PAGE).await? {
                version = change.version;
                let place = place(&change.object);
                if self.may_match(one, &change) {
                    match change.kind {
                        ChangeKind::Added | ChangeKind::Modified => shown.insert(place),
                        ChangeKind::Deleted => shown.remove(&place),
                    };
                    self.tell(&change)?;
                } else if change.object.kind == one.kind && shown.remove(&place) {
                    self.tell_left(&change)?;
                }
            }
        }
    }

    /// That something which was shown is not among what was selected any more.
    fn tell_left(&self, change: &Change) -> Result<(), Failure> {
        let AnyObject { kind, metadata, .. } = &change.object;
        match self.shown {
            ShownAs::Json => output::json(&serde_json::json!({
                "type": "LEFT",
                "version": change.version,
                "object": { "kind": kind, "metadata": {
                    "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid,
                } },
            })),
            ShownAs::Yaml => {
                output::line(format_args!("---\n# {}/{} left", kind.short(), metadata.name));
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide | ShownAs::Name => {
                let cells = row(&change.object, self.shown == ShownAs::Wide, now());
                output::line(format_args!("{:9} {}", "left", plain(&cells.join("  "))));
                Ok(())
            }
        }
    }

    fn may_match(&self, one: &Named, change: &Change) -> bool {
        let object = &change.object;
        let labels = &object.metadata.labels;
        let whole = serde_json::to_value(object).unwrap_or_default();
        let field = |(name, wanted): &(String, String)| {
            let place = indexed_fields(object.kind).iter().find(|(known, _)| known == name);
            let value = place.and_then(|(_, pointer)| whole.pointer(pointer));
            value.is_some_and(|value| {
                value.as_str().map_or_else(|| value.to_string(), str::to_owned) == *wanted
            })
        };
        object.kind == one.kind
            && (one.names.is_empty() || one.names.contains(&object.metadata.name))
            && (self.all_namespaces || object.metadata.namespace == self.namespace.namespace)
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.fields.iter().all(field)
    }

    fn tell(&self, change: &Change) -> Result<(), Failure> {
        match self.shown {
            ShownAs::Json => output::json(change),
            ShownAs::Yaml => {
                output::line("---");
                output::text_out(documents::yaml(&change.object)?);
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide | ShownAs::Name => {
                let word = match change.kind {
                    ChangeKind::Added => "added",
                    ChangeKind::Modified => "modified",
                    ChangeKind::Deleted => "deleted",
                };
                let cells = row(&change.object, self.shown == ShownAs::Wide, now());
                output::line(format_args!("{word:9} {}", plain(&cells.join("  "))));
                Ok(())
            }
        }
    }
}
