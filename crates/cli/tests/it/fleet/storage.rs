//! `serve` with a full disk and with a moved database: it says so, accepts nothing that it cannot store, continues
//! without a restart, and has everything that it acknowledged.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use bailiwick_testkit::forge::Told;
use serde_json::Value;

use super::{Place, SECRET, Serving};

/// Set for the tests that need their own mounts.
const OWN_MOUNTS: &str = "BAILIWICK_TEST_OWN_MOUNTS";
/// How many deliveries fit at most after the disk is full: the log of the database has some room left.
const MAX_DELIVERIES: usize = 64;

/// A server, and the deliveries that it has acknowledged.
struct Deliveries<'a> {
    place: &'a Place,
    serving: &'a Serving,
    issue: u64,
    acknowledged: BTreeSet<String>,
}

impl<'a> Deliveries<'a> {
    fn new(place: &'a Place, serving: &'a Serving) -> Self {
        let issue = place.forge.add_issue("It fails", "Why?");
        Self { place, serving, issue, acknowledged: BTreeSet::new() }
    }

    /// Delivers a comment of this size. Returns whether it was acknowledged.
    fn deliver(&mut self, bytes: usize) -> bool {
        let (by, body) = ("stranger".to_owned(), "x".repeat(bytes));
        let webhook = self.place.forge.webhook(&Told::Comment { number: self.issue, by, body });
        let hook = format!("http://{}/webhooks/app", self.serving.address);
        match webhook.deliver(&hook, SECRET) {
            (202, _) => self.acknowledged.insert(webhook.delivery),
            (503, _) => false,
            (status, answer) => panic!("{status}: {answer}"),
        }
    }

    fn deliver_until_refused(&mut self) {
        assert!((0..MAX_DELIVERIES).any(|_| !self.deliver(500_000)), "every delivery was accepted");
    }

    fn wait_for_readiness(&self, expected: u16) {
        self.place.wait_for("the readiness of the server", || {
            let (status, _) = self.serving.request("GET", "/readyz", "", &Value::Null);
            (status == expected).then_some(())
        });
    }

    /// The fault is over: the same server accepts deliveries, and has all of them.
    fn check_recovery(&mut self) {
        self.wait_for_readiness(200);
        assert!(self.deliver(500_000), "a ready server accepts a delivery");
        let listed = self.place.json(&["get", "deliveries"]);
        let id = |one: &Value| one["spec"]["deliveryId"].as_str().map(str::to_owned);
        let listed: BTreeSet<String> = listed.as_array().unwrap().iter().filter_map(id).collect();
        let missing: Vec<_> = self.acknowledged.difference(&listed).collect();
        assert!(missing.is_empty(), "acknowledged but missing: {missing:?}");
    }
}

fn set_up(place: &Place) {
    place.run_with_input(&["secrets", "set", "webhook", "key"], SECRET).expect_code(0);
    place
        .run_with_input(&["secrets", "set", "forge", "token"], &place.forge.token())
        .expect_code(0);
    place.apply(&place.documents()).expect_code(0);
}

/// Writes until the disk is full.
fn fill(file: &Path) {
    let mut out = File::create(file).unwrap();
    for size in [1 << 16, 1 << 10, 1] {
        while out.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

#[test]
fn serve_accepts_webhooks_again_after_a_full_disk() {
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "fleet::storage::inner_full_disk", "--nocapture"])
        .env(OWN_MOUNTS, "yes")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("the fault is over"), "{text}\n{errors}");
}

/// Does nothing unless it has its own mounts.
#[test]
fn inner_full_disk() {
    if std::env::var_os(OWN_MOUNTS).is_none() {
        return;
    }
    let place = Place::bare();
    let state = place.scratch.state();
    fs::create_dir_all(&state).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=48m,mode=700", "tmpfs"];
    assert!(Command::new("mount").args(mount).arg(&state).status().unwrap().success());
    set_up(&place);
    let serving = Serving::start(&place);
    let mut deliveries = Deliveries::new(&place, &serving);
    deliveries.wait_for_readiness(200);
    for _ in 0..2 {
        assert!(deliveries.deliver(1_000), "the control: there is room");
        let filler = state.join("filler");
        fill(&filler);
        deliveries.deliver_until_refused();
        deliveries.wait_for_readiness(503);
        fs::remove_file(&filler).unwrap();
        deliveries.check_recovery();
    }
    drop(serving);
    println!("the fault is over");
}

#[test]
fn serve_accepts_webhooks_again_after_its_database_was_moved_and_is_back() {
    let place = Place::bare();
    set_up(&place);
    let serving = Serving::start(&place);
    let mut deliveries = Deliveries::new(&place, &serving);
    deliveries.wait_for_readiness(200);
    assert!(deliveries.deliver(1_000), "the control: the database is there");
    let (file, aside) =
        (place.scratch.state().join("bailiwick.db"), place.scratch.place().join("aside.db"));
    fs::rename(&file, &aside).unwrap();
    for _ in 0..3 {
        assert!(!deliveries.deliver(1_000), "a delivery was accepted into a missing database");
    }
    // The readiness is checked without a command: it would create a database.
    for attempt in 0.. {
        let (status, _) = serving.request("GET", "/readyz", "", &Value::Null);
        if status == 503 {
            break;
        }
        assert!(attempt < 300, "the server says that it is ready");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(!file.exists(), "an empty database was created");
    fs::rename(&aside, &file).unwrap();
    deliveries.check_recovery();
}
