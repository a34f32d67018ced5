//! The name of the installation, in the database of its server: a ConfigMap there that the first operator for Jobs makes.
//!
//! An operator whose database belongs to another installation does not start. It would take the Jobs of its own for
//! orphans, and make Jobs under its name for attempts of others.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{FleetError, FleetStore, Write};
use bailiwick_kubernetes::manifests::Label;
use bailiwick_resources::{
    AnyObject, ConfigMap, DEFAULT_NAMESPACE, Kind, Metadata, Moment, Object, ObjectError,
};
use thiserror::Error;

/// The name of the ConfigMap.
pub const INSTALLATION_NAME: &str = "bailiwick-jobs";
const INSTALLATION: &str = "installation";

/// Why an operator may not use a database.
#[derive(Debug, Error)]
pub enum InstallationError {
    #[error(
        "the database belongs to the installation `{known}`, and this operator has the name `{ours}`; check \
         --database and --installation, or rename the installation: `bailiwick delete configmap bailiwick-jobs`"
    )]
    OtherInstallation { known: String, ours: String },
    #[error("ConfigMap `bailiwick-jobs` of the server cannot be read: {0}")]
    Malformed(#[from] ObjectError),
    #[error("the name of the installation cannot be stored: {0}")]
    Store(#[from] FleetError),
}

/// Stores the name of the installation if the database has none. Refuses a database that has another one.
pub async fn claim_installation<S: FleetStore>(
    store: &S,
    installation: &Label,
    now: Moment,
) -> Result<(), InstallationError> {
    if known(store).await?.is_none() {
        let data = BTreeMap::from([(INSTALLATION.to_owned(), installation.to_string())]);
        let object = Object::new(Metadata::named(INSTALLATION_NAME), ConfigMap { data });
        match store.commit(vec![Write::Create(AnyObject::of(&object)?)], now).await {
            // Another operator was faster; what it has stored counts.
            Ok(_) | Err(FleetError::AlreadyExists { .. } | FleetError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let known = known(store).await?.unwrap_or_default();
    match known == installation.to_string() {
        true => Ok(()),
        false => {
            Err(InstallationError::OtherInstallation { known, ours: installation.to_string() })
        }
    }
}

async fn known<S: FleetStore>(store: &S) -> Result<Option<String>, InstallationError> {
    let found = store.get(Kind::ConfigMap, DEFAULT_NAMESPACE, INSTALLATION_NAME).await?;
    let Some(found) = found else { return Ok(None) };
    let found = found.typed::<ConfigMap>()?;
    Ok(Some(found.spec.data.get(INSTALLATION).cloned().unwrap_or_default()))
}
