//! Speaking with image registries (the distribution protocol, version 2): blocking, one [`Client`] per registry and
//! operation.
//!
//! The caller, which knows the digests, checks a registry's answers. Credentials go to the registry that they are
//! for and to the token server that it names, over TLS unless the registry is an insecure one, and stand in no error.

mod auth;
mod download;
mod search;
mod service;
mod transport;
mod trust;
mod url;

pub(crate) use auth::auth_for;
pub(crate) use download::Download;
pub(crate) use service::Service;
pub(crate) use transport::Transport;
pub(crate) use url::{Url, unescape, without_secrets};

use crate::error::{Cause, Error, ErrorKind, Result};
use crate::model::{RegistryAuth, json_words};
use crate::notes::{LogLevel, note};
use crate::walls::Wall;
use auth::{Access, Challenge};
use parking_lot::Mutex;
use serde::Deserialize;
use std::io::Read;
use std::time::Duration;
use transport::{Answer, Ask, Payload};

/// Largest answer that is a document but no manifest.
const MAX_DOCUMENT: usize = 1 << 20;
/// Largest manifest.
const MAX_MANIFEST: usize = 4 << 20;
/// Most tags of a repository, and pages of them.
const MAX_TAGS: usize = 100_000;
const MAX_PAGES: u32 = 1_000;
/// How often a request is tried that a registry cannot serve now, and the longest that it may ask to wait.
const ATTEMPTS: u32 = 4;
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The host that a name without one means, and where its registry is.
const DEFAULT_DOMAIN: &str = "docker.io";
const DEFAULT_HOST: &str = "registry-1.docker.io";

/// A registry, reached.
pub(crate) struct Client<'a> {
    transport: &'a Transport,
    /// The registry's name in references.
    domain: String,
    base: Url,
    access: Access,
    challenge: Mutex<Option<Challenge>>,
}

/// A repository of a registry.
pub(crate) struct Repository<'a> {
    client: &'a Client<'a>,
    /// The repository's path: `library/busybox`.
    pub(crate) path: String,
    scope: String,
}

/// A manifest as it came.
pub(crate) struct Fetched {
    pub(crate) media_type: String,
    /// The digest that the registry names.
    pub(crate) digest: Option<String>,
    pub(crate) bytes: Vec<u8>,
}

/// A blob's content on its way.
pub(crate) struct Blob {
    /// Where in the blob the content begins: 0 where the registry does not take ranges.
    pub(crate) from: u64,
    /// Bytes to come, where the registry says.
    pub(crate) length: Option<u64>,
    pub(crate) content: Box<dyn Read + Send>,
}

/// The answer to a request for an upload.
pub(crate) enum Upload {
    /// The blob was taken over from another repository.
    Mounted,
    /// Send it there.
    To(Url),
}

impl<'a> Client<'a> {
    /// Reaches the registry of `domain`, and finds out how: TLS, or plain HTTP where that is allowed; which login.
    pub(crate) fn connect(transport: &'a Transport, domain: &str, auth: RegistryAuth) -> Result<Client<'a>> {
        let host = if domain == DEFAULT_DOMAIN { DEFAULT_HOST } else { domain };
        let ping = |scheme: &str| -> Result<(Url, Answer)> {
            let url = Url::parse(&format!("{scheme}://{host}/v2/"))?;
            Ok((url.clone(), transport.send(Ask::get(url))?))
        };
        let (base, answer) = match ping("https") {
            // Where an authority was given for it, it speaks TLS.
            Err(error) if error.kind() == ErrorKind::Unavailable && transport.may_be_plain(host)? => ping("http")?,
            other => other?,
        };
        let challenge =
            match answer.status {
                401 => Some(Challenge::of(answer.all("www-authenticate")).ok_or_else(|| {
                    Error::internal(format!("{}: it asks for a login of an unknown kind", base.shown()))
                })?),
                // Some registries open this one to all; 404 and worse show in the next request.
                _ => None,
            };
        Ok(Client {
            transport,
            domain: domain.to_owned(),
            base,
            access: Access::new(auth),
            challenge: Mutex::new(challenge),
        })
    }

    /// Reaches the mirror of a registry at `url`: without credentials, which are for the registry itself.
    pub(crate) fn of_mirror(transport: &'a Transport, domain: &str, url: &str) -> Result<Client<'a>> {
        let base = Url::parse(url)?.at("/v2/");
        let answer = transport.send(Ask::get(base.clone()))?;
        let challenge = match answer.status {
            401 => Challenge::of(answer.all("www-authenticate")),
            _ => None,
        };
        let access = Access::new(RegistryAuth::default());
        Ok(Client { transport, domain: domain.to_owned(), base, access, challenge: Mutex::new(challenge) })
    }

    /// The repository `path`; `push`: also to write to.
    pub(crate) fn repository(&'a self, path: &str, push: bool) -> Repository<'a> {
        let actions = if push { "pull,push" } else { "pull" };
        Repository { client: self, path: path.to_owned(), scope: format!("repository:{path}:{actions}") }
    }

    /// Checks the credentials. Answers a refresh token, where the registry gives one.
    pub(crate) fn login(&self) -> Result<String> {
        let challenge = self.challenge.lock().clone();
        let mut refresh = String::new();
        if let Some(Challenge::Bearer { realm, service }) = &challenge {
            refresh = self.access.token(self.transport, &self.base, realm, service, "")?.1;
        }
        let answer = self.call("GET", self.base.clone(), &[], "", Payload::None)?;
        match answer.status {
            200 => Ok(refresh),
            _ => Err(refused(answer, "log in")),
        }
    }

    /// One call, with what the registry wants to know of its caller, again where its token was too old, where the
    /// registry asks for patience and where the connection fails (unless the body is a stream).
    fn call(
        &self,
        method: &'static str,
        url: Url,
        headers: &[(&'static str, String)],
        scope: &str,
        mut body: Payload<'_>,
    ) -> Result<Answer> {
        let mut attempt = 1;
        loop {
            let again = match &mut body {
                Payload::None => Payload::None,
                Payload::Bytes(bytes) => Payload::Bytes(bytes),
                Payload::Stream(_) => return self.call_once(method, url, headers, scope, body),
            };
            match self.call_once(method, url.clone(), headers, scope, again) {
                Err(error) if error.kind() == ErrorKind::Unavailable && attempt < ATTEMPTS => {
                    self.wait_for_another(Duration::from_millis(500) * 2u32.pow(attempt), || error.to_string())?;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    /// Waits before another attempt, and notes the reason. Errors: the transport is stopped.
    fn wait_for_another(&self, wait: Duration, why: impl FnOnce() -> String) -> Result<()> {
        note(LogLevel::Info, "registry", None, || format!("another attempt in {wait:?}: {}", why()));
        self.transport.sleep(wait)
    }

    /// One call on one connection, again only where the registry answers that it should be.
    fn call_once(
        &self,
        method: &'static str,
        url: Url,
        headers: &[(&'static str, String)],
        scope: &str,
        mut body: Payload<'_>,
    ) -> Result<Answer> {
        let (mut renewed, mut attempt) = (false, 1);
        loop {
            let challenge = self.challenge.lock().clone();
            let authorization = match &challenge {
                // Uploads may be directed elsewhere: credentials stay at home.
                Some(challenge) if url.same_origin(&self.base) => {
                    self.access.header(self.transport, &self.base, challenge, scope)?
                }
                _ => None,
            };
            let (stream, payload) = match &mut body {
                Payload::None => (false, Payload::None),
                Payload::Bytes(bytes) => (false, Payload::Bytes(bytes)),
                Payload::Stream(stream) => (true, Payload::Stream(*stream)),
            };
            let redirected = url.is_redirected_from(&self.base);
            let ask =
                Ask { method, url: url.clone(), redirected, headers: headers.to_vec(), authorization, body: payload };
            let mut answer = self.transport.send(ask)?;
            match answer.status {
                401 if !renewed && !stream && answer.url.same_origin(&self.base) => {
                    let asked = Challenge::of(answer.all("www-authenticate"));
                    if asked == Some(Challenge::Basic) && self.access.is_anonymous() {
                        let what = format!("{method} {}: no basic auth credentials", url.shown());
                        return Err(Error::new(ErrorKind::Unauthorized, what).caused_by(Cause::NoCredentials));
                    }
                    let Some(asked) = asked else { return Ok(answer) };
                    *self.challenge.lock() = Some(asked);
                    self.access.forget();
                    renewed = true;
                }
                429 | 500 | 502 | 503 | 504 if !stream && attempt < ATTEMPTS => {
                    let asked = answer.header("retry-after").and_then(|text| text.trim().parse().ok());
                    let wait = asked.map_or(Duration::from_millis(500) * 2u32.pow(attempt), Duration::from_secs);
                    attempt += 1;
                    self.wait_for_another(wait.min(LONGEST_WAIT), || {
                        format!("{method} {}: status {}", answer.url.shown(), answer.status)
                    })?;
                }
                _ => {
                    answer.is_last = !stream;
                    return Ok(answer);
                }
            }
        }
    }
}

impl Repository<'_> {
    /// The registry's name in references: `docker.io`, `localhost:5000`.
    pub(crate) fn domain(&self) -> &str {
        &self.client.domain
    }

    fn url(&self, rest: &str) -> Url {
        self.client.base.at(&format!("/v2/{}/{rest}", self.path))
    }

    fn get(&self, url: Url, headers: &[(&'static str, String)]) -> Result<Answer> {
        self.client.call("GET", url, headers, &self.scope, Payload::None)
    }

    /// The manifest with that tag or digest.
    pub(crate) fn manifest(&self, reference: &str, accept: &[&str]) -> Result<Fetched> {
        let answer = self.get(self.url(&format!("manifests/{reference}")), &[("accept", accept.join(", "))])?;
        if answer.status != 200 {
            return Err(refused(answer, "get the manifest"));
        }
        let media_type = answer.header("content-type").unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_owned();
        let digest = answer.header("docker-content-digest").map(str::to_owned);
        Ok(Fetched { media_type, digest, bytes: answer.bytes(MAX_MANIFEST)? })
    }

    /// The content of a blob from the byte `from` on.
    pub(crate) fn blob(&self, digest: &str, from: u64) -> Result<Blob> {
        let mut headers = Vec::new();
        if from > 0 {
            headers.push(("range", format!("bytes={from}-")));
        }
        let url = self.url(&format!("blobs/{digest}"));
        // The reader of a blob resumes by itself after a cut.
        let answer = self.client.call_once("GET", url, &headers, &self.scope, Payload::None)?;
        let at = match answer.status {
            200 => 0,
            206 => {
                let range = answer.header("content-range").and_then(|text| text.strip_prefix("bytes "));
                let begin = range.and_then(|range| range.split('-').next()?.trim().parse::<u64>().ok());
                match begin {
                    Some(begin) if begin == from => begin,
                    _ => return Err(Error::internal(format!("{}: another range than asked", answer.url.shown()))),
                }
            }
            _ => return Err(refused(answer, "get a blob")),
        };
        Ok(Blob { from: at, length: answer.length(), content: Box::new(answer.reader()) })
    }

    /// Every tag, in the registry's order.
    pub(crate) fn tags(&self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Page {
            tags: Option<Vec<String>>,
        }
        let (mut tags, mut next) = (Vec::new(), Some(self.url("tags/list")));
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { break };
            let answer = self.get(url, &[])?;
            if answer.status != 200 {
                return Err(refused(answer, "list the tags"));
            }
            next = answer.header("link").and_then(next_page).map(|link| answer.url.join(&link)).transpose()?;
            let shown = answer.url.shown();
            let bytes = answer.bytes(MAX_MANIFEST)?;
            // No tag has a comma in it. Each takes, when it is read, much more than its text.
            if bytes.iter().filter(|byte| **byte == b',').count() > MAX_TAGS && Wall::DocumentValues.stands() {
                return Err(Error::internal(format!("{shown}: more than {MAX_TAGS} tags")));
            }
            let page: Page = crate::document::read_of_server(&bytes)
                .map_err(|e| Error::internal(format!("{shown}: {}", json_words(&e))))?;
            tags.extend(page.tags.unwrap_or_default());
            if tags.len() > MAX_TAGS {
                return Err(Error::internal(format!("{shown}: more than {MAX_TAGS} tags")));
            }
        }
        Ok(tags)
    }

    /// Whether the repository has a blob; answers its size, where the registry says it.
    pub(crate) fn has_blob(&self, digest: &str) -> Result<Option<Option<u64>>> {
        let url = self.url(&format!("blobs/{digest}"));
        let answer = self.client.call("HEAD", url, &[], &self.scope, Payload::None)?;
        match answer.status {
            200 => Ok(Some(answer.length())),
            404 => Ok(None),
            _ => Err(refused(answer, "look for a blob")),
        }
    }

    /// Begins an upload, or takes the blob over: `mount` is its digest and the repository that has it.
    pub(crate) fn begin_upload(&self, mount: Option<(&str, &str)>) -> Result<Upload> {
        let (mut url, mut scope) = (self.url("blobs/uploads/"), self.scope.clone());
        if let Some((digest, from)) = mount {
            url = url.with("mount", digest).with("from", from);
            scope = format!("{scope} repository:{from}:pull");
        }
        let answer = self.client.call("POST", url, &[("content-length", "0".into())], &scope, Payload::Bytes(b""))?;
        match answer.status {
            201 if mount.is_some() => Ok(Upload::Mounted),
            202 => Ok(Upload::To(next_location(&answer)?)),
            _ => Err(refused(answer, "begin an upload")),
        }
    }

    /// Sends content to an upload; answers where it goes on.
    pub(crate) fn send(&self, upload: Url, content: &mut dyn Read) -> Result<Url> {
        let headers = [("content-type", "application/octet-stream".to_owned())];
        let answer = self.client.call("PATCH", upload, &headers, &self.scope, Payload::Stream(content))?;
        match answer.status {
            202 | 201 | 204 => next_location(&answer),
            _ => Err(refused(answer, "upload")),
        }
    }

    /// Ends an upload: from now on it is the blob `digest`. `rest` is content that was not sent yet.
    pub(crate) fn finish(&self, upload: Url, digest: &str, rest: &[u8]) -> Result<()> {
        let headers = [("content-type", "application/octet-stream".to_owned())];
        let url = upload.with("digest", digest);
        let answer = self.client.call("PUT", url, &headers, &self.scope, Payload::Bytes(rest))?;
        match answer.status {
            201 | 204 => {}
            _ => return Err(refused(answer, "end an upload")),
        }
        match answer.header("docker-content-digest") {
            Some(other) if other != digest => {
                Err(Error::internal(format!("the registry stored {other} where {digest} was sent")))
            }
            _ => Ok(()),
        }
    }

    /// Gives an upload up; the registry sweeps what is left in any case.
    pub(crate) fn abandon(&self, upload: Url) {
        let _ = self.client.call("DELETE", upload, &[], &self.scope, Payload::None);
    }

    /// Stores a manifest under a tag; `digest` is what the registry must call it.
    pub(crate) fn put_manifest(&self, tag: &str, media_type: &str, bytes: &[u8], digest: &str) -> Result<()> {
        let headers = [("content-type", media_type.to_owned())];
        let url = self.url(&format!("manifests/{tag}"));
        let answer = self.client.call("PUT", url, &headers, &self.scope, Payload::Bytes(bytes))?;
        match answer.status {
            200..=204 => {}
            _ => return Err(refused(answer, "put the manifest")),
        }
        match answer.header("docker-content-digest") {
            Some(other) if other != digest => {
                Err(Error::internal(format!("the registry stored the manifest as {other}, not as {digest}")))
            }
            _ => Ok(()),
        }
    }
}

fn next_location(answer: &Answer) -> Result<Url> {
    match answer.header("location") {
        Some(location) => answer.url.join(location),
        None => Err(Error::internal(format!("{}: the answer names no place for the upload", answer.url.shown()))),
    }
}

/// The address in `Link: <...>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    let (address, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| address.to_owned())
}

/// The error of an answer that says no: the registry's own words, made harmless.
fn refused(answer: Answer, what: &str) -> Error {
    #[derive(Deserialize)]
    struct Body {
        errors: Option<Vec<One>>,
        details: Option<String>,
    }
    #[derive(Deserialize)]
    struct One {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let (status, shown) = (answer.status, answer.url.shown());
    let kind = match status {
        401 => ErrorKind::Unauthorized,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        429 | 500..=504 if !answer.is_last => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    };
    let body: Option<Body> = answer.bytes(64 << 10).ok().and_then(|bytes| crate::document::read_of_server(&bytes).ok());
    let mut cause = None;
    let said = body.and_then(|body| {
        let mut all = Vec::new();
        for one in body.errors.unwrap_or_default().iter().take(3) {
            cause = cause.or(cause_of(&one.code));
            all.push(format!("{}: {}", one.code.to_lowercase().replace('_', " "), one.message));
        }
        all.extend(body.details);
        (!all.is_empty()).then(|| all.join("; "))
    });
    let message = match said {
        Some(said) => harmless(&said),
        None if status == 401 => format!("{what}: {shown}: unauthorized: authentication required"),
        None => format!("{what}: {shown}: received unexpected HTTP status: {status}"),
    };
    let error = Error::new(kind, message);
    match cause {
        Some(cause) => error.caused_by(cause),
        None => error,
    }
}

/// The circumstance that a registry's code of an error stands for.
fn cause_of(code: &str) -> Option<Cause> {
    match code.to_ascii_uppercase().as_str() {
        "NAME_UNKNOWN" => Some(Cause::NameUnknown),
        "MANIFEST_UNKNOWN" => Some(Cause::ManifestUnknown),
        _ => None,
    }
}

/// One line of bounded length.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect()
}

/// Headers of a registry: challenges and locations. See `crate::fuzz`.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = auth::Challenge::of(text.lines());
    for line in text.lines() {
        if let Ok(url) = url::Url::parse(line) {
            let again = url::Url::parse(&url.text()).unwrap_or_else(|e| panic!("{line:?} became {}: {e}", url.text()));
            assert_eq!(again.text(), url.text());
            assert!(again.same_origin(&url), "{line:?}");
            let _ = url.join(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_link_to_the_next() {
        assert_eq!(next_page("</v2/x/tags/list?n=1&last=a>; rel=\"next\""), Some("/v2/x/tags/list?n=1&last=a".into()));
        assert_eq!(next_page("</x>; rel=\"prev\""), None);
        assert_eq!(next_page("x"), None);
    }

    #[test]
    fn codes_of_errors_have_a_cause() {
        assert_eq!(cause_of("NAME_UNKNOWN"), Some(Cause::NameUnknown));
        assert_eq!(cause_of("manifest_unknown"), Some(Cause::ManifestUnknown));
        assert_eq!(cause_of("BLOB_UNKNOWN"), None);
    }

    #[test]
    fn words_of_a_registry_become_one_line() {
        assert_eq!(harmless("a\nb\u{1b}[31m"), "a b [31m");
        assert_eq!(harmless(&"x".repeat(1000)).len(), 400);
    }
}
