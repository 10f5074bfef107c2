//! Every operation is read as it was written, and in no other form.

use crate::encode::{Closed, Items, PlanWriter};
use crate::ops::*;
use crate::wire::{HEADER_LEN, Header, PLAN_MAGIC, STEP_PLAN, VERSION};

fn header() -> Header {
    let zero = Header::of(&[0; HEADER_LEN]).expect("as long as a head is");
    Header { magic: PLAN_MAGIC, version: VERSION, ..zero }
}

/// The parts of the samples.
struct Parts {
    text: Closed,
    other: Closed,
    texts: Items<Text<'static>>,
    pairs: Items<(Text<'static>, Text<'static>)>,
    groups: Items<&'static [u8]>,
    holes: Items<(u32, u32)>,
    old_servers: Items<OldServer<'static>>,
    servers: Items<Server<'static>>,
    aliases: Items<Alias<'static>>,
    ports: Items<RelayPort<'static>>,
}

impl Parts {
    fn new() -> Parts {
        Parts {
            text: Closed::of("/a/path"),
            other: Closed::of(""),
            texts: Items::texts(["one", "", "three"]),
            pairs: Items::pairs([("mode", "755"), ("newinstance", "")]),
            groups: Items::of([&b"wheel"[..], b"27"]),
            holes: Items::of([(0, 8), (2, 44)]),
            old_servers: Items::of([OldServer { ip: &[10, 0, 0, 1], outside: true }]),
            servers: Items::of([Server { ip: &[7; 16], outside: false, scope: 3 }]),
            aliases: Items::of([Alias { network: 1, alias: b"db", name: b"postgres" }]),
            ports: Items::of([RelayPort { key: &[9; 20], ip: &[8; 16], port: 65_535 }]),
        }
    }

    /// One of each, in the order of their codes.
    fn all(&self) -> Vec<Op<'_>> {
        [self.of_the_child(), self.of_the_monitor()].concat()
    }

    fn of_the_child(&self) -> Vec<Op<'_>> {
        let (path, text) = (self.text.text(), self.other.text());
        let credentials =
            Credentials { bounding: 1, for_root: 2, for_others: 3, user: b"a:b", groups: self.groups.list() };
        let words = Words { argv: self.texts.list(), env: self.texts.list() };
        vec![
            Op::Hostname(Hostname { name: b"box" }),
            Op::Domainname(Domainname { name: b"" }),
            Op::Loopback(Loopback {}),
            Op::Propagation(Propagation { kind: 0x4_4000 }),
            Op::Overlay(Overlay { upper: path, work: text, flags: 3, lower: self.texts.list() }),
            Op::Mount(Mount {
                special: 1 << 31,
                attributes: 14,
                kind: path,
                source: text,
                target: path,
                options: self.pairs.list(),
            }),
            Op::Bind(Bind { flags: 1, propagation: 2, set: 1 << 40, clear: u64::MAX, source: path, target: text }),
            Op::Node(Node { mode: 0o20666, major: 1, minor: 3, uid: 4, gid: 5, target: path }),
            Op::Symlink(Symlink { target: path, text }),
            Op::Mask(Mask { path }),
            Op::Readonly(Readonly { path }),
            Op::Sysctl(Sysctl { name: path, value: b"1" }),
            Op::Pivot(Pivot { attributes: 1, propagation: 1 << 20 }),
            Op::Rlimit(Rlimit { resource: 7, reserved: 0, soft: 1 << 40, hard: u64::MAX }),
            Op::OomScore(OomScore { value: -1000, required: true }),
            Op::Keyring(Keyring {}),
            Op::Stdio(Stdio {}),
            Op::Workdir(Workdir { path }),
            Op::Identity(Identity { flags: 1, credentials, filter: b"12345678", inheritable: 4, ambient: 5 }),
            Op::Exec(Exec { words }),
            Op::JoinNs(JoinNs { index: 2, kind: 0x2000_0000 }),
            Op::CgroupNs(CgroupNs {}),
            Op::Attr(Attr { set: 1, path, propagation: 1 << 18 }),
            Op::Enter(Enter { namespaces: 0x4000_0000 }),
            Op::SharedShm(SharedShm { index: 1 }),
            Op::MountHere(MountHere { flags: 14, kind: path, options: text, name: path }),
            Op::FsOwner(FsOwner { uid: 100_000, gid: 100_001 }),
            Op::UserNs(UserNs { uid: 100_000, gid: 100_001, own_mounts: true }),
            Op::OwnStreams(OwnStreams { uid: 1, gid: 2 }),
            Op::Volume(Volume { index: 1, flags: 8, set: 1, clear: 2, target: path, name: b"data" }),
            Op::ForeignDev(ForeignDev { parts: 5 }),
            Op::Chdir(Chdir { path }),
            Op::Profile(Profile { required: false, word: b"exec x" }),
            Op::Label(Label { label: b"system_u:system_r:container_t:s0" }),
            Op::MountLabel(MountLabel { label: path }),
            Op::ChangeProfile(ChangeProfile { word: b"changeprofile x" }),
            Op::Net(Net { place: 1, acks: 2, interface: path, holes: self.holes.list(), messages: b"\0\0" }),
            Op::Dns(Dns { port: 53 }),
            Op::Done(Done {}),
            Op::BindPart(BindPart {
                flags: 1,
                propagation: 2,
                set: 1 << 40,
                clear: u64::MAX,
                source: path,
                part: path,
                target: text,
            }),
            Op::VolumePart(VolumePart {
                index: 1,
                flags: 8,
                set: 1,
                clear: 2,
                target: path,
                part: text,
                name: b"data",
            }),
        ]
    }

    fn of_the_monitor(&self) -> Vec<Op<'_>> {
        let path = self.text.text();
        vec![
            Op::Note(Note { kind: 1, text: path }),
            Op::CgroupDir(CgroupDir { join: true, path }),
            Op::CgroupWrite(CgroupWrite { ignore: false, path, value: b"max" }),
            Op::CgroupDevices(CgroupDevices { path, program: b"87654321" }),
            Op::CgroupFreezer(CgroupFreezer { path }),
            Op::CgroupOom(CgroupOom { path }),
            Op::Health(Health {
                interval: 1,
                timeout: 2,
                start_period: u64::MAX,
                start_interval: 4,
                retries: 3,
                command: b"true",
                plan: b"CORAPLAN",
            }),
            Op::Network(Network { id: b"0123", attributes: b"\"name\":\"bridge\"" }),
            Op::FirewallEnd(FirewallEnd { messages: b"\x01\0" }),
            Op::Hold(Hold { index: 3 }),
            Op::Resolver(Resolver { servers: self.old_servers.list(), names: self.texts.list() }),
            Op::UserMap(UserMap { namespaces: 1, join: Some(0), uids: b"0 1 2\n", gids: b"0 3 4\n" }),
            Op::Servers(Servers { servers: self.servers.list() }),
            Op::Aliases(Aliases { aliases: self.aliases.list() }),
            Op::Relay(Relay { ports: self.ports.list() }),
            Op::RelayQueue(RelayQueue { index: 4 }),
            Op::KeepNet(KeepNet {}),
            Op::LogBuffer(LogBuffer { most: 1 << 40 }),
            Op::StaleSocket(StaleSocket { dir: path, name: path }),
            Op::CgroupLate(CgroupLate {}),
        ]
    }
}

fn written(op: &Op) -> (u16, Vec<u8>) {
    let mut payload = Vec::new();
    let code = op.write(&mut payload);
    (code, payload)
}

/// The bytes that plans of earlier versions do not have at the end of an operation, and what such a plan means.
fn older<'a>(op: &Op<'a>) -> Option<(usize, Op<'a>)> {
    match *op {
        Op::Attr(op) => Some((4, Op::Attr(Attr { propagation: 0, ..op }))),
        _ => None,
    }
}

#[test]
fn each_operation_has_a_sample_and_a_code_of_its_own() {
    let parts = Parts::new();
    let samples: Vec<u16> = parts.all().iter().map(|op| written(op).0).collect();
    assert_eq!(samples, NAMES.iter().map(|(code, _)| *code).collect::<Vec<_>>());
    assert!(samples.is_sorted_by(|a, b| a < b), "{samples:?}");
    assert_eq!((name(7), name(39), name(END)), (Some("Bind"), None, None));
}

#[test]
fn each_operation_is_read_as_it_was_written() {
    let parts = Parts::new();
    for op in parts.all() {
        let (code, payload) = written(&op);
        assert_eq!(Op::read(code, &payload), Ok(op));
    }
}

#[test]
fn a_payload_that_ends_early_or_goes_on_is_refused() {
    let parts = Parts::new();
    for op in parts.all() {
        let (code, payload) = written(&op);
        for cut in 0..payload.len() {
            let read = Op::read(code, &payload[..cut]);
            match older(&op).filter(|(later, _)| payload.len() - later == cut) {
                Some((_, meant)) => assert_eq!(read, Ok(meant)),
                None => assert_eq!(read, Err(Fault::Short), "{op:?} cut at {cut}"),
            }
        }
        assert_eq!(Op::read(code, &[&payload[..], b"\0"].concat()), Err(Fault::Left), "{op:?}");
    }
}

#[test]
fn lists_give_their_items() {
    let parts = Parts::new();
    let words: Vec<_> = parts.texts.list().iter().map(|text| text.bytes().to_vec()).collect();
    assert_eq!(words, [&b"one"[..], b"", b"three"]);
    assert_eq!((parts.texts.list().len(), parts.texts.list().is_empty()), (3, false));
    assert_eq!(parts.holes.list().iter().collect::<Vec<_>>(), [(0, 8), (2, 44)]);
    assert_eq!(parts.groups.list().iter().collect::<Vec<_>>(), [&b"wheel"[..], b"27"]);
}

/// Operations that library and monitor of different versions exchange: these bytes stay.
#[test]
fn operations_have_the_bytes_of_the_first_version() {
    let parts = Parts::new();
    let bytes = |op: Op| written(&op).1;
    let (argv, env) = (Items::texts(["sh", "-c"]), Items::texts(["A="]));
    let exec = bytes(Op::Exec(Exec { words: Words { argv: argv.list(), env: env.list() } }));
    assert_eq!(exec, b"\x02\0\0\0\x01\0\0\0\x02\0\0\0sh\0\x02\0\0\0-c\0\x02\0\0\0A=\0");
    let credentials = Credentials { bounding: 1, for_root: 2, for_others: 3, user: b"a", groups: parts.groups.list() };
    let identity = bytes(Op::Identity(Identity { flags: 1, credentials, filter: b"", inheritable: 4, ambient: 5 }));
    let sets = b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
    let texts = b"\x01\0\0\0a\0\x05\0\0\0wheel\0\x02\0\0\x0027\0\0\0\0\0\0";
    let more = b"\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
    assert_eq!(identity, [&b"\x01\0\0\0\x02\0\0\0"[..], sets, texts, more].concat());
    let net = Net { place: 1, acks: 2, interface: Text::EMPTY, holes: parts.holes.list(), messages: b"m" };
    let holes = b"\x02\0\0\0\0\0\0\0\x08\0\0\0\x02\0\0\0\x2c\0\0\0";
    assert_eq!(bytes(Op::Net(net)), [&b"\x01\0\0\0\x02\0\0\0\0\0\0\0\0"[..], holes, b"\x01\0\0\0m\0"].concat());
    let write = CgroupWrite { ignore: true, path: parts.text.text(), value: b"1" };
    assert_eq!(bytes(Op::CgroupWrite(write)), b"\x01\0\0\0\x07\0\0\0/a/path\0\x01\0\0\x001\0");
}

fn plan() -> Vec<u8> {
    let mut plan = PlanWriter::new();
    plan.push(Hostname { name: b"box" }, "set the host name");
    plan.push(Rlimit { resource: 7, reserved: 0, soft: 1 << 40, hard: u64::MAX }, "limit");
    let (bytes, steps) = plan.finish(header());
    assert_eq!(steps, ["set the host name", "limit"]);
    bytes
}

#[test]
fn a_plan_reads_back_as_written() {
    let bytes = plan();
    let plan = Plan::check(&bytes).expect("a plan of our own");
    assert_eq!(plan.header().map(|header| header.length as usize), Some(bytes.len()));
    let limit = Rlimit { resource: 7, reserved: 0, soft: 1 << 40, hard: u64::MAX };
    let ops: Vec<_> = plan.ops().collect();
    assert_eq!(ops, [(0, Op::Hostname(Hostname { name: b"box" })), (1, Op::Rlimit(limit))]);
    assert_eq!(plan.each::<Rlimit>().collect::<Vec<_>>(), [(1, limit)]);
    assert_eq!((plan.find::<Rlimit>(), plan.find::<Loopback>()), (Some(limit), None));
    assert_eq!((plan.has::<Hostname>(), plan.has::<Stdio>()), (true, false));
    assert_eq!((Plan::EMPTY.ops().count(), Plan::EMPTY.header().is_none()), (0, true));
}

/// The plan with other bytes at a place, and its length as it is.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut plan = plan();
    plan.splice(at..at + bytes.len(), bytes.iter().copied());
    plan
}

#[test]
fn a_plan_is_refused_as_a_whole() {
    let whole = plan();
    let fault = |bytes: &[u8]| Plan::check(bytes).err().map(|bad| bad.fault);
    for cut in 0..whole.len() {
        assert_eq!(fault(&whole[..cut]), Some(Fault::Head));
        let mut cut = whole[..cut].to_vec();
        let length = (cut.len() as u32).to_le_bytes();
        if let Some(place) = cut.get_mut(12..16) {
            place.copy_from_slice(&length);
        }
        assert!(matches!(fault(&cut), Some(Fault::Head | Fault::Frame)));
    }
    // The second operation: another code, and a payload that is another's.
    let second = HEADER_LEN + 8 + 8;
    let bad = |bytes: &[u8]| Plan::check(bytes).err().map(|bad| (bad.index, bad.code, bad.fault));
    assert_eq!(bad(&changed(second, &39u16.to_le_bytes())), Some((1, 39, Fault::Unknown)));
    assert_eq!(bad(&changed(second, &20u16.to_le_bytes())), Some((1, 20, Fault::Short)));
    assert_eq!(bad(&changed(second, &3u16.to_le_bytes())), Some((1, 3, Fault::Left)));
    // One of the monitor's own that it does not know is skipped.
    let later = changed(second, &0x1fe_u16.to_le_bytes());
    let later = Plan::check(&later).expect("a plan of a later version");
    assert_eq!(later.ops().map(|(_, op)| op).last(), Some(Op::Later));
    let failure = Bad { index: 1, code: 39, fault: Fault::Unknown }.failure();
    assert_eq!((failure.step, failure.errno, failure.extra), (1, 38, 39));
    let bad = Plan::check(&whole[1..]).err().map(Bad::failure);
    assert_eq!(bad.map(|failure| (failure.step, failure.errno, failure.extra)), Some((STEP_PLAN, 22, 0)));
}
