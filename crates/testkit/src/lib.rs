//! For tests only: how deep the slow suites go, trees in memory, scratch repositories.

pub mod depth;
pub mod random;
pub mod scratch;

pub use depth::Depth;
pub use scratch::Scratch;
