//! Stores connect through a pooler. The schema is created on the server itself.

use bailiwick_store::{Location, Store};
use bailiwick_testkit::pgbouncer::PgBouncer;
use bailiwick_testkit::postgres::PostgresServer;

use crate::test_database::{TestDatabase, block_on};

pub(crate) fn prepare(database: &TestDatabase) {
    // Tests without and with a runtime call this.
    let migrating = || block_on(database.migrate());
    std::thread::scope(|scope| scope.spawn(migrating).join()).unwrap();
}

/// The URL for stores.
pub(crate) fn url(database: &TestDatabase) -> String {
    format!("{}?pooler=transaction", database.pooler_url())
}

impl TestDatabase {
    pub(crate) fn without_schema() -> Self {
        Self::on(PostgresServer::shared())
    }

    pub(crate) fn pooler_url(&self) -> String {
        PgBouncer::shared().url(self.name())
    }

    pub(crate) fn at(&self, url: &str) -> Location {
        Location::parse(url, self.directory.path()).unwrap()
    }

    pub(crate) async fn migrate(&self) {
        Store::open(self.at(&self.url)).await.unwrap().close().await;
    }
}
