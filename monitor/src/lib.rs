//! The monitor: its wire format and the finished static program as bytes.
