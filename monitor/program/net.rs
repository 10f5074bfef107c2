//! Sends the netlink requests that the library wrote, from the network namespace of the container.

use crate::answers;
use crate::fault::{Outcome, Step, errno, os};
use crate::ops;
use crate::sys::{self, *};
use crate::wire::*;

/// [`ops::Net`] of the child.
pub fn run(op: ops::Net, host_link: i32, restarts: u32) -> Step {
    let ops::Net { place, acks, interface, holes, messages } = op;
    let buffer = os(sys::map_memory(messages.len().max(1)))?;
    buffer[..messages.len()].copy_from_slice(messages);
    // The index of the interface is looked up once, for all holes.
    let mut index = None;
    for (kind, at) in holes.iter() {
        let at = at as usize;
        let value = match kind {
            PATCH_RESTART => {
                let digits = [b'0' + (restarts / 10 % 10) as u8, b'0' + (restarts % 10) as u8];
                buffer.get_mut(at..at + 2).ok_or_else(|| errno(EINVAL))?.copy_from_slice(&digits);
                continue;
            }
            PATCH_NETNS => os(sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0))?,
            _ => match index {
                Some(index) => index,
                None => *index.insert(index_of(interface.cstr())?),
            },
        };
        buffer.get_mut(at..at + 4).ok_or_else(|| errno(EINVAL))?.copy_from_slice(&value.to_ne_bytes());
    }
    let socket = match place {
        NET_HOST => host_link,
        NET_INSIDE => os(sys::netlink(NETLINK_ROUTE))?,
        _ => os(sys::netlink(NETLINK_NETFILTER))?,
    };
    os(sys::write(socket, &buffer[..messages.len()]))?;
    let answered = acknowledged(socket, acks);
    if place != NET_HOST {
        sys::close(socket);
    }
    answered
}

/// Interface flags by ioctl: one call, no netlink.
pub fn loopback_up() -> Step {
    const SIOCSIFFLAGS: usize = 0x8914;
    const IFF_UP_RUNNING: u16 = 0x41;
    let mut request = Interface::named(b"lo");
    request.0[16..18].copy_from_slice(&IFF_UP_RUNNING.to_ne_bytes());
    request.ask(SIOCSIFFLAGS)
}

/// The index of an interface of this process's network namespace.
fn index_of(name: &[u8]) -> Outcome<i32> {
    const SIOCGIFINDEX: usize = 0x8933;
    let mut request = Interface::named(name);
    request.ask(SIOCGIFINDEX)?;
    let [.., a, b, c, d] = *request.0.first_chunk::<20>().ok_or_else(|| errno(EINVAL))?;
    Ok(i32::from_ne_bytes([a, b, c, d]))
}

/// A request about an interface (`struct ifreq`): its name, then a value.
struct Interface([u8; 40]);

impl Interface {
    fn named(name: &[u8]) -> Interface {
        let mut request = [0u8; 40];
        let length = name.len().min(16);
        request[..length].copy_from_slice(&name[..length]);
        Interface(request)
    }

    #[inline(never)]
    fn ask(&mut self, request: usize) -> Step {
        let socket = os(sys::internet(false))?;
        let asked = sys::ioctl(socket, request, self.0.as_mut_ptr() as usize);
        sys::close(socket);
        os(asked).map(|_| ())
    }
}

/// Takes the acknowledgements; the first refusal is the answer.
fn acknowledged(socket: i32, acks: u32) -> Step {
    let mut buffer = [0u8; 8192];
    let mut got = 0;
    while got < acks {
        let length = os(sys::read(socket, &mut buffer))?;
        let (count, refused) = answers::acknowledged(&buffer[..length]);
        got += count;
        if let Some(error) = refused {
            return Err(errno(error));
        }
    }
    Ok(())
}

/// A network namespace without a process in it. -1 if the kernel made none, and the clone of the first process will
/// report why. An error: this process could not leave the new namespace.
pub fn new_namespace() -> Result<i32> {
    let own = sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0)?;
    let made = sys::unshare(CLONE_NEWNET).is_ok();
    let new = if made { sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0) } else { Ok(-1) };
    let back = if made { sys::setns(own, CLONE_NEWNET) } else { Ok(()) };
    sys::close(own);
    back.map(|()| new.unwrap_or(-1))
}
