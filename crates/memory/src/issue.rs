//! What the forge says: an issue, its comments, and which accounts may speak for which agents.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::Moment;

use crate::signature::SigningKey;

/// An issue, as the forge's API has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issue {
    /// `owner/name`.
    pub repository: String,
    pub number: u64,
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
    pub assignee: Option<String>,
    pub is_open: bool,
    pub is_locked: bool,
}

/// A comment, as the forge's API has it. Author and times come from the forge, never from the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub id: u64,
    pub author: String,
    pub body: String,
    pub created_at: Moment,
    pub updated_at: Moment,
}

/// Which account may speak for which agents.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Accounts of agents, with the agents that they speak for.
    pub accounts: BTreeMap<String, BTreeSet<String>>,
    /// Agents that may give away claims of others, and have no limit of depth.
    pub orchestrators: BTreeSet<String>,
    /// Accounts of people, who may release any claim.
    pub people: BTreeSet<String>,
    /// What several agents write with: it proves nothing, so its events must be signed.
    pub shared: Option<SharedAccount>,
}

/// An account that several agents write with.
#[derive(Debug, Clone)]
pub struct SharedAccount {
    /// `None` is every account that is in no other list: the forge does not tell who writes.
    pub account: Option<String>,
    pub key: SigningKey,
}

impl Trust {
    /// Whether agents write with this account.
    pub(crate) fn is_agents_account(&self, account: &str) -> bool {
        let shared = self.shared.as_ref().and_then(|shared| shared.account.as_deref());
        !self.people.contains(account)
            && (self.accounts.contains_key(account) || shared == Some(account))
    }

    pub(crate) fn is_shared(&self, shared: &SharedAccount, author: &str) -> bool {
        match &shared.account {
            // Forges do not distinguish capitals in names.
            Some(account) => account.eq_ignore_ascii_case(author),
            None => !self.accounts.contains_key(author),
        }
    }

    /// Whether any event of this account can count.
    pub(crate) fn can_count(&self, account: &str) -> bool {
        self.accounts.contains_key(account)
            || self.shared.as_ref().is_some_and(|shared| self.is_shared(shared, account))
    }

    pub(crate) fn is_account_of(&self, account: &str, agent: &str) -> bool {
        self.accounts.get(account).is_some_and(|agents| agents.contains(agent))
    }
}
