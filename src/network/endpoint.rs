//! A container's endpoints on its networks.

pub(super) mod allocate;
pub(super) mod doc;
pub(super) mod interfaces;
pub(super) mod join;
pub(super) mod joined;
pub(super) mod options;
pub(super) mod publish;
pub(super) mod script;
pub(super) mod store;
