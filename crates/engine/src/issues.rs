//! The issues that keep the state of runs: on the forge that a repository declares, or in the repository itself.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use bailiwick_fleet::ports::{FleetStore, Selection};
use bailiwick_memory::{
    ClaimStore, IssueMemory as _, MemoryError, Protocol, ReleaseReport, SigningKey,
};
use bailiwick_model::IssueName;
use bailiwick_resources::{Kind, Repository};
use bailiwick_source_control::forge::Token;
use bailiwick_source_control::issues::{AnyIssues, LocalIssues, open_issues};

use crate::context::{Context, variable};
use crate::failure::Failure;
use crate::system::random_name;
use crate::{database, seen_issues};

/// The file of the user's kit that has the key of events. Agents never see it.
const KEY_FILE: &str = "memory.key";
/// How late comments become visible at most: 2.6 s were seen on a loaded Gitea.
const COMMENTS_SETTLE_MS: u64 = 5_000;

/// The issues of a repository, with the key that makes events count.
pub struct OpenIssues {
    issues: AnyIssues,
    key: SigningKey,
    claim_store: ClaimStore,
    /// The one issue that they were opened for.
    named: Option<(Context, u64)>,
    /// The account that writes, once the forge has told it.
    account: OnceLock<Option<String>>,
}

impl fmt::Debug for OpenIssues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenIssues").finish_non_exhaustive()
    }
}

impl OpenIssues {
    fn new(issues: AnyIssues, key: SigningKey, claim_store: ClaimStore) -> Self {
        Self { issues, key, claim_store, named: None, account: OnceLock::new() }
    }

    /// Opens the issues of `owner/name`, or those in the repository of this directory.
    pub fn open(context: &Context, repository: Option<&str>) -> Result<Self, Failure> {
        let key = signing_key(context)?;
        let Some(full_name) = repository else {
            let issues = AnyIssues::Local(local_with(context, &key)?);
            return Ok(Self::new(issues, key, ClaimStore::Reference));
        };
        let (repository, token) = declared(context, full_name)?;
        let issues = open_issues(&repository, token, &context.state, &author()?, key.clone())
            .map_err(Failure::refused_by)?;
        let claim_store = repository.claims_issue.map_or(ClaimStore::Reference, |issue| {
            ClaimStore::Comments { issue: issue.get(), settle_ms: COMMENTS_SETTLE_MS }
        });
        Ok(Self::new(issues, key, claim_store))
    }

    /// Does something with them.
    pub fn with<T>(
        &self,
        work: impl AsyncFnOnce(&Protocol<'_, AnyIssues>) -> Result<T, MemoryError>,
    ) -> Result<T, Failure> {
        let result = database::block_on(async {
            let account = match self.account.get() {
                Some(account) => account.clone(),
                None => {
                    let account = self.issues.account().await?;
                    self.account.get_or_init(|| account).clone()
                }
            };
            let mut protocol = Protocol::of_account(&self.issues, self.key.clone(), account);
            protocol.claim_store = self.claim_store;
            work(&protocol).await
        })?;
        let result = result.map_err(failure)?;
        if let (Some((context, number)), AnyIssues::Local(local)) = (&self.named, &self.issues) {
            seen_issues::note(context, local, *number)?;
        }
        Ok(result)
    }
}

/// The issues in the repository of this directory.
pub fn local(context: &Context) -> Result<LocalIssues, Failure> {
    local_with(context, &signing_key(context)?)
}

fn local_with(context: &Context, key: &SigningKey) -> Result<LocalIssues, Failure> {
    let repository = context.require_repository()?;
    LocalIssues::new(repository.git(), &author()?, key.clone()).map_err(failure)
}

/// Maps an error of a forge to a failure.
pub fn failure(error: MemoryError) -> Failure {
    match error {
        MemoryError::Missing(what) => Failure::refused(format!("{what} does not exist"))
            .help("`bailiwick memory list` shows the issues in this repository"),
        MemoryError::Refused(why) => Failure::refused(why),
        MemoryError::Unsupported(_) => Failure::refused(error.to_string()),
        MemoryError::Unavailable(_) => Failure::general(error.to_string()),
    }
}

/// Says what a release could not write. The release counts all the same.
pub fn note_release(context: &Context, report: ReleaseReport) {
    if let Some(problem) = report.problem {
        context.notices.note(format_args!(
            "the summary of old claims was not written, which loses nothing: {problem}"
        ));
    }
}

/// An issue of the repository that it is named in, or of this one.
pub fn open_named(context: &Context, name: &IssueName) -> Result<OpenIssues, Failure> {
    let opened = OpenIssues::open(context, name.repository.as_deref())?;
    Ok(OpenIssues { named: Some((context.clone(), name.number)), ..opened })
}

/// The directory of a repository: the one that was declared, or the one that we are in.
pub fn checkout(context: &Context, repository: Option<&str>) -> Result<PathBuf, Failure> {
    match repository {
        Some(full_name) => Ok(declared(context, full_name)?.0.checkout.into()),
        None => Ok(context.require_repository()?.root().to_owned()),
    }
}

/// The repository of this name as it was declared, and its token.
fn declared(context: &Context, full_name: &str) -> Result<(Repository, Option<Token>), Failure> {
    let unknown = || {
        Failure::refused(format!("no repository `{full_name}` is declared here")).help(
            "declare it with its forge and its credential: bailiwick apply -f repository.yaml",
        )
    };
    context.with_store(async |store| {
        let mut selection = Selection::of(Kind::Repository);
        loop {
            let page = FleetStore::list(store, &selection).await.map_err(Failure::refused_by)?;
            for object in &page.objects {
                let namespace = object.metadata.namespace.clone();
                let found = object.typed::<Repository>().map_err(Failure::refused_by)?.spec;
                if !found.full_name.eq_ignore_ascii_case(full_name) {
                    continue;
                }
                let Some(secret) = &found.credential_ref else { return Ok((found, None)) };
                let value = store.secret_value(&namespace, &secret.name, &secret.key).await;
                let value = value.map_err(Failure::refused_by)?.ok_or_else(|| {
                    let what = format!("{}/{}", secret.name, secret.key);
                    Failure::refused(format!("the credential `{what}` of {full_name} is missing"))
                        .help("store it: bailiwick secrets")
                })?;
                let token = Token::parse(&String::from_utf8_lossy(&value));
                return Ok((found, Some(token.map_err(Failure::refused_by)?)));
            }
            match page.next {
                Some(next) => selection.after = Some(next),
                None => return Err(unknown()),
            }
        }
    })
}

/// The author of events: the current user.
fn author() -> Result<String, Failure> {
    Ok(variable("USER")?.unwrap_or_else(|| "bailiwick".to_owned()))
}

/// The key of events, made at its first use.
fn signing_key(context: &Context) -> Result<SigningKey, Failure> {
    let path = context.user_kit.join(KEY_FILE);
    let failed = |error: std::io::Error| {
        Failure::general(format!("the key of events, {}, cannot be used: {error}", path.display()))
    };
    match std::fs::read_to_string(&path) {
        Ok(text) if text.trim().len() >= 32 => Ok(SigningKey::new(text.trim().as_bytes())),
        Ok(_) => Err(Failure::refused(format!("{} is too short to be a key", path.display()))
            .help("copy it from the machine that made it, or remove it to make another one")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(&context.user_kit).map_err(failed)?;
            let text = format!("{}{}", random_name()?, random_name()?);
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(&path);
            match file {
                Ok(mut file) => {
                    writeln!(file, "{text}").and_then(|()| file.sync_all()).map_err(failed)?;
                    Ok(SigningKey::new(text.as_bytes()))
                }
                // Another process has just created it.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    let text = std::fs::read_to_string(&path).map_err(failed)?;
                    Ok(SigningKey::new(text.trim().as_bytes()))
                }
                Err(error) => Err(failed(error)),
            }
        }
        Err(error) => Err(failed(error)),
    }
}
