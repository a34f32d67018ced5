//! `curl` and `wget`.

use super::super::WriteKind;
use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::options::{Grammar, ParsedArguments};

pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) {
    match name {
        "curl" => curl(walker, arguments),
        _ => wget(walker, arguments),
    }
}

fn not_dash(files: Vec<Field>) -> impl Iterator<Item = Field> {
    files.into_iter().filter(|file| file.known().as_deref() != Some("-"))
}

const CURL: Grammar = Grammar {
    flags: "0123469aBfgGiIjJklLMnNOpqRsSvVZ#:",
    values: "AbcCdDeEFhHKmoPQrtTuUwxXyYz",
    attached: "",
    long_flags: &["remote-name", "remote-name-all", "remote-header-name"],
    long_values: &[
        "output",
        "output-dir",
        "dump-header",
        "cookie-jar",
        "trace",
        "trace-ascii",
        "stderr",
        "etag-save",
        "hsts",
        "alt-svc",
        "libcurl",
        "config",
        "header",
        "data",
        "data-raw",
        "data-binary",
        "data-urlencode",
        "user",
        "user-agent",
        "request",
        "url",
        "max-time",
        "connect-timeout",
        "retry",
        "retry-delay",
        "form",
        "proxy",
        "cacert",
        "cert",
        "key",
        "cookie",
        "referer",
        "write-out",
        "upload-file",
        "range",
        "resolve",
        "json",
    ],
};

fn curl(walker: &mut Walker, arguments: &[Field]) {
    let parsed = CURL.read(arguments);
    let directory = parsed.value(&["output-dir"]);
    let placed = |file: Field| match &directory {
        Some(directory) => directory.below(&file),
        None => file,
    };
    let outputs = not_dash(parsed.all(&["o", "output"])).map(placed).collect::<Vec<_>>();
    walker.wrote_all(outputs, WriteKind::Change, "curl");
    let others = [
        "D",
        "dump-header",
        "c",
        "cookie-jar",
        "trace",
        "trace-ascii",
        "stderr",
        "etag-save",
        "hsts",
        "alt-svc",
        "libcurl",
    ];
    walker.wrote_all(not_dash(parsed.all(&others)), WriteKind::Change, "curl");
    // A file of options may name files to write.
    if parsed.has(&["K", "config"]) {
        walker.wrote(Field::unknown(), WriteKind::Change, "curl");
    }
    if parsed.has(&["O", "remote-name", "remote-name-all"]) {
        let named = !parsed.has(&["J", "remote-header-name"]);
        let urls = parsed.operands.iter().chain(&[]);
        let names: Vec<Field> = urls.map(|url| if named { url_name(url) } else { any() }).collect();
        walker.wrote_all(
            names.into_iter().map(placed).collect::<Vec<_>>(),
            WriteKind::Change,
            "curl",
        );
    }
}

fn any() -> Field {
    Field::of(vec![Piece::Name])
}

/// The last part of an address.
fn url_name(url: &Field) -> Field {
    let Some(text) = url.known() else { return any() };
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, path)| path);
    let odd = |c: char| matches!(c, '{' | '}' | '[' | ']' | '%');
    match path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()) {
        Some(name) if !name.is_empty() && !name.contains(odd) => Field::text(name),
        _ => any(),
    }
}

const WGET: Grammar = Grammar {
    flags: "46bcdEFghHkKLmnpqrSvVxN",
    values: "aABDeiIlOoPQRtTUwX",
    attached: "",
    long_flags: &[
        "quiet",
        "continue",
        "no-check-certificate",
        "no-clobber",
        "no-parent",
        "recursive",
        "mirror",
        "page-requisites",
        "spider",
        "show-progress",
        "no-verbose",
        "verbose",
        "timestamping",
        "content-disposition",
        "background",
        "server-response",
        "help",
        "version",
        "force-directories",
        "no-host-directories",
        "convert-links",
        "span-hosts",
        "adjust-extension",
        "no-directories",
        "no-cookies",
        "no-cache",
        "no-proxy",
        "inet4-only",
        "inet6-only",
        "https-only",
        "trust-server-names",
        "no-hsts",
        "debug",
    ],
    long_values: &[
        "output-document",
        "output-file",
        "append-output",
        "directory-prefix",
        "header",
        "post-data",
        "post-file",
        "timeout",
        "tries",
        "user-agent",
        "user",
        "password",
        "save-cookies",
        "load-cookies",
        "rejected-log",
        "warc-file",
        "warc-tempdir",
        "hsts-file",
        "input-file",
        "execute",
        "level",
        "accept",
        "reject",
        "progress",
        "wait",
        "limit-rate",
        "cut-dirs",
        "domains",
        "exclude-domains",
        "method",
        "body-data",
        "config",
        "waitretry",
        "connect-timeout",
        "read-timeout",
        "dns-timeout",
        "retry-connrefused",
        "base",
        "quota",
    ],
};

fn wget(walker: &mut Walker, arguments: &[Field]) {
    // `-nc`, `-nv`, `-nd`, `-nH`, `-np` are two letters each, which come apart harmlessly.
    let parsed = WGET.read(arguments);
    if parsed.has(&["help", "version", "h", "V"]) {
        return;
    }
    let logs = ["o", "output-file", "a", "append-output", "save-cookies", "rejected-log"];
    walker.wrote_all(not_dash(parsed.all(&logs)), WriteKind::Change, "wget");
    let traces = ["warc-file", "warc-tempdir", "hsts-file"];
    walker.wrote_all(parsed.all(&traces), WriteKind::WriteBelow, "wget");
    // Commands and files of options may name files to write.
    if parsed.has(&["e", "execute", "config"]) || parsed.unsure {
        walker.wrote(Field::unknown(), WriteKind::Change, "wget");
    }
    if parsed.has(&["b", "background"]) {
        walker.wrote(Field::text("wget-log"), WriteKind::Change, "wget");
    }
    let outputs = parsed.all(&["O", "output-document"]);
    if !outputs.is_empty() {
        return walker.wrote_all(not_dash(outputs), WriteKind::Change, "wget");
    }
    if !parsed.has(&["spider"]) {
        fetched(walker, &parsed);
    }
}

/// Under a name that the server chooses, or with whole directories.
fn fetched(walker: &mut Walker, parsed: &ParsedArguments) {
    let directory = parsed.value(&["P", "directory-prefix"]).unwrap_or_else(|| Field::text("."));
    let deep = ["r", "m", "p", "x", "recursive", "mirror", "page-requisites", "force-directories"];
    match parsed.has(&deep) {
        true => walker.wrote(directory, WriteKind::WriteBelow, "wget"),
        false => walker.wrote(directory.below(&any()), WriteKind::Change, "wget"),
    }
}
