//! The inventory: every object that admission reads, and what could not be listed.

use std::collections::BTreeMap;

use bailiwick_resources::{AnyObject, EventSource, Kind, Moment, Object, ObjectError, Resource};
use thiserror::Error;

use super::{OwnerFacts, PersonRecord, TeamMembers};

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
    people: Vec<PersonRecord>,
    /// By the full name of the repository, in lower case.
    owners: BTreeMap<String, OwnerFacts>,
    /// By the full name of the repository and the team, both in lower case.
    teams: BTreeMap<(String, String), TeamMembers>,
}

/// The result of a search for one object.
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
    pub fn ok(self) -> Option<Object<R>> {
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

    /// With the people who have signed in.
    #[must_use]
    pub fn with_people(mut self, people: Vec<PersonRecord>) -> Self {
        self.people = people;
        self
    }

    /// With the owners of the files of a repository.
    pub fn set_owners(&mut self, repository: &str, owners: OwnerFacts) {
        self.owners.insert(repository.to_lowercase(), owners);
    }

    /// The owners of the files of a repository, if its CODEOWNERS file was looked for.
    pub fn owners(&self, repository: &str) -> Option<&OwnerFacts> {
        self.owners.get(&repository.to_lowercase())
    }

    /// With the members of a team, `organization/team`, that owns files of a repository.
    pub fn set_team_members(&mut self, repository: &str, team: &str, members: TeamMembers) {
        self.teams.insert((repository.to_lowercase(), team.to_lowercase()), members);
    }

    /// The members of a team, if they were asked for.
    pub fn team_members(&self, repository: &str, team: &str) -> Option<&TeamMembers> {
        self.teams.get(&(repository.to_lowercase(), team.to_lowercase()))
    }

    /// The groups of a person; none if they are not known. Only the actors of manual requests have signed in here:
    /// an account of a forge can have the same name and belong to somebody else.
    pub fn memberships(
        &self,
        actor: Option<&str>,
        source: EventSource,
        now: Moment,
    ) -> Vec<String> {
        let signed_in = self.people.iter().find(|person| {
            source == EventSource::Manual
                && Some(person.name.as_str()) == actor
                && now < person.valid_until
        });
        signed_in.map(|person| person.groups.clone()).unwrap_or_default()
    }

    /// Whether a person of this group has signed in.
    pub fn has_members(&self, group: &str) -> bool {
        self.people.iter().any(|person| person.groups.iter().any(|one| one == group))
    }

    /// Adds a kind that could not be listed: everything that depends on it is unknown.
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

    /// All objects of all kinds.
    pub fn objects(&self) -> impl Iterator<Item = &AnyObject> {
        self.objects.values()
    }

    /// One object of any kind.
    pub fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<&AnyObject> {
        self.objects.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    /// Whether a name is in use.
    pub fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.objects.contains_key(&(kind, namespace.to_owned(), name.to_owned()))
    }
}
