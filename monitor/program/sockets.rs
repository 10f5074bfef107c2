//! The launcher's orders about sockets of the container's network: those of the resolver, and those of published ports.
//! The worker carries them out (`dns`, `relay`). The launcher keeps a copy of each socket for the next worker.

use crate::link::Link;
use crate::message::{DNS_SOCKET, END_DNS, END_PORTS, MESSAGE, Message, ORDER, PORTS};
use crate::sys;
use crate::wire::{MAX_FDS, RELAY_KEY};

/// Takes a socket of the resolver, in its place.
pub fn take_resolver(link: &mut Link, which: usize, fd: i32) {
    if link.worker.dns.take(which, fd) && link.life.runs() {
        let _ = link.order(Message { code: DNS_SOCKET, a: which as u32, ..Message::default() }, &[fd]);
    }
}

/// The container's network ended, and the resolver's sockets with it.
pub fn end_resolver(link: &mut Link) {
    if link.life.runs() && link.worker.dns.sockets().next().is_some() {
        let _ = link.order(Message { code: END_DNS, ..Message::default() }, &[]);
    }
    link.worker.dns.close();
}

/// Takes the sockets of published ports out of the queue that brought them. The queue may be empty.
pub fn take_ports(link: &mut Link, queue: i32) {
    let mut keys = [0u8; RELAY_KEY * MAX_FDS];
    loop {
        let mut fds = [-1; MAX_FDS];
        let Ok((length, count)) = sys::recv_fds(queue, &mut keys, &mut fds, false) else { break };
        if length == 0 {
            break;
        }
        link.worker.relay.add(&keys[..length], &fds[..count]);
        hand_ports(link, &keys[..length], &fds[..count]);
    }
    sys::close(queue);
}

/// Gives sockets to a worker that runs. A worker that begins later finds all of them.
fn hand_ports(link: &mut Link, keys: &[u8], fds: &[i32]) {
    if !link.life.runs() || keys.len() != fds.len() * RELAY_KEY {
        return;
    }
    let mut order = [0; ORDER];
    order[..MESSAGE].copy_from_slice(&Message { code: PORTS, ..Message::default() }.to_bytes());
    order[MESSAGE..MESSAGE + keys.len()].copy_from_slice(keys);
    let _ = link.order_bytes(&order[..MESSAGE + keys.len()], fds);
}

/// Closes the published ports, so that others can use them: the worker's copies, too.
pub fn end_ports(link: &mut Link) {
    if link.life.runs() && link.worker.relay.sockets().next().is_some() {
        let _ = link.command(Message { code: END_PORTS, ..Message::default() }, &[]);
    }
    link.worker.relay.close();
}
