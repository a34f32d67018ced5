//! Which user of this machine is at the other end of a connection.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use axum::http::request::Parts;

use crate::app::Peer;

const TABLE: &str = "/proc/self/net/tcp";
/// Also has sockets that a program opened for IPv6 and connected to an IPv4 address.
const TABLE_OF_V6: &str = "/proc/self/net/tcp6";

/// Whether this system tells whose connections are.
pub fn knows_client_users() -> bool {
    std::fs::metadata(TABLE).is_ok()
}

/// The user whose program sent a request, on this machine and over IPv4; none if that is unknown.
pub fn client_user(parts: &Parts) -> Option<u32> {
    let addresses = parts.extensions.get::<Peer>()?.addresses?;
    let (SocketAddr::V4(client), SocketAddr::V4(server)) = (addresses.client, addresses.server)
    else {
        return None;
    };
    let in_table = |table: &str, shown: fn(SocketAddrV4) -> String| {
        user_in(&std::fs::read_to_string(table).ok()?, &shown(client), &shown(server))
    };
    in_table(TABLE, shown).or_else(|| in_table(TABLE_OF_V6, shown_as_v6))
}

fn user_in(table: &str, client: &str, server: &str) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1) == Some(&client) && fields.get(2) == Some(&server);
        // The kernel shows a socket that its program has closed as one of root, with inode 0.
        let is_open = fields.get(9).is_some_and(|inode| *inode != "0");
        fields.get(7)?.parse().ok().filter(|_| is_it && is_open)
    })
}

/// The same address as a socket for IPv6 has it: `::ffff:127.0.0.1`.
fn shown_as_v6(address: SocketAddrV4) -> String {
    let prefix = u32::from_ne_bytes([0, 0, 0xFF, 0xFF]);
    format!("{prefix:024X}{}", shown(address))
}

/// An address as the kernel's table shows it.
fn shown(address: SocketAddrV4) -> String {
    let host = |host: Ipv4Addr| u32::from_ne_bytes(host.octets());
    format!("{:08X}:{:04X}", host(*address.ip()), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn v4(address: SocketAddr) -> SocketAddrV4 {
        match address {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(address) => panic!("{address}"),
        }
    }

    #[test]
    fn kernel_names_the_user_of_an_open_socket_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        let (from, to) = (v4(from), v4(accepted.local_addr().unwrap()));
        let table = || std::fs::read_to_string(TABLE).unwrap();
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(user_in(&table(), &shown(from), &shown(to)), Some(own));
        let other = SocketAddrV4::new(*from.ip(), from.port().wrapping_add(1));
        assert_eq!(user_in(&table(), &shown(other), &shown(to)), None, "another connection");
        drop(client);
        assert_eq!(user_in(&table(), &shown(from), &shown(to)), None, "the socket is closed");
    }

    #[test]
    fn user_is_that_of_the_client_socket() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 11 1 0\n\
            \x20  1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 12 1 0\n";
        let (client, server) =
            ("127.0.0.1:50000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        assert_eq!(user_in(table, &shown(client), &shown(server)), Some(1001));
    }

    #[test]
    fn user_of_an_ipv6_socket_is_known() {
        let table = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 12 1 0\n";
        let (client, server) =
            ("127.0.0.1:50000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        assert_eq!(user_in(table, &shown_as_v6(client), &shown_as_v6(server)), Some(1001));
        assert_eq!(user_in(table, &shown(client), &shown(server)), None);
    }
}
