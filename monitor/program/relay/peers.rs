//! Datagrams to published ports, and the answers of the container.

use super::new_socket;
use super::ports::{Port, Ports};
use crate::fd::Fd;
use crate::passage::{own_address, same_peer};
use crate::subjects::{BACK, token};
use crate::sys::{self, *};

const MAX_PEERS: usize = 256;
const DATAGRAM: usize = 64 << 10;
/// How many datagrams are passed on at once. Other work waits too.
const TURNS: usize = 16;

/// A client that sent datagrams, and a socket that is connected to the container for this client.
struct Peer {
    fd: Fd,
    port: usize,
    address: [u8; 28],
    info: PacketInfo,
    info_length: usize,
    last: i64,
}

/// Zero at the beginning.
pub struct Peers {
    epoll: i32,
    peers: [Peer; MAX_PEERS],
    /// How many places were ever used. The rest of the table takes no memory yet.
    touched: usize,
    datagram: [u8; DATAGRAM],
}

impl Peers {
    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    pub fn close_all(&mut self) {
        self.peers[..self.touched].iter_mut().for_each(|peer| peer.fd.close());
    }

    /// Passes on the datagrams that wait at the port with this index.
    pub fn datagrams(&mut self, index: usize, port: &Port, ports: &Ports) {
        let (mut from, mut info) = ([0; 28], PacketInfo([0; 40]));
        for _ in 0..TURNS {
            let buffer = &mut self.datagram;
            let Ok((length, info_length)) = sys::recv_pktinfo(port.fd, buffer, &mut from, &mut info) else { return };
            let Some(at) = self.place(index, port, &from, ports) else { continue };
            let peer = &mut self.peers[at];
            (peer.info, peer.info_length, peer.last) = (PacketInfo(own_address(info.0)), info_length, sys::monotonic());
            let _ = sys::send(peer.fd.raw(), &self.datagram[..length]);
        }
    }

    /// The place of a client that sends datagrams. A new client takes the place of the one that was silent longest.
    fn place(&mut self, index: usize, port: &Port, from: &[u8; 28], ports: &Ports) -> Option<usize> {
        let same = |peer: &Peer| peer.fd.is_open() && peer.port == index && same_peer(&peer.address, from);
        if let Some(at) = self.peers[..self.touched].iter().position(same) {
            return Some(at);
        }
        let target = ports.target(port)?;
        let fd = new_socket(&target, false).ok()?;
        let peers = self.peers.iter().enumerate();
        let at = peers.min_by_key(|(_, peer)| if peer.fd.is_open() { peer.last } else { 0 }).map_or(0, |(at, _)| at);
        let peer = &mut self.peers[at];
        peer.fd.close();
        sys::connect(fd.raw(), &target.address[..target.length]).ok()?;
        sys::epoll_ctl(self.epoll, ADD, fd.raw(), EPOLLIN, token(BACK, at as u32)).ok()?;
        (peer.fd, peer.port, peer.address) = (fd, index, *from);
        self.touched = self.touched.max(at + 1);
        Some(at)
    }

    /// Passes on the container's answers to a client.
    pub fn answer(&mut self, index: usize, ports: &Ports) {
        for _ in 0..TURNS {
            let Some(peer) = self.peers.get_mut(index).filter(|peer| peer.fd.is_open()) else { return };
            peer.last = sys::monotonic();
            let length = match sys::receive(peer.fd.raw(), &mut self.datagram) {
                Ok(length) => length,
                // Nobody listens there; the kernel reports this once.
                Err(_) => return,
            };
            let Some(port) = ports.get(peer.port) else { return };
            let data = &self.datagram[..length];
            let _ = sys::send_pktinfo(port.fd, data, &peer.address, &peer.info, peer.info_length);
        }
    }
}
