//! TLS to the server: its certificate is checked if requested.

use bailiwick_fleet::ports::FleetStore as _;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::postgres::PostgresServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_uses_tls_and_checks_the_certificate() {
    let (server, other) = (PostgresServer::start_with_tls(), PostgresServer::start_with_tls());
    server.create_database();
    let name =
        server.sql("postgres", "SELECT max(datname) FROM pg_database WHERE datname LIKE 'test_%'");
    let directory = tempfile::tempdir().unwrap();
    let open = async |query: String| {
        let url = format!("{}?{query}", server.tcp_url(&name));
        Store::open(Location::parse(&url, directory.path()).unwrap()).await
    };
    let encrypted = || {
        let connections = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl \
                           JOIN pg_stat_activity USING (pid) WHERE client_port > 0";
        server.sql("postgres", connections)
    };
    let checked = |authority: &PostgresServer| {
        format!("sslmode=verify-full&sslrootcert={}", authority.authority().display())
    };
    let store = open(checked(&server)).await.unwrap();
    store.check_writable().await.unwrap();
    let counts = encrypted();
    let (with, without) = counts.split_once('|').unwrap();
    assert!(with.parse::<u32>().unwrap() > 0 && without == "0", "{counts}");
    store.close().await;
    // Without a mode, TLS is used because the server offers it.
    open(String::new()).await.unwrap().close().await;
    for (refused, query) in [
        ("another authority", checked(&other)),
        ("no authority of this machine", "sslmode=verify-full".to_owned()),
        ("no TLS", "sslmode=disable".to_owned()),
    ] {
        assert!(open(query).await.is_err(), "{refused}");
    }
}
