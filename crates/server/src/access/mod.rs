//! Access control: tokens, rate limits and host names.

mod host;
mod rate;
mod token;

pub(crate) use host::Hosts;
pub(crate) use rate::Buckets;
pub use token::{MintedToken, TOKEN_PREFIX, TokenError, mint};
pub(crate) use token::{authenticate, still_valid};
