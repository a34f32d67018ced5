//! Who may ask: tokens, rates, and the name under which the server is asked for.

mod host;
mod rate;
mod token;

pub(crate) use host::Hosts;
pub(crate) use rate::Buckets;
pub use token::{Minted, TOKEN_PREFIX, TokenError, mint};
pub(crate) use token::{authenticate, still_valid};
