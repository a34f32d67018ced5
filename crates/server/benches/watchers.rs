//! One change to 200 watchers, beside a bare write to 200 sockets.

fn main() {}
