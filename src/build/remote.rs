//! Files that a build gets from elsewhere: base images, files of ADD, contexts.

use super::job::Job;
use super::sources::{SourceFile, own_file};
use super::{Context, context, repository};
use crate::buildfile::{Copy, Patterns};
use crate::error::{Error, Result};
use crate::git::Remote;
use crate::image::{Digest, Hasher, ProgressReader, ProgressSender, Reference, beside};
use crate::kernel::tree::{self, Time};
use crate::model::PullImage;
use crate::registry::{Download, Transport, auth_for, unescape, without_secrets};
use crate::time::parse_rfc3339;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The name of a file whose URL has none, until the build has copied the file.
const UNNAMED: &str = "__unnamed__";

/// Pulls an image.
pub(super) fn pull(job: &mut Job<'_>, name: &str) -> Result<()> {
    let reference = Reference::parse(name)?;
    let auth = auth_for(&job.request.auths, reference.domain());
    let pull = PullImage { name: reference.or_latest().to_string(), auth, ..PullImage::default() };
    let mut events = Vec::new();
    let (out, shop) = (&mut job.out, job.shop);
    let pulled = shop.images.puller.pull(
        &shop.options.registry,
        &pull,
        &mut |message| out.message(message),
        &mut |event| events.push(event),
        job.op,
    );
    for event in &events {
        shop.journal.append(event)?;
    }
    pulled.map(drop)
}

/// Downloads a source of ADD.
pub(super) fn download(job: &mut Job<'_>, url: &str, copy: &Copy) -> Result<SourceFile> {
    let wanted = (!copy.checksum.is_empty()).then(|| Digest::parse(&copy.checksum, "--checksum")).transpose()?;
    let transport = Download::transport(&job.shop.options.registry);
    let mut download = started(job, url, &transport)?;
    let named = name(url, download.header("content-disposition"));
    if named.is_none() && copy.destination.ends_with('/') {
        return Err(Error::invalid(format!("cannot determine filename for source {}", without_secrets(url))));
    }
    let named = named.unwrap_or_else(|| UNNAMED.into());
    let (_, stage) = job.building.directory()?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let mut file = File::from(tree::open_at(stage.dir.as_fd(), &named, flags, 0o600)?);
    let seconds = download.header("last-modified").and_then(http_date).unwrap_or(0);
    let mut hashed = Hashed { file: &mut file, hasher: Hasher::new() };
    take(job, &transport, &mut download, &mut hashed, "Downloading", u64::MAX)?;
    job.out.line("\n")?;
    let found = hashed.hasher.finish();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        let url = without_secrets(url);
        return Err(Error::invalid(format!("digest mismatch for {url}: {found} (expected: {wanted})")));
    }
    tree::chmod_fd(file.as_fd(), 0o600)?;
    tree::utime_fd(file.as_fd(), Time { seconds, nanos: 0 })?;
    drop(file);
    own_file(stage.dir, &named, "url", job.op)
}

/// A repository that a source of ADD names; else `None`.
pub(super) fn repository(
    job: &Job<'_>,
    source: &str,
    copy: &Copy,
    is_add: bool,
    excluded: &Patterns,
) -> Result<Option<SourceFile>> {
    match Remote::of_source(source)? {
        None => Ok(None),
        Some(_) if !is_add => Err(Error::invalid("source can't be a git ref for COPY")),
        Some(remote) => repository::source(job, &remote, copy, excluded).map(Some),
    }
}

/// A file, and the digest of the bytes that were written to it.
struct Hashed<'a> {
    file: &'a mut File,
    hasher: Hasher,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Asks a server. It may be slow: the operation's end is heard meanwhile.
fn started(job: &Job<'_>, url: &str, transport: &Transport) -> Result<Download> {
    beside(transport, &mut |_| Ok(()), job.op, |_| Download::start(url, transport))
}

/// Takes a body in, and reports its progress.
fn take(
    job: &mut Job<'_>,
    transport: &Transport,
    download: &mut Download,
    to: &mut (dyn Write + Send),
    what: &str,
    limit: u64,
) -> Result<()> {
    let out = &mut job.out;
    let on_progress = &mut |message| out.message(message);
    beside(transport, on_progress, job.op, |sender| pass_on(download, to, what, limit, &sender))
}

fn pass_on(download: &mut Download, to: &mut dyn Write, what: &str, limit: u64, sender: &ProgressSender) -> Result<()> {
    let mut reader = ProgressReader::new(download, what, sender);
    let (mut buffer, mut taken) = (vec![0; 128 << 10], 0u64);
    loop {
        let read = reader.read(&mut buffer).map_err(|e| Error::internal(format!("{what}: {e}")))?;
        if read == 0 {
            return Ok(());
        }
        taken += read as u64;
        if taken > limit {
            return Err(Error::invalid(format!("{what}: more than {limit} bytes")));
        }
        to.write_all(&buffer[..read]).map_err(|e| Error::io("write a download", &e))?;
    }
}

/// The context that a URL means: a commit of a git repository, a build file alone, or a tar. Answers the context's
/// tree, and name and content of the build file.
pub(super) fn context(job: &mut Job<'_>, url: &str) -> Result<(Option<Arc<OwnedFd>>, String, Vec<u8>)> {
    if let Some(remote) = Remote::parse(url)? {
        return repository::context(job, &remote);
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(Error::internal(format!("remoteURL ({}) could not be recognized as URL", without_secrets(url))));
    }
    let transport = Download::transport(&job.shop.options.registry);
    let mut download = started(job, url, &transport)?;
    let kind = download.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let mut kind = kind.to_ascii_lowercase();
    let head = beside(&transport, &mut |_| Ok(()), job.op, |_| download.peek(512).map(<[u8]>::to_vec))?;
    if matches!(kind.as_str(), "" | "application/octet-stream") {
        let as_text = Context::is_build_file(&head);
        kind = if as_text { "text/plain" } else { "application/x-tar" }.into();
    }
    let what = format!("Downloading build context from remote url: {}", without_secrets(url));
    match kind.as_str() {
        "text/plain" => {
            let mut bytes = Vec::new();
            take(job, &transport, &mut download, &mut bytes, &what, context::MAX_FILE)?;
            Ok((None, "Dockerfile".into(), bytes))
        }
        "application/x-tar"
        | "application/tar"
        | "application/gzip"
        | "application/x-gzip"
        | "application/x-bzip2"
        | "application/x-xz"
        | "application/zstd"
        | "application/x-tgz" => {
            // As a file first: unpacking what comes in would not hear that the operation ended.
            let (place, stage) = job.building.directory()?;
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
            let mut file = File::from(tree::open_at(stage.dir.as_fd(), "context", flags, 0o600)?);
            take(job, &transport, &mut download, &mut file, &what, u64::MAX)?;
            file.rewind().map_err(|e| Error::io("read a context", &e))?;
            let root = context::stage(&job.building, &mut file, job.op)?;
            job.building.discard(&place)?;
            let (name, bytes) = context::build_file(&root, &job.request.dockerfile)?;
            context::take_away(&root, Some(&name))?;
            Ok((Some(root), name, bytes))
        }
        other => Err(Error::invalid(format!("unsupported Content-Type {other:?}"))),
    }
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, clock, "GMT"] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name == month)? + 1;
    let time = parse_rfc3339(format!("{year}-{month:02}-{day}T{clock}Z").as_bytes())?;
    Some(time.div_euclid(1_000_000_000))
}

/// A file's name: from its URL's path, else from the server's answer.
fn name(url: &str, disposition: Option<&str>) -> Option<String> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'))
        .map_or(String::new(), |(_, path)| unescape(path));
    let fits = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    let last = path.rsplit('/').next().unwrap_or_default();
    if fits(last) {
        return Some(last.to_owned());
    }
    let parts = disposition?.split(';').skip(1).filter_map(|part| part.trim().split_once('='));
    let mut named = parts.filter(|(key, _)| key.eq_ignore_ascii_case("filename"));
    let name = named.next()?.1.trim_matches('"');
    let name = name.rsplit('/').next().unwrap_or_default();
    fits(name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_downloads() {
        assert_eq!(name("http://h/a/b.txt?x=/y", None).as_deref(), Some("b.txt"));
        assert_eq!(name("http://h/", Some("attachment; filename=\"c d\"")).as_deref(), Some("c d"));
        assert_eq!(name("http://h", None), None);
        assert_eq!(name("http://h/a%20b", None).as_deref(), Some("a b"));
        assert_eq!(name("http://h/a%2Fb", None).as_deref(), Some("b"));
        assert_eq!(name("http://h/..", Some("x; filename=../../e")).as_deref(), Some("e"));
    }

    #[test]
    fn dates_of_servers() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("yesterday"), None);
    }
}
