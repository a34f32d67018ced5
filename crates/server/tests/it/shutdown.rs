//! Stopping: nothing more is taken, what was begun is finished, streams are told.

use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::client::{Ask, Reply};
use crate::place::{place, place_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_answered_and_streams_get_a_last_frame() {
    let mut place = place().await;
    *place.fleet.slow.lock().unwrap() = Duration::from_millis(600);
    let mut stream = place.watch("/api/v1alpha1/events", None).await;
    stream.next().await.unwrap();
    place.run("run-a").await;
    assert_eq!(stream.next().await.unwrap().name, "change");
    let mut follower = place.watch("/api/agents/runs/run-a/events?watch=1", None).await;
    follower.next().await.unwrap();
    let ask = Ask::new("POST", "/api/agents/runs/run-a/retry").token(place.admin());
    let mut flight = TcpStream::connect(place.address).await.unwrap();
    flight.write_all(&ask.wire(place.address)).await.unwrap();
    while place.fleet.asked.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    place.begin_stop();
    for stream in [&mut stream, &mut follower] {
        let last = stream.next().await.unwrap();
        assert_eq!((last.name.as_str(), last.data["type"].as_str()), ("end", Some("END")));
        assert_eq!(stream.next().await, None);
    }
    assert_eq!(Reply::read(&mut BufReader::new(flight)).await.unwrap().status, 202);
    place.stopped().await;
    assert_eq!(place.fleet.finished.lock().unwrap().len(), 1);
    assert!(TcpStream::connect(place.address).await.is_err(), "nothing listens any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_come_to_an_end_is_cut_off() {
    let mut place = place_with(|limits| limits.grace = Duration::from_millis(200)).await;
    *place.fleet.slow.lock().unwrap() = Duration::from_secs(3_600);
    let ask = Ask::new("POST", "/api/agents/runs/run-a/retry").token(place.admin());
    let mut flight = TcpStream::connect(place.address).await.unwrap();
    flight.write_all(&ask.wire(place.address)).await.unwrap();
    while place.fleet.asked.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    place.begin_stop();
    place.stopped().await;
    assert!(Reply::read(&mut BufReader::new(flight)).await.is_none(), "no answer that is not true");
}
