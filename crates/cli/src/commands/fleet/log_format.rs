//! The log of `serve` and `worker`, on standard error.

use clap::ValueEnum;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// A JSON object in each line
    Json,
}

impl LogFormat {
    /// Writes what is logged from now on.
    pub(super) fn start(self) {
        let log = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_max_level(tracing::Level::INFO);
        // A second one in the same process would be the same.
        let _ = match self {
            Self::Text => log.try_init(),
            Self::Json => log.json().try_init(),
        };
    }
}
