//! Notices clients that go away while nothing is sent to them.
//!
//! One thread per router, started with the first call that blocks for long, waits for the hang-up of every watched
//! socket at once. It costs nothing while nothing happens.

use crate::lock;
use crate::socket::Socket;
use coracle::{Error, Op, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The router's watch; its thread ends with it.
#[derive(Default)]
pub(crate) struct Watch(Mutex<Option<Arc<Shared>>>);

struct Shared {
    epoll: Epoll,
    wake: EventFd,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    next: u64,
    operations: HashMap<u64, Op>,
    over: bool,
}

/// A watched client; dropping it ends the watch.
pub(crate) struct Registration {
    shared: Arc<Shared>,
    socket: Arc<Socket>,
    key: u64,
    op: Op,
}

const WAKE: u64 = 0;

impl Watch {
    /// Watches `socket`: the registration's operation is cancelled when its other end closes or stops sending.
    pub(crate) fn register(&self, socket: &Arc<Socket>) -> Result<Registration> {
        let shared = self.shared()?;
        let op = Op::new()?;
        let mut clients = lock(&shared.clients);
        clients.next += 1;
        let key = clients.next;
        clients.operations.insert(key, op.clone());
        drop(clients);
        let event = EpollEvent::new(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLONESHOT, key);
        if let Err(errno) = shared.epoll.add(&**socket, event) {
            lock(&shared.clients).operations.remove(&key);
            return Err(Error::os("watch a client", errno as i32));
        }
        Ok(Registration { shared, socket: socket.clone(), key, op })
    }

    fn shared(&self) -> Result<Arc<Shared>> {
        let mut slot = lock(&self.0);
        if let Some(shared) = &*slot {
            return Ok(shared.clone());
        }
        let shared = Arc::new(Shared::new().map_err(|errno| Error::os("watch clients", errno as i32))?);
        let mine = shared.clone();
        crate::thread::spawn("coracle-clients", move || mine.run()).map_err(|e| Error::io("start a thread", &e))?;
        *slot = Some(shared.clone());
        Ok(shared)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(shared) = lock(&self.0).take() {
            lock(&shared.clients).over = true;
            let _ = shared.wake.write(1);
        }
    }
}

impl Shared {
    fn new() -> nix::Result<Shared> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(Shared { epoll, wake, clients: Mutex::default() })
    }

    fn run(&self) {
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(_) => return,
            };
            let clients = lock(&self.clients);
            if clients.over {
                return;
            }
            for event in &events[..count] {
                if let Some(op) = clients.operations.get(&event.data()) {
                    op.cancel();
                }
            }
        }
    }
}

impl Registration {
    /// The operation that ends with the client.
    pub(crate) fn op(&self) -> &Op {
        &self.op
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.shared.clients).operations.remove(&self.key);
        let _ = self.shared.epoll.delete(&*self.socket);
    }
}
