//! Stubs for programs that need the network or privileges.
//!
//! They change files like the real ones, as far as a gate is concerned, and do nothing else. They come first in
//! `PATH`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Does nothing: that it was executed is in the trace.
const QUIET: [&str; 17] = [
    "gh",
    "glab",
    "hub",
    "curl",
    "wget",
    "ssh",
    "scp",
    "sftp",
    "docker",
    "podman",
    "kubectl",
    "rustc",
    "rustup",
    "rustfmt",
    "pytest",
    "systemctl",
    "apt-get",
];

const CARGO: &str = r#"#!/bin/sh
# Does to files what cargo does, without compiling.
while :; do case "$1" in +*|-q|-v|--quiet|--verbose|--locked|--offline|--frozen) shift ;; *) break ;; esac; done
verb=$1; [ $# -gt 0 ] && shift
case "$verb" in
  build|b|check|c|test|t|run|r|bench|doc|d|rustc|nextest) mkdir -p target/debug; : > target/debug/demo ;;
  clippy|fix)
    mkdir -p target/debug; : > target/debug/demo
    case " $verb $* " in *" fix "*|*" --fix "*) printf '\n' >> src/lib.rs ;; esac ;;
  fmt) case " $* " in *" --check "*) ;; *) for f in src/*.rs; do printf '' >> "$f"; done ;; esac ;;
  clean) rm -rf target ;;
  add) printf '%s = "1"\n' "$1" >> Cargo.toml; printf '\n[[package]]\nname = "%s"\n' "$1" >> Cargo.lock ;;
  remove|rm) printf '# removed %s\n' "$1" >> Cargo.toml; printf '\n' >> Cargo.lock ;;
  update|generate-lockfile|upgrade) printf '\n' >> Cargo.lock ;;
  new|init) mkdir -p "${1:-.}/src"; printf '[package]\nname = "new"\n' > "${1:-.}/Cargo.toml"; : > "${1:-.}/src/main.rs" ;;
esac
exit 0
"#;

const NPM: &str = r#"#!/bin/sh
# Changes files for what needs the registry; all else is the real npm.
case "$1" in
  install|i|add|update|up|upgrade|uninstall|remove|rm|un|dedupe|audit|ci)
    case " $* " in *git+*|*github:*|*"git://"*) exec /usr/bin/npm "$@" ;; esac
    verb=$1; shift
    mkdir -p node_modules; : > node_modules/.package-lock.json
    [ "$verb" = ci ] && exit 0
    [ "$verb $*" = audit\  ] && exit 0
    named=
    for word in "$@"; do case "$word" in -*) ;; *) named=$word ;; esac; done
    if [ -n "$named" ] || { [ "$verb" != install ] && [ "$verb" != i ]; }; then
      sed -i "s|\"dependencies\": {|\"dependencies\": {\"${named:-left-pad}\": \"1\"|" package.json
      printf '{"lockfileVersion": 3, "changed": true}\n' > package-lock.json
    fi
    exit 0 ;;
esac
exec /usr/bin/npm "$@"
"#;

const PIP: &str = r#"#!/bin/sh
# Installs nothing, but gets sources from git as the real one does.
for word in "$@"; do case "$word" in *git+*) exec git clone --quiet "${word#*git+}" /tmp/pip-req ;; esac; done
exit 0
"#;

/// `sudo` and its like only run what is behind their options.
const SUDO: &str = r#"#!/bin/sh
while :; do case "$1" in -u|-g|-h|-p|-C|-D|-R|--user|--group) shift 2 ;; --) shift; break ;; -*|*=*) shift ;; *) break ;; esac; done
exec "$@"
"#;

/// Writes all stubs into a directory.
pub(crate) fn write(folder: &Path) {
    let quiet = QUIET.iter().map(|name| (*name, "#!/bin/sh\nexit 0\n"));
    let more = [
        ("cargo", CARGO),
        ("npm", NPM),
        ("pnpm", NPM),
        ("yarn", NPM),
        ("pip", PIP),
        ("pip3", PIP),
        ("uv", PIP),
        ("poetry", PIP),
        ("sudo", SUDO),
        ("doas", SUDO),
    ];
    for (name, text) in quiet.chain(more) {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("a stub");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("a mode");
    }
}
