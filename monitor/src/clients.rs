//! The table of the clients at the control socket.

/// Requests of one client at a time; the table bounds everything that clients can make the monitor hold.
pub const MAX_CLIENTS: usize = 256;

/// The event that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Waits {
    No = 0,
    /// The process's end, whatever follows.
    Stop,
    /// The end after which no restart follows.
    End,
    /// No event: the restart waits for the client.
    HoldsOff,
    /// No event: the container is frozen as long as the client is there.
    Freezes,
}

#[derive(Clone, Copy)]
struct Client {
    /// The client's descriptor; 0 if the slot is free.
    fd: i32,
    waits: Waits,
    /// The client is gone, which the monitor has not noted yet.
    gone: bool,
}

/// Valid when all zero: no client is there.
pub struct Clients {
    clients: [Client; MAX_CLIENTS],
}

impl Clients {
    /// Seats a client; none if the table is full.
    pub fn add(&mut self, fd: i32) -> Option<usize> {
        let slot = self.clients.iter().position(|client| client.fd == 0 && !client.gone)?;
        self.clients[slot] = Client { fd, waits: Waits::No, gone: false };
        Some(slot)
    }

    /// The client's descriptor; none if it is gone.
    pub fn fd(&self, slot: usize) -> Option<i32> {
        self.clients.get(slot).map(|client| client.fd).filter(|&fd| fd > 0)
    }

    /// A client goes: its descriptor, to be closed. Its slot is free after [`Clients::take_gone`].
    pub fn leave(&mut self, slot: usize) -> Option<i32> {
        let fd = self.fd(slot)?;
        let client = &mut self.clients[slot];
        (client.fd, client.gone) = (0, true);
        Some(fd)
    }

    /// The next client that left, and the event that it waited for. Its slot is free from now on.
    pub fn take_gone(&mut self) -> Option<(usize, Waits)> {
        let slot = self.clients.iter().position(|client| client.gone)?;
        let client = &mut self.clients[slot];
        client.gone = false;
        Some((slot, core::mem::replace(&mut client.waits, Waits::No)))
    }

    pub fn set_waits(&mut self, slot: usize, waits: Waits) {
        self.clients[slot].waits = waits;
    }

    /// Whether a client works on the files of the container that waits for its restart.
    pub fn hold_off(&self) -> bool {
        self.clients.iter().any(|client| client.fd > 0 && client.waits == Waits::HoldsOff)
    }

    /// The container was frozen or thawed by another request: no client's connection keeps it frozen.
    pub fn let_thaw(&mut self) {
        for client in self.clients.iter_mut().filter(|client| client.waits == Waits::Freezes) {
            client.waits = Waits::No;
        }
    }

    /// The next client that waits for this end; `last`: no restart follows. It waits no more.
    pub fn take_waiting(&mut self, last: bool) -> Option<usize> {
        let waits = |client: &Client| client.waits == Waits::Stop || last && client.waits == Waits::End;
        let slot = self.clients.iter().position(|client| client.fd > 0 && waits(client))?;
        self.clients[slot].waits = Waits::No;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Clients {
        Clients { clients: [Client { fd: 0, waits: Waits::No, gone: false }; MAX_CLIENTS] }
    }

    #[test]
    fn a_full_table_seats_nobody() {
        let mut clients = empty();
        for at in 0..MAX_CLIENTS {
            assert_eq!(clients.add(at as i32 + 10), Some(at));
        }
        assert_eq!(clients.add(999), None);
        assert_eq!((clients.fd(3), clients.fd(MAX_CLIENTS)), (Some(13), None));
    }

    #[test]
    fn the_slot_of_a_client_that_left_is_free_once_that_is_noted() {
        let mut clients = empty();
        clients.add(5);
        clients.add(6);
        clients.set_waits(0, Waits::Freezes);
        assert_eq!(clients.leave(0), Some(5));
        assert_eq!((clients.fd(0), clients.leave(0)), (None, None), "it leaves once");
        assert_eq!(clients.add(7), Some(2), "not in the place of the one that left");
        assert_eq!(clients.take_gone(), Some((0, Waits::Freezes)));
        assert_eq!(clients.take_gone(), None);
        assert_eq!(clients.add(8), Some(0));
    }

    #[test]
    fn a_client_that_waits_is_answered_once_by_its_end() {
        let mut clients = empty();
        for (fd, waits) in [(5, Waits::End), (6, Waits::No), (7, Waits::Stop), (8, Waits::End), (9, Waits::Stop)] {
            let slot = clients.add(fd).expect("there is room");
            clients.set_waits(slot, waits);
        }
        clients.leave(4);
        let answered =
            |clients: &mut Clients, last| core::iter::from_fn(|| clients.take_waiting(last)).collect::<Vec<_>>();
        assert_eq!(answered(&mut clients, false), [2], "a restart follows");
        assert_eq!(answered(&mut clients, true), [0, 3]);
        assert_eq!(answered(&mut clients, true), []);
    }

    #[test]
    fn a_client_holds_a_restart_off_until_it_leaves() {
        let mut clients = empty();
        clients.add(5);
        assert!(!clients.hold_off());
        clients.set_waits(0, Waits::HoldsOff);
        assert!(clients.hold_off());
        clients.leave(0);
        assert!(!clients.hold_off());
    }

    #[test]
    fn another_freeze_or_thaw_takes_the_freeze_from_a_connection() {
        let mut clients = empty();
        clients.add(5);
        clients.add(6);
        clients.set_waits(0, Waits::Freezes);
        clients.set_waits(1, Waits::End);
        clients.let_thaw();
        clients.leave(0);
        assert_eq!(clients.take_gone(), Some((0, Waits::No)));
        assert_eq!(clients.take_waiting(true), Some(1));
    }
}
