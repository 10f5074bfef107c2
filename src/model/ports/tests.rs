//! Ports in documents look like maps of texts.

use super::runs::{AsRuns, Runs};
use super::*;
use crate::model::{Empty, PortBinding};
use serde_json::{Value, json};
use std::collections::BTreeMap;

type Plain = BTreeMap<String, Option<Vec<PortBinding>>>;

/// Ports in usual and unusual forms, unsorted.
const KEYS: [&str; 16] = [
    "80/tcp",
    "8080/tcp",
    "8/tcp",
    "65535/sctp",
    "1/udp",
    "10/tcp",
    "080/tcp",
    "80",
    "80/TCP",
    "0/tcp",
    "65536/tcp",
    "",
    "80/tcp/udp",
    "53/udp",
    "53/tcp",
    "é",
];

#[test]
fn a_set_is_written_as_a_map_of_texts() {
    let plain: BTreeMap<&str, Empty> = KEYS.iter().map(|key| (*key, Empty {})).collect();
    let text = serde_json::to_string(&plain).unwrap();
    let mut one_by_one = PortSet::new();
    KEYS.iter().for_each(|key| one_by_one.insert(key));
    for set in [serde_json::from_str(&text).unwrap(), KEYS.iter().chain(&KEYS).collect::<PortSet>(), one_by_one] {
        assert_eq!((serde_json::to_string(&set).unwrap(), set.len()), (text.clone(), KEYS.len()));
        assert!(KEYS.iter().all(|key| set.contains(key)) && !set.contains("81/tcp"));
        assert_eq!(set, serde_json::from_value(json!(plain)).unwrap());
    }
    let empty: PortSet = serde_json::from_str("{}").unwrap();
    assert!(empty.is_empty() && empty == PortSet::new() && serde_json::to_string(&empty).unwrap() == "{}");
    assert!(
        serde_json::from_str::<PortSet>("[]").is_err() && serde_json::from_str::<PortSet>("{\"80/tcp\":1}").is_err()
    );
}

#[test]
fn all_ports_have_the_order_of_their_texts() {
    let mut texts: Vec<String> =
        (1..=65535).flat_map(|port| PROTOCOLS.map(|protocol| format!("{port}/{protocol}"))).collect();
    let set: PortSet = texts.iter().rev().collect();
    texts.sort();
    assert!(set.iter().map(|port| port.to_string()).eq(texts));
    for number in [0, 1, 9, 10, 10_000, 65_535] {
        assert_eq!(number_of(&number.to_string()), Some(number));
        assert_eq!(&*PortText(Form::Usual(text_of_number(number))), number.to_string());
    }
    assert_eq!(["", "00", "65536", "-1", "+1", "1 "].map(number_of), [None; 6]);
}

#[test]
fn a_map_is_written_as_a_map_of_texts() {
    let hosts = [("", ""), ("0.0.0.0", "80"), ("::", "80"), ("127.0.0.1", "8000-8010"), ("x", "00")];
    let binding = |(ip, port): (&str, &str)| PortBinding { host_ip: ip.into(), host_port: port.into() };
    let bindings =
        |number: usize| (number % 7 != 3).then(|| hosts[..number % 6].iter().copied().map(binding).collect());
    let plain: Plain = KEYS.iter().enumerate().map(|(number, key)| ((*key).to_owned(), bindings(number))).collect();
    let text = serde_json::to_string(&plain).unwrap();
    let given: PortMap = KEYS.iter().enumerate().map(|(number, key)| (key, bindings(number))).collect();
    for map in [serde_json::from_str(&text).unwrap(), given] {
        assert_eq!((serde_json::to_string(&map).unwrap(), map.len()), (text.clone(), KEYS.len()));
        assert_eq!(map, serde_json::from_value::<PortMap>(json!(plain)).unwrap());
        assert!(KEYS.iter().all(|key| map.get(key).as_ref() == plain.get(*key)) && map.get("81/tcp").is_none());
        assert!(map.keys().map(|key| key.to_string()).eq(plain.keys().cloned()));
        assert_eq!(map.bindings().count(), plain.values().flatten().flatten().count());
    }
    let other: PortMap = serde_json::from_value(json!({ "80/tcp": null })).unwrap();
    assert_ne!(other, serde_json::from_value::<PortMap>(json!({ "80/tcp": [] })).unwrap());
}

#[test]
fn the_last_of_repeated_members_counts() {
    let text = r#"{"80/tcp":[{"HostPort":"1"}],"9/tcp":null,"80/tcp":[{"HostPort":"2"},{}]}"#;
    let map: PortMap = serde_json::from_str(text).unwrap();
    let plain: Plain = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&map).unwrap(), serde_json::to_value(&plain).unwrap());
    assert_eq!(serde_json::from_str::<PortSet>(r#"{"80/tcp":{},"80/tcp":null}"#).unwrap().len(), 1);
}

#[test]
fn rows_of_one_port_become_one_list() {
    let at = |ip, port| Some((ip, port));
    let rows = [
        ("80/tcp", None),
        ("53/udp", at("::", "5")),
        ("80/tcp", at("a", "1")),
        ("9/tcp", None),
        ("80/tcp", at("b", "2")),
    ];
    let map = PortMap::of_rows(rows);
    let host = |ip: &str, port: &str| json!({ "HostIp": ip, "HostPort": port });
    let expected = json!({ "53/udp": [host("::", "5")], "80/tcp": [host("a", "1"), host("b", "2")], "9/tcp": null });
    assert_eq!(serde_json::to_value(&map).unwrap(), expected);
    let list = PortList::from(map);
    let shown = json!([
        { "IP": "::", "PrivatePort": 53, "PublicPort": 5, "Type": "udp" },
        { "IP": "a", "PrivatePort": 80, "PublicPort": 1, "Type": "tcp" },
        { "IP": "b", "PrivatePort": 80, "PublicPort": 2, "Type": "tcp" },
        { "PrivatePort": 9, "Type": "tcp" },
    ]);
    assert_eq!((serde_json::to_value(&list).unwrap(), list.len()), (shown.clone(), 4));
    let again: PortList = serde_json::from_value(shown).unwrap();
    assert_eq!((&again, again.iter().collect::<PortList>()), (&list, list.clone()));
    assert!(serde_json::from_value::<PortList>(json!([1])).is_err() && PortList::default().is_empty());
}

#[test]
fn clones_share_until_one_changes() {
    let set: PortSet = ["80/tcp"].into_iter().collect();
    let mut other = set.clone();
    other.insert("81/tcp");
    assert_eq!((set.len(), other.len()), (1, 2));
    assert_eq!(serde_json::to_value(&set).unwrap(), Value::from_iter([("80/tcp", json!({}))]));
}

/// The runs of ports as a document, and the ports read back from it.
fn through_runs<T: Runs>(ports: &T) -> (Value, T)
where
    for<'a> AsRuns<&'a T>: serde::Serialize,
{
    let text = serde_json::to_string(&AsRuns(ports)).unwrap();
    let AsRuns(again) = serde_json::from_str::<AsRuns<T>>(&text).unwrap();
    (serde_json::from_str(&text).unwrap(), again.joined(ports.odd()))
}

#[test]
fn neighbours_become_runs_and_come_back() {
    let set: PortSet = KEYS.iter().copied().chain(["79/tcp", "81/tcp", "54/udp"]).collect();
    let runs = "65535/sctp 8/tcp 10/tcp 53/tcp 79-81/tcp 8080/tcp 1/udp 53-54/udp";
    assert_eq!(through_runs(&set), (json!(runs), set));
    let all: PortSet = (1..=65535).flat_map(|port| PROTOCOLS.map(|protocol| format!("{port}/{protocol}"))).collect();
    assert_eq!(through_runs(&all), (json!("1-65535/sctp 1-65535/tcp 1-65535/udp"), all));
    assert_eq!(through_runs(&PortSet::new()), (json!(""), PortSet::new()));
    for damaged in ["0/tcp", "2-1/tcp", "1-65536/tcp", "1", "1/TCP", "-1/tcp", "1-2-3/udp"] {
        assert!(serde_json::from_value::<AsRuns<PortSet>>(json!(damaged)).is_err(), "{damaged}");
    }
}

#[test]
fn bindings_of_neighbours_become_runs_and_come_back() {
    let at = |hosts: &[(&str, u32)]| {
        let binding = |(ip, port): &(&str, u32)| PortBinding { host_ip: (*ip).into(), host_port: port.to_string() };
        Some(hosts.iter().map(binding).collect::<Vec<_>>())
    };
    let chosen = || Some(vec![PortBinding::default()]);
    let odd = || Some(vec![PortBinding { host_ip: "x".into(), host_port: "1-2".into() }]);
    let rows = (1..=9).map(|port| (format!("{port}/tcp"), at(&[("", 8000 + port), ("::1", 80 + port)])));
    let rows = rows.chain((20..=22).map(|port| (format!("{port}/tcp"), at(&[("", 7)]))));
    let rows = rows.chain(
        [(23, at(&[("", 8)])), (24, at(&[("::", 9)])), (25, at(&[])), (26, None), (27, None)]
            .map(|(port, bindings)| (format!("{port}/tcp"), bindings)),
    );
    let rows = rows.chain((1..=3).map(|port| (format!("{port}/udp"), chosen())));
    let rows = rows.chain([("65535/udp".to_owned(), at(&[("", 65535)])), ("80".to_owned(), at(&[("", 5)]))]);
    let rows = rows.chain([("5/udp".to_owned(), odd()), ("6/udp".to_owned(), odd()), ("é".to_owned(), None)]);
    let map: PortMap = rows.collect();
    let runs = json!([
        ["1-9/tcp", 1, [["", "8001"], ["::1", "81"]]],
        ["20-22/tcp", 0, [["", "7"]]],
        ["23/tcp", 0, [["", "8"]]],
        ["24/tcp", 0, [["::", "9"]]],
        ["25/tcp", 0, []],
        ["26-27/tcp", 0, null],
        ["1-3/udp", 0, [["", ""]]],
        ["5-6/udp", 0, [["x", "1-2"]]],
        ["65535/udp", 0, [["", "65535"]]],
    ]);
    assert_eq!(through_runs(&map), (runs, map));
    let all = |step: u32| {
        (1..=65535).map(move |port| (format!("{port}/tcp"), Some(("127.0.0.1", (step * port).to_string()))))
    };
    for step in [0, 1] {
        let rows = all(step).map(|(port, at)| (port, at.map(|(ip, host)| (ip.to_owned(), host))));
        let map = PortMap::of_rows(rows);
        let first = step.to_string();
        assert_eq!(through_runs(&map), (json!([["1-65535/tcp", step, [["127.0.0.1", first]]]]), map));
    }
    assert_eq!(through_runs(&PortMap::new()), (json!([]), PortMap::new()));
    for damaged in
        [json!([["1-2/tcp", 1, [["", "65535"]]]]), json!([["1-2/tcp", 1, [["", "x"]]]]), json!([["1-2/tcp"]])]
    {
        assert!(serde_json::from_value::<AsRuns<PortMap>>(damaged.clone()).is_err(), "{damaged}");
    }
}
