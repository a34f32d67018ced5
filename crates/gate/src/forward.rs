//! Forwards the call to the supervisor, which decides and records. No answer is a denial.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use bailiwick_policy::Decision;
use bailiwick_policy::dialects::MAX_PAYLOAD_SIZE;
use bailiwick_policy::protocol::{GateReply, GateRequest, VERSION};

use crate::arguments::Options;
use crate::error::GateError;

pub(crate) fn ask(options: &Options, socket: &Path, payload: &[u8]) -> Decision {
    match try_ask(options, socket, payload) {
        Ok(decision) => decision,
        Err(problem) => Decision::undecidable(problem.to_string()),
    }
}

fn try_ask(options: &Options, socket: &Path, payload: &[u8]) -> Result<Decision, GateError> {
    if payload.is_empty() && !options.announces {
        return Err(GateError::EmptyCall);
    }
    if payload.len() > MAX_PAYLOAD_SIZE {
        return Err(GateError::CallTooLarge);
    }
    let payload = std::str::from_utf8(payload).map_err(|_| GateError::CallNotUtf8)?;
    let directory = std::env::current_dir()
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_default();
    let question = GateRequest {
        version: VERSION,
        dialect: options.dialect,
        directory,
        payload: payload.to_owned(),
        announces: options.announces,
    };
    let mut stream = connect(socket).map_err(GateError::NoAnswer)?;
    stream.write_all(question.line().as_bytes()).map_err(GateError::NoAnswer)?;
    stream.shutdown(Shutdown::Write).map_err(GateError::NoAnswer)?;
    let mut reply = Vec::new();
    let most = u64::try_from(MAX_PAYLOAD_SIZE).unwrap_or(u64::MAX);
    stream.take(most).read_to_end(&mut reply).map_err(GateError::NoAnswer)?;
    if reply.is_empty() {
        return Err(GateError::EmptyAnswer);
    }
    Ok(GateReply::read(&reply)?.decision)
}

/// The kernel accepts 108 bytes, with the terminating zero.
const MAX_SOCKET_PATH: usize = 100;

/// Connects; a longer path is shortened through a descriptor of its directory.
fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    if socket.as_os_str().len() <= MAX_SOCKET_PATH {
        return UnixStream::connect(socket);
    }
    let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(std::io::Error::other("it is no path of a socket"));
    };
    let directory = std::fs::File::open(parent)?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    UnixStream::connect(short)
}
