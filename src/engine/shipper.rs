//! The threads of the engine that deliver logs ([`crate::ShipLogs::Thread`]).

use crate::container::Shipping;
use crate::error::Result;
use crate::kernel::fd::{eventfd, eventfd_signal};
use crate::kernel::thread;
use coracle_ship::shipper::{Spawn, run};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The delivery of one engine. Dropping it ends the threads: what they did not deliver stays owed.
pub(crate) struct Shipper(Arc<OwnedFd>);

impl Drop for Shipper {
    fn drop(&mut self) {
        eventfd_signal(self.0.as_fd());
    }
}

impl Shipper {
    /// Starts to deliver the logs of a root, as soon as no other program does.
    pub(super) fn start(shipping: &Shipping) -> Result<Shipper> {
        let (root, lock) = (shipping.root().to_owned(), shipping.lock_path());
        let proxies = shipping.proxies().clone();
        let stop = Arc::new(eventfd()?);
        let held = Arc::clone(&stop);
        thread::spawn_worker("coracle-shipper", move || {
            let spawn: Spawn = Box::new(|work| thread::spawn_worker("coracle-courier", work).is_ok());
            run(&root, &lock, held, &proxies, &spawn);
        })?;
        Ok(Shipper(stop))
    }
}
