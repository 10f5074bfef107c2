//! The subjects of epoll's events. Each descriptor in a set has a kind and an index, which its events bring.

// Kinds of the launcher's set.

/// Children ended.
pub const SIGNALS: u32 = 1;
/// Clients wait to be accepted at the control socket.
pub const LISTENER: u32 = 2;
/// A client of the control socket, by its slot.
pub const CLIENT: u32 = 3;
/// The reports of a further process, by its place.
pub const REPORT: u32 = 8;
/// The kernel killed a process for want of memory.
pub const OOM: u32 = 9;
/// The worker's requests.
pub const REQUEST: u32 = 10;
/// The container's lease ended.
pub const LEASE: u32 = 11;
/// The messages of the log's writer.
pub const WRITER: u32 = 13;

// Kinds of the worker's set.

/// Output of a process, by its stream.
pub const OUTPUT: u32 = 4;
/// A client that takes output, by stream and slot.
pub const SINK: u32 = 5;
/// A client's input, by its slot.
pub const INPUT: u32 = 6;
/// A process that takes input, by its owner.
pub const TARGET: u32 = 7;
/// The launcher's orders.
pub const ORDERS: u32 = 12;
/// Sockets of the resolver, by their places: the two below, then those of clients and of other resolvers.
pub const DNS: u32 = 20;
/// The place of the socket for datagrams.
pub const UDP: usize = 0;
/// The place of the socket for connections.
pub const TCP: usize = 1;
/// A published port.
pub const PORT: u32 = 21;
/// One side of a connection to a published port.
pub const SIDE: u32 = 22;
/// Answers to the datagrams of a client of a published port.
pub const BACK: u32 = 23;

/// The number that the events of a descriptor bring.
pub const fn token(kind: u32, index: u32) -> u64 {
    (kind as u64) << 32 | index as u64
}

/// The kind and the index that such a number says.
pub const fn subject(token: u64) -> (u32, usize) {
    ((token >> 32) as u32, token as u32 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_brings_the_kind_and_the_index_of_its_descriptor() {
        for (kind, index) in [(SIGNALS, 0), (SINK, 2095), (BACK, u32::MAX), (DNS, UDP as u32), (DNS, TCP as u32)] {
            assert_eq!(subject(token(kind, index)), (kind, index as usize));
        }
    }

    #[test]
    fn no_two_subjects_have_one_kind() {
        let mut kinds = [
            SIGNALS, LISTENER, CLIENT, REPORT, OOM, REQUEST, LEASE, OUTPUT, SINK, INPUT, TARGET, ORDERS, WRITER, DNS,
            PORT, SIDE, BACK,
        ];
        kinds.sort_unstable();
        assert!(kinds.windows(2).all(|pair| pair[0] < pair[1]), "{kinds:?}");
    }
}
