//! What must hold of the testkit itself.

mod corpus;
