//! The open connections: how many there may be, in all and of one address, and which one makes room for a new one.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

use crate::access::TrustedProxies;

/// The addresses of both sides of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionAddresses {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// A connection waits while a header or an unauthenticated body arrives. A waiting connection is closed if a new
/// one needs its place, so that clients that send nothing cannot shut out others.
pub(crate) struct Connections {
    max: usize,
    max_per_address: usize,
    /// Proxies have the connections of many clients.
    proxies: TrustedProxies,
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
    /// The number of connections of each address.
    counts: HashMap<IpAddr, usize>,
}

struct Entry {
    address: IpAddr,
    /// How many requests are being handled.
    active: usize,
    waiting_since: Instant,
    close: Arc<Notify>,
}

impl Table {
    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.open.remove(&id)?;
        if let Some(count) = self.counts.get_mut(&entry.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&entry.address);
            }
        }
        Some(entry)
    }

    fn count(&self, address: IpAddr) -> usize {
        self.counts.get(&address).copied().unwrap_or_default()
    }

    /// Closes the longest waiting connection of the address with the most connections.
    fn evict(&mut self, only: Option<IpAddr>) -> bool {
        let waiting = self.open.iter().filter(|(_, entry)| {
            entry.active == 0 && only.is_none_or(|address| address == entry.address)
        });
        let chosen = waiting.min_by_key(|(_, entry)| {
            (std::cmp::Reverse(self.count(entry.address)), entry.waiting_since)
        });
        let Some(id) = chosen.map(|(id, _)| *id) else { return false };
        if let Some(entry) = self.remove(id) {
            entry.close.notify_one();
        }
        true
    }
}

impl Connections {
    pub(crate) fn new(max: usize, max_per_address: usize, proxies: TrustedProxies) -> Arc<Self> {
        Arc::new(Self {
            max,
            max_per_address,
            proxies,
            table: Mutex::default(),
            changed: Notify::new(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a connection can be admitted.
    pub(crate) async fn room(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no change is missed.
            changed.as_mut().enable();
            {
                let table = self.table();
                if table.open.len() < self.max || table.open.values().any(|one| one.active == 0) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Admits a connection; none if its address has too many that are all being handled.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Arc<ConnectionSlot>> {
        let mut table = self.table();
        let limited = !self.proxies.contains(address);
        if limited && table.count(address) >= self.max_per_address && !table.evict(Some(address)) {
            return None;
        }
        if table.open.len() >= self.max {
            table.evict(None);
        }
        table.next += 1;
        let (id, close) = (table.next, Arc::new(Notify::new()));
        let waiting_since = Instant::now();
        *table.counts.entry(address).or_default() += 1;
        table.open.insert(id, Entry { address, active: 0, waiting_since, close: close.clone() });
        drop(table);
        Some(Arc::new(ConnectionSlot { id, connections: self.clone(), close }))
    }
}

/// The place of an open connection.
pub(crate) struct ConnectionSlot {
    id: u64,
    connections: Arc<Connections>,
    close: Arc<Notify>,
}

impl std::fmt::Debug for ConnectionSlot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("ConnectionSlot").field(&self.id).finish()
    }
}

impl ConnectionSlot {
    /// Waits until the connection has to make room for another.
    pub(crate) async fn evicted(&self) {
        self.close.notified().await;
    }

    /// Marks the connection as active until the result is dropped.
    pub(crate) fn activate(self: &Arc<Self>) -> Active {
        if let Some(entry) = self.connections.table().open.get_mut(&self.id) {
            entry.active += 1;
        }
        Active(self.clone())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.table().remove(self.id);
        self.connections.changed.notify_waiters();
    }
}

/// A request that is being handled.
pub(crate) struct Active(Arc<ConnectionSlot>);

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(entry) = self.0.connections.table().open.get_mut(&self.0.id) {
            entry.active = entry.active.saturating_sub(1);
            entry.waiting_since = Instant::now();
        }
        self.0.connections.changed.notify_waiters();
    }
}

/// A response body; its connection is active until it is sent.
struct ActiveBody {
    body: Body,
    _active: Active,
}

/// Keeps the connection active until the body is sent.
pub(crate) fn active_body(body: Body, active: Active) -> Body {
    Body::new(ActiveBody { body, _active: active })
}

impl HttpBody for ActiveBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    async fn is_evicted(slot: &ConnectionSlot) -> bool {
        tokio::time::timeout(Duration::from_millis(20), slot.evicted()).await.is_ok()
    }

    #[tokio::test]
    async fn longest_waiting_connection_of_the_busiest_address_is_evicted() {
        let connections = Connections::new(4, 4, TrustedProxies::default());
        let single = connections.admit(address(1)).unwrap();
        let first = connections.admit(address(2)).unwrap();
        let second = connections.admit(address(2)).unwrap();
        let active = connections.admit(address(2)).unwrap();
        let _work = active.activate();
        connections.room().await;
        let new = connections.admit(address(3)).unwrap();
        assert!(is_evicted(&first).await);
        for other in [&single, &second, &active, &new] {
            assert!(!is_evicted(other).await);
        }
        assert_eq!(connections.table().open.len(), 4);
        drop((single, first, second, active, new, _work));
        assert!(connections.table().open.is_empty() && connections.table().counts.is_empty());
    }

    #[tokio::test]
    async fn each_address_has_its_own_limit_unless_it_is_a_proxy() {
        let proxies = TrustedProxies::new(vec!["192.0.2.9".parse().unwrap()]);
        let connections = Connections::new(10, 2, proxies);
        let waiting = connections.admit(address(1)).unwrap();
        let active = connections.admit(address(1)).unwrap();
        let work = active.activate();
        let third = connections.admit(address(1)).unwrap();
        assert!(is_evicted(&waiting).await);
        let more = third.activate();
        assert!(connections.admit(address(1)).is_none(), "both are being handled");
        assert!(connections.admit(address(2)).is_some());
        drop(work);
        assert!(connections.admit(address(1)).is_some());
        drop(more);
        let proxied: Vec<_> = (0..6).map(|_| connections.admit(address(9)).unwrap()).collect();
        assert_eq!(connections.table().count(address(9)), proxied.len());
    }

    #[tokio::test]
    async fn new_connection_waits_while_all_are_active() {
        let connections = Connections::new(1, 1, TrustedProxies::default());
        let only = connections.admit(address(1)).unwrap();
        let work = only.activate();
        let shared = connections.clone();
        let waiting = tokio::spawn(async move { shared.room().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(work);
        tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
    }
}
