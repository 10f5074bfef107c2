//! A courier brings the logs of its containers to one receiver, over one connection.
//!
//! The courier reads a batch of one container after the other, sends it, and moves cursors when the receiver has
//! acknowledged.
//! Until then only the places of records are kept in memory: what a broken connection did not bring is read again.

mod order;
mod pause;
mod source;
mod watch;

use crate::cursor::{Cursor, Fault};
use crate::drivers::{Destination, Frames, Manner};
use crate::net::{ENDED, Link, Problem, leave_stream, send_relp, wait};
use crate::options::Address;
use crate::proxies::Proxies;
use crate::spool::Place;
use nix::poll::PollFlags;
use order::Order;
use pause::Pause;
pub use source::Source;
use source::Turn;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use watch::Watch;

/// So many bytes may be sent and not acknowledged: a limit for the memory of their places.
const FLIGHT: u64 = 1 << 20;
/// Acknowledged bytes are held back for so long, and so many of them: a receiver that resets the connection had not read
/// all that its kernel took. One that ends it in order had.
const HELD: (Duration, u64) = (Duration::from_secs(1), 1 << 20);
/// How often acknowledgements are looked for while some are awaited.
const GLANCE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(40));
/// How often all logs are looked at: for caution, and where the kernel had no watch for one.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1));

/// Bytes that are on their way: with their acknowledgement the log of a source is delivered up to a place.
struct Flying {
    /// In the bytes of the connection.
    end: u64,
    source: u64,
    place: Place,
}

/// Delivers to one destination.
pub struct Courier {
    to: Destination,
    proxies: Proxies,
    link: Option<Link>,
    flying: VecDeque<Flying>,
    /// Acknowledged, since then, and not counted as delivered yet.
    held: VecDeque<(Instant, Flying)>,
    sources: BTreeMap<u64, Source>,
    next: u64,
    watch: Watch,
    pause: Pause,
    order: Order,
    frames: Frames,
    /// A plugin may have to be told to leave the FIFO of an earlier shipper.
    is_new: bool,
}

impl Courier {
    /// One without logs.
    pub fn new(to: Destination, proxies: Proxies) -> Courier {
        Courier {
            watch: Watch::new(&to),
            to,
            proxies,
            link: None,
            flying: VecDeque::new(),
            held: VecDeque::new(),
            sources: BTreeMap::new(),
            next: 0,
            pause: Pause::FIRST,
            order: Order::default(),
            frames: Frames::default(),
            is_new: true,
        }
    }

    /// Adds the log of a container.
    pub fn add(&mut self, source: Source) {
        let number = self.next;
        self.next += 1;
        // Without a watch the log is looked at in each round.
        self.watch.add(source.dir(), number);
        self.sources.insert(number, source);
    }

    /// Whether there is nothing to deliver from, now and later.
    pub fn is_done(&self) -> bool {
        self.sources.is_empty()
    }

    /// Delivers what there is, then waits for more: until a log changes, `wake` is readable, or a time has passed.
    /// Answers the ids of removed containers whose logs are delivered. Errors: it is to end.
    pub fn work(&mut self, wake: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Result<Vec<String>, Problem> {
        if std::mem::take(&mut self.is_new)
            && let Address::Plugin(plan) = &self.to.address
        {
            leave_stream(plan, stop)?;
        }
        match self.round(stop) {
            Ok(true) => {}
            Ok(false) => {
                let over = self.retire();
                if !over.is_empty() {
                    return Ok(over);
                }
                self.leave_plugin();
                if let Err(problem) = self.rest(wake, stop) {
                    self.give_up(problem, stop)?;
                }
            }
            Err(problem) => self.give_up(problem, stop)?,
        }
        Ok(Vec::new())
    }

    /// After a failure: ends the connection and waits. Errors: the courier is to end.
    fn give_up(&mut self, problem: Problem, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        match problem {
            Problem::Stopped => {
                self.take_acknowledged();
                if self.link.as_mut().is_some_and(|link| link.failure().is_none_or(is_in_order)) {
                    self.release(true);
                }
                Err(Problem::Stopped)
            }
            Problem::Failed(fault, errno) | Problem::OfOne(fault, errno) => {
                self.break_off(fault, errno);
                self.order.blame(self.to.manner, &mut self.sources, (fault, errno));
                pause(self.pause.take(), stop)
            }
        }
    }

    /// A turn for each log that may have records; answers whether any had.
    fn round(&mut self, stop: BorrowedFd<'_>) -> Result<bool, Problem> {
        self.collect_acknowledged();
        self.check_link()?;
        let mut any = false;
        for at in self.order.ready(&self.sources, self.is_awaiting()) {
            self.order.begin_turn(at);
            any |= match self.turn(at, stop) {
                Err(Problem::OfOne(fault, errno)) => self.hold(at, fault, errno),
                turned => turned?,
            };
            self.collect_acknowledged();
            self.bound(stop)?;
            if self.order.is_round_over(any) {
                break;
            }
        }
        Ok(any)
    }

    /// After a failure of one log alone: that log has its own pause, and the others go on. Answers that nothing was sent.
    fn hold(&mut self, at: u64, fault: Fault, errno: i32) -> bool {
        if self.to.manner == Manner::Relp {
            // Answers to later messages are on their way.
            self.link = None;
        }
        if let Some(source) = self.sources.get_mut(&at) {
            source.hold(fault, errno);
        }
        false
    }

    /// Lets go of a connection that has ended.
    fn check_link(&mut self) -> Result<(), Problem> {
        let Some(link) = &mut self.link else { return Ok(()) };
        if link.is_old() || (self.to.manner == Manner::Asked && link.is_stale()) {
            self.link = None;
            return Ok(());
        }
        if !self.to.manner.is_stream() {
            return Ok(());
        }
        let Some(problem) = link.failure() else { return Ok(()) };
        if is_in_order(problem) {
            self.take_acknowledged();
            self.release(true);
        }
        if self.is_awaiting() {
            return Err(problem);
        }
        // Nothing was on its way: the next batch connects again.
        self.link = None;
        Ok(())
    }

    /// Sends one batch of a log; answers whether there was one.
    fn turn(&mut self, at: u64, stop: BorrowedFd<'_>) -> Result<bool, Problem> {
        let Some(source) = self.sources.get_mut(&at) else { return Ok(false) };
        self.frames.clear();
        let Some(turn) = source.next(&mut self.frames, stop)? else { return Ok(false) };
        if self.frames.frames.is_empty() {
            // Records that the driver leaves out. Those before them may be on their way.
            source.reading = turn.end(&self.frames);
            let held = self.held.iter().map(|(_, flying)| flying);
            if self.flying.iter().chain(held).all(|flying| flying.source != at) {
                source.deliver(source.reading);
            }
            return Ok(true);
        }
        if self.link.is_none() {
            self.link = Some(Link::open(&self.to, &self.proxies, stop)?);
        }
        let Some(link) = self.link.as_mut() else { return Ok(false) };
        if self.to.manner == Manner::Stream {
            let from = link.sent();
            let places = turn.places(&self.frames);
            let ends = self.frames.frames.iter().map(|frame| from + frame.end as u64);
            self.flying.extend(ends.zip(places).map(|(end, place)| Flying { end, source: at, place }));
            source.reading = turn.end(&self.frames);
            return link.send_all(&self.frames.bytes, None, stop).map(|()| true);
        }
        if self.to.manner == Manner::Asked {
            return self.ask(at, &turn, stop).map(|()| true);
        }
        let (count, sent) = match self.to.manner {
            Manner::Answered => link.send_answered(&self.frames, stop),
            Manner::Relp => send_relp(link, &self.frames, stop),
            _ => link.send_datagrams(&self.frames, stop),
        };
        if let Some(place) = count.checked_sub(1).and_then(|last| turn.places(&self.frames).nth(last)) {
            source.reading = place;
            source.deliver(place);
            self.pause = Pause::FIRST;
        }
        sent.map(|()| true)
    }

    /// Sends the requests of a batch: each is delivered when its answer says so.
    fn ask(&mut self, at: u64, turn: &Turn, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let (mut from, mut lost) = (0, 0);
        for (number, (place, frame)) in turn.places(&self.frames).zip(&self.frames.frames).enumerate() {
            let Some(source) = self.sources.get_mut(&at) else { return Ok(()) };
            let rejected =
                source.ask(&mut self.link, (&self.to, &self.proxies), &self.frames.bytes[from..frame.end], stop)?;
            lost += rejected.pieces(|| turn.pieces(number, &self.frames));
            source.deliver_but(place, lost);
            self.pause = Pause::FIRST;
            from = frame.end;
        }
        Ok(())
    }

    /// Takes what is acknowledged, and moves the cursors over what was acknowledged long enough ago on a connection that
    /// is still well.
    fn collect_acknowledged(&mut self) {
        self.take_acknowledged();
        if self.held.is_empty() || self.link.as_mut().is_none_or(|link| link.failure().is_some()) {
            return;
        }
        self.release(false);
    }

    fn take_acknowledged(&mut self) {
        if let Some(link) = self.link.as_ref().filter(|_| !self.flying.is_empty()) {
            let (acknowledged, now) = (link.acknowledged(), Instant::now());
            while let Some(flying) = self.flying.pop_front_if(|flying| flying.end <= acknowledged) {
                self.held.push_back((now, flying));
            }
        }
    }

    /// Whether bytes are on their way, or not counted as delivered yet.
    fn is_awaiting(&self) -> bool {
        !self.flying.is_empty() || !self.held.is_empty()
    }

    /// Moves the cursors over held records: over those that are old or too many, or over all.
    fn release(&mut self, all: bool) {
        let last = self.held.back().map_or(0, |(_, flying)| flying.end);
        let is_due = |since: &Instant, flying: &Flying| {
            all || since.elapsed() >= HELD.0 || last.saturating_sub(flying.end) > HELD.1
        };
        let mut places: BTreeMap<u64, Place> = BTreeMap::new();
        while let Some((_, flying)) = self.held.pop_front_if(|(since, flying)| is_due(since, flying)) {
            places.insert(flying.source, flying.place);
        }
        for (at, place) in places {
            self.pause = Pause::FIRST;
            self.order.is_well_again();
            if let Some(source) = self.sources.get_mut(&at) {
                source.deliver(place);
            }
        }
    }

    /// Waits while too much is on its way.
    fn bound(&mut self, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let mut glance = GLANCE.0;
        loop {
            let Some(link) = &mut self.link else { return Ok(()) };
            let first = self.flying.front().map_or(u64::MAX, |flying| flying.end);
            if link.sent().saturating_sub(first) < FLIGHT || self.flying.is_empty() {
                return Ok(());
            }
            if let Some(problem) = link.failure() {
                return Err(problem);
            }
            wait(link.fd(), PollFlags::empty(), glance, stop)?;
            glance = (glance * 2).min(GLANCE.1);
            self.collect_acknowledged();
        }
    }

    /// Ends the connection. Records that it did not bring are read again.
    fn break_off(&mut self, fault: Fault, errno: i32) {
        if is_in_order(Problem::Failed(fault, errno)) {
            self.take_acknowledged();
            self.release(true);
        }
        self.flying.clear();
        self.held.clear();
        self.link = None;
        // A receiver that is not there costs no memory.
        self.frames = Frames::default();
        for source in self.sources.values_mut() {
            source.fail(fault, errno);
        }
    }

    /// Ends the stream to a log plugin when the container has ended and its log is delivered: the plugin is told to leave.
    fn leave_plugin(&mut self) {
        if holds_idle_plugin(self) && self.sources.values_mut().all(Source::has_ended) {
            self.link = None;
        }
    }

    /// Waits for records, or for acknowledgements.
    fn rest(&mut self, wake: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let round = time_of_round(self);
        let is_awaiting = self.is_awaiting();
        let due =
            self.sources.iter().filter(|(at, _)| self.order.may(**at, is_awaiting)).map(|(_, source)| source.due());
        let until = Instant::now() + due.min().unwrap_or(round).min(round);
        let mut glance = GLANCE.0;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let held = self.held.front().map_or(left, |(since, _)| HELD.0.saturating_sub(since.elapsed()).min(left));
            let time = if self.flying.is_empty() { held } else { glance };
            glance = (glance * 2).min(GLANCE.1);
            let waits = self.is_awaiting();
            if self.sleep(time, wake, stop)? {
                return Ok(());
            }
            self.collect_acknowledged();
            self.check_link()?;
            if waits && !self.is_awaiting() {
                // Logs of removed containers may be over now, and others may have their turns.
                return Ok(());
            }
        }
        self.sources.values_mut().for_each(|source| source.is_ready = true);
        Ok(())
    }

    /// Answers whether something happened.
    fn sleep(&mut self, time: Duration, wake: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Result<bool, Problem> {
        use nix::poll::{PollFd, PollTimeout, poll};
        let time = PollTimeout::from(u16::try_from(time.as_millis().max(1)).unwrap_or(u16::MAX));
        let mut set = vec![PollFd::new(stop, PollFlags::POLLIN), PollFd::new(wake, PollFlags::POLLIN)];
        let watch = self.watch.fd();
        let is_watching = watch.is_some();
        set.extend(watch.map(|watch| PollFd::new(watch, PollFlags::POLLIN)));
        // The end of a connection is seen at once.
        let link = self.link.as_ref().filter(|_| self.to.manner.is_stream());
        set.extend(link.map(|link| PollFd::new(link.fd(), ENDED)));
        if poll(&mut set, time).is_err() {
            return Ok(false);
        }
        // Flags that the crate of these calls does not know are flags, too.
        let ready: Vec<bool> = set.iter().map(|one| one.any().unwrap_or(true)).collect();
        if ready[0] {
            return Err(Problem::Stopped);
        }
        if is_watching && ready.get(2) == Some(&true) {
            for number in self.watch.changed() {
                self.sources.entry(number).and_modify(|source| source.is_ready = true);
            }
        }
        Ok(ready[1..].contains(&true))
    }

    /// Forgets the logs of removed containers that are delivered.
    fn retire(&mut self) -> Vec<String> {
        let done = |(at, source): (&u64, &Source)| (!source.is_ready && source.is_over()).then_some(*at);
        let over: Vec<u64> = self.sources.iter().filter_map(done).collect();
        let mut ids = Vec::new();
        for at in over {
            self.watch.forget(at);
            ids.extend(self.sources.remove(&at).map(|source| source.id));
        }
        ids
    }
}

/// Whether a plugin reads a stream by which nothing is on its way.
fn holds_idle_plugin(courier: &Courier) -> bool {
    !courier.is_awaiting() && courier.link.is_some() && matches!(courier.to.address, Address::Plugin(_))
}

/// Until all logs are looked at again. A container whose log a plugin gets may end without a change of its log, and the plugin is
/// told of the end.
fn time_of_round(courier: &Courier) -> Duration {
    let is_long = courier.watch.has_all(courier.sources.len()) && !holds_idle_plugin(courier);
    if is_long { ROUNDS.0 } else { ROUNDS.1 }
}

/// Whether the receiver ended the connection in order: after it had read all that its kernel acknowledged. Then the kernel
/// answers data with `EPIPE`, and otherwise with a reset.
fn is_in_order(problem: Problem) -> bool {
    problem == Problem::Failed(Fault::Send, libc::EPIPE)
}

fn pause(time: Duration, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        wait(stop, PollFlags::POLLIN, left.max(Duration::from_millis(1)), stop)?;
    }
    Ok(())
}

/// The cursor of a source that cannot be delivered from, for inspection.
pub(crate) fn with_fault(cursor: Cursor, fault: Fault, errno: i32) -> Cursor {
    Cursor { fault: Some((fault, errno)), ..cursor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::TlsFiles;
    use crate::plan::{LogPlugin, Plan};
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    /// Answers one call of a plugin: `StartLogging`, for which it opens the FIFO, or `StopLogging`. Answers the FIFO.
    fn answer_one(socket: &UnixListener) -> Option<std::fs::File> {
        let (stream, _) = socket.accept().unwrap();
        let mut request = BufReader::new(&stream);
        let mut length = 0;
        let mut line = String::new();
        while request.read_line(&mut line).unwrap() > 2 {
            length = line.strip_prefix("Content-Length: ").map_or(length, |digits| digits.trim().parse().unwrap());
            line.clear();
        }
        let mut body = vec![0; length];
        request.read_exact(&mut body).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let is_start = body.get("Info").is_some();
        let fifo = is_start.then(|| std::fs::File::open(body["File"].as_str().unwrap()).unwrap());
        let answer = "{\"Err\":\"\"}";
        write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        fifo
    }

    fn to_plugin(dir: &Path) -> Destination {
        let fifo_dir = dir.to_str().unwrap().to_owned();
        let address = format!("unix://{}", dir.join("socket").display());
        let plugin = LogPlugin { address, seen_dir: fifo_dir.clone(), fifo_dir, info: "{}".into() };
        let mut plan = Plan { plugin: Some(plugin), ..Plan::default() };
        plan.facts.id = "abc".into();
        let path = dir.join("plan");
        std::fs::write(&path, plan.to_json()).unwrap();
        let address = Address::Plugin(path.to_str().unwrap().to_owned());
        Destination { address, tls: TlsFiles::default(), manner: Manner::Stream, account: String::new() }
    }

    #[test]
    fn the_end_of_a_container_is_looked_for_as_long_as_a_plugin_reads() {
        let dir = std::env::temp_dir().join(format!("coracle-rounds-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let socket = UnixListener::bind(dir.join("socket")).unwrap();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        // The courier has the watch of another receiver: the few instances for couriers of plugins are counted by another test.
        let tcp = Address::Tcp("localhost".into(), 1);
        let mut courier = Courier::new(Destination { address: tcp, ..to_plugin(&dir) }, Proxies::default());
        courier.to = to_plugin(&dir);
        assert_eq!(time_of_round(&courier), ROUNDS.0);
        let plugin = std::thread::spawn(move || [answer_one(&socket), answer_one(&socket)].map(|fifo| fifo.is_some()));
        let opened = Link::open(&courier.to, &courier.proxies, stop.as_fd());
        courier.link = Some(opened.unwrap_or_else(|problem| panic!("{problem:?}")));
        for _ in 0..5 {
            assert_eq!(time_of_round(&courier), ROUNDS.1);
            // Nothing happens.
            courier.rest(stop.as_fd(), stop.as_fd()).unwrap_or_else(|problem| panic!("{problem:?}"));
        }
        courier.link = None;
        assert_eq!(time_of_round(&courier), ROUNDS.0);
        assert_eq!(plugin.join().unwrap(), [true, false]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
