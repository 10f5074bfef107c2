//! gcplogs: entries for Cloud Logging, by `entries:write` of its REST interface.

use super::{Destination, Encoder, Frames, Manner, Rejected, TlsFiles, Verdict, push_json};
use crate::cursor::Fault;
use crate::google::Account;
use crate::http::{Answer, Site, push_request};
use crate::net::Problem;
use crate::options::{Error, Options, flag, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::{Batch, Record};
use crate::time::{now_ns, utc};
use serde_json::{Map, Value, json};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

const KNOWN: [&str; 7] = [
    "gcp-credentials-file",
    "gcp-endpoint",
    "gcp-log-cmd",
    "gcp-meta-id",
    "gcp-meta-name",
    "gcp-meta-zone",
    "gcp-project",
];
const ENDPOINT: &str = "https://logging.googleapis.com";
/// The service for which tokens are good, whatever the endpoint.
const AUDIENCE: &str = "https://logging.googleapis.com/";
/// The name of dockerd's log.
const LOG: &str = "gcplogs-docker-driver";
/// The most entries of a request, and the bytes after which it takes no more.
const MOST: usize = 1000;
const FULL: usize = 1 << 20;
/// The code of an entry that is wrong in itself.
const INVALID_ARGUMENT: u64 = 3;

/// The checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    site: Site,
    /// Absent: that of the account.
    project: Option<String>,
    has_command: bool,
    machine: Machine,
    credentials: Option<PathBuf>,
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    if let Some(key) = unknown(options, &KNOWN).map(String::as_str).or(options.get("tag").map(|_| "tag")) {
        return refused(format!("{key:?} is not a valid option for the gcplogs driver"));
    }
    if cfg!(not(feature = "tls")) {
        return refused("gcplogs: this build has no TLS, and so no signatures");
    }
    let project = text(options, "gcp-project").map(str::to_owned);
    let is_name = |name: &String| name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.:".contains(&c));
    if let Some(other) = project.as_ref().filter(|name| !is_name(name)) {
        return refused(format!("gcplogs: the value of gcp-project names no project: {other:?}"));
    }
    let url = text(options, "gcp-endpoint").unwrap_or(ENDPOINT);
    let Some((site, "" | "/")) = Site::parse(url) else {
        return refused(format!("gcplogs: gcp-endpoint should be in form https://host[:port], got {url}"));
    };
    let own = |key: &str| text(options, key).unwrap_or_default().to_owned();
    Ok(Settings {
        site,
        project,
        has_command: flag(options, "gcp-log-cmd")?,
        machine: Machine([own("gcp-meta-zone"), own("gcp-meta-name"), own("gcp-meta-id")]),
        credentials: text(options, "gcp-credentials-file").map(Into::into),
    })
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        let file = self.credentials.as_deref().unwrap_or(std::path::Path::new("")).display();
        Destination {
            address: self.site.address.clone(),
            tls: TlsFiles::default(),
            manner: Manner::Asked,
            account: format!("{} {file}", self.project.as_deref().unwrap_or_default()),
        }
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Entries {
        Entries {
            settings: self.clone(),
            account: None,
            facts: self.payload(facts),
            id: facts.id.clone(),
            entries: String::new(),
            count: 0,
        }
    }

    /// The members of each payload behind its message.
    fn payload(&self, facts: &Facts) -> String {
        let mut container = Map::new();
        let name = format!("/{}", facts.name);
        let command = if self.has_command { facts.command.as_str() } else { "" };
        let words = [
            ("name", name.as_str()),
            ("id", &facts.id),
            ("imageName", &facts.image_name),
            ("imageId", &facts.image_id),
            ("created", &facts.created),
            ("command", command),
        ];
        for (key, value) in words.into_iter().filter(|(_, value)| !value.is_empty()) {
            container.insert(key.to_owned(), value.into());
        }
        if !facts.extras.is_empty() {
            container.insert("metadata".to_owned(), json!(facts.extras));
        }
        let mut out = format!("\"container\":{}", Value::Object(container));
        if self.machine.is_named() {
            out.push_str(&format!(",\"instance\":{}", self.machine.instance()));
        }
        out
    }
}

/// Zone, name and id of the machine; empty texts: the options do not name it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Machine([String; 3]);

impl Machine {
    fn is_named(&self) -> bool {
        self.0.iter().any(|word| !word.is_empty())
    }

    fn instance(&self) -> Value {
        let named = ["zone", "name", "id"].into_iter().zip(&self.0).filter(|(_, word)| !word.is_empty());
        Value::Object(named.map(|(key, word)| (key.to_owned(), word.clone().into())).collect())
    }

    /// The resource of all entries, as dockerd's.
    fn resource(&self, project: &str) -> Value {
        let [zone, _, id] = &self.0;
        match self.is_named() {
            true => json!({ "type": "gce_instance", "labels": { "instance_id": id, "zone": zone } }),
            false => json!({ "type": "global", "labels": { "project_id": project } }),
        }
    }
}

/// Makes requests of entries.
pub struct Entries {
    settings: Settings,
    account: Option<Account>,
    facts: String,
    id: String,
    /// The entries of the next request, with commas between them.
    entries: String,
    count: u64,
}

impl Entries {
    fn push(&mut self, text: &[u8], record: &Record) {
        let out = &mut self.entries;
        out.push_str(if self.count == 0 { "" } else { "," });
        // The service drops another entry of the same name and time: lines that come again are there once.
        let name = format!("{}-{}", self.id, record.ordinal);
        out.push_str(&format!("{{\"insertId\":\"{name}\",\"timestamp\":\"{}\"", utc(record.head.time_ns)));
        out.push_str(",\"jsonPayload\":{");
        if !text.is_empty() {
            out.push_str("\"message\":");
            push_json(out, &String::from_utf8_lossy(text));
            out.push(',');
        }
        out.push_str(&self.facts);
        out.push_str("}}");
        self.count += 1;
    }

    /// Ends a request with the entries so far.
    fn close(&mut self, frames: &mut Frames, records: usize) {
        let entries = std::mem::take(&mut self.entries);
        let count = std::mem::take(&mut self.count);
        let Some(account) = self.account.as_ref().filter(|_| count > 0) else { return };
        // `prepare` has refused a delivery without a project.
        let project = self.settings.project.as_ref().or(account.project.as_ref()).map_or("", String::as_str);
        let (log, resource) =
            (json!(format!("projects/{project}/logs/{LOG}")), self.settings.machine.resource(project));
        let body =
            format!("{{\"logName\":{log},\"resource\":{resource},\"partialSuccess\":true,\"entries\":[{entries}]}}");
        let bearer = format!("Bearer {}", account.token);
        let headers =
            [("Host", &*self.settings.site.host), ("Authorization", &bearer), ("Content-Type", "application/json")];
        push_request(&mut frames.bytes, "POST /v2/entries:write", &headers, body.as_bytes());
        frames.close(records, String::new());
    }
}

impl Encoder for Entries {
    /// The key is read for each batch: a renewed one is used.
    fn prepare(&mut self, _: BorrowedFd<'_>) -> Result<(), Problem> {
        let now = now_ns().div_euclid(1_000_000_000);
        self.account = Account::find(self.settings.credentials.as_deref(), self.account.take(), AUDIENCE, now);
        let project = self.account.as_ref().and_then(|account| account.project.as_ref());
        match self.account.is_some() && self.settings.project.as_ref().or(project).is_some() {
            true => Ok(()),
            false => Err(Problem::Failed(Fault::Credentials, 0)),
        }
    }

    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            self.push(batch.text(record), record);
            if self.count == MOST as u64 || self.entries.len() >= FULL {
                self.close(frames, number + 1);
            }
        }
        self.close(frames, batch.records().len());
    }

    fn judge(&mut self, answer: &Answer) -> Verdict {
        match Verdict::of(answer) {
            Verdict::Refused(problem) => rejected(&answer.body)
                .map_or(Verdict::Refused(problem), |numbers| Verdict::Taken(Rejected::These(numbers))),
            other => other,
        }
    }
}

/// The numbers of the entries that an error rejects, each as wrong in itself; the others are written. `None`: the error is about
/// something else.
fn rejected(body: &[u8]) -> Option<Vec<usize>> {
    let all: Value = serde_json::from_slice(body).ok()?;
    let details = all["error"]["details"].as_array()?;
    let mut errors = details.iter().filter_map(|detail| detail["logEntryErrors"].as_object());
    let errors = errors.next().filter(|errors| !errors.is_empty())?;
    let are_wrong = errors.values().all(|error| error["code"].as_u64() == Some(INVALID_ARGUMENT));
    are_wrong.then(|| errors.keys().filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn refusals_have_dockerd_s_words() {
        for (key, value, words) in [
            ("colour", "red", "\"colour\" is not a valid option for the gcplogs driver"),
            ("tag", "x", "\"tag\" is not a valid option for the gcplogs driver"),
            ("gcp-project", "a/b", "gcplogs: the value of gcp-project names no project: \"a/b\""),
            ("gcp-endpoint", "a", "gcplogs: gcp-endpoint should be in form https://host[:port], got a"),
            ("gcp-log-cmd", "x", "invalid value for gcp-log-cmd: strconv.ParseBool: parsing \"x\": invalid syntax"),
        ] {
            assert_eq!(parse(&options(&[(key, value)])).unwrap_err().0, words);
        }
    }

    #[test]
    fn only_entries_that_are_wrong_in_themselves_are_lost() {
        let of = |errors: Value| {
            let details =
                json!([{ "@type": "type.googleapis.com/google.rpc.DebugInfo" }, { "logEntryErrors": errors }]);
            rejected(json!({ "error": { "code": 400, "details": details } }).to_string().as_bytes())
        };
        assert_eq!(of(json!({ "0": { "code": 3 }, "7": { "code": 3 } })), Some(vec![0, 7]));
        assert_eq!(of(json!({ "0": { "code": 3 }, "7": { "code": 7 } })), None);
        assert_eq!(of(json!({})), None);
        assert_eq!(rejected(b"{\"error\":{\"code\":403}}"), None);
        assert_eq!(rejected(b"<html>"), None);
    }
}
