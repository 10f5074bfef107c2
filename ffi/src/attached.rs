//! The object behind a `coracle_session *`: an attached process.

use crate::handle::Object;
use crate::types::*;
use engine::Session;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

/// The object behind a `coracle_session *`.
pub(crate) struct SessionObject {
    /// Locked for writing only while a descriptor is taken out.
    pub(crate) session: RwLock<Session>,
    pub(crate) reading: Mutex<()>,
    pub(crate) writing: Mutex<()>,
}

impl Object for SessionObject {
    type Opaque = coracle_session;
    const KIND: u64 = 4;
    const NAME: &'static str = "session";
}

impl SessionObject {
    pub(crate) fn new(session: Session) -> SessionObject {
        SessionObject { session: RwLock::new(session), reading: Mutex::new(()), writing: Mutex::new(()) }
    }

    pub(crate) fn session(&self) -> RwLockReadGuard<'_, Session> {
        self.session.read().unwrap_or_else(PoisonError::into_inner)
    }
}
