//! Package sources: the registries in the configuration of the person and the project.
//!
//! Addresses and certificates are handed to a setup; passwords and tokens never are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::BaseTrust;
use crate::sandbox::Bind;
use crate::toolchain::Host;

/// The default registries of package managers, by their domains.
const DEFAULTS: [(&str, &[&str]); 16] = [
    ("npmjs.org", &["registry"]),
    ("yarnpkg.com", &["registry", "repo"]),
    ("pythonhosted.org", &["files"]),
    ("crates.io", &["index", "static"]),
    ("golang.org", &["proxy", "sum"]),
    ("maven.apache.org", &["repo"]),
    ("maven.org", &["repo1"]),
    ("gradle.org", &["plugins", "plugins-artifacts", "services", "downloads"]),
    ("rubygems.org", &["index"]),
    ("packagist.org", &["repo"]),
    ("nuget.org", &["api"]),
    ("hex.pm", &["repo", "builds"]),
    ("org", &["pypi", "rubygems", "packagist", "nodejs"]),
    ("io", &["crates"]),
    ("pm", &["hex"]),
    ("dev", &["pub"]),
];

/// Variables that name registries, or how they are reached.
const VARIABLES: [&str; 30] = [
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
    "YARN_NPM_REGISTRY_SERVER",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_CERT",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GONOSUMCHECK",
    "GOPRIVATE",
    "GONOPROXY",
    "GOINSECURE",
    "GOFLAGS",
    "BUNDLE_MIRROR__ALL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
];

/// Files of the person that name registries, below the home or absolute.
const OF_PERSON: [&str; 12] = [
    ".npmrc",
    "/etc/npmrc",
    "/usr/etc/npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    "/etc/pip.conf",
    ".config/uv/uv.toml",
    ".m2/settings.xml",
    ".bundle/config",
    ".config/go/env",
];

/// Files of the project that name registries.
const OF_PROJECT: [&str; 11] = [
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "pip.conf",
    "uv.toml",
    "Pipfile",
    "requirements.txt",
    "Gemfile",
    ".cargo/config.toml",
    ".cargo/config",
];

/// Keys of `.npmrc` and `pip.conf` that are passed on to a setup.
const NPM_KEYS: [&str; 3] = ["registry", "cafile", "strict-ssl"];
const PIP_KEYS: [&str; 5] = ["index-url", "extra-index-url", "find-links", "trusted-host", "cert"];

/// The settings of a setup for registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Registries {
    /// The hosts that it can reach.
    pub(crate) hosts: Vec<String>,
    /// Variables without secrets.
    pub(crate) variables: Vec<(String, String)>,
    /// Directories and files that the variables name.
    pub(crate) read_only: Vec<Bind>,
    /// Files of its home, by their path there.
    files: BTreeMap<&'static str, String>,
}

impl Registries {
    /// From the person's environment and files, and the tree's own files if their authors are trusted.
    pub(crate) fn observe(host: &Host, tree: &Path, trust: BaseTrust, more: &[String]) -> Self {
        let mut found = Self::default();
        found.hosts.extend(default_hosts());
        found.hosts.extend(more.iter().cloned());
        for name in VARIABLES {
            let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) else {
                continue;
            };
            found.hosts.extend(hosts_in(&value));
            found.show_local(&value, &host.home);
            if !has_credentials(&value) {
                found.variables.push((name.to_owned(), value));
            }
        }
        let person = OF_PERSON.map(|name| host.home.join(name));
        let project = OF_PROJECT.map(|name| tree.join(name));
        let project = project.iter().filter(|_| trust == BaseTrust::Trusted);
        for file in person.iter().chain(project) {
            let text = read(file);
            found.hosts.extend(text.lines().filter(|line| !is_comment(line)).flat_map(hosts_in));
        }
        let settings = host.cargo_settings().unwrap_or_default();
        found.hosts.extend(settings.lines().flat_map(hosts_in));
        if trust == BaseTrust::Trusted {
            let pyproject = read(&tree.join("pyproject.toml"));
            found.hosts.extend(indexes(&pyproject).iter().flat_map(|url| hosts_in(url)));
        }
        found.add_files(host, &settings);
        found.add_go_settings(&read(&host.home.join(".config/go/env")));
        found.hosts.sort();
        found.hosts.dedup();
        found
    }

    fn add_files(&mut self, host: &Host, cargo: &str) {
        let npm = public_lines(&read(&host.home.join(".npmrc")), |key| {
            NPM_KEYS.contains(&key) || key.ends_with(":registry")
        });
        let pip = [".config/pip/pip.conf", ".pip/pip.conf"].map(|name| read(&host.home.join(name)));
        let pip = public_lines(&pip.join("\n"), |key| PIP_KEYS.contains(&key));
        let yarn = public_lines_starting(&read(&host.home.join(".yarnrc")), "registry");
        let berry =
            public_lines_starting(&read(&host.home.join(".yarnrc.yml")), "npmRegistryServer:");
        let bundler =
            public_lines_starting(&read(&host.home.join(".bundle/config")), "BUNDLE_MIRROR__");
        let uv = whole(read(&host.home.join(".config/uv/uv.toml")));
        let all = [
            (".npmrc", npm),
            (".yarnrc", yarn),
            (".yarnrc.yml", berry),
            (".bundle/config", bundler),
            (".config/uv/uv.toml", uv),
            (".config/pip/pip.conf", format!("[global]\n{pip}")),
            (".cargo/config.toml", cargo.to_owned()),
            (".m2/settings.xml", maven(&read(&host.home.join(".m2/settings.xml")))),
        ];
        self.files.extend(all.into_iter().filter(|(_, text)| !text.is_empty()));
    }

    /// `go env -w` writes its settings into a file.
    fn add_go_settings(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, value)) = line.split_once('=') else { continue };
            let known = VARIABLES.contains(&name) && name.starts_with("GO");
            let set = self.variables.iter().any(|(other, _)| other == name);
            if known && !set && !has_credentials(value) {
                self.variables.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// Makes a local directory or file visible.
    fn show_local(&mut self, value: &str, home: &Path) {
        for part in value.split([',', '|', ' ']) {
            let path = PathBuf::from(part.strip_prefix("file://").unwrap_or(part));
            let is_outside_home = path.is_absolute() && path.exists() && !home.starts_with(&path);
            if is_outside_home && !crate::toolchain::in_system(&path) {
                self.read_only.push(Bind::same(path));
            }
        }
    }

    /// Writes the files of the home.
    pub(crate) fn write(&self, home: &Path) -> io::Result<()> {
        for (name, text) in &self.files {
            let file = home.join(name);
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(file, text)?;
        }
        Ok(())
    }
}

fn default_hosts() -> impl Iterator<Item = String> {
    let below = |(domain, names): (&'static str, &'static [&'static str])| {
        names.iter().map(move |name| format!("{name}.{domain}"))
    };
    DEFAULTS.into_iter().flat_map(below)
}

/// The lines of a settings file whose keys may be passed on, without those that have credentials.
fn public_lines(text: &str, may: impl Fn(&str) -> bool) -> String {
    let plain = text.lines().filter(|line| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key.is_some_and(&may) && !has_credentials(line) && !line.contains("${")
    });
    plain.map(|line| format!("{}\n", line.trim())).collect()
}

/// The lines that begin with a word, without those that have credentials.
fn public_lines_starting(text: &str, word: &str) -> String {
    let plain = text.lines().filter(|line| line.starts_with(word) && !has_credentials(line));
    plain.map(|line| format!("{line}\n")).collect()
}

/// A whole file, if nothing in it looks like a credential.
fn whole(text: String) -> String {
    let lower = text.to_ascii_lowercase();
    let secret = ["token", "password", "username", "auth", "secret", "${"];
    let has_secret = has_credentials(&text) || secret.iter().any(|word| lower.contains(word));
    if has_secret { String::new() } else { text }
}

/// The mirrors that settings of Maven name. Their credentials are in another part of the file.
fn maven(text: &str) -> String {
    let mirrors = text.split_once("<mirrors>").and_then(|(_, rest)| rest.split_once("</mirrors>"));
    match mirrors.map(|(mirrors, _)| mirrors).filter(|mirrors| !has_credentials(mirrors)) {
        Some(mirrors) => format!("<settings><mirrors>{mirrors}</mirrors></settings>\n"),
        None => String::new(),
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

fn has_credentials(value: &str) -> bool {
    value.contains('@') && value.contains("://") && {
        let after = value.split("://").skip(1);
        after.into_iter().any(|rest| {
            rest.split(['/', ' ', ',']).next().is_some_and(|authority| authority.contains('@'))
        })
    }
}

/// The hosts of all addresses in a text, with their ports where they have one.
fn hosts_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for mark in ["https://", "http://"] {
        for rest in text.split(mark).skip(1) {
            let end = rest.find(['/', '"', '\'', ' ', ',', '|', '<', '>', ']', '?', '#']);
            let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().trim();
            let host = authority.rsplit('@').next().unwrap_or_default();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
            if !host.is_empty() && host.chars().all(plain) {
                found.push(host.to_owned());
            }
        }
    }
    found
}

/// The package indexes that a `pyproject.toml` names.
fn indexes(text: &str) -> Vec<String> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let tool = |tool: &str, list: &str| -> Vec<String> {
        let list = table.get("tool").and_then(|all| all.get(tool)?.get(list)?.as_array());
        let urls = list.into_iter().flatten().filter_map(|one| one.get("url")?.as_str());
        urls.map(str::to_owned).collect()
    };
    [tool("uv", "index"), tool("poetry", "source"), tool("pdm", "source")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_from_every_url_and_credentials_from_none() {
        let npm = "registry=https://npm.corp.example:8443/api/\n//npm.corp.example/:_authToken=s3cret\n\
                   @x:registry=https://user:pw@x.example/\nemail=a@b.example\n";
        assert_eq!(hosts_in(npm), ["npm.corp.example:8443", "x.example"]);
        let public = public_lines(npm, |key| NPM_KEYS.contains(&key) || key.ends_with(":registry"));
        assert_eq!(public, "registry=https://npm.corp.example:8443/api/\n");
        let settings = "<settings><servers><password>s3cret</password></servers><mirrors><mirror><url>\
                        https://m.example</url></mirror></mirrors></settings>";
        assert!(
            maven(settings).contains("https://m.example") && !maven(settings).contains("s3cret")
        );
        assert_eq!(maven("<mirrors>https://me:s3cret@m.example</mirrors>"), "");
        let berry = "npmRegistryServer: \"https://b.example\"\nnpmAuthToken: s3cret\n";
        assert_eq!(
            public_lines_starting(berry, "npmRegistryServer:"),
            "npmRegistryServer: \"https://b.example\"\n"
        );
        assert_eq!(whole("[[index]]\nurl = \"https://me:pw@i.example\"\n".to_owned()), "");
        assert_eq!(
            hosts_in("https://a.example|http://b.example:81,direct"),
            ["a.example", "b.example:81"]
        );
        let pyproject = "[project]\nname = \"x\"\nurls = { Home = \"https://home.example\" }\n\
                         [[tool.uv.index]]\nname = \"i\"\nurl = \"https://i.example/simple\"\n";
        assert_eq!(indexes(pyproject), ["https://i.example/simple"]);
    }
}
