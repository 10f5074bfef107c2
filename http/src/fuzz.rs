//! Doors for fuzzers: each takes any bytes, and must neither panic nor hang nor break what it asserts. See `fuzz/`.

#[cfg(test)]
#[path = "../../tests/support/mutate.rs"]
mod mutate;

use crate::query::{Query, decode};
use crate::server::fuzz as server;
use crate::stream::{Frames, frame};
use crate::websocket;
use crate::{json, schema};
use coracle::Channel;
use coracle::model::*;
use serde::de::DeserializeOwned;

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("head", server::head),
    ("connection", server::connection),
    ("query", query),
    ("json", documents),
    ("frames", frames),
];

/// Runs one by name; of an unknown name nothing comes.
pub fn run(name: &str, data: &[u8]) {
    if let Some((_, target)) = TARGETS.iter().find(|(one, _)| *one == name) {
        target(data);
    }
}

/// A query string and a path.
fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = decode(&text, false);
    if let Ok(query) = Query::parse(&text) {
        for key in ["all", "limit", "since", "filters", "t"] {
            let _ = (query.text(key), query.flag(key), query.number(key).is_ok(), query.time(key).is_ok());
        }
        let _ = query.filters();
    }
}

/// The frames of attach: whatever comes in, in one piece or in many, is read as the same; what goes out says its length.
fn frames(data: &[u8]) {
    let data = &data[..data.len().min(64 << 10)];
    let whole = websocket::Reader::default().feed(data);
    let (mut reader, mut pieces) = (websocket::Reader::default(), websocket::Read::default());
    for piece in data.chunks(3) {
        let read = reader.feed(piece);
        pieces.data.extend(read.data);
        pieces.reply.extend(read.reply);
        pieces.closed = read.closed;
        if read.closed {
            break;
        }
    }
    assert_eq!(pieces, whole);
    assert!(whole.data.len() <= data.len() && whole.reply.len() <= data.len() + 4, "more than came");
    let sent = frame(Channel::Stderr, data, Frames::Multiplexed);
    assert_eq!((sent[0], sent.len()), (2, data.len() + 8));
    assert_eq!(u32::from_be_bytes([sent[4], sent[5], sent[6], sent[7]]) as usize, data.len());
    assert_eq!(&sent[8..], data);
    assert_eq!(frame(Channel::Stdout, data, Frames::Raw), data);
    let message = frame(Channel::Stdout, data, Frames::WebSocket(crate::websocket::Message::Text));
    assert!(message.ends_with(data) && message.len() <= data.len() + 10);
}

/// Every body that our reader takes, serde_json takes, too; every body that a table lets through fits its type.
fn documents(data: &[u8]) {
    let Ok(node) = json::parse(data) else { return };
    let value = json::to_value(&node);
    let again: serde_json::Value = serde_json::from_slice(&json::text(&value)).expect("what was written can be read");
    // Numbers beyond 64 bits are rounded; no field takes them.
    assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&value));
    body::<CreateBody>(data, &schema::CREATE);
    body::<HostConfig>(data, &schema::HOST_CONFIG);
    body::<UpdateContainer>(data, &schema::UPDATE);
    body::<ExecConfig>(data, &schema::EXEC_CONFIG);
    body::<CreateVolume>(data, &schema::CREATE_VOLUME);
    body::<CreateNetwork>(data, &schema::NETWORK_CREATE);
    body::<ConnectNetwork>(data, &schema::NETWORK_CONNECT);
}

/// Every body that a table lets through fits the table's type.
fn body<T: DeserializeOwned>(data: &[u8], table: &'static schema::Table) {
    if let Ok(node) = schema::read(data, table) {
        schema::typed::<T>(node).unwrap_or_else(|e| panic!("{}: {e}", table.name));
    }
}

#[cfg(test)]
mod tests {
    use super::mutate;

    #[test]
    fn every_target_takes_anything() {
        for (name, target) in super::TARGETS {
            mutate::each(name, if *name == "connection" { 300 } else { 1500 }, target);
        }
    }
}
