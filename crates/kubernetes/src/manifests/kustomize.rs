//! Directories for kustomize: one file for each kind of object, and the list of them.

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

impl ManifestFile {
    /// The file in a directory.
    pub fn inside(self, directory: &str) -> Self {
        Self { path: format!("{directory}/{}", self.path), ..self }
    }
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
        Ok(with_list(self.files()?))
    }
}

/// The files, and the list of them with which they are a directory for kustomize.
pub(super) fn with_list(mut files: Vec<ManifestFile>) -> Vec<ManifestFile> {
    let listed: String = files.iter().map(|file| format!("- {}\n", file.path)).collect();
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{listed}"
    );
    files.push(ManifestFile { path: "kustomization.yaml".to_owned(), text });
    files
}

/// The file of an object.
pub(super) fn file<T: Resource + Serialize>(
    object: &T,
) -> Result<ManifestFile, serde_saphyr::SerializeError> {
    let text = serde_saphyr::to_string(object)?;
    Ok(ManifestFile { path: path::<T>(), text: format!("{}\n", text.trim_end()) })
}

/// The file of all objects of a kind.
pub(super) fn file_of_all<T: Resource + Serialize>(
    objects: &[T],
) -> Result<ManifestFile, serde_saphyr::SerializeError> {
    let mut documents = Vec::new();
    for object in objects {
        documents.push(serde_saphyr::to_string(object)?);
    }
    Ok(ManifestFile { path: path::<T>(), text: crate::documents(&documents) })
}

fn path<T: Resource>() -> String {
    format!("{}.yaml", T::KIND.to_lowercase())
}
