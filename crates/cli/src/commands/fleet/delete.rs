//! `bailiwick delete`: deletes resources.

use std::path::PathBuf;

use bailiwick_client::FleetClient;
use bailiwick_fleet::ports::{Selection, Target};
use bailiwick_fleet::resources::DeclareError;
use bailiwick_resources::{AnyObject, Author, Kind, Metadata};
use clap::Args;
use serde_json::json;

use super::access::FleetAccess;
use super::get::pair;
use super::named::{Named, fetch, named};
use super::{Namespace, documents};
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// The number of objects in one read.
const PAGE: usize = 500;

/// Delete resources
///
/// Records (runs, deliveries, approvals) cannot be deleted.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick delete stack fixer\n  bailiwick delete trigger/ci pool/small\n  \
                  bailiwick delete -f fleet.yaml\n  bailiwick delete configmaps -l team=x --dry-run"
)]
pub struct Delete {
    /// KIND NAME…, or KIND/NAME…; with a selector KIND alone
    #[arg(required_unless_present = "files", value_name = "OBJECT")]
    objects: Vec<String>,
    /// Delete the objects of these documents: files or directories; `-` is standard input
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        conflicts_with_all = ["objects", "labels", "namespace"]
    )]
    files: Vec<PathBuf>,
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
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let all = self.named(fleet)?;
        fleet.ask(async |client| {
            let mut found = Vec::new();
            for (namespace, one) in &all {
                found.extend(self.find(client, one, namespace).await?);
            }
            let mut deleted = Vec::new();
            for object in &found {
                self.delete(client, object).await?;
                let Metadata { namespace, name, .. } = &object.metadata;
                deleted.push(json!({
                    "kind": object.kind, "namespace": namespace, "name": name,
                    "dry_run": self.dry_run,
                }));
            }
            if self.format.format == Format::Json {
                return output::json(&deleted);
            }
            if let ([], [(_, one)]) = (found.as_slice(), all.as_slice()) {
                output::note(format_args!("no {}", one.kind.plural()));
            }
            Ok(())
        })
    }

    /// The named objects, with their namespaces.
    fn named(&self, fleet: &FleetAccess) -> Result<Vec<(String, Named)>, Failure> {
        if !self.files.is_empty() {
            // The last document first: it may need those before it.
            let documents = documents::read(&fleet.context, &self.files)?.objects.into_iter().rev();
            let each = documents.map(|document| {
                let Metadata { namespace, name, .. } = document.metadata;
                (namespace, Named { kind: document.kind, names: vec![name] })
            });
            return Ok(each.collect());
        }
        let all = named(&self.objects)?;
        match (all.iter().any(|one| one.names.is_empty()), self.labels.is_empty()) {
            (true, true) => {
                Err(Failure::usage("name an object: all of a kind cannot be deleted at once"))
            }
            (false, false) => Err(Failure::usage("give names, or a selector")),
            (true, false) | (false, true) => {
                let namespace = fleet.namespace(&self.namespace);
                Ok(all.into_iter().map(|one| (namespace.clone(), one)).collect())
            }
        }
    }

    /// Finds all objects before one is deleted.
    async fn find(
        &self,
        client: &dyn FleetClient,
        one: &Named,
        namespace: &str,
    ) -> Result<Vec<AnyObject>, Failure> {
        if one.kind.author() == Author::ControlPlane {
            let name = one.names.first().cloned().unwrap_or_else(|| "*".to_owned());
            return Err(DeclareError::Recorded { kind: one.kind, name }.into());
        }
        if !self.files.is_empty() && one.kind == Kind::Secret {
            let name = one.names.first().cloned().unwrap_or_default();
            return Err(DeclareError::Secret { kind: one.kind, name }.into());
        }
        if !one.names.is_empty() {
            return fetch(client, one, namespace).await;
        }
        let mut selection = Selection {
            namespace: Some(namespace.to_owned()),
            labels: self.labels.iter().cloned().collect(),
            limit: PAGE,
            ..Selection::of(one.kind)
        };
        let mut found = Vec::new();
        loop {
            let page = client.list(&selection).await?;
            found.extend(page.objects);
            if page.next.is_none() {
                return Ok(found);
            }
            selection.after = page.next;
        }
    }

    async fn delete(&self, client: &dyn FleetClient, object: &AnyObject) -> Result<(), Failure> {
        let Metadata { namespace, name, resource_version, .. } = &object.metadata;
        // Named objects are deleted at any version; selected ones must not have changed since the selection.
        let version = if self.labels.is_empty() { 0 } else { *resource_version };
        if !self.dry_run {
            let target = Target { namespace: namespace.clone(), name: name.clone() };
            client.delete(object.kind, &target, version).await?;
        }
        let would = if self.dry_run { " (dry run)" } else { "" };
        if self.format.format == Format::Human {
            output::line(format_args!("{}/{name} deleted{would}", object.kind.short()));
        }
        Ok(())
    }
}
