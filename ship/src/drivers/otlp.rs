//! otlp: log records for OpenTelemetry's receivers, by HTTP with Protocol Buffers.

use super::protobuf::{Value, fields, push_bytes, push_fixed, push_number};
use super::{Destination, Encoder, Frames, Manner, Rejected, TlsFiles, Verdict, pack, parts_of_line};
use crate::http::{Answer, Site, percent_decoded, push_request};
use crate::options::{Error, Options, flag, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::{Batch, Record};
use flate2::Compression;

const KNOWN: [&str; 7] = [
    "otlp-compression",
    "otlp-endpoint",
    "otlp-headers",
    "otlp-tls-ca-cert",
    "otlp-tls-cert",
    "otlp-tls-key",
    "otlp-tls-skip-verify",
];
/// Where a collector of this host listens.
const ENDPOINT: &str = "http://localhost:4318";
/// The path of an endpoint without one.
const PATH: &str = "/v1/logs";
const KIND: &str = "application/x-protobuf";
/// A request takes no more records once it has so many bytes.
const FULL: usize = 512 << 10;
/// The severities of OpenTelemetry's data model.
const INFO: (u64, &str) = (9, "INFO");
const ERROR: (u64, &str) = (17, "ERROR");
/// The numbers of fields that several messages have.
const RESOURCE_ATTRIBUTE: u64 = 1;
const RECORD_ATTRIBUTE: u64 = 6;

/// The checked options.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    site: Site,
    path: String,
    /// More headers of each request, such as a token.
    headers: Vec<(String, String)>,
    is_packed: bool,
    is_tagged: bool,
    tls: TlsFiles,
}

impl std::fmt::Debug for Settings {
    /// Without the headers, which may have a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("site", &self.site).field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    if let Some(key) = unknown(options, &KNOWN) {
        return refused(format!("unknown log opt '{key}' for otlp log driver"));
    }
    let endpoint = text(options, "otlp-endpoint").unwrap_or(ENDPOINT);
    let Some((site, path)) = Site::parse(endpoint) else {
        return refused(format!("otlp-endpoint should be in form http://host:port[/path], got {endpoint}"));
    };
    let is_packed = match text(options, "otlp-compression") {
        None | Some("gzip") => true,
        Some("none") => false,
        Some(other) => return refused(format!("otlp-compression should be gzip or none, got {other}")),
    };
    let file = |key: &str| text(options, key).map(Into::into);
    Ok(Settings {
        site,
        path: if matches!(path, "" | "/") { PATH.to_owned() } else { path.to_owned() },
        headers: headers(text(options, "otlp-headers").unwrap_or_default())?,
        is_packed,
        is_tagged: text(options, "tag").is_some(),
        tls: TlsFiles {
            authorities: file("otlp-tls-ca-cert"),
            certificate: file("otlp-tls-cert"),
            key: file("otlp-tls-key"),
            skips_check: flag(options, "otlp-tls-skip-verify")?,
            name: None,
        },
    })
}

/// Reads `key=value,key=value`; values may have octets as `%2C`.
fn headers(list: &str) -> Result<Vec<(String, String)>, Error> {
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    // The text of an error has no value: it may be a token.
    let one = |(number, pair): (usize, &str)| {
        let found = pair.split_once('=').map(|(key, value)| (key.trim(), percent_decoded(value.trim())));
        match found {
            Some((key, Some(value))) if !key.is_empty() && key.bytes().all(is_token) => Ok((key.to_owned(), value)),
            _ => refused(format!("otlp-headers should be in form key=value,key=value: entry {} is not", number + 1)),
        }
    };
    list.split(',').filter(|pair| !pair.trim().is_empty()).enumerate().map(one).collect()
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        let headers: Vec<String> = self.headers.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Destination {
            address: self.site.address.clone(),
            tls: self.tls.clone(),
            manner: Manner::Asked,
            account: format!("{} {}", self.path, headers.join(",")),
        }
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Records {
        Records {
            settings: self.clone(),
            resource: resource(facts, self.is_tagged),
            id: facts.id.clone(),
            records: Vec::new(),
            record: Vec::new(),
        }
    }
}

/// The message of a container's resource.
fn resource(facts: &Facts, is_tagged: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let service = if is_tagged { &facts.tag } else { &facts.name };
    let own = [
        ("service.name", service),
        ("container.id", &facts.id),
        ("container.name", &facts.name),
        ("container.image.id", &facts.image_id),
        ("container.image.name", &facts.image_name),
        ("container.command_line", &facts.command),
        ("host.name", &facts.host),
    ];
    // A label of the same name comes instead.
    for (key, value) in own.into_iter().filter(|(key, value)| !value.is_empty() && !facts.extras.contains_key(*key)) {
        push_attribute(&mut out, RESOURCE_ATTRIBUTE, key, value);
    }
    for (key, value) in &facts.extras {
        push_attribute(&mut out, RESOURCE_ATTRIBUTE, key, value);
    }
    out
}

/// Appends a `KeyValue` with a text.
fn push_attribute(out: &mut Vec<u8>, field: u64, key: &str, value: &str) {
    let (mut pair, mut any) = (Vec::new(), Vec::new());
    push_bytes(&mut any, 1, value.as_bytes());
    push_bytes(&mut pair, 1, key.as_bytes());
    push_bytes(&mut pair, 2, &any);
    push_bytes(out, field, &pair);
}

/// Makes requests of log records.
pub struct Records {
    settings: Settings,
    resource: Vec<u8>,
    id: String,
    /// The records of the next request, each as a field of their scope.
    records: Vec<u8>,
    record: Vec<u8>,
}

impl Records {
    fn push(&mut self, text: &[u8], record: &Record, now: u64) {
        let out = &mut self.record;
        out.clear();
        push_fixed(out, 1, u64::try_from(record.head.time_ns).unwrap_or(0));
        let (number, name) = if record.head.stderr { ERROR } else { INFO };
        push_number(out, 2, number);
        push_bytes(out, 3, name.as_bytes());
        let mut body = Vec::with_capacity(text.len() + 8);
        // The spool has UTF-8; a receiver refuses a request with anything else.
        push_bytes(&mut body, 1, String::from_utf8_lossy(text).as_bytes());
        push_bytes(out, 5, &body);
        push_attribute(out, RECORD_ATTRIBUTE, "log.iostream", if record.head.stderr { "stderr" } else { "stdout" });
        let uid = format!("{}-{}", self.id, record.ordinal);
        push_attribute(out, RECORD_ATTRIBUTE, "log.record.uid", &uid);
        for (key, value) in record.part.map_or(Vec::new(), |part| parts_of_line(&self.id, part)) {
            push_attribute(out, RECORD_ATTRIBUTE, key, &value);
        }
        push_fixed(out, 11, now);
        push_bytes(&mut self.records, 2, &self.record);
    }

    /// Ends a request with the records so far.
    fn close(&mut self, frames: &mut Frames, through: usize) {
        if self.records.is_empty() {
            return;
        }
        let (mut scope, mut group, mut body) = (Vec::new(), Vec::new(), Vec::new());
        push_bytes(&mut scope, 1, b"coracle");
        let mut scoped = Vec::with_capacity(self.records.len() + 16);
        push_bytes(&mut scoped, 1, &scope);
        scoped.append(&mut self.records);
        push_bytes(&mut group, 1, &self.resource);
        push_bytes(&mut group, 2, &scoped);
        push_bytes(&mut body, 1, &group);
        let Settings { site, path, headers, is_packed, .. } = &self.settings;
        let body = if *is_packed { pack(&body, Compression::fast().level()) } else { body };
        let mut all = vec![("Host", site.host.as_str()), ("Content-Type", KIND)];
        all.extend(is_packed.then_some(("Content-Encoding", "gzip")));
        all.extend(headers.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        push_request(&mut frames.bytes, &format!("POST {path}"), &all, &body);
        frames.close(through, String::new());
    }
}

impl Encoder for Records {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        let now = u64::try_from(crate::time::now_ns()).unwrap_or(0);
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            self.push(batch.text(record), record, now);
            if self.records.len() >= FULL {
                self.close(frames, number + 1);
            }
        }
        self.close(frames, batch.records().len());
    }

    fn judge(&mut self, answer: &Answer) -> Verdict {
        match Verdict::of(answer) {
            // The specification forbids to send those again that the receiver rejects.
            Verdict::Taken(_) => Verdict::Taken(Rejected::Some(rejected(&answer.body))),
            other => other,
        }
    }
}

/// How many records an answer rejects: `partial_success` (field 1) with `rejected_log_records` (field 1).
fn rejected(body: &[u8]) -> u64 {
    let of = |message: &[u8]| {
        let found = fields(message).into_iter().flatten();
        found
            .filter_map(
                |(field, value)| if let (1, Value::Number(count)) = (field, value) { Some(count) } else { None },
            )
            .max()
    };
    let partial = fields(body).into_iter().flatten().filter_map(|(field, value)| match (field, value) {
        (1, Value::Bytes(partial)) => of(partial),
        _ => None,
    });
    partial.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Fault;
    use crate::net::Problem;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn answer(status: u16, body: &[u8]) -> Answer {
        Answer { status, body: body.to_vec(), ends: false }
    }

    #[test]
    fn requests_have_the_path_and_the_headers_of_the_options() {
        let more = [("otlp-headers", "authorization=Bearer%20a%2Cb, x-scope=1"), ("otlp-compression", "none")];
        let facts = Facts { id: "i".into(), name: "web".into(), ..Facts::default() };
        for (endpoint, line) in [
            ("http://a:1", "POST /v1/logs HTTP/1.1\r\nHost: a:1\r\n"),
            ("http://a:1/", "POST /v1/logs HTTP/1.1\r\nHost: a:1\r\n"),
            ("http://a:1/x/v1/logs", "POST /x/v1/logs HTTP/1.1\r\nHost: a:1\r\n"),
        ] {
            let all = options(&[more[0], more[1], ("otlp-endpoint", endpoint)]);
            let mut frames = Frames::default();
            parse(&all).unwrap().encoder(&facts).encode(&Batch::of(&[(false, 1, b"one"), (true, 2, b"")]), &mut frames);
            assert_eq!(frames.frames.iter().map(|frame| frame.records).collect::<Vec<_>>(), [2]);
            let text = String::from_utf8_lossy(&frames.bytes);
            assert!(text.starts_with(line), "{text}");
            assert!(text.contains("\r\nauthorization: Bearer a,b\r\nx-scope: 1\r\n"), "{text}");
        }
    }

    #[test]
    fn rejected_records_are_counted_and_refused_requests_wait() {
        let (mut partial, mut body) = (Vec::new(), Vec::new());
        push_number(&mut partial, 1, 3);
        push_bytes(&mut partial, 2, b"why");
        push_bytes(&mut body, 1, &partial);
        let mut records = parse(&Options::new()).unwrap().encoder(&Facts::default());
        assert_eq!(records.judge(&answer(200, &body)), Verdict::Taken(Rejected::Some(3)));
        assert_eq!(records.judge(&answer(200, b"")), Verdict::Taken(Rejected::NONE));
        assert_eq!(records.judge(&answer(200, b"{}")), Verdict::Taken(Rejected::NONE));
        let refused = |status| Verdict::Refused(Problem::Failed(Fault::Status, status));
        assert_eq!(records.judge(&answer(503, &body)), refused(503));
        assert_eq!(records.judge(&answer(400, b"")), refused(400));
    }

    #[test]
    fn refusals_name_the_option() {
        for (key, value, words) in [
            ("colour", "red", "unknown log opt 'colour' for otlp log driver"),
            ("otlp-endpoint", "a:1", "otlp-endpoint should be in form http://host:port[/path], got a:1"),
            ("otlp-compression", "zstd", "otlp-compression should be gzip or none, got zstd"),
            ("otlp-headers", "a=b,c", "otlp-headers should be in form key=value,key=value: entry 2 is not"),
            ("otlp-headers", "a=%0a", "otlp-headers should be in form key=value,key=value: entry 1 is not"),
            ("otlp-headers", "a b=c", "otlp-headers should be in form key=value,key=value: entry 1 is not"),
            (
                "otlp-tls-skip-verify",
                "maybe",
                "invalid value for otlp-tls-skip-verify: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
        ] {
            assert_eq!(parse(&options(&[(key, value)])).unwrap_err().0, words);
        }
        assert!(!format!("{:?}", parse(&options(&[("otlp-headers", "a=secret")])).unwrap()).contains("secret"));
    }
}
