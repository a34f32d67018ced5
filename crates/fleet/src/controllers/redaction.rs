//! Which values are secret: those of the store, those that the machine's owner names, those of the repository.

use std::sync::Arc;

use bailiwick_resources::{AgentDispatchRun, Kind, Object, Secret};

use super::ReconcileError;
use super::objects::ObjectQueries as _;
use crate::admission::Inventory;
use crate::bundle::{RedactionError, RedactionRules, Redactor};
use crate::ports::{FleetError, Launched, ObjectStore, SecretStore, Selection, StackSources};

/// Builds redactors for what agents read and write.
pub(super) struct Redaction<S, W> {
    store: Arc<S>,
    world: Arc<W>,
}

impl<S, W> Redaction<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>) -> Self {
        Self { store, world }
    }
}

impl<S: ObjectStore + SecretStore, W: StackSources> Redaction<S, W> {
    /// Rules with every value of the secrets of an inventory.
    pub(super) async fn stored_values(
        &self,
        inventory: &Inventory,
    ) -> Result<RedactionRules, ReconcileError> {
        let mut known = Vec::new();
        for secret in inventory.all::<Secret>()? {
            for key in secret.spec.keys.keys() {
                let home = &secret.metadata.namespace;
                let value = self.store.secret_value(home, secret.name(), key).await?;
                known.extend(value.and_then(|value| String::from_utf8(value).ok()));
            }
        }
        Ok(RedactionRules { known, ..RedactionRules::default() })
    }

    /// The redactor for what the agent of a run writes, or why there is none.
    pub(super) async fn redactor(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<Result<Redactor, RedactionError>, ReconcileError> {
        let secrets = Inventory::new(self.store.all(Selection::of(Kind::Secret)).await?);
        let mut rules = match self.stored_values(&secrets).await {
            Ok(rules) => rules,
            // The store's own words may name files, so that only the value is named.
            Err(ReconcileError::Store(FleetError::Undecryptable { value, .. })) => {
                return Ok(Err(RedactionError::Unknown(format!("{value} cannot be opened"))));
            }
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            Err(error) => return Ok(Err(RedactionError::Unknown(error.to_string()))),
        };
        match self.world.redactions().await {
            Ok(personal) => rules.personal = personal,
            Err(error) => return Ok(Err(RedactionError::Unknown(error.to_string()))),
        }
        match self.store.repository(&run.spec.repository).await {
            Ok(repository) => rules.repository.clone_from(&repository.spec.policy.redact),
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            // The repository is gone, and its rules with it.
            Err(_) => {}
        }
        Ok(Redactor::new(&rules))
    }

    /// The same, for stored texts.
    pub(super) async fn texts(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<TextRedactor, ReconcileError> {
        Ok(TextRedactor(self.redactor(run).await?))
    }
}

/// Removes secrets from what is stored of an attempt.
pub(super) struct TextRedactor(Result<Redactor, RedactionError>);

impl TextRedactor {
    /// A text without secrets; nothing of it where the secrets are unknown.
    pub(super) fn clean(&self, text: &str) -> String {
        match &self.0 {
            // Once by the known values, and once by the patterns that write-back searches for.
            Ok(redactor) => bailiwick_model::secret::redacted(&redactor.redact(text).text),
            Err(_) if text.is_empty() => String::new(),
            Err(error) => format!("its words are not kept: {error}"),
        }
    }

    pub(super) fn redactor(&self) -> Result<&Redactor, &RedactionError> {
        self.0.as_ref()
    }

    /// The report of an attempt without secrets.
    pub(super) fn redact_report(&self, launched: &Launched) -> Launched {
        let mut launched = launched.clone();
        launched.detail = self.clean(&launched.detail);
        if let Some(work) = &mut launched.work {
            work.verdict = self.clean(&work.verdict);
        }
        launched
    }
}
