//! Other hosts: only the named ones can be reached.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use bailiwick_runner::proxy::ModelApi;

use crate::proxy_lab::{Lab, Notification, Recorder, connect};

/// A host that echoes its input.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let (mut reader, mut writer) = (stream.try_clone().unwrap(), stream);
            std::thread::spawn(move || std::io::copy(&mut reader, &mut writer));
        }
    });
    port
}

/// Asks for a tunnel; returns the status, and the echoed text if the tunnel opens.
fn ask(lab: &Lab, host: &str) -> (String, Option<String>) {
    let mut stream = connect(lab.proxy.address());
    write!(stream, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            break;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if status != "200" {
        return (status, None);
    }
    stream.write_all(b"hello there").unwrap();
    let mut echoed = [0; 11];
    stream.read_exact(&mut echoed).unwrap();
    (status, Some(String::from_utf8(echoed.to_vec()).unwrap()))
}

#[test]
fn named_host_can_be_reached() {
    let port = echo();
    let host = format!("127.0.0.1:{port}");
    let observer = Recorder::allowing();
    let lab = Lab::with_hosts(ModelApi::Anthropic, None, &observer, std::slice::from_ref(&host));
    assert_eq!(ask(&lab, &host), ("200".to_owned(), Some("hello there".to_owned())));
    assert_eq!(observer.notifications(), [Notification::Connected(host, true)]);
}

#[test]
fn other_hosts_cannot_be_reached() {
    let port = echo();
    let other = echo();
    let observer = Recorder::allowing();
    let hosts = [format!("127.0.0.1:{port}"), "*.example.com:443".to_owned()];
    let lab = Lab::with_hosts(ModelApi::Anthropic, None, &observer, &hosts);
    for host in [
        format!("127.0.0.1:{other}"),
        format!("127.0.0.2:{port}"),
        format!("localhost:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        "example.com:443".to_owned(),
        "example.org:443".to_owned(),
        "x.example.com:80".to_owned(),
    ] {
        assert_eq!(ask(&lab, &host).0, "403", "{host}");
        assert_eq!(observer.notifications().last(), Some(&Notification::Connected(host, false)));
    }
}

#[test]
fn name_of_an_internal_address_cannot_be_reached_even_if_allowed() {
    let port = echo();
    let host = format!("localhost:{port}");
    let observer = Recorder::allowing();
    let lab = Lab::with_hosts(ModelApi::Anthropic, None, &observer, std::slice::from_ref(&host));
    assert_eq!(ask(&lab, &host).0, "403");
    assert_eq!(observer.notifications(), [Notification::Connected(host, false)]);
}

#[test]
fn tunnel_ends_with_the_proxy() {
    let port = echo();
    let host = format!("127.0.0.1:{port}");
    let lab = Lab::with_hosts(
        ModelApi::Anthropic,
        None,
        &Recorder::allowing(),
        std::slice::from_ref(&host),
    );
    let mut stream = connect(lab.proxy.address());
    write!(stream, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    lab.stop();
    let mut remaining = Vec::new();
    let _ = stream.read_to_end(&mut remaining);
    assert!(remaining.ends_with(b"\r\n\r\n"), "it was closed and did not time out");
}
