//! What the control plane costs beside what it stands on: seven figures from one run, side by side.
//! `scripts/bench-fleet` runs it; `scripts/bench-fleet webhooks` only that figure.
//!
//! `bailiwick serve` is a process of its own, with 100,000 runs in its store, and is asked over loopback as a
//! forge and a person ask it. What is compared takes its turns, and who begins changes from round to round,
//! so that noise falls on all alike. Nothing is asserted of time.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot do its work must stop"
)]

mod client;
mod listing;
mod memory;
mod neighbours;
mod place;
mod starting;
mod table;
mod watching;
mod webhooks;

use place::Place;

/// Whether this figure is wanted: every one, or those that were named.
fn wanted(figure: &str) -> bool {
    let mut named = std::env::args().skip(1).filter(|word| !word.starts_with("--")).peekable();
    named.peek().is_none() || named.any(|word| word == figure)
}

async fn measure() {
    table::head();
    if wanted("neighbours") {
        neighbours::measure().await;
    }
    if std::env::args().skip(1).filter(|word| !word.starts_with("--")).eq(["neighbours"]) {
        return;
    }
    let place = Place::new();
    let store = place.open().await;
    let mut bare = listing::fill(&place, &store).await;
    let serving = place.serve();
    if wanted("webhooks") {
        webhooks::measure(&place, &serving).await;
    }
    if wanted("listing") {
        listing::measure(&place, &serving, &store, &mut bare).await;
    }
    if wanted("starting") {
        starting::measure(&place, &serving).await;
    }
    if wanted("watching") {
        watching::measure(&place).await;
    }
    if wanted("memory") {
        memory::measure(&place, &serving, &store).await;
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}
