//! Opening the forge that a repository declares.

use std::path::{Path, PathBuf};

use bailiwick_fleet::admission::TeamMembers;
use bailiwick_fleet::ports::{
    CheckRun, CommitPlace, Forge, ForgeError, LabelEntry, PolledEvent, PullRequestState, Rights,
    WriteBack, Written,
};
use bailiwick_resources::{ForgeFacts, ForgeKind, Repository};

use super::client::{Api, address};
use super::push::PushTarget;
use super::write_lock::lock_write;
use super::{Gitea, Github, Local, Token, gitea, github};

/// A forge of any kind.
#[derive(Debug, Clone)]
pub enum AnyForge {
    /// Gitea or Forgejo.
    Gitea(Gitea),
    /// GitHub.
    Github(Github),
    /// A repository on this machine.
    Local(Local),
}

/// Opens the forge of a repository. `state` is the directory of Bailiwick's own files.
pub fn open(
    repository: &Repository,
    token: Option<Token>,
    state: &Path,
) -> Result<AnyForge, ForgeError> {
    let checkout = PathBuf::from(&repository.checkout);
    let state = state.to_owned();
    let api = |style| {
        let base = repository.api_url.as_deref().ok_or_else(|| {
            ForgeError::Refused("spec.apiUrl is missing: set the address of the API".to_owned())
        })?;
        let token = token.clone().ok_or_else(|| {
            let why = "spec.credentialRef is missing: name the secret that has the forge's token";
            ForgeError::Refused(why.to_owned())
        })?;
        Api::new(base, &repository.full_name, token, style).map(|api| (api, base))
    };
    let push_target = |url: String| PushTarget {
        checkout: checkout.clone(),
        state: state.clone(),
        url,
        token: token.clone(),
    };
    Ok(match repository.forge {
        ForgeKind::Gitea => {
            let (api, base) = api(gitea::API_STYLE)?;
            let url = clone_url(repository, base, "/api/v1")?;
            AnyForge::Gitea(Gitea { api, push_target: push_target(url) })
        }
        ForgeKind::Github => {
            let (api, base) = api(github::API_STYLE)?;
            let url = clone_url(repository, base, "/api/v3")?;
            let owner = repository.full_name.split('/').next().unwrap_or_default().to_owned();
            AnyForge::Github(Github { api, push_target: push_target(url), owner })
        }
        ForgeKind::Local => {
            let url = repository.clone_url.clone().unwrap_or(repository.checkout.clone());
            if !url.starts_with('/') {
                let why = "spec.cloneUrl of a local repository must be an absolute path";
                return Err(ForgeError::Refused(why.to_owned()));
            }
            AnyForge::Local(Local { push_target: PushTarget { token: None, ..push_target(url) } })
        }
        ForgeKind::Generic => {
            let what = "be written to: a generic source only sends events";
            return Err(ForgeError::Unsupported(what.to_owned()));
        }
    })
}

/// The address to push to: as declared, or derived from the address of the API.
pub(super) fn clone_url(
    repository: &Repository,
    api: &str,
    end: &str,
) -> Result<String, ForgeError> {
    let url = match &repository.clone_url {
        Some(url) => url.clone(),
        None => {
            let api = api.trim_end_matches('/');
            let root = api.strip_suffix(end).unwrap_or(api);
            let root = root.replacen("https://api.github.com", "https://github.com", 1);
            format!("{root}/{}.git", repository.full_name)
        }
    };
    address(&url)?;
    Ok(url)
}

macro_rules! each {
    ($any:expr, $forge:ident => $call:expr) => {
        match $any {
            AnyForge::Gitea($forge) => $call.await,
            AnyForge::Github($forge) => $call.await,
            AnyForge::Local($forge) => $call.await,
        }
    };
}

impl AnyForge {
    /// The directory of Bailiwick's own files.
    fn state(&self) -> &Path {
        match self {
            Self::Gitea(forge) => &forge.push_target.state,
            Self::Github(forge) => &forge.push_target.state,
            Self::Local(forge) => &forge.push_target.state,
        }
    }
}

impl Forge for AnyForge {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        let _lock = lock_write(self.state(), key).await?;
        each!(self, forge => forge.write(key, what))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        each!(self, forge => forge.pull_request(number))
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        each!(self, forge => forge.branch(name))
    }

    async fn push_rights(&self, branch: &str) -> Result<Rights, ForgeError> {
        each!(self, forge => forge.push_rights(branch))
    }

    async fn branch_rules(&self, branch: &str) -> Result<Vec<String>, ForgeError> {
        each!(self, forge => forge.branch_rules(branch))
    }

    async fn permission(&self, actor: &str) -> Result<Rights, ForgeError> {
        each!(self, forge => forge.permission(actor))
    }

    async fn team_members(&self, team: &str) -> Result<TeamMembers, ForgeError> {
        each!(self, forge => forge.team_members(team))
    }

    async fn label_history(&self, number: u64) -> Result<Option<Vec<LabelEntry>>, ForgeError> {
        each!(self, forge => forge.label_history(number))
    }

    async fn place_of(&self, sha: &str, default_branch: &str) -> Result<CommitPlace, ForgeError> {
        each!(self, forge => forge.place_of(sha, default_branch))
    }

    async fn issue(&self, number: u64) -> Result<(String, String), ForgeError> {
        each!(self, forge => forge.issue(number))
    }

    async fn job_log(&self, job: &str, max_bytes: usize) -> Result<String, ForgeError> {
        each!(self, forge => forge.job_log(job, max_bytes))
    }

    async fn account(&self) -> Result<Option<String>, ForgeError> {
        each!(self, forge => forge.account())
    }

    async fn facts(&self) -> Result<Option<ForgeFacts>, ForgeError> {
        each!(self, forge => forge.facts())
    }

    async fn labels(&self) -> Result<Option<Vec<String>>, ForgeError> {
        each!(self, forge => forge.labels())
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        each!(self, forge => forge.checks_since(cursor))
    }

    async fn activity_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
        each!(self, forge => forge.activity_since(cursor))
    }

    async fn checks_at(&self, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
        each!(self, forge => forge.checks_at(sha))
    }
}
