//! splunk: batches of events for the HTTP Event Collector.

use super::{Destination, Encoder, Frames, Manner, TlsFiles, pack, push_json};
use crate::http::{Site, push_request};
use crate::options::{Error, Options, flag, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::Batch;
use flate2::Compression;
use serde_json::value::RawValue;

const KNOWN: [&str; 13] = [
    "splunk-capath",
    "splunk-caname",
    "splunk-format",
    "splunk-gzip",
    "splunk-gzip-level",
    "splunk-index",
    "splunk-index-acknowledgment",
    "splunk-insecureskipverify",
    "splunk-source",
    "splunk-sourcetype",
    "splunk-token",
    "splunk-url",
    "splunk-verify-connection",
];
const PATH: &str = "/services/collector/event/1.0";
/// The most events of a request, and the bytes after which it takes no more.
const MOST: usize = 1000;
const FULL: usize = 512 << 10;

/// The form of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The line is a text in an object.
    Inline,
    /// The line is JSON where it can be.
    Json,
    /// The event is the line, with the tag and the labels before it.
    Raw,
}

/// The checked options.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    site: Site,
    token: String,
    form: Form,
    /// The level of the compression; absent: none.
    packing: Option<u32>,
    source: String,
    kind: String,
    index: String,
    tls: TlsFiles,
    /// The tag is an empty text, so events have none.
    is_untagged: bool,
    has_channel: bool,
    is_verified: bool,
}

impl std::fmt::Debug for Settings {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("site", &self.site).finish_non_exhaustive()
    }
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    if let Some(key) = unknown(options, &KNOWN) {
        return refused(format!("unknown log opt '{key}' for splunk log driver"));
    }
    let site = site(options.get("splunk-url"))?;
    let Some(token) = options.get("splunk-token") else { return refused("splunk: splunk-token is expected") };
    let owned = |key: &str| options.get(key).cloned().unwrap_or_default();
    Ok(Settings {
        site,
        token: token.clone(),
        form: form(options.get("splunk-format"))?,
        packing: packing(options)?,
        source: owned("splunk-source"),
        kind: owned("splunk-sourcetype"),
        index: owned("splunk-index"),
        tls: TlsFiles {
            authorities: text(options, "splunk-capath").map(Into::into),
            name: text(options, "splunk-caname").map(str::to_owned),
            skips_check: go_flag(options, "splunk-insecureskipverify")?,
            ..TlsFiles::default()
        },
        is_untagged: options.get("tag").is_some_and(String::is_empty),
        has_channel: go_flag(options, "splunk-index-acknowledgment")?,
        is_verified: go_flag(options, "splunk-verify-connection")?,
    })
}

fn site(url: Option<&String>) -> Result<Site, Error> {
    let Some(url) = url else { return refused("splunk: splunk-url is expected") };
    match Site::parse(url) {
        Some((site, "" | "/")) => Ok(site),
        _ => refused("splunk: expected format scheme://dns_name_or_ip:port for splunk-url"),
    }
}

fn form(text: Option<&String>) -> Result<Form, Error> {
    match text.map(String::as_str) {
        None | Some("inline") => Ok(Form::Inline),
        Some("json") => Ok(Form::Json),
        Some("raw") => Ok(Form::Raw),
        Some(other) => refused(format!("Unknown format specified {other}, supported formats are inline, json and raw")),
    }
}

fn packing(options: &Options) -> Result<Option<u32>, Error> {
    let level = match options.get("splunk-gzip-level") {
        None => Compression::default().level(),
        Some(level) => match level.parse::<i32>() {
            Ok(-1) => Compression::default().level(),
            Ok(level @ 0..=9) => level.unsigned_abs(),
            Ok(_) => {
                return refused(format!(
                    "not supported level '{level}' for splunk-gzip-level (supported values between -1 and 9)"
                ));
            }
            Err(_) => return refused(format!("strconv.ParseInt: parsing {level:?}: invalid syntax")),
        },
    };
    Ok(go_flag(options, "splunk-gzip")?.then_some(level))
}

/// A truth value; the error is Go's alone, as dockerd's, which takes no empty text either.
fn go_flag(options: &Options, key: &str) -> Result<bool, Error> {
    if options.get(key).is_some_and(String::is_empty) {
        return refused("strconv.ParseBool: parsing \"\": invalid syntax");
    }
    flag(options, key)
        .map_err(|error| Error(error.0.trim_start_matches(&format!("invalid value for {key}: ")).to_owned()))
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        Destination {
            address: self.site.address.clone(),
            tls: self.tls.clone(),
            manner: Manner::Asked,
            // A receiver that refuses one token or index takes the others.
            account: format!("{} {}", self.token, self.index),
        }
    }

    /// The request that shows whether the receiver is one; `None`: it is not asked for.
    pub(super) fn verification(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        push_request(&mut out, &format!("OPTIONS {PATH}"), &[("Host", &self.site.host)], b"");
        self.is_verified.then_some(out)
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Events {
        let tag = if self.is_untagged { "" } else { &facts.tag };
        let mut prefix = String::new();
        let words = facts.extras.iter().map(|(key, value)| format!("{key}={value}"));
        for word in Some(tag.to_owned()).filter(|tag| !tag.is_empty()).into_iter().chain(words) {
            prefix.push_str(&word);
            prefix.push(' ');
        }
        Events {
            behind: behind(tag, facts),
            meta: self.meta(&facts.host),
            prefix,
            form: self.form,
            packing: self.packing,
            token: format!("Splunk {}", self.token),
            host: self.site.host.clone(),
            channel: self.has_channel.then(|| channel(&facts.id)),
            body: String::new(),
        }
    }

    /// The members of a message behind its time.
    fn meta(&self, host: &str) -> String {
        let mut meta = String::from("\",\"host\":");
        push_json(&mut meta, host);
        for (key, value) in [("source", &self.source), ("sourcetype", &self.kind), ("index", &self.index)] {
            if !value.is_empty() {
                meta.push_str(&format!(",\"{key}\":"));
                push_json(&mut meta, value);
            }
        }
        meta
    }
}

/// The members of an event behind its source.
fn behind(tag: &str, facts: &Facts) -> String {
    let mut behind = String::new();
    if !tag.is_empty() {
        behind.push_str(",\"tag\":");
        push_json(&mut behind, tag);
    }
    if !facts.extras.is_empty() {
        behind.push_str(",\"attrs\":");
        behind.push_str(&serde_json::json!(facts.extras).to_string());
    }
    behind
}

/// The name of a container's channel, in the form of a UUID.
fn channel(id: &str) -> String {
    let part = |from: usize, to: usize| id.get(from..to).unwrap_or("0");
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// Makes requests of events.
pub struct Events {
    behind: String,
    meta: String,
    prefix: String,
    form: Form,
    packing: Option<u32>,
    token: String,
    host: String,
    channel: Option<String>,
    body: String,
}

impl Events {
    /// Appends the event of a line; answers whether the receiver takes it.
    fn event(&mut self, text: &[u8], stderr: bool, time_ns: i64, ordinal: u64) -> bool {
        let text = String::from_utf8_lossy(text);
        let out = &mut self.body;
        if self.form == Form::Raw && text.trim().is_empty() {
            return false;
        }
        out.push_str("{\"event\":");
        if self.form == Form::Raw {
            push_json(out, &format!("{}{text}", self.prefix));
        } else {
            out.push_str("{\"line\":");
            match serde_json::from_str::<&RawValue>(&text).ok().filter(|_| self.form == Form::Json) {
                Some(json) => out.push_str(json.get()),
                None => push_json(out, &text),
            }
            out.push_str(if stderr { ",\"source\":\"stderr\"" } else { ",\"source\":\"stdout\"" });
            out.push_str(&self.behind);
            out.push('}');
        }
        let micros = (time_ns + 500).div_euclid(1000).max(0);
        out.push_str(&format!(",\"time\":\"{}.{:06}", micros / 1_000_000, micros % 1_000_000));
        out.push_str(&self.meta);
        out.push_str(&format!(",\"fields\":{{\"log_ordinal\":\"{ordinal}\"}}}}"));
        true
    }

    /// Ends a request with the events so far.
    fn close(&mut self, frames: &mut Frames, records: usize) {
        if self.body.is_empty() {
            return;
        }
        let packed = self.packing.map(|level| pack(self.body.as_bytes(), level));
        let mut headers = vec![("Host", self.host.as_str()), ("Authorization", &self.token)];
        headers.push(("Content-Type", "application/json"));
        headers.extend(packed.is_some().then_some(("Content-Encoding", "gzip")));
        headers.extend(self.channel.as_deref().map(|channel| ("X-Splunk-Request-Channel", channel)));
        let body = packed.as_deref().unwrap_or(self.body.as_bytes());
        push_request(&mut frames.bytes, &format!("POST {PATH}"), &headers, body);
        frames.close(records, String::new());
        self.body.clear();
    }
}

impl Encoder for Events {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        let mut count = 0;
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            let head = record.head;
            if self.event(batch.text(record), head.stderr, head.time_ns, record.ordinal) {
                count += 1;
            } else {
                frames.left_out.push(number);
            }
            if count == MOST || self.body.len() >= FULL {
                self.close(frames, number + 1);
                count = 0;
            }
        }
        self.close(frames, batch.records().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn options(pairs: &[(&str, &str)]) -> Options {
        let base = [("splunk-url", "http://a:8088"), ("splunk-token", "t")];
        base.iter().chain(pairs).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn events(pairs: &[(&str, &str)]) -> (String, Vec<Value>, Frames) {
        let extras = [("a".to_owned(), "1".to_owned())];
        let facts = Facts { tag: "web".into(), host: "box".into(), extras: extras.into(), ..Facts::default() };
        let mut frames = Frames::default();
        let lines: [(bool, i64, &[u8]); 4] =
            [(false, 1_500_000_499, b"one"), (true, 0, b" "), (true, 2_000_000, b"{\"x\": [1]}"), (false, 0, b"{")];
        parse(&options(pairs)).unwrap().encoder(&facts).encode(&Batch::of(&lines), &mut frames);
        let all = String::from_utf8_lossy(&frames.bytes).into_owned();
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        let bodies = serde_json::Deserializer::from_str(body).into_iter::<Value>().map_while(Result::ok).collect();
        (head.to_owned(), bodies, frames)
    }

    #[test]
    fn events_have_dockerd_s_members() {
        let more = [("splunk-source", "s"), ("splunk-sourcetype", "st"), ("splunk-index", "i")];
        let (head, bodies, frames) = events(&more);
        assert!(head.starts_with("POST /services/collector/event/1.0 HTTP/1.1\r\nHost: a:8088\r\n"));
        assert!(head.contains("\r\nAuthorization: Splunk t\r\n"));
        let event = json!({ "line": "one", "source": "stdout", "tag": "web", "attrs": { "a": "1" } });
        let wanted = json!({ "event": event, "time": "1.500000", "host": "box", "source": "s", "sourcetype": "st",
            "index": "i", "fields": { "log_ordinal": "1" } });
        assert_eq!(bodies[0], wanted);
        assert_eq!(bodies[1]["event"]["line"], " ");
        assert_eq!(bodies[2]["time"], "0.002000");
        assert_eq!(frames.frames.iter().map(|frame| frame.records).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn forms_of_a_line() {
        let (_, bodies, _) = events(&[("splunk-format", "json"), ("tag", "")]);
        let lines: Vec<_> = bodies.iter().map(|body| &body["event"]["line"]).collect();
        assert_eq!(lines, [&json!("one"), &json!(" "), &json!({ "x": [1] }), &json!("{")]);
        assert_eq!(bodies[0]["event"]["tag"], Value::Null);
        let (_, bodies, _) = events(&[("splunk-format", "raw")]);
        let texts: Vec<_> = bodies.iter().map(|body| &body["event"]).collect();
        assert_eq!(texts, ["web a=1 one", "web a=1 {\"x\": [1]}", "web a=1 {"]);
    }

    #[test]
    fn refusals_have_dockerd_s_words() {
        for (pair, words) in [
            (("zz", ""), "unknown log opt 'zz' for splunk log driver"),
            (("splunk-url", "a:1"), "splunk: expected format scheme://dns_name_or_ip:port for splunk-url"),
            (("splunk-url", "http://a/x"), "splunk: expected format scheme://dns_name_or_ip:port for splunk-url"),
            (("splunk-format", "x"), "Unknown format specified x, supported formats are inline, json and raw"),
            (
                ("splunk-gzip-level", "10"),
                "not supported level '10' for splunk-gzip-level (supported values between -1 and 9)",
            ),
            (("splunk-gzip-level", "x"), "strconv.ParseInt: parsing \"x\": invalid syntax"),
            (("splunk-gzip", "x"), "strconv.ParseBool: parsing \"x\": invalid syntax"),
            (("splunk-insecureskipverify", ""), "strconv.ParseBool: parsing \"\": invalid syntax"),
        ] {
            assert_eq!(parse(&options(&[pair])).unwrap_err().0, words);
        }
        assert_eq!(parse(&Options::new()).unwrap_err().0, "splunk: splunk-url is expected");
        let url = Options::from([("splunk-url".into(), "https://a".into())]);
        assert_eq!(parse(&url).unwrap_err().0, "splunk: splunk-token is expected");
    }
}
