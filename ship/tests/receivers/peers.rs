//! Receivers of every kind in one form, for tests that do the same with each, and a relay that cuts connections.

use crate::fluent::Fluent;
use crate::moto::Moto;
use crate::otel::Collector;
use crate::world::*;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How a receiver is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    SyslogTcp,
    SyslogTls,
    Relp,
    Fluentd,
    Splunk,
    Otlp,
    Awslogs,
    GelfTcp,
}

impl Kind {
    /// The receiver's program acknowledges; otherwise its kernel does.
    pub fn is_answered(self) -> bool {
        !matches!(self, Kind::SyslogTcp | Kind::SyslogTls | Kind::GelfTcp)
    }
}

/// A receiver of a kind, running or not.
pub struct Peer {
    pub kind: Kind,
    pub port: u16,
    dir: PathBuf,
    fluent: Option<Fluent>,
    collector: Option<Collector>,
    moto: Option<Moto>,
}

impl Peer {
    pub fn new(world: &World, kind: Kind) -> Peer {
        Peer::at(world, kind, free_port())
    }

    /// One at a port.
    pub fn at(world: &World, kind: Kind, port: u16) -> Peer {
        let dir = world.dir.join(format!("{kind:?}"));
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut peer = Peer { kind, port, dir, fluent: None, collector: None, moto: None };
        match kind {
            Kind::Fluentd => peer.fluent.insert(Fluent::new(world)).port = port,
            Kind::Awslogs => peer.moto.insert(Moto::new(world)).port = port,
            Kind::Splunk | Kind::Otlp => {
                let name = if kind == Kind::Splunk { "splunk" } else { "otlp" };
                peer.collector.insert(Collector::new(world, name)).address = format!("127.0.0.1:{port}");
            }
            Kind::SyslogTcp | Kind::SyslogTls | Kind::Relp => peer.configure_rsyslog(),
            Kind::GelfTcp => {}
        }
        peer
    }

    /// A line is written before the next one is read: nothing waits in the memory of rsyslogd.
    fn configure_rsyslog(&self) {
        let (at, port) = (self.dir.display(), self.port);
        let (head, input) = match self.kind {
            Kind::Relp => ("module(load=\"imrelp\" ruleset=\"all\")".to_owned(), "type=\"imrelp\" maxDataSize=\"64k\""),
            Kind::SyslogTls => {
                crate::rsyslog::certificates(&self.dir);
                let module = format!(
                    r#"global(DefaultNetstreamDriver="gtls" DefaultNetstreamDriverCAFile="{at}/ca.pem"
 DefaultNetstreamDriverCertFile="{at}/cert.pem" DefaultNetstreamDriverKeyFile="{at}/key.pem")
module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.Authmode="anon")"#
                );
                (module, "type=\"imtcp\" ruleset=\"all\"")
            }
            _ => ("module(load=\"imtcp\")".to_owned(), "type=\"imtcp\" ruleset=\"all\""),
        };
        let text = format!(
            r#"global(workDirectory="{at}" maxMessageSize="64k")
{head}
template(name="line" type="string" string="%msg%\n")
ruleset(name="all" queue.type="Direct") {{ action(type="omfile" file="{at}/out" template="line") }}
input({input} port="{port}" address="127.0.0.1")
"#
        );
        std::fs::write(self.dir.join("conf"), text).expect("write");
    }

    /// A container whose lines go to this receiver, by the port of a relay or the receiver's own.
    pub fn log(&self, world: &World, name: &str, port: u16) -> Log {
        self.log_with(world, name, port, &[])
    }

    /// As [`Peer::log`], with further options.
    pub fn log_with(&self, world: &World, name: &str, port: u16, more: &[(&str, &str)]) -> Log {
        let host = format!("127.0.0.1:{port}");
        let of = |scheme: &str| format!("{scheme}://{host}");
        let (ca, tls, tcp) = (self.dir.join("ca.pem").display().to_string(), of("tcp+tls"), of("tcp"));
        let (relp, http) = (of("relp"), of("http"));
        let (driver, own): (_, &[(&str, &str)]) = match self.kind {
            Kind::SyslogTcp => ("syslog", &[("syslog-address", &tcp)]),
            Kind::Relp => ("syslog", &[("syslog-address", &relp)]),
            Kind::SyslogTls => ("syslog", &[("syslog-address", &tls), ("syslog-tls-ca-cert", &ca)]),
            Kind::Fluentd => ("fluentd", &[("fluentd-address", &host), ("fluentd-request-ack", "true")]),
            Kind::Splunk => ("splunk", &[("splunk-url", &http), ("splunk-token", "t")]),
            Kind::Otlp => ("otlp", &[("otlp-endpoint", &http)]),
            Kind::GelfTcp => ("gelf", &[("gelf-address", &tcp)]),
            Kind::Awslogs => {
                let moto = self.moto.as_ref().expect("moto");
                return moto.container(world, name, port, &[&[("awslogs-stream", "all")], more].concat());
            }
        };
        world.container(name, driver, &[own, more].concat())
    }

    /// A container that was there before a boot.
    pub fn again(&self, world: &World, name: &str) -> Log {
        self.log(world, name, self.port)
    }

    pub fn start(&self) -> Program {
        if let Some(fluent) = &self.fluent {
            return fluent.start();
        }
        if let Some(collector) = &self.collector {
            return collector.start();
        }
        if let Some(moto) = &self.moto {
            return moto.start();
        }
        if self.kind == Kind::GelfTcp {
            let (out, ready) = (self.dir.join("out"), self.dir.join("out.ready"));
            let _ = std::fs::remove_file(&ready);
            let mut command = Command::new(crate::gelf::program());
            let running = Program::start(command.args(["tcp", &format!("127.0.0.1:{}", self.port)]).arg(&out));
            wait_for("the receiver", || ready.exists());
            return running;
        }
        let running = crate::rsyslog::start(&self.dir, &self.dir.join("none"));
        wait_for("rsyslogd's port", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
        running
    }

    pub fn text(&self) -> String {
        match (&self.fluent, &self.collector, &self.moto) {
            (Some(fluent), ..) => fluent.out(),
            (_, Some(collector), _) => collector.out(),
            (.., Some(moto)) => moto.read("group", "all"),
            _ => {
                let out = std::fs::read(self.dir.join("out"));
                out.map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
            }
        }
    }

    /// The events of a stream at moto.
    pub fn moto_text(&self, group: &str, stream: &str) -> String {
        self.moto.as_ref().map(|moto| moto.read(group, stream)).unwrap_or_default()
    }

    /// How often each line of a log is here as a whole. Lines were written with `;` behind their number.
    pub fn counts(&self, log: &Log) -> BTreeMap<u64, u64> {
        self.numbers_of(&self.text(), log)
    }

    /// How often each line is in a part of the receiver's text.
    pub fn numbers_of(&self, text: &str, log: &Log) -> BTreeMap<u64, u64> {
        let (mark, mut counts) = (format!("{} n=", &log.id[60..]), BTreeMap::new());
        for (place, _) in text.match_indices(&mark) {
            let rest = &text[place + mark.len()..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if rest[digits..].starts_with(';') {
                *counts.entry(rest[..digits].parse().expect("a number")).or_default() += 1;
            }
        }
        counts
    }
}

/// Passes connections on. The next one after [`Relay::arm`] ends after so many bytes to the receiver: the relay reads no
/// byte beyond, and its kernel may have more.
pub struct Relay {
    pub port: u16,
    cut: Arc<AtomicU64>,
    now: Arc<Mutex<Option<Arc<TcpStream>>>>,
}

impl Relay {
    pub fn new(to: u16) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let (cut, now) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(Mutex::new(None)));
        let relay = Relay { port, cut: Arc::clone(&cut), now: Arc::clone(&now) };
        std::thread::spawn(move || {
            for from in listener.incoming() {
                // At the end of the test the receiver is gone, and this work is done.
                let (Ok(from), Ok(to)) = (from, TcpStream::connect(("127.0.0.1", to))) else { return };
                let (from, to) = (Arc::new(from), Arc::new(to));
                *now.lock().expect("a lock") = Some(Arc::clone(&from));
                pass_until(&from, &to, cut.swap(u64::MAX, Ordering::SeqCst));
                now.lock().expect("a lock").take();
            }
        });
        relay
    }

    /// Ends the connection that is open, and lets the next one end after so many bytes.
    pub fn arm(&self, bytes: u64) {
        self.cut.store(bytes, Ordering::SeqCst);
        if let Some(open) = self.now.lock().expect("a lock").as_ref() {
            let _ = open.shutdown(Shutdown::Both);
        }
    }
}

fn pass_until(from: &Arc<TcpStream>, to: &Arc<TcpStream>, mut left: u64) {
    let (back_from, back_to) = (Arc::clone(to), Arc::clone(from));
    let back = std::thread::spawn(move || {
        let mut block = [0; 4096];
        while let Ok(got @ 1..) = (&*back_from).read(&mut block) {
            if (&*back_to).write_all(&block[..got]).is_err() {
                return;
            }
        }
    });
    let mut block = [0; 4096];
    while left > 0 {
        let most = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Ok(got @ 1..) = (&**from).read(&mut block[..most]) else { break };
        left -= got as u64;
        if (&**to).write_all(&block[..got]).is_err() {
            break;
        }
    }
    // The other thread ends by the receiver's end, and the last owner closes: with unread bytes that is a reset.
    let _ = to.shutdown(Shutdown::Both);
    let _ = back.join();
}
