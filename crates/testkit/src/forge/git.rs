//! Git behind a stand-in: a real bare repository, served by `git http-backend`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::scripted_model::http::Incoming;

use super::answer::Answer;

/// Git did not start, or failed with what it printed to stderr.
#[derive(Debug)]
pub(super) enum GitFailure {
    Start(std::io::Error),
    Exit(String),
}

impl std::fmt::Display for GitFailure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => write!(out, "git did not start: {error}"),
            Self::Exit(stderr) => out.write_str(stderr),
        }
    }
}

/// Runs real git in a repository and returns its output.
pub(super) fn git(repository: &Path, arguments: &[&str]) -> Result<String, GitFailure> {
    let output = clean(Command::new("git").arg("-C").arg(repository).args(arguments))
        .output()
        .map_err(GitFailure::Start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(GitFailure::Exit(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn clean(command: &mut Command) -> &mut Command {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
}

/// An empty bare repository.
pub(super) fn make(place: &Path) {
    std::fs::create_dir_all(place).expect("a directory");
    for arguments in [
        &["init", "--quiet", "--bare", "--initial-branch=main"] as &[&str],
        &["config", "http.receivepack", "true"],
        &["config", "uploadpack.allowAnySHA1InWant", "true"],
    ] {
        git(place, arguments).expect("git makes a repository");
    }
}

/// Has git answer a request for `root`/`path`.
pub(super) fn serve(root: &Path, path: &str, query: &str, incoming: &Incoming) -> Answer {
    let header = |name: &str| {
        let found = incoming.headers.iter().find(|(is, _)| is == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let mut command = Command::new("git");
    clean(&mut command)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &incoming.method)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", incoming.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", "somebody")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("git http-backend");
    let mut input = child.stdin.take().expect("a pipe");
    let body = incoming.body.clone();
    let feeding = std::thread::spawn(move || {
        // It may end before it has read everything.
        let _ = input.write_all(&body);
    });
    let output = child.wait_with_output().expect("git http-backend ends");
    let _ = feeding.join();
    let end = output.stdout.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else { return Answer::text(500, "git answered in an unknown way") };
    let (head, body) = output.stdout.split_at(end + 4);
    let mut answer = Answer { status: 200, headers: Vec::new(), body: body.to_vec() };
    for line in String::from_utf8_lossy(head).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name == "Status" {
            let status = value.split(' ').next().and_then(|status| status.parse().ok());
            answer.status = status.unwrap_or(500);
        } else {
            answer.headers.push((name.to_owned(), value.to_owned()));
        }
    }
    answer
}
