//! Exclusive leases on paths.
