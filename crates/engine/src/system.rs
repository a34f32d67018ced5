//! What the operating system gives: time, random numbers, files that are written whole, our own program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::Failure;

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A random number.
pub fn random() -> Result<u16, Failure> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::general(format!("the system gives no random numbers: {error}"))
    })?;
    Ok(u16::from_le_bytes(bytes))
}

/// A random name in the shape that agent programs want.
pub fn random_name() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::general(format!("the system gives no random numbers: {error}"))
    })?;
    let number = u128::from_be_bytes(bytes);
    // Version 4, variant 1: the shape of a random UUID.
    let number = (number & !(0xf << 76)) | (0x4 << 76);
    let number = (number & !(0x3 << 62)) | (0x2 << 62);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().to_owned();
    Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
}

/// A random secret of 64 hexadecimal digits.
pub fn random_secret() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::general(format!("the system gives no random numbers: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file so that it is never seen half written.
pub fn write_whole(file: &Path, text: &str) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let directory = file.parent().unwrap_or(Path::new("."));
        let mut fresh = tempfile::Builder::new().prefix(".fresh-").tempfile_in(directory)?;
        fresh.write_all(text.as_bytes())?;
        fresh.as_file().sync_all()?;
        fresh.persist(file).map(drop).map_err(|error| error.error)
    };
    write()
        .map_err(|error| Failure::general(format!("{} cannot be written: {error}", file.display())))
}

/// Our own program.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::general(format!("our own program cannot be found: {error}")))
}

/// A file of JSON; `None` if there is none.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let unreadable =
        |why: String| Failure::general(format!("{} cannot be read: {why}", path.display()));
    match std::fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Writes a file of JSON, whole or not at all.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::general(error.to_string()))?;
    write_whole(path, &text)
}
