//! The sandbox of one program: its mounts, its limits and its environment.

use std::path::{Path, PathBuf};

use super::{Bench, Environment, Program, SETTINGS, Sources};
use crate::checks::work::{Shared, Work};
use crate::environment::Share;
use crate::sandbox::{Bind, Bounds, Level, Network, Sandbox};
use crate::toolchain::{self, Host};

impl Bench {
    /// Files of the tree that a program can only read.
    fn read_only_paths(&self, work: &Work) -> Vec<PathBuf> {
        match (&self.guard, work.written()) {
            (Some(guard), Some(_)) => guard.mounted(&self.places.tree, work.part()),
            (None, _) | (_, None) => Vec::new(),
        }
    }

    /// Directories that look writable, in the tree and in the home.
    fn shared(&self) -> Vec<Bind> {
        let places = &self.places;
        let in_tree = self.shares.iter();
        let in_tree = in_tree.map(|one| Bind::new(&one.source, places.tree.join(&one.place)));
        let within = |share: &&Share| {
            let setup = self.environment.setup_home.as_ref();
            // Cargo has a separate home, and the share of the setup is its whole home.
            !share.place.starts_with(".cargo")
                && !setup.is_some_and(|home| share.source.starts_with(home))
        };
        let in_home = self.environment.in_home.iter().filter(within);
        let in_home = in_home.map(|one| Bind::new(&one.source, places.home.join(&one.place)));
        in_tree.chain(in_home).collect()
    }

    /// The sources of dependencies that the setup or the person has fetched.
    fn fetched(&self) -> Vec<Bind> {
        let setup = self.environment.setup_home.as_ref().map(|home| home.join(".cargo"));
        let setup = setup.filter(|cargo| cargo.join("registry").is_dir());
        match setup {
            Some(cargo) => Host { cargo, ..self.host.clone() }.fetched(&self.places.cargo),
            None => self.host.fetched(&self.places.cargo),
        }
    }

    pub(in crate::checks) fn sandbox(
        &self,
        work: &Work,
        program: &Program<'_>,
        network: Network,
    ) -> Sandbox {
        let places = &self.places;
        let shared = Shared { tree: &self.tree, target: &self.target };
        let targets = Shared { tree: &places.tree, target: &places.target };
        let (mut writable, overlaid) = work.mounts(shared, targets);
        writable.push(Bind::new(work.results(), &places.results));
        let mut read_only = self.visible.binds.clone();
        read_only.push(Bind::new(self.slot.tools(), &places.tools));
        read_only.extend(self.objects.iter().map(Bind::same));
        let mut private = Vec::new();
        let mut layered = self.shared();
        match &self.environment.setup_home {
            Some(home) => layered.push(Bind::new(home, &places.home)),
            None => private.push(places.home.clone()),
        }
        let aliases = self.environment.alias_binds(&self.tree, &self.shares);
        read_only.extend(aliases.into_iter().filter(|bind| !bind.target.starts_with(&places.tree)));
        match self.sources {
            Sources::Person => {
                // Cargo writes locks and notes beside its sources, and may have to unpack one of them.
                private.push(places.cargo.clone());
                layered.extend(self.fetched());
            }
            Sources::Fetched => {
                let own = Bind::new(self.slot.cargo(), &places.cargo);
                match network {
                    Network::Host => writable.push(own),
                    // What a change runs must not influence the next build.
                    Network::None => layered.push(own),
                }
            }
        }
        // Also if they are empty: nothing else may configure cargo.
        let settings = self.slot.tools().join(SETTINGS);
        if settings.is_file() {
            read_only.push(Bind::new(settings, places.cargo.join("config.toml")));
        }
        let environment = match program.environment {
            Environment::Whole(all) => all.to_vec(),
            Environment::With(more) => self.environment(network, more),
        };
        Sandbox {
            read_only,
            writable,
            layered,
            overlaid,
            private,
            emptied: Vec::new(),
            hidden: Vec::new(),
            read_only_paths: self.read_only_paths(work),
            environment,
            directory: program.directory.to_owned(),
            network,
            listener_port: None,
            bounds: Bounds::default(),
            level: self.level,
        }
    }

    /// Built from nothing, so that it contains nothing of the person's.
    fn environment(&self, network: Network, more: &[(String, String)]) -> Vec<(String, String)> {
        let places = &self.places;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let cargo = match (self.level, self.sources) {
            (Level::Off, Sources::Fetched) => text(&self.slot.cargo()),
            _ => text(&places.cargo),
        };
        let mut all: Vec<(&str, String)> = vec![
            ("PATH", self.environment.path(&self.visible.path)),
            ("HOME", text(&places.home)),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("NO_COLOR", "1".to_owned()),
            ("CARGO_TERM_COLOR", "never".to_owned()),
            ("CARGO_TERM_PROGRESS_WHEN", "never".to_owned()),
            ("CARGO_HOME", cargo),
            ("CARGO_TARGET_DIR", text(&places.target)),
            // A missing toolchain is an error that says so.
            ("RUSTUP_AUTO_INSTALL", "0".to_owned()),
            (toolchain::NO_BYTECODE.0, toolchain::NO_BYTECODE.1.to_owned()),
            // Cargo prefers these to what a tree sets.
            ("RUSTC_WRAPPER", String::new()),
            ("RUSTC_WORKSPACE_WRAPPER", String::new()),
        ];
        let program = |name: &str| match &self.toolchain {
            Some(toolchain) => toolchain.program(name),
            None => name.to_owned(),
        };
        all.push(("RUSTC", program("rustc")));
        all.push(("RUSTDOC", program("rustdoc")));
        let name = self.toolchain.as_ref().map(|toolchain| toolchain.name.clone());
        all.extend(name.map(|name| ("RUSTUP_TOOLCHAIN", name)));
        match network {
            Network::None => {}
            Network::Host => {
                let proxies = self.host.proxies.iter();
                all.extend(proxies.map(|(name, value)| (name.as_str(), value.clone())));
                // Fetched packages must not run where there is a network.
                all.push(("npm_config_ignore_scripts", "true".to_owned()));
                all.push(("YARN_ENABLE_SCRIPTS", "false".to_owned()));
            }
        }
        all.extend(
            self.visible.variables.iter().map(|(name, value)| (name.as_str(), value.clone())),
        );
        if network == Network::None {
            let offline = toolchain::OFFLINE.iter();
            // Without a sandbox there is a network, and only cargo must work offline.
            let offline = offline.filter(|(name, _)| !self.is_open() || name.starts_with("CARGO"));
            all.extend(offline.map(|(name, value)| (*name, (*value).to_owned())));
        }
        all.extend(self.visible.rustup.clone().map(|place| ("RUSTUP_HOME", place)));
        let ours = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        let ours = ours.chain(toolchain::homes(&places.home));
        ours.chain(more.iter().cloned()).collect()
    }
}
