//! Attacks over the network: the host's own addresses, the firewall, the resolver.

use crate::support::world::*;
use crate::support::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

/// An upstream resolver of the neighbour; `answer` says what is sent back for a question. Answers what was asked, with
/// the ports that the questions came from.
fn upstream(
    world: &World,
    count: usize,
    answer: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static,
) -> std::thread::JoinHandle<Vec<(u16, Vec<u8>)>> {
    let socket = world.outside(|| UdpSocket::bind((OUTSIDE, 53)).expect("port 53"));
    socket.set_read_timeout(Some(SOON)).expect("a limit");
    std::thread::spawn(move || {
        let mut seen = Vec::new();
        let mut query = [0; 2000];
        while seen.len() < count {
            let Ok((length, from)) = socket.recv_from(&mut query) else { break };
            for message in answer(seen.len(), &query[..length]) {
                let _ = socket.send_to(&message, from);
            }
            seen.push((from.port(), query[..length].to_vec()));
        }
        seen
    })
}

/// Where the name of a question ends, its last byte excluded.
fn name_end(query: &[u8]) -> usize {
    12 + query[12..].iter().position(|byte| *byte == 0).expect("the end of the name")
}

/// An answer of one IPv4 address.
fn address(query: &[u8], ip: [u8; 4]) -> Vec<u8> {
    let mut answer = query[..name_end(query) + 5].to_vec();
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    answer.extend(ip);
    answer
}

fn lower(query: &[u8]) -> Vec<u8> {
    let mut query = query.to_vec();
    let end = name_end(&query);
    query[12..end].make_ascii_lowercase();
    query
}

/// A container on a network of its own kind whose resolver asks the neighbour.
fn asker(world: &World) -> String {
    world.network(json!({ "Name": "net1" })).expect("a network");
    world.sleeper("asks", json!({ "HostConfig": { "NetworkMode": "net1", "Dns": [OUTSIDE] } }))
}

/// A question for the IPv4 address of a name.
fn query(name: &str) -> Vec<u8> {
    let mut query = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

/// Asks the container's resolver for the IPv4 address of a name; answers the message.
fn ask(world: &World, id: &str, name: &str) -> Option<Vec<u8>> {
    let query = query(name);
    world.inside(id, move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(SOON)).expect("a limit");
        socket.send_to(&query, "127.0.0.11:53").expect("ask");
        let mut answer = vec![0; 2000];
        let length = socket.recv(&mut answer).ok()?;
        answer.truncate(length);
        assert_eq!(answer[..2], [7, 7]);
        assert_eq!(answer[12..query.len()], query[12..], "the question in the client's spelling");
        Some(answer)
    })
}

// attack: R15 wall resolver-questions
#[test]
fn questions_come_from_other_ports_in_other_spellings() {
    let world = World::new();
    let seen = upstream(&world, 12, |_, query| vec![address(query, [1, 2, 3, 4])]);
    let id = asker(&world);
    for number in 0..12 {
        // The same length, so that one spelling of all would be seen.
        let answer = ask(&world, &id, &format!("Far-Away-Name.{number:02}.Example")).expect("an answer");
        assert!(answer.ends_with(&[1, 2, 3, 4]), "the name was answered: {answer:?}");
    }
    let seen = seen.join().expect("the resolver");
    assert_eq!(seen.len(), 12, "all questions were passed on");
    let ports: BTreeSet<u16> = seen.iter().map(|(port, _)| *port).collect();
    let numbers: BTreeSet<&[u8]> = seen.iter().map(|(_, query)| &query[..2]).collect();
    let spellings: BTreeSet<&[u8]> = seen.iter().map(|(_, query)| &query[13..26]).collect();
    // Chance may give a few the same.
    assert!(ports.len() >= 10, "the ports of 12 questions: {ports:?}");
    assert!(numbers.len() >= 10, "the numbers of 12 questions: {numbers:?}");
    assert!(spellings.len() >= 8, "the spellings of 12 questions: {spellings:?}");
}

// attack: R15 wall resolver-questions
#[test]
fn an_answer_in_another_spelling_is_not_believed() {
    let world = World::new();
    let seen = upstream(&world, 2, |turn, query| match turn {
        // Somebody guessed the port and the number, and answers first.
        0 => vec![address(&lower(query), [6, 6, 6, 6])],
        _ => vec![address(query, [1, 2, 3, 4])],
    });
    let id = asker(&world);
    let answer = ask(&world, &id, "a-name-with-many-letters.example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "the false address was believed: {answer:?}");
    let seen = seen.join().expect("the resolver");
    assert_eq!(seen.len(), 2, "asked once more");
    assert!(seen[0].0 != seen[1].0 || seen[0].1[..2] != seen[1].1[..2], "from another port, with another number");
}

/// Those who answer in small letters always are of use, too.
#[test]
fn a_resolver_that_changes_the_spelling_is_of_use() {
    let world = World::new();
    upstream(&world, 2, |_, query| vec![address(&lower(query), [1, 2, 3, 4])]);
    let id = asker(&world);
    let answer = ask(&world, &id, "A-Name-With-Many-Letters.Example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "{answer:?}");
}

/// What is no answer to the question leaves the resolver waiting for the right one.
// attack: 130 wall resolver-answers
#[test]
fn malformed_answers_are_nobodys() {
    let world = World::new();
    let seen = upstream(&world, 1, |_, query| {
        let bad = address(query, [6, 6, 6, 6]);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bad = bad.clone();
            change(&mut bad);
            bad
        };
        let end = name_end(query);
        vec![
            vec![],
            query[..1].to_vec(),
            bad[..11].to_vec(),
            bad[..12].to_vec(),
            bad[..end].to_vec(),
            // Another number, a question, another opcode, no question, many questions.
            with(&|bad| bad[0] ^= 1),
            with(&|bad| bad[2] &= 0x7f),
            with(&|bad| bad[2] |= 0x10),
            with(&|bad| bad[5] = 0),
            with(&|bad| bad[4..6].fill(0xff)),
            // A name that points at itself, a label longer than the message, another type, another class.
            with(&|bad| bad[12..14].copy_from_slice(&[0xc0, 12])),
            with(&|bad| bad[12] = 63),
            with(&|bad| bad[end + 2] ^= 2),
            with(&|bad| bad[end + 4] ^= 2),
            vec![0xff; 1999],
            address(query, [1, 2, 3, 4]),
        ]
    });
    let id = asker(&world);
    let answer = ask(&world, &id, "far.example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "{answer:?}");
    assert_eq!(seen.join().expect("the resolver").len(), 1, "asked once, and waited");
    assert!(
        world.root.exec(&id, &["nslookup", "-type=a", "asks"]).out().contains(&world.ip(&id)),
        "the monitor goes on"
    );
}

/// Lengths that lie, over TCP; and questions that nobody should ask.
// attack: 130
#[test]
fn lying_lengths_and_malformed_questions() {
    let world = World::new();
    let listener = world.outside(|| TcpListener::bind((OUTSIDE, 53)).expect("port 53 of TCP"));
    let good = upstream(&world, 1, |_, query| vec![address(query, [1, 2, 3, 4])]);
    let id = asker(&world);
    let lies = std::thread::spawn(move || {
        for lie in [[0, 0], [0, 11], [0x7f, 0xff], [0xff, 0xff]] {
            let (mut stream, _) = listener.accept().expect("a question over TCP");
            let mut query = [0; 2000];
            let _ = stream.read(&mut query);
            let _ = stream.write_all(&lie);
            let _ = stream.write_all(&[0x81; 600]);
        }
    });
    let questions = |framed: Vec<Vec<u8>>| {
        world.inside(&id, move || {
            for message in framed {
                let mut stream = TcpStream::connect("127.0.0.11:53").expect("the resolver over TCP");
                stream.set_read_timeout(Some(SOON)).expect("a limit");
                stream.write_all(&message).expect("ask");
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // An answer that it failed, or the end.
                let _ = stream.read(&mut [0; 2000]);
            }
        });
    };
    let question = query("far.example");
    let framed = |length: u16| [&length.to_be_bytes()[..], &question].concat();
    // Each is passed on, to somebody who lies.
    questions(vec![framed(question.len() as u16); 4]);
    lies.join().expect("the liar");
    questions(vec![framed(0), framed(11), framed(5000), framed(0xffff), vec![0], vec![]]);
    let datagrams: Vec<Vec<u8>> = {
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bad = question.clone();
            change(&mut bad);
            bad
        };
        vec![
            vec![],
            question[..11].to_vec(),
            question[..15].to_vec(),
            with(&|bad| bad[12..14].copy_from_slice(&[0xc0, 12])),
            with(&|bad| bad[12] = 63),
            with(&|bad| bad[2] |= 0x80),
            with(&|bad| bad[4] = 0xff),
            vec![63; 1232],
            vec![0xff; 9000],
        ]
    };
    world.inside(&id, move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for message in datagrams {
            let _ = socket.send_to(&message, "127.0.0.11:53");
        }
    });
    let answer = ask(&world, &id, "far.example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "the resolver goes on: {answer:?}");
    assert_eq!(good.join().expect("the resolver").len(), 1);
    assert_eq!(world.root.status(&id), "running");
}

/// A flood of questions takes no more sockets than it has questions, and they are given back.
#[test]
fn sockets_of_many_questions_are_given_back() {
    let world = World::new();
    let seen = upstream(&world, 40, |_, query| vec![address(query, [1, 2, 3, 4])]);
    let id = asker(&world);
    let answered = std::thread::scope(|scope| {
        let (world, id) = (&world, &id);
        let ask = move |number: usize| ask(world, id, &format!("name{number}.example")).is_some();
        let all: Vec<_> = (0..40).map(|number| scope.spawn(move || ask(number))).collect();
        all.into_iter().map(|one| usize::from(one.join().expect("asks"))).sum::<usize>()
    });
    assert_eq!(answered, 40);
    assert_eq!(seen.join().expect("the resolver").len(), 40);
    // The resolver's own, and the four that are kept for the next questions.
    let sockets = || world.inside(&id, || std::fs::read_to_string("/proc/thread-self/net/udp").expect("the sockets"));
    wait_for("the sockets to be closed", || sockets().lines().count() <= 1 + 1 + 4);
}
