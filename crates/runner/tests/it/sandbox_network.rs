//! Which hosts and sockets can be reached from inside. Each absence has its control outside.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use bailiwick_runner::sandbox::Network;
use bailiwick_verify::job::Termination;

use crate::lab::Lab;

#[test]
fn listener_on_the_hosts_loopback_is_not_reached() {
    let mut lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
    lab.fails_only_inside(&line);
    // The control: only the network setting makes the difference.
    lab.sandbox.network = Network::Host;
    lab.output_of(&line);
}

#[test]
fn sockets_of_the_host_are_not_reached() {
    let lab = Lab::new();
    let name = format!("bailiwick-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let connect = |path: &str| {
        format!(
            "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die $!; \
             connect($s, pack_sockaddr_un(\"{path}\")) or die $!'"
        )
    };
    lab.fails_only_inside(&connect(&format!("\\0{name}")));
    let path = lab.outside().join("socket");
    let _plain = UnixListener::bind(&path).unwrap();
    lab.fails_only_inside(&connect(&path.display().to_string()));
    for place in ["/run", "/var/run"] {
        lab.fails_only_inside(&format!("test -n \"$(ls -A {place})\""));
    }
}

#[test]
fn abstract_socket_of_the_host_is_not_reached_with_the_hosts_network() {
    let mut lab = Lab::new();
    lab.sandbox.network = Network::Host;
    let name = format!("bailiwick-test-host-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    lab.fails_only_inside(&format!(
        "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die $!; \
         connect($s, pack_sockaddr_un(\"\\0{name}\")) or die $!'"
    ));
}

#[test]
fn loopback_inside_works() {
    let lab = Lab::new();
    let output = lab.output_of(
        r#"perl -MSocket -e '
            socket(my $s, PF_INET, SOCK_STREAM, 0) or die $!;
            bind($s, pack_sockaddr_in(0, inet_aton("127.0.0.1"))) or die $!;
            listen($s, 1) or die $!;
            my ($port) = unpack_sockaddr_in(getsockname($s));
            socket(my $c, PF_INET, SOCK_STREAM, 0) or die $!;
            connect($c, pack_sockaddr_in($port, inet_aton("127.0.0.1"))) or die $!;
            print "connected\n";'"#,
    );
    assert_eq!(output, "connected\n");
}

#[test]
fn socket_families_that_namespaces_do_not_isolate_are_refused() {
    let lab = Lab::new();
    // AF_VSOCK leads from a machine to its host; AF_ALG into the kernel.
    for family in [40, 38] {
        let line = format!(
            "perl -MSocket -e 'socket(my $s, {family}, SOCK_STREAM, 0) or print \"$!\\n\"'"
        );
        assert!(lab.output_of(&line).contains("Address family not supported"), "{family}");
    }
    let ours = "perl -MSocket -e 'socket(my $s, PF_INET6, SOCK_STREAM, 0) or die $!'";
    assert_eq!(lab.shell(ours).ended, Termination::Exit(0));
}
