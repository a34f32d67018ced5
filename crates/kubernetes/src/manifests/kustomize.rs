//! A base for kustomize: one file for each object, and the list of them.

use k8s_openapi::Resource;
use serde::Serialize;

use super::Manifests;

/// A file of a directory, by its path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its path, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Manifests {
    /// The objects, each in a file that is named like its kind, in the order in which they are made.
    pub fn files(&self) -> Result<Vec<ManifestFile>, serde_saphyr::SerializeError> {
        let mut files = vec![
            file(&self.namespace)?,
            file(&self.account)?,
            file(&self.claim)?,
            file(&self.network)?,
            file(&self.deployment)?,
            file(&self.disruption)?,
        ];
        files.extend(self.service.as_ref().map(file).transpose()?);
        Ok(files)
    }

    /// The objects as a base for kustomize.
    pub fn kustomize(&self) -> Result<Vec<ManifestFile>, serde_saphyr::SerializeError> {
        let mut files = self.files()?;
        let listed: String = files.iter().map(|file| format!("- {}\n", file.path)).collect();
        let text = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{listed}"
        );
        files.push(ManifestFile { path: "kustomization.yaml".to_owned(), text });
        Ok(files)
    }
}

fn file<T: Resource + Serialize>(object: &T) -> Result<ManifestFile, serde_saphyr::SerializeError> {
    let text = serde_saphyr::to_string(object)?;
    let path = format!("{}.yaml", T::KIND.to_lowercase());
    Ok(ManifestFile { path, text: format!("{}\n", text.trim_end()) })
}
