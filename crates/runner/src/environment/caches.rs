//! Caches of package managers in a home directory. None of them contains credentials.

use std::path::{Path, PathBuf};

use super::Share;

/// A directory below the home, and the variable that moves it.
const CACHES: [(&str, &str); 20] = [
    (".npm/_cacache", ""),
    (".cache/yarn", "YARN_CACHE_FOLDER"),
    (".yarn/berry/cache", ""),
    (".local/share/pnpm/store", ""),
    (".bun/install/cache", "BUN_INSTALL_CACHE_DIR"),
    (".cache/node/corepack", "COREPACK_HOME"),
    (".cache/pip", "PIP_CACHE_DIR"),
    (".cache/uv", "UV_CACHE_DIR"),
    (".cache/pypoetry", "POETRY_CACHE_DIR"),
    ("go/pkg/mod", "GOMODCACHE"),
    (".cargo/registry", ""),
    (".cargo/git", ""),
    (".m2/repository", ""),
    (".gradle/caches", ""),
    (".gradle/wrapper", ""),
    (".gem/ruby", ""),
    (".local/share/gem", ""),
    (".cache/composer", "COMPOSER_CACHE_DIR"),
    (".nuget/packages", "NUGET_PACKAGES"),
    (".cache/ms-playwright", "PLAYWRIGHT_BROWSERS_PATH"),
];

/// What a setup may install into its home, besides.
const INSTALLED: [&str; 3] = [".local/lib", ".local/bin", ".local/share/uv"];

/// The caches of the person whose home this is, also where a variable moves one.
pub(super) fn of(home: &Path) -> Vec<Share> {
    let moved = |name: &str| {
        let set = std::env::var_os(name).filter(|_| !name.is_empty())?;
        Some(PathBuf::from(set)).filter(|path| path.is_absolute() && !home.starts_with(path))
    };
    let shares = CACHES.iter().map(|(place, variable)| Share {
        source: moved(variable).unwrap_or_else(|| home.join(place)),
        place: PathBuf::from(place),
    });
    shares.filter(|share| share.source.is_dir()).collect()
}

/// What a setup left in its home.
pub(super) fn below(home: &Path) -> Vec<Share> {
    let places = CACHES.iter().map(|(place, _)| *place).chain(INSTALLED);
    places
        .map(|place| Share { source: home.join(place), place: PathBuf::from(place) })
        .filter(|share| share.source.is_dir())
        .collect()
}
