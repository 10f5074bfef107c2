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
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The server of a container whose variable or option names a path alone.
const CONTAINER: &str = "http://169.254.170.2";
/// Hosts that may get the token of a container's server without TLS, beside this machine.
const NEAR: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
const INSTANCE: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// Keys are renewed so long before their end: nanoseconds.
const EARLY: i64 = 300_000_000_000;

/// Keys that have an end.
pub(crate) struct Temporary {
    keys: Credentials,
    /// Nanoseconds since 1970.
    until: i64,
}

/// A server that has keys, as the options and the environment name it.
enum Server {
    /// An URL, and the value of the header `Authorization`.
    Container(String, Option<String>),
    Instance(String),
}

/// The keys of a file or of a server near this machine, if the options name one; else those of this machine's own variables and files,
/// and of a server near it, in this order. `None`: there are none.
pub(crate) fn credentials(
    (file, path): (Option<&Path>, Option<&str>),
    kept: &mut Option<Temporary>,
    stop: BorrowedFd<'_>,
) -> Result<Option<Credentials>, Problem> {
    let own = if path.is_some() && file.is_none() { None } else { Credentials::find(file) };
    if own.is_some() || file.is_some() {
        return Ok(own);
    }
    find(path, kept, stop)
}

/// The keys of a server near this machine, asked for if those so far are about to end. `path`: that of the option. `None`: no server
/// has any.
fn find(
    path: Option<&str>,
    kept: &mut Option<Temporary>,
    stop: BorrowedFd<'_>,
) -> Result<Option<Credentials>, Problem> {
    let now = now_ns();
    if let Some(kept) = kept.as_ref().filter(|kept| now < kept.until - EARLY) {
        return Ok(Some(kept.keys.clone()));
    }
    let asked = match Server::find(path) {
        None => Ok(None),
        Some(Server::Container(url, token)) => of_container(&url, token.as_deref(), stop),
        Some(Server::Instance(url)) => of_instance(&url, stop),
    };
    match asked {
        Err(Problem::Stopped) => return Err(Problem::Stopped),
        Ok(Some(new)) => *kept = Some(new),
        // Until their end the keys so far are good.
        _ => {}
    }
    Ok(kept.as_ref().filter(|kept| now < kept.until).map(|kept| kept.keys.clone()))
}

impl Server {
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
