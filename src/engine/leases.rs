//! Leases: containers that end with the last holder of a lease.

use super::{Engine, Lease};
use crate::error::Result;

impl Engine {
    /// Holds the lease `name` until the answer is dropped or the program ends, however it ends. Any number of programs may
    /// hold one lease.
    ///
    /// A container that has the label `coracle.lease=NAME` is created and started only while somebody holds that lease. When the
    /// last holder is gone, the container's monitor ends it with SIGKILL, and the next look at it removes it.
    ///
    /// ```no_run
    /// # let engine = coracle::Engine::open("/var/lib/coracle")?;
    /// use coracle::model::{ContainerConfig, CreateBody};
    ///
    /// let _lease = engine.lease("nightly")?;
    /// let mut config = ContainerConfig { image: "busybox".into(), ..Default::default() };
    /// config.labels.insert("coracle.lease".into(), "nightly".into());
    /// engine.container_create(None, &CreateBody { config, ..Default::default() })?;
    /// # Ok::<(), coracle::Error>(())
    /// ```
    ///
    /// Errors: `name` is malformed.
    pub fn lease(&self, name: &str) -> Result<Lease> {
        self.0.containers.register.leases().hold(name)
    }
}
