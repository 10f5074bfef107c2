//! The server and the router against a real engine root, spoken to over raw sockets.

mod described;
mod doors;
mod hostile;
mod known;
mod protocol;
mod routing;
mod support;
