//! Other hosts: those that are named can be reached, nothing else.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use bailiwick_runner::proxy::ModelApi;

use crate::proxy_lab::{Lab, Recorder, Told, connect};

/// A host that sends back what it gets.
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

/// Asks for a tunnel; what is said through it, if it opens.
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
    let mut back = [0; 11];
    stream.read_exact(&mut back).unwrap();
    (status, Some(String::from_utf8(back.to_vec()).unwrap()))
}

#[test]
fn a_host_that_is_named_can_be_reached() {
    let port = echo();
    let host = format!("127.0.0.1:{port}");
    let observer = Recorder::passes();
    let lab = Lab::with_hosts(ModelApi::Anthropic, None, &observer, std::slice::from_ref(&host));
    assert_eq!(ask(&lab, &host), ("200".to_owned(), Some("hello there".to_owned())));
    assert_eq!(observer.told(), [Told::Connected(host, true)]);
}

#[test]
fn every_other_host_cannot() {
    let port = echo();
    let other = echo();
    let observer = Recorder::passes();
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
        assert_eq!(observer.told().last(), Some(&Told::Connected(host, false)));
    }
}

#[test]
fn a_name_that_leads_inside_cannot_be_reached_even_if_it_is_allowed() {
    let port = echo();
    let host = format!("localhost:{port}");
    let observer = Recorder::passes();
    let lab = Lab::with_hosts(ModelApi::Anthropic, None, &observer, std::slice::from_ref(&host));
    assert_eq!(ask(&lab, &host).0, "403");
    assert_eq!(observer.told(), [Told::Connected(host, false)]);
}

#[test]
fn a_tunnel_ends_with_the_proxy() {
    let port = echo();
    let host = format!("127.0.0.1:{port}");
    let lab = Lab::with_hosts(
        ModelApi::Anthropic,
        None,
        &Recorder::passes(),
        std::slice::from_ref(&host),
    );
    let mut stream = connect(lab.proxy.address());
    write!(stream, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    lab.stop();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.ends_with(b"\r\n\r\n"), "it ended, and did not time out");
}
