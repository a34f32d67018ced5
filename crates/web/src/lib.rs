//! The pages for browsers: one module and one template for each page.
//!
//! Pages know nothing but what the API returns: they call it inside of the process, with the session of the person.
//!
//! ```text
//!  request ─▶ session (cookie, same origin) ─▶ page module ─▶ Api ─▶ typed answer ─▶ template
//! ```

mod actions;
mod answers;
mod approvals;
mod artifacts;
mod assets;
mod board;
mod call_change;
mod change;
mod changes;
mod checks;
mod clock;
mod comment;
mod context;
mod cost;
mod decision;
mod error_page;
mod event_at;
mod fleet;
mod highlight;
mod inbox;
mod layout;
mod limits;
mod lineage;
mod live;
mod numbers;
mod pages;
mod patch;
mod plot;
mod run;
mod run_diff;
mod run_filter;
mod run_part;
mod runs;
mod saved_filters;
mod session;
mod sign_in;
mod sign_in_link;
mod site;
mod text;
mod transcript;
mod unknown_page;

pub use pages::WebPages;
pub use sign_in_link::LinkRules;
