//! The sockets of the container's resolver, made in its network namespace and handed to the monitor.

use crate::fault::{Step, os};
use crate::ops;
use crate::report::Report;
use crate::reports::hand_over;
use crate::subjects::{TCP, UDP};
use crate::sys;

/// [`ops::Dns`]: `report` takes the sockets.
pub fn open(op: ops::Dns, report: i32) -> Step {
    let port = (op.port as u16).to_be_bytes();
    // `sockaddr_in` of 127.0.0.11.
    let local = [2, 0, port[0], port[1], 127, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0];
    let udp = os(sys::internet(false))?;
    let tcp = os(sys::internet(true))?;
    os(sys::bind(udp, &local))?;
    os(sys::bind(tcp, &local))?;
    os(sys::listen(tcp, 16))?;
    for (which, fd) in [(UDP, udp), (TCP, tcp)] {
        os(hand_over(report, Report::Dns(which as u32), Some(fd)))?;
        sys::close(fd);
    }
    Ok(())
}
