//! Forges, each against a test server with its API.

mod account;
mod activity;
mod approved;
mod checks;
mod failing;
mod github_activity;
mod memory;
mod protection;
mod pushes;
mod reading;
mod secrecy;
mod writing;

use std::future::Future;
use std::path::PathBuf;

use bailiwick_resources::{ForgeKind, Repository, RepositoryPolicy, TrustTier};
use bailiwick_source_control::forge::{AnyForge, Token, open};
use bailiwick_testkit::Scratch;
use bailiwick_testkit::forge::{Flavour, StandIn};

pub(crate) const BOTH: [Flavour; 2] = [Flavour::Gitea, Flavour::Github];

/// A forge with a repository that has `main` and `feature`, a checkout of it, and the adapter.
pub(crate) struct Setup {
    pub(crate) stand_in: StandIn,
    pub(crate) scratch: Scratch,
    pub(crate) forge: AnyForge,
    pub(crate) main: String,
    pub(crate) feature: String,
}

impl Setup {
    pub(crate) fn new(flavour: Flavour) -> Self {
        let stand_in = StandIn::start(flavour, "acme/widgets");
        let scratch = Scratch::repository();
        scratch.write("README.md", "first\n");
        let main = scratch.commit("first");
        scratch.git(&["checkout", "--quiet", "-b", "feature"]);
        scratch.write("src/a.rs", "fn a() {}\n");
        scratch.write("src/b.rs", "fn b() {}\n");
        let feature = scratch.commit("second");
        for branch in ["main", "feature"] {
            stand_in.take(&scratch.root(), branch);
        }
        let forge = opened(&stand_in, &scratch, &stand_in.token());
        Self { stand_in, scratch, forge, main, feature }
    }

    /// No request was outside of Gitea's API.
    #[track_caller]
    pub(crate) fn keeps_contract(&self) {
        assert_eq!(self.stand_in.breaches(), Vec::<String>::new());
    }

    /// The number of write requests.
    pub(crate) fn writes(&self) -> usize {
        let requests = self.stand_in.requests();
        let looks = |path: &str| path.ends_with("git-upload-pack");
        requests.iter().filter(|request| request.method != "GET" && !looks(&request.path)).count()
    }
}

pub(crate) fn opened(stand_in: &StandIn, scratch: &Scratch, token: &str) -> AnyForge {
    let token = Token::parse(token).unwrap();
    open(&declared(stand_in, scratch.root()), Some(token), &scratch.state()).unwrap()
}

pub(crate) fn declared(stand_in: &StandIn, checkout: PathBuf) -> Repository {
    let gitea = stand_in.api_url().ends_with("/api/v1");
    Repository {
        full_name: "acme/widgets".to_owned(),
        forge: if gitea { ForgeKind::Gitea } else { ForgeKind::Github },
        api_url: Some(stand_in.api_url()),
        clone_url: None,
        checkout: checkout.display().to_string(),
        default_branch: "main".to_owned(),
        webhook_secret_ref: None,
        credential_ref: None,
        trust_tier: TrustTier::Trusted,
        policy: RepositoryPolicy::default(),
        poll_every: None,
        issue_memory: false,
        claims_issue: None,
        accounts: std::collections::BTreeMap::new(),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}
