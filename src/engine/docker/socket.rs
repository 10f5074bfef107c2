//! dockerd's images by its socket. Volumes and containers have no form there in which they could be taken whole: of those it is
//! told how they are taken.

use super::{Engine, Told};
use crate::engine::images::OnProgress;
use crate::error::{Error, Result};
use crate::image::check_values;
use crate::model::{DockerImport, ImportDocker};
use crate::op::Op;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The longest list, and the longest head of an answer.
const MAX_LIST: u64 = 32 << 20;
const MAX_HEAD: u64 = 64 << 10;
/// The version of the API that is spoken: every dockerd since 1.12 knows it, but for the newest, which ask for more.
const VERSIONS: [&str; 2] = ["/v1.24", "/v1.44"];

const ELSEWHERE: &str = "dockerd's socket has no way to take it whole: end dockerd, and take it from its directory";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    id: String,
    repo_tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    names: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Volumes {
    volumes: Option<Vec<Volume>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Volume {
    name: String,
}

pub(super) fn import(
    engine: &Engine,
    socket: &Path,
    how: &ImportDocker,
    progress: OnProgress<'_>,
    op: Option<&Op>,
) -> Result<DockerImport> {
    let most = engine.0.images.most_values();
    let api = Api::of(socket)?;
    let images: Vec<Image> = api.list("/images/json", most)?;
    let containers: Vec<Container> = api.list("/containers/json?all=1", most)?;
    let volumes: Volumes = api.list("/volumes", most)?;
    let mut told = Told { report: DockerImport::default(), progress, op };
    let asks = |name: &str| how.names.is_empty() || how.names.iter().any(|asked| asked == name);
    let mut met = Vec::new();
    for image in &images {
        let tags: Vec<&String> = image.repo_tags.iter().flatten().filter(|tag| !tag.contains("<none>")).collect();
        let short = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
        let is = |asked: &String| {
            tags.iter().any(|tag| *tag == asked || tag.strip_suffix(":latest") == Some(asked.as_str()))
                || super::is_prefix(short, asked.strip_prefix("sha256:").unwrap_or(asked))
        };
        let asked: Vec<&String> = how.names.iter().filter(|asked| is(asked)).collect();
        if !how.names.is_empty() && asked.is_empty() {
            continue;
        }
        met.extend(asked.into_iter().cloned());
        told.check()?;
        let name = tags.first().map_or(image.id.as_str(), |tag| tag.as_str()).to_owned();
        let here = tags.iter().all(|tag| engine.image_inspect(tag).is_ok_and(|here| here.id == image.id));
        if here && engine.image_inspect(&image.id).is_ok() {
            told.taken("image", &name, &image.id, true)?;
            continue;
        }
        let taken = tags.iter().filter(|tag| engine.image_inspect(tag).is_ok_and(|here| here.id != image.id));
        let taken: Vec<String> = taken.map(|tag| (*tag).clone()).collect();
        for tag in &taken {
            told.left("image", tag, "another image has this name here, and keeps it")?;
        }
        let free: Vec<&str> = tags.iter().filter(|tag| !taken.contains(tag)).map(|tag| tag.as_str()).collect();
        let named = if free.is_empty() { vec![image.id.as_str()] } else { free };
        match api.image(engine, &named, op) {
            Ok(()) => told.taken("image", &name, &image.id, false)?,
            Err(error) => told.failed("image", &name, error)?,
        }
    }
    let names = containers.iter().filter_map(|one| one.names.iter().flatten().next());
    let names = names.map(|name| ("container", name.trim_start_matches('/')));
    let volumes = volumes.volumes.iter().flatten().map(|volume| ("volume", volume.name.as_str()));
    for (kind, name) in names.chain(volumes).filter(|(_, name)| asks(name)) {
        met.push(name.to_owned());
        told.left(kind, name, ELSEWHERE)?;
    }
    if let Some(name) = how.names.iter().find(|name| !met.contains(name)) {
        told.left("object", name, "dockerd has no image, volume or container of this name")?;
    }
    Ok(told.report)
}

/// dockerd's API at a socket.
struct Api<'a> {
    socket: &'a Path,
    version: &'static str,
}

impl<'a> Api<'a> {
    fn of(socket: &'a Path) -> Result<Api<'a>> {
        let mut refused = None;
        for version in VERSIONS {
            let api = Api { socket, version };
            match api.get("/info") {
                Ok(_) => return Ok(api),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::internal("no version was asked for")))
    }

    fn list<T: serde::de::DeserializeOwned>(&self, path: &str, most_values: usize) -> Result<T> {
        let mut body = Vec::new();
        self.get(path)?.take(MAX_LIST).read_to_end(&mut body)?;
        check_values(&body, most_values).map_err(|error| error.context(path))?;
        serde_json::from_slice(&body).map_err(|e| Error::invalid(format!("dockerd's answer to {path}: {e}")))
    }

    fn image(&self, engine: &Engine, names: &[&str], op: Option<&Op>) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| format!("names={}", escaped(name))).collect();
        let mut archive = self.get(&format!("/images/get?{}", names.join("&")))?;
        engine.image_load(&mut archive, &mut |_| Ok(()), op).map(drop)
    }

    /// The body of an answer that says yes. In HTTP 1.0 it ends with the connection.
    fn get(&self, path: &str) -> Result<BufReader<UnixStream>> {
        let failed = |e: &std::io::Error| Error::io(format_args!("ask dockerd at {}", self.socket.display()), e);
        let mut stream = UnixStream::connect(self.socket).map_err(|e| failed(&e))?;
        let request = format!("GET {}{path} HTTP/1.0\r\nHost: docker\r\n\r\n", self.version);
        stream.write_all(request.as_bytes()).map_err(|e| failed(&e))?;
        let mut answer = BufReader::with_capacity(256 << 10, stream);
        let mut head = Vec::new();
        let mut bounded = answer.by_ref().take(MAX_HEAD);
        while !head.ends_with(b"\r\n\r\n") {
            if bounded.read_until(b'\n', &mut head).map_err(|e| failed(&e))? == 0 {
                return Err(Error::invalid(format!("{} does not answer as dockerd does", self.socket.display())));
            }
        }
        let line = String::from_utf8_lossy(head.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
        match line.split(' ').nth(1) {
            Some("200") => Ok(answer),
            _ => {
                let mut said = String::new();
                let _ = answer.take(1 << 10).read_to_string(&mut said);
                Err(Error::internal(format!("dockerd's answer to {path}: {line}: {}", said.trim())))
            }
        }
    }
}

/// A value of a query.
fn escaped(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' | b':' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}
