//! An agent reaches the supervisor's listener and nothing else. Each absence has its control outside.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use bailiwick_runner::sandbox::{Bind, Level, Received, Report, Running, WorktreeAccess};

use crate::agent_fixture::AgentFixture;
use crate::lab::launcher;

/// A shell line that sends `hello` to a port of the loopback, and prints the answer.
fn greet(port: u16) -> [String; 3] {
    let line = format!(
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo hello >&3 && cat <&3 > answer'"
    );
    ["/bin/sh".to_owned(), "-c".to_owned(), line]
}

/// A sandbox with an open listener: the listener on the same port of the host, the port, the sandbox and its
/// listener. Without a sandbox, the port is one of the host, and another program can take it first.
fn opened(fixture: &mut AgentFixture) -> (Option<TcpListener>, u16, Running, TcpListener) {
    for _ in 0..20 {
        // Inside, every port is free, even one on which the host listens.
        let host = TcpListener::bind("127.0.0.1:0").unwrap();
        host.set_nonblocking(true).unwrap();
        let port = host.local_addr().unwrap().port();
        let host = match fixture.places.level {
            Level::Full | Level::Partial => Some(host),
            Level::Off => {
                drop(host);
                None
            }
        };
        fixture.places.listener_port = Some(port);
        let (output, errors) = (std::io::stderr(), std::io::stderr());
        let mut running =
            launcher().start(&fixture.sandbox(), &greet(port), output, errors).unwrap();
        match (running.take_listener(Duration::from_secs(60)), &host) {
            (Ok(listener), _) => return (host, port, running, listener),
            (Err(error), Some(_)) => panic!("{error}"),
            (Err(_), None) => running.end(),
        }
    }
    panic!("no port stayed free");
}

#[test]
fn supervisor_accepts_connections_from_inside() {
    for level in [Level::Full, Level::Off] {
        let mut fixture = AgentFixture::new();
        fixture.places.level = level;
        let (host, port, mut running, listener) = opened(&mut fixture);
        assert_eq!(listener.local_addr().unwrap().port(), port);
        let (mut caller, from) = listener.accept().unwrap();
        assert!(from.ip().is_loopback());
        let mut message = [0; 6];
        caller.read_exact(&mut message).unwrap();
        assert_eq!(&message, b"hello\n");
        caller.write_all(b"welcome\n").unwrap();
        drop(caller);
        assert!(matches!(
            running.next_report(Duration::from_secs(60)),
            Received::Report(Report::Confinement(_))
        ));
        let Received::Report(report) = running.next_report(Duration::from_secs(60)) else {
            panic!()
        };
        assert_eq!(report, Report::Exit(0));
        running.end();
        let answer = std::fs::read_to_string(fixture.places.worktree.join("answer")).unwrap();
        assert_eq!(answer, "welcome\n");
        if let Some(host) = host {
            assert_eq!(
                host.accept().unwrap_err().kind(),
                ErrorKind::WouldBlock,
                "the host's listener received a connection"
            );
        }
    }
}

#[test]
fn without_a_port_there_is_no_listener() {
    let fixture = AgentFixture::new();
    let (output, errors) = (std::io::stderr(), std::io::stderr());
    let argv = ["/bin/true".to_owned()];
    let mut running = launcher().start(&fixture.sandbox(), &argv, output, errors).unwrap();
    assert!(running.take_listener(Duration::from_secs(60)).is_err());
}

#[test]
fn host_is_not_reached_by_tcp_or_udp() {
    for access in [WorktreeAccess::Writable, WorktreeAccess::ReadOnly] {
        let mut fixture = AgentFixture::new();
        fixture.places.access = access;
        fixture.places.listener_port = Some(4000);
        for address in ["127.0.0.1", "127.0.0.2"] {
            let tcp = TcpListener::bind((address, 0)).unwrap();
            tcp.set_nonblocking(true).unwrap();
            let port = tcp.local_addr().unwrap().port();
            let line = format!("bash -c 'exec 3<>/dev/tcp/{address}/{port}'");
            fixture.has_effect_only_outside(&line, || tcp.accept().is_ok());
            let udp = UdpSocket::bind((address, 0)).unwrap();
            udp.set_nonblocking(true).unwrap();
            let port = udp.local_addr().unwrap().port();
            let line = format!("bash -c 'echo x > /dev/udp/{address}/{port}'");
            let mut piece = [0; 8];
            fixture.has_effect_only_outside(&line, || udp.recv(&mut piece).is_ok());
        }
        // An address reserved for documentation: nothing is sent, because there is no route.
        let finished = fixture.shell("bash -c 'echo x > /dev/udp/192.0.2.1/9'");
        let output = String::from_utf8_lossy(&finished.tail).into_owned();
        assert!(output.contains("Network is unreachable"), "{output}");
        let list_devices = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
        assert_eq!(fixture.output_of(list_devices), "lo\n");
        fixture.output_of("bash -c 'exec 3<>/dev/tcp/127.0.0.1/4000'");
    }
}

#[test]
fn sockets_of_the_host_are_reached_only_if_mounted() {
    let mut fixture = AgentFixture::new();
    let connect = |path: &str| {
        format!(
            "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die $!; \
             connect($s, pack_sockaddr_un(\"{path}\")) or die $!'"
        )
    };
    let name = format!("bailiwick-test-agent-{}", std::process::id());
    let _abstract =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    fixture.succeeds_only_outside(&connect(&format!("\\0{name}")));
    let path = fixture.place().join("state/runs/one/gate/socket");
    let _plain = UnixListener::bind(&path).unwrap();
    let line = connect(&path.display().to_string());
    fixture.succeeds_only_outside(&line);
    fixture.places.gate = vec![Bind::same(&path)];
    fixture.output_of(&line);
}
