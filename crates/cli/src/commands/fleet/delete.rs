//! `bailiwick delete`: takes resources away.

use bailiwick_engine::context::Context;
use bailiwick_fleet::ports::{FleetStore, Selection};
use bailiwick_fleet::resources::{self, DeclareError};
use bailiwick_resources::{AnyObject, Author, Metadata};
use clap::Args;
use serde_json::json;

use super::get::pair;
use super::named::{Named, fetch, named};
use super::{Namespace, actor, now};
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// How many objects are read at once.
const PAGE: usize = 500;

/// Delete resources
///
/// Records (runs, deliveries, approvals) cannot be deleted.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick delete stack fixer\n  bailiwick delete trigger/ci pool/small\n  \
                  bailiwick delete configmaps -l team=x --dry-run"
)]
pub struct Delete {
    /// KIND NAME…, or KIND/NAME…; with a selector KIND alone
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    #[command(flatten)]
    namespace: Namespace,
    /// Delete all objects of the kind with this label
    #[arg(short = 'l', long = "selector", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Only print what would be deleted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl Delete {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let all = named(&self.objects)?;
        match (all.iter().any(|one| one.names.is_empty()), self.labels.is_empty()) {
            (true, true) => {
                return Err(Failure::usage("say which one; there is no word for all"));
            }
            (false, false) => return Err(Failure::usage("give names, or a selector")),
            (true, false) | (false, true) => {}
        }
        let actor = actor()?;
        with_store(context, async |store| {
            let mut found = Vec::new();
            for one in &all {
                found.extend(self.find(store, one).await?);
            }
            let mut deleted = Vec::new();
            for object in &found {
                self.take_away(store, object, &actor).await?;
                let Metadata { namespace, name, .. } = &object.metadata;
                deleted.push(json!({
                    "kind": object.kind, "namespace": namespace, "name": name,
                    "dry_run": self.dry_run,
                }));
            }
            if self.format.format == Format::Json {
                return output::json(&deleted);
            }
            if let ([], [one]) = (found.as_slice(), all.as_slice()) {
                output::note(format_args!("no {}", one.kind.plural()));
            }
            Ok(())
        })
    }

    /// What is meant, before anything of it goes.
    async fn find<S: FleetStore>(&self, store: &S, one: &Named) -> Result<Vec<AnyObject>, Failure> {
        if one.kind.author() == Author::ControlPlane {
            let name = one.names.first().cloned().unwrap_or_else(|| "*".to_owned());
            return Err(DeclareError::Recorded { kind: one.kind, name }.into());
        }
        let namespace = &self.namespace.namespace;
        if !one.names.is_empty() {
            return fetch(store, one, namespace).await;
        }
        let mut selection = Selection {
            namespace: Some(namespace.clone()),
            labels: self.labels.iter().cloned().collect(),
            limit: PAGE,
            ..Selection::of(one.kind)
        };
        let mut found = Vec::new();
        loop {
            let page = store.list(&selection).await?;
            found.extend(page.objects);
            if page.next.is_none() {
                return Ok(found);
            }
            selection.after = page.next;
        }
    }

    async fn take_away<S: FleetStore>(
        &self,
        store: &S,
        object: &AnyObject,
        actor: &str,
    ) -> Result<(), Failure> {
        let (kind, metadata) = (object.kind, &object.metadata);
        let (namespace, name) = (metadata.namespace.as_str(), metadata.name.as_str());
        // What was named goes as it is; what was selected must still be what was selected.
        let version = if self.labels.is_empty() { 0 } else { metadata.resource_version };
        if !self.dry_run {
            resources::delete(store, kind, namespace, name, version, actor, now()).await?;
        }
        let would = if self.dry_run { " (dry run)" } else { "" };
        if self.format.format == Format::Human {
            output::line(format_args!("{}/{name} deleted{would}", kind.short()));
        }
        Ok(())
    }
}
