//! dockerd 20.10 as the measure of every record's shape: a container of dockerd, and a log of the same facts and lines here,
//! send to a listener of this test. Records are compared field by field, but for times and numbers of processes. It needs docker.io:
//!
//!     cargo test -p coracle-ship --features tls --test receivers -- --ignored dockerd

use crate::surroundings::{inside, is_inside};
use crate::world::*;
use coracle_ship::Facts;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

const NAME: &str = "dockerd::records_are_those_of_dockerd";
const JOURNAL: &str = "/run/systemd/journal/socket";
/// The lines of the container: the stream, and the text.
const LINES: [(bool, &str); 5] =
    [(false, "one"), (false, ""), (false, "a \"q\" \\ é\t<&> [x]: y"), (true, "problem"), (false, "{\"j\": [1]}")];
/// Before the last of them there is a line of so many bytes, in parts of so many at most.
const LONG: (usize, usize) = (40_000, 16 << 10);

/// The messages that came: datagrams, bodies of HTTP requests, or all bytes of a connection as one.
type Messages = Arc<Mutex<Vec<Vec<u8>>>>;

fn datagrams(mut receive: impl FnMut(&mut [u8]) -> std::io::Result<usize> + Send + 'static) -> Messages {
    let all = Messages::default();
    let theirs = Arc::clone(&all);
    std::thread::spawn(move || {
        let mut block = vec![0; 256 << 10];
        while let Ok(length) = receive(&mut block) {
            theirs.lock().expect("a lock").push(block[..length].to_vec());
        }
    });
    all
}

/// Takes connections; `each` reads one.
fn connections(each: fn(TcpStream, &Messages)) -> (u16, Messages) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let all = Messages::default();
    let theirs = Arc::clone(&all);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let theirs = Arc::clone(&theirs);
            std::thread::spawn(move || each(socket, &theirs));
        }
    });
    (port, all)
}

fn stream(mut socket: TcpStream, all: &Messages) {
    let place = {
        let mut all = all.lock().expect("a lock");
        all.push(Vec::new());
        all.len() - 1
    };
    let mut block = [0; 4096];
    while let Ok(length @ 1..) = socket.read(&mut block) {
        all.lock().expect("a lock")[place].extend_from_slice(&block[..length]);
    }
}

fn http(socket: TcpStream, all: &Messages) {
    let mut lines = BufReader::new(socket.try_clone().expect("a socket"));
    let mut answers = socket;
    loop {
        let (mut length, mut target) = (0, String::new());
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let (key, value) = line.trim().split_once(": ").unwrap_or_default();
            match key.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().expect("a length"),
                "x-amz-target" => target = value.to_owned(),
                _ => {}
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).expect("a body");
        if target.is_empty() || target.ends_with(".PutLogEvents") {
            all.lock().expect("a lock").push(body);
        }
        let text = "{\"nextSequenceToken\":\"1\"}";
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        answers.write_all(answer.as_bytes()).expect("answer");
    }
}

/// A private dockerd that ends with the test.
struct Dockerd(PathBuf);

impl Drop for Dockerd {
    fn drop(&mut self) {
        let _ = script().arg("stop").arg(&self.0).status();
    }
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/dockerd"))
}

impl Dockerd {
    fn start(dir: PathBuf) -> Dockerd {
        let keys = [("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "s")];
        assert!(script().arg("start").arg(&dir).envs(keys).status().expect("bench/dockerd").success());
        let dockerd = Dockerd(dir);
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-images/busybox.tar");
        dockerd.docker(&["load", "-qi", &image.display().to_string()]);
        dockerd
    }

    fn docker(&self, words: &[&str]) -> String {
        let mut command = Command::new("docker");
        let done = command.arg("-H").arg(format!("unix://{}/sock", self.0.display())).args(words).output();
        let done = done.expect("docker");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Runs the container whose lines are compared; answers its facts.
    fn run(&self, driver: &str, options: &[(&str, &str)]) -> Facts {
        let given: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut words =
            vec!["run", "-d", "--name", "web", "--network", "none", "--label", "team=a", "-e", "STAGE=test"];
        words.extend(["--log-driver", driver]);
        given.iter().for_each(|option| words.extend(["--log-opt", option]));
        let print = |(stderr, text): &(bool, &str)| {
            format!("printf '%s\\n' '{text}'{}; sleep 0.3; ", if *stderr { " >&2" } else { "" })
        };
        let (last, first) = LINES.split_last().expect("lines");
        let long = format!("head -c {} /dev/zero | tr '\\0' x; echo; sleep 0.3; ", LONG.0);
        let program: String = first.iter().map(print).chain([long, print(last)]).collect();
        words.extend(["busybox", "sh", "-c", &program]);
        let id = self.docker(&words);
        self.docker(&["wait", &id]);
        let all: Value = serde_json::from_str(&self.docker(&["inspect", &id])).expect("JSON");
        let (all, text) = (&all[0], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let args = all["Args"].as_array().into_iter().flatten().map(text);
        let command: Vec<String> = std::iter::once(text(&all["Path"])).chain(args).collect();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        self.docker(&["rm", &id]);
        let has = |option: &str| options.iter().any(|(key, _)| *key == option);
        let extras = [("labels", "team", "a"), ("env", "STAGE", "test")].into_iter().filter(|(option, ..)| has(option));
        Facts {
            name: "web".into(),
            image_id: text(&all["Image"]),
            image_name: text(&all["Config"]["Image"]),
            command: command.join(" "),
            created: text(&all["Created"]),
            tag: id[..12].to_owned(),
            host: host.trim().to_owned(),
            extras: extras.map(|(_, key, value)| (key.to_owned(), value.to_owned())).collect(),
            id,
        }
    }
}

/// The records of a syslog stream, each in a line.
fn syslog(messages: &[Vec<u8>]) -> Vec<Value> {
    String::from_utf8_lossy(&messages.concat()).lines().map(record).collect()
}

/// The records of a syslog stream, each behind its length.
fn syslog_counted(messages: &[Vec<u8>]) -> Vec<Value> {
    let (mut all, bytes) = (Vec::new(), messages.concat());
    let mut rest = bytes.as_slice();
    while let Some(at) = rest.iter().position(|byte| *byte == b' ') {
        let length: usize = std::str::from_utf8(&rest[..at]).expect("digits").parse().expect("a length");
        // The receiver may be reading the last one.
        let Some((one, more)) = rest[at + 1..].split_at_checked(length) else { break };
        all.push(record(&String::from_utf8_lossy(one)));
        rest = more;
    }
    all
}

/// A record of syslog: the head without numbers but the priority's, and the line.
fn record(line: &str) -> Value {
    let masked = |head: &str| {
        let mut out = String::new();
        for c in head.chars() {
            let c = if c.is_ascii_digit() { '#' } else { c };
            if c != '#' || !out.ends_with('#') {
                out.push(c);
            }
        }
        // A day of one digit has a space before it.
        out.replace("  #", " #")
    };
    let (priority, rest) = line.split_once('>').unwrap_or_default();
    let behind = if rest.starts_with("1 ") { " - " } else { "]: " };
    let (head, message) = rest.split_once(behind).unwrap_or((rest, ""));
    json!([priority, masked(head), behind, message])
}

/// A receiver with TLS: all bytes of its connections.
fn with_tls(dir: &Path) -> (u16, Messages, Program) {
    let port = free_port();
    let mut command = Command::new("openssl");
    command.args([
        "s_server",
        "-quiet",
        "-accept",
        &format!("127.0.0.1:{port}"),
        "-cert",
        "cert.pem",
        "-key",
        "key.pem",
    ]);
    // The program's input stays open: at the input's end the program would look again and again.
    command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = Program(command.spawn().expect("openssl"));
    let mut out = program.0.stdout.take().expect("a pipe");
    let messages = datagrams(move |block| match out.read(block)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        length => Ok(length),
    });
    wait_for("openssl", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (port, messages, program)
}

/// The JSON documents of all messages, without some members.
fn documents(messages: &[Vec<u8>], without: &[&str]) -> Vec<Value> {
    let all =
        messages.iter().flat_map(|body| serde_json::Deserializer::from_slice(body).into_iter::<Value>().flatten());
    let stripped = all.map(|mut one| {
        without.iter().for_each(|key| drop(one.as_object_mut().and_then(|map| map.remove(*key))));
        one
    });
    stripped.collect()
}

fn gelf(messages: &[Vec<u8>]) -> Vec<Value> {
    documents(messages, &["timestamp", "_log_ordinal"])
}

fn splunk(messages: &[Vec<u8>]) -> Vec<Value> {
    documents(messages, &["time", "fields"])
}

fn awslogs(messages: &[Vec<u8>]) -> Vec<Value> {
    let mut all = Vec::new();
    for put in documents(messages, &["sequenceToken"]) {
        for event in put["logEvents"].as_array().into_iter().flatten() {
            all.push(json!([put["logGroupName"], put["logStreamName"], event["message"]]));
        }
    }
    all
}

/// Reads MessagePack: what the two sides use of it.
fn unpack(bytes: &mut &[u8]) -> Option<Value> {
    let mut take = |count: usize| {
        let (taken, rest) = bytes.split_at_checked(count)?;
        *bytes = rest;
        Some(taken.to_vec())
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0_usize, |all, byte| all << 8 | usize::from(*byte));
    let code = take(1)?[0];
    let (kind, length) = match code {
        0..0x80 => return Some(json!(code)),
        0x80..0x90 => ('m', usize::from(code & 15)),
        0x90..0xa0 => ('a', usize::from(code & 15)),
        0xa0..0xc0 => ('s', usize::from(code & 31)),
        0xc0 => return Some(Value::Null),
        0xc4 | 0xd9 => ('s', number(&take(1)?)),
        0xc5 | 0xda => ('s', number(&take(2)?)),
        0xc6 | 0xdb => ('s', number(&take(4)?)),
        0xdc => ('a', number(&take(2)?)),
        0xdd => ('a', number(&take(4)?)),
        0xde => ('m', number(&take(2)?)),
        0xdf => ('m', number(&take(4)?)),
        0xcc | 0xd0 => return Some(json!(number(&take(1)?))),
        0xcd | 0xd1 => return Some(json!(number(&take(2)?))),
        0xce | 0xd2 => return Some(json!(number(&take(4)?))),
        0xcf | 0xd3 => return Some(json!(number(&take(8)?))),
        0xd7 => return take(9).map(|_| Value::from("time")),
        _ => return None,
    };
    match kind {
        's' => Some(String::from_utf8_lossy(&take(length)?).into()),
        'a' => (0..length).map(|_| unpack(bytes)).collect::<Option<Vec<_>>>().map(Value::from),
        _ => {
            let mut map = Map::new();
            for _ in 0..length {
                map.insert(unpack(bytes)?.as_str()?.to_owned(), unpack(bytes)?);
            }
            Some(Value::Object(map))
        }
    }
}

/// Tag and record of each entry: dockerd sends a message for each, and here one message has many.
fn fluentd(messages: &[Vec<u8>]) -> Vec<Value> {
    let (mut all, bytes) = (Vec::new(), messages.concat());
    let mut rest = bytes.as_slice();
    while let Some(message) = unpack(&mut rest) {
        match &message[1] {
            Value::Array(entries) => all.extend(entries.iter().map(|entry| json!([message[0], entry[1]]))),
            _ => all.push(json!([message[0], message[2]])),
        }
    }
    // The id of a line in parts is a random one of dockerd's; here it is of the container.
    all.iter_mut().for_each(|one| mask(&mut one[1], "partial_id"));
    all
}

/// Takes the text of a member away, if there is one.
fn mask(record: &mut Value, member: &str) {
    if let Some(value) = record.get_mut(member) {
        assert!(value.as_str().is_some_and(|text| !text.is_empty()), "{member}: {value}");
        *value = "masked".into();
    }
}

/// The fields of entries for the journal.
fn journald(messages: &[Vec<u8>]) -> Vec<Value> {
    let entry = |bytes: &Vec<u8>| {
        let (mut map, mut rest) = (Map::new(), bytes.as_slice());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match line.iter().position(|byte| *byte == b'=') {
                Some(at) => map.insert(text(&line[..at]), text(&line[at + 1..]).into()),
                None => {
                    let length = usize::try_from(u64::from_le_bytes(rest[..8].try_into().expect("8"))).expect("few");
                    let value = text(&rest[8..8 + length]);
                    rest = &rest[8 + length + 1..];
                    map.insert(text(line), value.into())
                }
            };
        }
        map.remove("SYSLOG_TIMESTAMP");
        map.remove("CONTAINER_LOG_EPOCH");
        map.remove("CONTAINER_LOG_ORDINAL");
        let mut entry = Value::Object(map);
        mask(&mut entry, "CONTAINER_PARTIAL_ID");
        entry
    };
    messages.iter().map(entry).collect()
}

/// A driver, its listener, and how its messages are read.
struct Case {
    driver: &'static str,
    options: Vec<(&'static str, String)>,
    messages: Messages,
    read: fn(&[Vec<u8>]) -> Vec<Value>,
    /// A receiver that is a program.
    _program: Option<Program>,
}

/// Syslog by TLS, in lines and behind lengths.
fn tls_cases(dir: &Path) -> Vec<Case> {
    crate::rsyslog::certificates(dir);
    let forms = [("", syslog as fn(&[Vec<u8>]) -> Vec<Value>), ("rfc5424", syslog_counted)];
    let case = |(form, read): (&str, _)| {
        let (port, messages, program) = with_tls(dir);
        let mut options = vec![
            ("syslog-address", format!("tcp+tls://127.0.0.1:{port}")),
            ("syslog-tls-ca-cert", dir.join("ca.pem").display().to_string()),
        ];
        options.extend((!form.is_empty()).then(|| ("syslog-format", form.to_owned())));
        Case { driver: "syslog", options, messages, read, _program: Some(program) }
    };
    forms.into_iter().map(case).collect()
}

fn cases() -> Vec<Case> {
    let extras = || vec![("labels", "team".to_owned()), ("env", "STAGE".to_owned())];
    let mut all = Vec::new();
    let mut add = |driver, mut options: Vec<_>, more: Vec<_>, messages, read| {
        options.extend(more);
        all.push(Case { driver, options, messages, read, _program: None });
    };
    for form in ["", "rfc3164", "rfc5424", "rfc5424micro"] {
        let (port, messages) = connections(stream);
        let mut options = vec![("syslog-address", format!("tcp://127.0.0.1:{port}"))];
        if !form.is_empty() {
            options.push(("syslog-format", form.to_owned()));
        }
        add("syslog", options, Vec::new(), messages, syslog as fn(&[Vec<u8>]) -> Vec<Value>);
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = format!("udp://{}", socket.local_addr().expect("an address"));
    let options = vec![("gelf-address", address), ("gelf-compression-type", "none".to_owned())];
    add("gelf", options, extras(), datagrams(move |block| socket.recv(block)), gelf);
    let (port, messages) = connections(stream);
    add("fluentd", vec![("fluentd-address", format!("127.0.0.1:{port}"))], extras(), messages, fluentd);
    let socket = UnixDatagram::bind(JOURNAL).expect("the journal's socket");
    add("journald", Vec::new(), extras(), datagrams(move |block| socket.recv(block)), journald);
    for form in ["inline", "json", "raw"] {
        let (port, messages) = connections(http);
        let options = vec![
            ("splunk-url", format!("http://127.0.0.1:{port}")),
            ("splunk-token", "t".to_owned()),
            ("splunk-format", form.to_owned()),
            ("splunk-verify-connection", "false".to_owned()),
            ("splunk-source", "s".to_owned()),
        ];
        // Dockerd writes labels and variables in any order before a raw line: one is enough there.
        let more = if form == "raw" { vec![("labels", "team".to_owned())] } else { extras() };
        add("splunk", options, more, messages, splunk);
    }
    let (port, messages) = connections(http);
    let options = vec![
        ("awslogs-endpoint", format!("http://127.0.0.1:{port}")),
        ("awslogs-region", "eu-west-1".to_owned()),
        ("awslogs-group", "g".to_owned()),
    ];
    add("awslogs", options, Vec::new(), messages, awslogs);
    all
}

/// Waits for the last line, and takes the messages.
fn taken(case: &Case) -> Vec<Value> {
    let is_last = |record: &Value| record.to_string().contains("[1]");
    wait_for(case.driver, || (case.read)(&case.messages.lock().expect("a lock")).last().is_some_and(is_last));
    let taken = std::mem::take(&mut *case.messages.lock().expect("a lock"));
    (case.read)(&taken)
}

/// Joins the events of the long line, which has no other bytes.
fn join_parts(events: &mut Vec<Value>) {
    let is_part = |event: &Value| event[2].as_str().is_some_and(|text| text.bytes().all(|byte| byte == b'x'));
    let mut joined: Vec<Value> = Vec::new();
    for event in events.drain(..) {
        match joined.last_mut().filter(|last| is_part(last) && is_part(&event)) {
            Some(last) => {
                last[2] =
                    format!("{}{}", last[2].as_str().unwrap_or_default(), event[2].as_str().unwrap_or_default()).into()
            }
            None => joined.push(event),
        }
    }
    *events = joined;
}

#[test]
#[ignore = "a comparison with dockerd, which need not be here"]
fn records_are_those_of_dockerd() {
    if !is_inside(NAME) {
        let script = "ip link set lo up
            mount -t tmpfs run /run
            mkdir -p /run/systemd/journal";
        return inside(NAME, &["--mount", "--net"], script);
    }
    let mut world = World::new();
    let keys = world.dir.join("keys");
    std::fs::write(&keys, "[default]\naws_access_key_id = AK\naws_secret_access_key = s\n").expect("write");
    let dockerd = Dockerd::start(world.dir.join("dockerd"));
    let mut different = Vec::new();
    for case in cases().into_iter().chain(tls_cases(&world.dir)) {
        let mut options: Vec<_> = case.options.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let facts = dockerd.run(case.driver, &options);
        let mut theirs = taken(&case);
        let keys = keys.display().to_string();
        options.extend((case.driver == "awslogs").then_some(("awslogs-credentials-file", keys.as_str())));
        let mut log = world.container_of(facts, case.driver, &options);
        world.ship();
        let (last, first) = LINES.split_last().expect("lines");
        first.iter().for_each(|(stderr, text)| log.push(text, *stderr));
        log.push_in_parts(&"x".repeat(LONG.0), LONG.1);
        log.push(last.1, last.0);
        log.await_delivery();
        let mut ours = taken(&case);
        // The differences: dockerd sends no empty line to syslog,
        ours.retain(|record| case.driver != "syslog" || record[3] != "");
        // ends messages that stand behind their length with a newline, too,
        if case.driver == "syslog" {
            theirs
                .iter_mut()
                .for_each(|record| record[3] = record[3].as_str().unwrap_or_default().trim_end_matches('\n').into());
        }
        // and joins the parts of a line for awslogs.
        if case.driver == "awslogs" {
            join_parts(&mut ours);
        }
        world.stop_shipping();
        println!("measured: {} {options:?}: {} records", case.driver, theirs.len());
        if ours != theirs {
            different.push(format!("{} {options:?}:\n dockerd {theirs:#?}\n here {ours:#?}", case.driver));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
