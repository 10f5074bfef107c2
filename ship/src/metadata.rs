//! Temporary keys of AWS, from servers near this machine: that of a container (ECS, EKS) and that of an instance (EC2, IMDSv2).

use crate::aws::Credentials;
use crate::drivers::{Destination, Manner, TlsFiles};
use crate::files;
use crate::http::{Answer, Site, push_request};
use crate::net::{Problem, ask_once};
use crate::options::Address;
use crate::proxies::Proxies;
use crate::time::now_ns;
use coracle_monitor::read_log::parse_rfc3339;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The server of a container whose variable or option names a path alone.
const CONTAINER: &str = "http://169.254.170.2";
/// Hosts that may get the token of a container's server without TLS, beside this machine.
const NEAR: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
const INSTANCE: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// Keys are renewed so long before their end: nanoseconds.
const EARLY: i64 = 300_000_000_000;

/// A server that failed is asked again after so long, and every server at most so often.
const AGAIN: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_secs(1);

/// Keys that have an end.
struct Temporary {
    keys: Credentials,
    /// Nanoseconds since 1970.
    until: i64,
}

/// A server that has keys, as the options and the environment name it.
#[derive(Clone)]
enum Server {
    /// An URL, and the value of the header `Authorization`.
    Container(String, Option<String>),
    Instance(String),
}

/// The state of a server, for all logs of this program.
#[derive(Default)]
struct Asked {
    kept: Option<Temporary>,
    /// When the keys came.
    since: Option<Instant>,
    /// A thread asks.
    is_asked: bool,
    /// The server is not asked before.
    next: Option<Instant>,
}

/// By their URLs.
static SERVERS: Mutex<BTreeMap<String, Asked>> = Mutex::new(BTreeMap::new());

/// Where keys came from, for [`distrust`].
pub(crate) struct Found {
    pub(crate) keys: Credentials,
    /// The server's URL. `None`: the keys are this machine's own.
    pub(crate) server: Option<String>,
}

/// The keys of a file or of a server near this machine, if the options name one; else those of this machine's own variables and files,
/// and of a server near it, in this order. `None`: there are none, or not yet.
pub(crate) fn credentials(file: Option<&Path>, path: Option<&str>, stop: BorrowedFd<'_>) -> Option<Found> {
    let own = if path.is_some() && file.is_none() { None } else { Credentials::find(file) };
    if own.is_some() || file.is_some() {
        return own.map(|keys| Found { keys, server: None });
    }
    let server = Server::find(path)?;
    let keys = find(&server, stop)?;
    Some(Found { keys, server: Some(server.url().to_owned()) })
}

/// A service refused the keys of a server: they are asked for again, unless they are new.
pub(crate) fn distrust(server: &str) {
    if let Some(asked) = servers().get_mut(server)
        && asked.since.is_some_and(|since| since.elapsed() > AGAIN)
    {
        asked.kept = None;
    }
}

fn servers() -> MutexGuard<'static, BTreeMap<String, Asked>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys of a server, which a thread asks if those so far are about to end: a server that does not answer holds up no other log.
fn find(server: &Server, stop: BorrowedFd<'_>) -> Option<Credentials> {
    let now = now_ns();
    let mut all = servers();
    let asked = all.entry(server.url().to_owned()).or_default();
    let is_fresh = asked.kept.as_ref().is_some_and(|kept| now < kept.until.saturating_sub(EARLY));
    let is_due = asked.next.is_none_or(|next| next <= Instant::now());
    if !is_fresh && !asked.is_asked && is_due {
        // Without a thread the next batch tries again.
        asked.is_asked = ask_aside(server.clone(), stop).is_ok();
    }
    asked.kept.as_ref().filter(|kept| now < kept.until).map(|kept| kept.keys.clone())
}

/// Asks a server on a thread of its own, which ends soon after the delivery does.
fn ask_aside(server: Server, stop: BorrowedFd<'_>) -> io::Result<()> {
    let stop = stop.try_clone_to_owned()?;
    let asking = move || {
        let answer = match &server {
            Server::Container(url, token) => of_container(url, token.as_deref(), stop.as_fd()),
            Server::Instance(url) => of_instance(url, stop.as_fd()),
        };
        let is_stopped = matches!(answer, Err(Problem::Stopped));
        let new = answer.ok().flatten();
        let mut all = servers();
        let asked = all.entry(server.url().to_owned()).or_default();
        asked.is_asked = false;
        // Another delivery of this program may go on.
        let pause = if new.is_some() { OFTEN } else { AGAIN };
        asked.next = (!is_stopped).then(|| Instant::now() + pause);
        // Until their end the keys so far are good.
        if let Some(new) = new {
            (asked.kept, asked.since) = (Some(new), Some(Instant::now()));
        }
    };
    // The thread has the signal mask of this one.
    std::thread::Builder::new().name("coracle-keys".into()).spawn(asking).map(drop)
}

impl Server {
    fn url(&self) -> &str {
        match self {
            Server::Container(url, _) | Server::Instance(url) => url,
        }
    }

    fn find(path: Option<&str>) -> Option<Server> {
        let word = |key: &str| std::env::var(key).ok().filter(|word| !word.is_empty());
        if let Some(path) = path {
            return Some(Server::Container(format!("{CONTAINER}{path}"), None));
        }
        let path = word("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINER}{path}"));
        if let Some(url) = path.or_else(|| word("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
            let path = word("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            let file = || String::from_utf8(files::read(Path::new(&path?)).ok()?).ok();
            let token = file().or_else(|| word("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
            return is_near(&url).then(|| Server::Container(url, token.map(|token| token.trim().to_owned())));
        }
        let is_disabled = word("AWS_EC2_METADATA_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"));
        let named = word("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| INSTANCE.into());
        (!is_disabled).then(|| Server::Instance(named.trim_end_matches('/').to_owned()))
    }
}

/// Whether a server may be told a token.
fn is_near(url: &str) -> bool {
    let Some((site, _)) = Site::parse(url) else { return false };
    match site.address {
        Address::Tls(..) => true,
        Address::Tcp(host, _) => {
            let is_own = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
            is_own || host == "localhost" || NEAR.contains(&&*host)
        }
        _ => false,
    }
}

fn of_container(url: &str, token: Option<&str>, stop: BorrowedFd<'_>) -> Result<Option<Temporary>, Problem> {
    let header = token.map(|token| ("Authorization", token));
    let answer = ask("GET", url, header, stop)?;
    Ok(answer.filter(Answer::is_well).and_then(|answer| read(&answer.body)))
}

/// Three requests: a token, the name of the role, and its keys.
fn of_instance(url: &str, stop: BorrowedFd<'_>) -> Result<Option<Temporary>, Problem> {
    let text = |answer: Answer| String::from_utf8(answer.body).ok().map(|text| text.trim().to_owned());
    let lasting = ("X-aws-ec2-metadata-token-ttl-seconds", "300");
    let answer = ask("PUT", &format!("{url}/latest/api/token"), Some(lasting), stop)?;
    let Some(token) = answer.filter(Answer::is_well).and_then(text) else { return Ok(None) };
    let header = Some(("X-aws-ec2-metadata-token", &*token));
    let roles = ask("GET", &format!("{url}{ROLES}"), header, stop)?.filter(Answer::is_well).and_then(text);
    let Some(role) = roles.and_then(|roles| roles.lines().next().map(str::to_owned)) else { return Ok(None) };
    let answer = ask("GET", &format!("{url}{ROLES}{role}"), header, stop)?;
    Ok(answer.filter(Answer::is_well).and_then(|answer| read(&answer.body)))
}

/// Asks a server by no proxy. `None`: the text is not an URL.
fn ask(method: &str, url: &str, header: Option<(&str, &str)>, stop: BorrowedFd<'_>) -> Result<Option<Answer>, Problem> {
    let Some((site, path)) = Site::parse(url) else { return Ok(None) };
    let path = if path.is_empty() { "/" } else { path };
    let headers: Vec<_> = [("Host", &*site.host), ("Accept", "*/*")].into_iter().chain(header).collect();
    let mut request = Vec::new();
    push_request(&mut request, &format!("{method} {path}"), &headers, &[]);
    let to = Destination {
        address: site.address.clone(),
        tls: TlsFiles::default(),
        manner: Manner::Asked,
        account: String::new(),
    };
    ask_once((&to, &Proxies::default()), &request, stop).map(Some)
}

/// The keys of an answer, which is the same at both servers.
fn read(body: &[u8]) -> Option<Temporary> {
    let all: Value = serde_json::from_slice(body).ok()?;
    let word = |key: &str| all[key].as_str().filter(|word| !word.is_empty()).map(str::to_owned);
    let until = parse_rfc3339(word("Expiration")?.as_bytes())?;
    let keys = Credentials { id: word("AccessKeyId")?, secret: word("SecretAccessKey")?, session: word("Token") };
    Some(Temporary { keys, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_keys_and_their_end() {
        let whole = r#"{"AccessKeyId":"A","SecretAccessKey":"s","Token":"t","Expiration":"1970-01-01T00:00:05Z"}"#;
        let read_one = read(whole.as_bytes()).unwrap();
        let wanted = Credentials { id: "A".into(), secret: "s".into(), session: Some("t".into()) };
        assert!(read_one.keys == wanted && read_one.until == 5_000_000_000);
        for part in ["AccessKeyId", "SecretAccessKey", "Expiration"] {
            assert!(read(whole.replace(part, "x").as_bytes()).is_none(), "{part}");
        }
    }

    #[test]
    fn a_token_goes_to_servers_near_this_machine_or_by_tls() {
        for near in ["http://127.0.0.1:80/x", "http://localhost/x", "http://169.254.170.2/x", "https://far.test/x"] {
            assert!(is_near(near), "{near}");
        }
        for far in ["http://far.test/x", "http://10.0.0.1/x", "http://169.254.169.254/x", "ftp://localhost/"] {
            assert!(!is_near(far), "{far}");
        }
    }
}
