//! Signed webhooks over HTTP, each durable before it is answered, beside what the database itself commits:
//! the same bytes under an id, one transaction each, with the same promise. Deliveries are looked at by
//! rules while others come in, as always.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bailiwick_fleet::triggers::signature::sign;
use bailiwick_testkit::stopwatch::{median, ratio};
use sqlx::{Connection as _, SqliteConnection};
use tokio::task::JoinSet;

use crate::client::{Client, request};
use crate::place::{Place, SECRET, Serving, now};
use crate::table::{p99, row, short, turns};

const ROUNDS: usize = 6;
/// Webhooks of a contender in a round.
const WEBHOOKS: usize = 512;
/// A webhook of this many bytes; forges send 5 to 30 KiB.
const BYTES: usize = 8 << 10;
const CALLERS: [usize; 3] = [1, 8, 64];

fn payload(number: usize) -> Vec<u8> {
    let mut bytes = format!("{{\"delivery\":{number},\"rest\":\"").into_bytes();
    bytes.resize(BYTES - 2, b'x');
    bytes.extend(b"\"}");
    bytes
}

/// What was measured of one contender.
#[derive(Default)]
struct Times {
    all: Duration,
    each: Vec<Duration>,
    /// Until rules had looked at all of them.
    looked_at: Duration,
}

impl Times {
    fn a_second(&self) -> f64 {
        self.each.len() as f64 / self.all.as_secs_f64()
    }
}

/// A connection that promises what the store promises.
pub(crate) async fn connect(file: &Path) -> SqliteConnection {
    let url = format!("sqlite://{}?mode=rwc", file.display());
    let mut connection = SqliteConnection::connect(&url).await.expect("a connection");
    for setting in ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"] {
        sqlx::raw_sql(setting).execute(&mut connection).await.expect("a setting");
    }
    connection
}

async fn bare(connection: &mut SqliteConnection, from: usize, times: &mut Times) {
    let given: Vec<_> = (from..from + WEBHOOKS).map(|number| (number, payload(number))).collect();
    let begun = Instant::now();
    for (number, bytes) in given {
        let one = Instant::now();
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.expect("a beginning");
        sqlx::query("INSERT INTO deliveries (name, bytes) VALUES ($1, $2)")
            .bind(format!("d-{number}"))
            .bind(bytes)
            .execute(&mut *transaction)
            .await
            .expect("an insertion");
        transaction.commit().await.expect("a commit");
        times.each.push(one.elapsed());
    }
    times.all += begun.elapsed();
}

/// One page of the disk, written and waited for.
fn synced(file: &Path, times: &mut Vec<Duration>) {
    let mut file = std::fs::File::create(file).expect("a file");
    for _ in 0..WEBHOOKS / 4 {
        file.write_all(&[7; 4096]).expect("a write");
        let one = Instant::now();
        file.sync_data().expect("a sync");
        times.push(one.elapsed());
    }
}

/// A request, made and signed beforehand as its sender would.
fn signed(address: SocketAddr, number: usize) -> Vec<u8> {
    let body = payload(number);
    let signature = sign(SECRET.as_bytes(), &body, now()).expect("a signature");
    let headers = format!(
        "x-bailiwick-delivery: d-{number}\r\nx-bailiwick-event: push\r\nx-bailiwick-signature: \
         {signature}\r\n"
    );
    request(address, "POST /webhooks/app", &headers, &body)
}

/// All callers at once. They share one thread: who sends webhooks is another machine, and should take as
/// little of this one as can be.
fn delivered(address: SocketAddr, callers: usize, from: usize, times: &mut Times) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut waiting = Vec::new();
        for caller in 0..callers {
            let client = Client::from(caller, address).await;
            let mine = (from..from + WEBHOOKS).filter(move |number| number % callers == caller);
            waiting.push((client, mine.map(|one| signed(address, one)).collect::<Vec<_>>()));
        }
        let mut all = JoinSet::new();
        let begun = Instant::now();
        for (client, requests) in waiting {
            all.spawn(called(client, requests));
        }
        while let Some(each) = all.join_next().await {
            times.each.extend(each.expect("a caller"));
        }
        times.all += begun.elapsed();
    });
}

/// One caller, who sends the next one when the one before is kept.
async fn called(mut client: Client, requests: Vec<Vec<u8>>) -> Vec<Duration> {
    let mut each = Vec::with_capacity(requests.len());
    for request in requests {
        let one = Instant::now();
        let answered = client.send(&request).await;
        each.push(one.elapsed());
        assert_eq!(answered.status, 202, "{}", String::from_utf8_lossy(&answered.body));
    }
    each
}

pub(crate) async fn measure(place: &Place, serving: &Serving) {
    let mut connection = connect(&place.beside("bare-deliveries.db")).await;
    sqlx::raw_sql("CREATE TABLE deliveries (name TEXT NOT NULL PRIMARY KEY, bytes BLOB NOT NULL)")
        .execute(&mut connection)
        .await
        .expect("a table");
    let mut alone = Times::default();
    let mut ours: Vec<Times> = CALLERS.iter().map(|_| Times::default()).collect();
    let mut syncs = Vec::new();
    let mut next = 0;
    for round in 0..ROUNDS {
        for contender in turns(round, 2 + CALLERS.len()) {
            match contender {
                0 => synced(&place.beside("synced"), &mut syncs),
                1 => bare(&mut connection, next, &mut alone).await,
                some => {
                    let (address, callers) = (serving.address, CALLERS[some - 2]);
                    let times = &mut ours[some - 2];
                    let (begun, before) = (Instant::now(), times.all);
                    tokio::task::block_in_place(|| delivered(address, callers, next, times));
                    let (came, sent) = (begun.elapsed(), times.all - before);
                    serving.drained().await;
                    times.looked_at += sent + (begun.elapsed() - came);
                }
            }
            next += WEBHOOKS;
        }
    }
    let sync = median(&mut syncs);
    let one = alone.a_second();
    for (callers, times) in CALLERS.into_iter().zip(&mut ours) {
        let rate = times.a_second();
        row(
            &format!("webhooks kept a second, {callers} callers"),
            &format!("{rate:.0}"),
            &format!("{one:.0}"),
            &format!("{:.0} %", 100.0 * rate / one),
        );
        let seen = times.each.len() as f64 / times.looked_at.as_secs_f64();
        let share = format!("{:.0} %", 100.0 * seen / one);
        row("  kept and looked at by rules", &format!("{seen:.0}"), &format!("{one:.0}"), &share);
        let late = p99(&mut times.each);
        row(
            "  p99 beside one sync",
            &short(late),
            &short(sync),
            &format!("{:.1} x", ratio(late, sync)),
        );
    }
    let late = p99(&mut alone.each);
    row("  p99 of the bare commits", "", &short(late), &format!("{:.1} x", ratio(late, sync)));
}
