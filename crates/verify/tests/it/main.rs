//! The checks against facts, as a reader of the kit would expect them to judge.
