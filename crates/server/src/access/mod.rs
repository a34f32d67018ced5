//! Access control: tokens, rate limits, client addresses and host names.

mod host;
mod open_tokens;
mod rate;
mod source;
mod token;

pub(crate) use host::Hosts;
pub(crate) use open_tokens::{OpenToken, OpenTokens, follow_tokens};
pub(crate) use rate::Buckets;
pub(crate) use source::TrustedProxies;
pub(crate) use token::{
    Credential, SignedIn, TokenUse, authenticate, authenticate_text, mint_child_session,
    mint_signed_in, random_hex, still_valid,
};
pub use token::{MintedToken, TOKEN_PREFIX, TokenError, mint, mint_session};
