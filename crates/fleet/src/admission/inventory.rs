//! What was found: every object that admission looks at, and what could not be listed.

use std::collections::BTreeMap;

use bailiwick_resources::{AnyObject, Kind, Object, ObjectError, Resource};
use thiserror::Error;

/// Why the objects of a kind are not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InventoryError {
    /// The kind could not be listed.
    #[error("{} could not be listed: {why}", .kind.plural())]
    Unlistable { kind: Kind, why: String },
    /// One of them cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ObjectError),
}

/// Objects by kind, namespace and name, as they were read at one moment.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    objects: BTreeMap<(Kind, String, String), AnyObject>,
    unlistable: BTreeMap<Kind, String>,
}

/// What a look for one object brought.
#[derive(Clone)]
pub enum Found<R: Resource> {
    /// It is there.
    Here(Box<Object<R>>),
    /// It is not.
    Missing,
    /// Its kind could not be listed, or it cannot be read.
    Unknown(String),
}

impl<R: Resource> Found<R> {
    /// The object, if it is there.
    pub fn here(self) -> Option<Object<R>> {
        match self {
            Self::Here(object) => Some(*object),
            Self::Missing | Self::Unknown(_) => None,
        }
    }

    /// Why it is not at hand; nothing if it is.
    pub fn absence(&self) -> Option<String> {
        match self {
            Self::Here(_) => None,
            Self::Missing => Some("it is not there".to_owned()),
            Self::Unknown(why) => Some(format!("nobody knows: {why}")),
        }
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl Inventory {
    /// Of these objects.
    pub fn new(objects: impl IntoIterator<Item = AnyObject>) -> Self {
        let mut inventory = Self::default();
        for object in objects {
            inventory.add(object);
        }
        inventory
    }

    /// With one more object, in the place of one of the same kind and name.
    pub fn add(&mut self, object: AnyObject) {
        let key = (object.kind, object.metadata.namespace.clone(), object.metadata.name.clone());
        self.objects.insert(key, object);
    }

    /// Without an object.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.objects.remove(&(kind, namespace.to_owned(), name.to_owned()));
    }

    /// With a kind that could not be listed: whatever needs it is unknown.
    #[must_use]
    pub fn unlistable(mut self, kind: Kind, why: impl Into<String>) -> Self {
        self.unlistable.insert(kind, why.into());
        self
    }

    /// Why a kind could not be listed.
    pub fn why_unlistable(&self, kind: Kind) -> Option<&str> {
        self.unlistable.get(&kind).map(String::as_str)
    }

    /// One object.
    pub fn get<R: Resource>(&self, namespace: &str, name: &str) -> Found<R> {
        if let Err(error) = self.require_listed(R::KIND) {
            return Found::Unknown(error.to_string());
        }
        match self.objects.get(&(R::KIND, namespace.to_owned(), name.to_owned())) {
            None => Found::Missing,
            Some(object) => match object.typed::<R>() {
                Ok(object) => Found::Here(Box::new(object)),
                Err(error) => Found::Unknown(error.to_string()),
            },
        }
    }

    /// Every object of a kind, by namespace and name; an error if one cannot be read.
    pub fn all<R: Resource>(&self) -> Result<Vec<Object<R>>, InventoryError> {
        self.require_listed(R::KIND)?;
        let of_kind = self.objects.values().filter(|object| object.kind == R::KIND);
        of_kind.map(|object| Ok(object.typed::<R>()?)).collect()
    }

    /// Refuses a kind that could not be listed.
    pub fn require_listed(&self, kind: Kind) -> Result<(), InventoryError> {
        match self.unlistable.get(&kind) {
            Some(why) => Err(InventoryError::Unlistable { kind, why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Every readable object of a kind, for callers that may ignore the others.
    pub fn readable<R: Resource>(&self) -> Result<Vec<Object<R>>, InventoryError> {
        self.require_listed(R::KIND)?;
        let of_kind = self.objects.values().filter(|object| object.kind == R::KIND);
        Ok(of_kind.filter_map(|object| object.typed::<R>().ok()).collect())
    }

    /// Every object, whatever it is.
    pub fn objects(&self) -> impl Iterator<Item = &AnyObject> {
        self.objects.values()
    }

    /// Whether a name is taken.
    pub fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.objects.contains_key(&(kind, namespace.to_owned(), name.to_owned()))
    }
}
