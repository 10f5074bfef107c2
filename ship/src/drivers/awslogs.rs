//! awslogs: puts of events for CloudWatch Logs. Groups and streams are made when the service says that they are missing.

use super::{Destination, Encoder, Frames, Manner, Rejected, TlsFiles, Verdict, push_json};
use crate::aws::{Credentials, Service};
use crate::cursor::Fault;
use crate::http::{Answer, Site};
use crate::metadata;
use crate::net::Problem;
use crate::options::{Error, Options, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::Batch;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

const KNOWN: [&str; 10] = [
    "awslogs-create-group",
    "awslogs-create-stream",
    "awslogs-credentials-endpoint",
    "awslogs-credentials-file",
    "awslogs-endpoint",
    "awslogs-force-flush-interval-seconds",
    "awslogs-group",
    "awslogs-max-buffered-events",
    "awslogs-region",
    "awslogs-stream",
];
/// Options of dockerd that would change the records.
const UNSUPPORTED: [&str; 2] = ["awslogs-datetime-format", "awslogs-multiline-pattern"];
/// Dockerd takes no such options with this driver.
const FOREIGN: [&str; 4] = ["env", "env-regex", "labels", "labels-regex"];
/// The bounds of a put: events, bytes with those that the service adds for each, and milliseconds from first to last.
const MOST: usize = 10_000;
const BYTES: usize = 1_048_576;
const EVENT: usize = 26;
const SPAN_MS: i64 = 24 * 3600 * 1000;
/// Errors of the service that other keys may mend.
const REFUSES_KEYS: [&str; 5] = [
    "AccessDeniedException",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
];
/// So many requests may make what a put lacks.
const STEPS: u32 = 4;

/// The checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    service: Service,
    group: String,
    /// Absent: the tag, or the container's id.
    stream: Option<String>,
    is_tagged: bool,
    makes_group: bool,
    makes_stream: bool,
    credentials: Option<PathBuf>,
    /// The path of the keys at the server of the container that this program runs in.
    endpoint: Option<String>,
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    if let Some(key) = UNSUPPORTED.iter().find(|key| options.contains_key(**key)) {
        return refused(format!("LogConfig: {key} is not supported"));
    }
    let foreign = FOREIGN.into_iter().find(|key| options.contains_key(*key));
    if let Some(key) = unknown(options, &KNOWN).map(String::as_str).or(foreign) {
        return refused(format!("unknown log opt '{key}' for awslogs log driver"));
    }
    let Some(group) = text(options, "awslogs-group") else {
        return refused("must specify a value for log opt 'awslogs-group'");
    };
    for key in ["awslogs-force-flush-interval-seconds", "awslogs-max-buffered-events"] {
        if text(options, key).is_some_and(|count| !count.parse::<u32>().is_ok_and(|count| count > 0)) {
            return refused(format!("must specify a positive integer for log opt '{key}': {:?}", options[key]));
        }
    }
    Ok(Settings {
        service: service(options)?,
        group: group.to_owned(),
        stream: text(options, "awslogs-stream").map(str::to_owned),
        is_tagged: text(options, "tag").is_some(),
        makes_group: flag(options, "awslogs-create-group")?.unwrap_or(false),
        makes_stream: flag(options, "awslogs-create-stream")?.unwrap_or(true),
        credentials: text(options, "awslogs-credentials-file").map(Into::into),
        endpoint: endpoint(options)?,
    })
}

fn flag(options: &Options, key: &str) -> Result<Option<bool>, Error> {
    if text(options, key).is_none() {
        return Ok(None);
    }
    let named = format!("invalid value for {key}: ");
    let told = |error: Error| {
        Error(format!("must specify valid value for log opt '{key}': {}", error.0.trim_start_matches(&named)))
    };
    crate::options::flag(options, key).map(Some).map_err(told)
}

/// The path of keys at the server of the container that this program runs in.
fn endpoint(options: &Options) -> Result<Option<String>, Error> {
    match text(options, "awslogs-credentials-endpoint") {
        Some(path) if !path.starts_with('/') => {
            refused(format!("awslogs-credentials-endpoint should be a path, such as /v2/credentials, got {path}"))
        }
        Some(_) if text(options, "awslogs-credentials-file").is_some() => {
            refused("awslogs-credentials-endpoint and awslogs-credentials-file exclude each other")
        }
        path => Ok(path.map(str::to_owned)),
    }
}

/// The region of the options, else that of this program's environment.
fn region(options: &Options) -> Option<String> {
    let named = || ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|key| std::env::var(key).ok());
    text(options, "awslogs-region").map(str::to_owned).or_else(named)
}

/// The options with their region: the program that delivers may have another environment.
pub(super) fn settled(options: &Options) -> Options {
    let mut options = options.clone();
    if let Some(region) = region(&options) {
        options.insert("awslogs-region".into(), region);
    }
    options
}

fn service(options: &Options) -> Result<Service, Error> {
    let Some(region) = region(options) else {
        return refused("must specify a value for log opt 'awslogs-region', or the variable AWS_REGION");
    };
    if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return refused(format!("invalid awslogs-region {region:?}"));
    }
    let end = if region.starts_with("cn-") { ".cn" } else { "" };
    let usual = format!("https://logs.{region}.amazonaws.com{end}");
    let url = text(options, "awslogs-endpoint").unwrap_or(&usual);
    match Site::parse(url) {
        Some((site, "" | "/")) => Ok(Service { site, region, name: "logs" }),
        _ => refused(format!("awslogs-endpoint should be in form scheme://host:port, got {url}")),
    }
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        let stream = self.stream.as_deref().unwrap_or_default();
        let file = self.credentials.as_deref().unwrap_or(std::path::Path::new("")).display();
        let endpoint = self.endpoint.as_deref().unwrap_or_default();
        Destination {
            address: self.service.site.address.clone(),
            tls: TlsFiles::default(),
            manner: Manner::Asked,
            account: format!("{} {} {stream} {} {file} {endpoint}", self.service.region, self.group, self.makes_stream),
        }
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Puts {
        let own = if self.is_tagged { &facts.tag } else { &facts.id };
        Puts {
            // The service has no streams with these characters, which tags may have (`{{.ImageName}}`).
            stream: self.stream.clone().unwrap_or_else(|| own.replace([':', '*'], "-")),
            settings: self.clone(),
            keys: None,
            server: None,
            events: Vec::new(),
            bytes: 0,
            puts: VecDeque::new(),
            step: Step::Put,
            steps: 0,
        }
    }
}

/// The request that was sent last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Put,
    Stream,
    Group,
}

/// Makes puts of events.
pub struct Puts {
    settings: Settings,
    stream: String,
    keys: Option<Credentials>,
    /// The URL of the server near this machine from which the keys came.
    server: Option<String>,
    /// Milliseconds, JSON, and number of the events of the next put.
    events: Vec<(i64, String, usize)>,
    bytes: usize,
    /// The numbers, in the order of the log, of the events of the puts that are not answered.
    puts: VecDeque<Vec<usize>>,
    step: Step,
    steps: u32,
}

impl Puts {
    /// Whether the next put takes another event.
    fn has_room(&self, millis: i64, length: usize) -> bool {
        let near = |(other, ..): &(i64, String, usize)| (millis - other).abs() < SPAN_MS;
        self.events.len() < MOST
            && self.bytes + length + EVENT <= BYTES
            && self.events.first().is_none_or(near)
            && self.events.last().is_none_or(near)
    }

    fn event(&mut self, text: &[u8], millis: i64) {
        let mut event = String::from("{\"message\":");
        push_json(&mut event, &String::from_utf8_lossy(text));
        event.push_str(&format!(",\"timestamp\":{millis}}}"));
        // A clock that was set back: the service refuses puts that are not in order.
        let at = self.events.partition_point(|(other, ..)| *other <= millis);
        self.events.insert(at, (millis, event, self.events.len()));
        self.bytes += text.len() + EVENT;
    }

    /// Ends a put with the events so far.
    fn close(&mut self, frames: &mut Frames, records: usize) {
        if self.events.is_empty() {
            return;
        }
        let mut body = format!("{},\"logEvents\":[", self.named(true).trim_end_matches('}'));
        for (number, (_, event, _)) in self.events.iter().enumerate() {
            body.push_str(if number == 0 { "" } else { "," });
            body.push_str(event);
        }
        body.push_str("]}");
        self.puts.push_back(self.events.drain(..).map(|(_, _, number)| number).collect());
        self.bytes = 0;
        self.push(&mut frames.bytes, "PutLogEvents", &body);
        frames.close(records, String::new());
    }

    /// The group, and the stream in it.
    fn named(&self, has_stream: bool) -> String {
        let group = &self.settings.group;
        match has_stream {
            true => json!({ "logGroupName": group, "logStreamName": self.stream }).to_string(),
            false => json!({ "logGroupName": group }).to_string(),
        }
    }

    fn push(&self, out: &mut Vec<u8>, action: &str, body: &str) {
        if let Some(keys) = &self.keys {
            self.settings.service.push(out, &format!("Logs_20140328.{action}"), body.as_bytes(), keys);
        }
    }

    /// The request that makes a stream or a group.
    fn make(&mut self, step: Step) -> Verdict {
        self.step = step;
        let mut request = Vec::new();
        let is_stream = step == Step::Stream;
        let action = if is_stream { "CreateLogStream" } else { "CreateLogGroup" };
        self.push(&mut request, action, &self.named(is_stream));
        Verdict::First(request)
    }
}

impl Encoder for Puts {
    /// Keys are read for each batch: renewed ones are used.
    fn prepare(&mut self, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let (file, path) = (self.settings.credentials.as_deref(), self.settings.endpoint.as_deref());
        let found = metadata::credentials(file, path, stop).ok_or(Problem::Failed(Fault::Credentials, 0))?;
        (self.keys, self.server) = (Some(found.keys), found.server);
        Ok(())
    }

    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        (self.step, self.steps) = (Step::Put, 0);
        self.puts.clear();
        for (number, record) in batch.records().iter().enumerate() {
            let text = batch.text(record);
            if record.hollow {
                continue;
            }
            // The service refuses an event without a text, and dockerd sends none.
            if text.is_empty() {
                frames.left_out.push(number);
                continue;
            }
            let millis = record.head.time_ns.div_euclid(1_000_000);
            if !self.has_room(millis, text.len()) {
                self.close(frames, number);
            }
            self.event(text, millis);
        }
        self.close(frames, batch.records().len());
    }

    fn judge(&mut self, answer: &Answer) -> Verdict {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let kind = body["__type"].as_str().unwrap_or_default().rsplit('#').next().unwrap_or_default();
        let is_missing = kind == "ResourceNotFoundException" && self.steps < STEPS;
        let is_there = answer.is_well() || kind == "ResourceAlreadyExistsException";
        self.steps += 1;
        match self.step {
            Step::Put if answer.is_well() || kind == "DataAlreadyAcceptedException" => {
                self.steps = 0;
                Verdict::Taken(Rejected::These(rejected(&body, &self.puts.pop_front().unwrap_or_default())))
            }
            Step::Put if is_missing && self.settings.makes_stream => self.make(Step::Stream),
            Step::Stream if is_there => {
                self.step = Step::Put;
                Verdict::Again
            }
            Step::Stream if is_missing && self.settings.makes_group => self.make(Step::Group),
            Step::Group if is_there => self.make(Step::Stream),
            _ => {
                let are_refused = matches!(answer.status, 401 | 403) || REFUSES_KEYS.contains(&kind);
                if let Some(server) = self.server.as_deref().filter(|_| are_refused) {
                    metadata::distrust(server);
                }
                Verdict::Refused(Problem::Failed(Fault::Status, i32::from(answer.status)))
            }
        }
    }
}

/// Which of a put's events the service will never take: those that are too old, and those that are too new. `events`: their numbers in
/// the order of the put.
fn rejected(answer: &Value, events: &[usize]) -> Vec<usize> {
    let info = &answer["rejectedLogEventsInfo"];
    let of = |key: &str| Some(usize::try_from(info[key].as_u64()?).unwrap_or(usize::MAX).min(events.len()));
    let old = of("tooOldLogEventEndIndex").max(of("expiredLogEventEndIndex")).unwrap_or(0);
    let new = of("tooNewLogEventStartIndex").unwrap_or(events.len()).max(old);
    [&events[..old], &events[new..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        let base = [("awslogs-region", "eu-west-1"), ("awslogs-group", "g")];
        base.iter().chain(pairs).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn puts(pairs: &[(&str, &str)]) -> Puts {
        let facts = Facts { id: "i".into(), tag: "web".into(), ..Facts::default() };
        let mut puts = parse(&options(pairs)).unwrap().encoder(&facts);
        puts.keys = Some(Credentials { id: "AK".into(), secret: "s".into(), session: None });
        puts
    }

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.into(), ends: false }
    }

    #[test]
    fn events_of_a_put_are_in_order_and_within_a_day() {
        let day = 86_400_000_000_000;
        let lines: [(bool, i64, &[u8]); 5] = [
            (false, 2_000_000, b"b"),
            (false, 1_000_000, b"a"),
            (false, 3_000_000, b""),
            (true, day + 2_000_000, b"c"),
            (true, day + 2_000_000, b"d"),
        ];
        let (mut puts, mut frames) = (puts(&[("tag", "x")]), Frames::default());
        puts.encode(&Batch::of(&lines), &mut frames);
        assert_eq!(frames.frames.iter().map(|frame| frame.records).collect::<Vec<_>>(), [3, 5]);
        let first = String::from_utf8(frames.bytes[..frames.frames[0].end].to_vec()).unwrap();
        let (head, body) = first.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Host: logs.eu-west-1.amazonaws.com\r\n") && head.contains("Credential=AK/"));
        let events = json!([{ "message": "a", "timestamp": 1 }, { "message": "b", "timestamp": 2 }]);
        let wanted = json!({ "logGroupName": "g", "logStreamName": "web", "logEvents": events });
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), wanted);
    }

    #[test]
    fn missing_streams_and_groups_are_made_once() {
        let missing = answer(400, "{\"__type\":\"ResourceNotFoundException\"}");
        let mut with = puts(&[("awslogs-create-group", "true")]);
        let is_first = |verdict: Verdict, action: &str| match verdict {
            Verdict::First(request) => String::from_utf8(request).unwrap().contains(action),
            _ => false,
        };
        assert!(is_first(with.judge(&missing), ".CreateLogStream\r\n"));
        assert!(is_first(with.judge(&missing), ".CreateLogGroup\r\n"));
        assert!(is_first(with.judge(&answer(200, "")), ".CreateLogStream\r\n"));
        assert_eq!(with.judge(&answer(200, "")), Verdict::Again);
        assert_eq!(with.judge(&missing), Verdict::Refused(Problem::Failed(Fault::Status, 400)));
        let mut without = puts(&[]);
        without.judge(&missing);
        assert_eq!(without.judge(&missing), Verdict::Refused(Problem::Failed(Fault::Status, 400)));
    }

    #[test]
    fn rejected_events_are_counted() {
        let info = |text: &str| serde_json::from_str(&format!("{{\"rejectedLogEventsInfo\":{text}}}")).unwrap();
        let events = [1, 0, 2, 4, 3];
        let of = |text: &str| rejected(&info(text), &events);
        assert_eq!(of("{\"tooOldLogEventEndIndex\":1,\"tooNewLogEventStartIndex\":3}"), [1, 4, 3]);
        assert_eq!(of("{\"tooOldLogEventEndIndex\":3,\"tooNewLogEventStartIndex\":1}"), events);
        assert_eq!(of("{\"expiredLogEventEndIndex\":99}"), events);
        assert!(rejected(&Value::Null, &events).is_empty());
    }

    #[test]
    fn refusals_name_the_option() {
        for (pair, words) in [
            (("zz", ""), "unknown log opt 'zz' for awslogs log driver"),
            (("labels", "a"), "unknown log opt 'labels' for awslogs log driver"),
            (("awslogs-group", ""), "must specify a value for log opt 'awslogs-group'"),
            (("awslogs-multiline-pattern", "x"), "LogConfig: awslogs-multiline-pattern is not supported"),
            (("awslogs-region", "a.b/"), "invalid awslogs-region \"a.b/\""),
            (("awslogs-endpoint", "a:1"), "awslogs-endpoint should be in form scheme://host:port, got a:1"),
            (
                ("awslogs-create-group", "x"),
                "must specify valid value for log opt 'awslogs-create-group': strconv.ParseBool: parsing \"x\": invalid syntax",
            ),
        ] {
            assert_eq!(parse(&options(&[pair])).unwrap_err().0, words);
        }
    }
}
