//! The doors of the server: see `crate::fuzz`.

use super::inbound::{BodyReader, Inbound};
use super::request_head::{self, Framing};
use crate::socket::Socket;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A head, whole and in pieces: both ways the same is read.
pub(crate) fn head(data: &[u8]) {
    let whole = request_head::end(data, 0);
    let mut seen = 0;
    for upto in 0..=data.len() {
        match request_head::end(&data[..upto], seen) {
            Ok(None) => seen = upto,
            other => {
                assert_eq!(other, whole);
                break;
            }
        }
    }
    let Ok(Some(length)) = whole else { return };
    if let Ok(head) = request_head::parse(&data[..length]) {
        assert!(head.target.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(head.headers.all("host").count() <= 1);
        let sized = matches!(head.framing, Framing::Length(length) if length > 0);
        assert!(!sized || head.headers.all("transfer-encoding").count() == 0);
    }
}

/// All that comes over a connection: heads and bodies, as often as they follow one another.
pub(crate) fn connection(data: &[u8]) {
    let Ok((near, mut far)) = UnixStream::pair() else { return };
    let data = &data[..data.len().min(64 << 10)];
    if far.write_all(data).is_err() {
        return;
    }
    drop(far);
    let inbound = Arc::new(Mutex::new(Inbound::new(Arc::new(Socket::new(near.into())))));
    let patience = Duration::from_secs(10);
    let mut read = 0;
    for _ in 0..100 {
        if crate::lock(&inbound).head(patience, patience, 16 << 10).is_err() {
            return;
        }
        let mut body = BodyReader { inbound: inbound.clone(), patience: Some(patience) };
        let mut buffer = [0; 1000];
        while let Ok(count @ 1..) = body.read(&mut buffer) {
            read += count;
            assert!(read <= data.len(), "more than came");
        }
        if !crate::lock(&inbound).finish(1000, std::time::Instant::now() + patience) {
            return;
        }
    }
}
