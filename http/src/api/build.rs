//! Building images.

use crate::answer::{Call, gone, streamed};
use crate::message::{Body, Response};
use crate::stream;
use crate::versions::Gate;
use coracle::model::{BuildImage, Progress, Ulimit, json_words};
use coracle::walls::Wall;
use coracle::{Context, Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

pub(crate) fn build(mut call: Call) -> Result<Response> {
    let build = asked(&call)?;
    let (engine, client) = (call.engine().clone(), call.request.client.clone());
    let tells_ids = call.version.has(Gate::BuildIds);
    let mut context = std::mem::replace(&mut call.request.body, Body::empty());
    Ok(streamed(&call, Some("application/json"), move |sink| {
        let op = client.op()?;
        let context = if build.remote.is_empty() { Context::Tar(&mut context) } else { Context::None };
        let mut report = |message: Progress| {
            if message.aux.is_some() && !tells_ids {
                return Ok(());
            }
            sink.write_all(&stream::progress(&message)).map_err(gone)
        };
        match engine.image_build(&build, context, &mut report, op.as_ref()) {
            Ok(_) => Ok(()),
            Err(error) if sink.started() && error.kind() != ErrorKind::Cancelled => {
                sink.write_all(&stream::failure(&error)).map_err(gone)
            }
            Err(error) => Err(error),
        }
    }))
}

fn asked(call: &Call) -> Result<BuildImage> {
    let query = &call.query;
    let text = |key: &str| query.text(key).to_owned();
    // As in docker: text that is not a number counts as 0.
    let number = |key: &str| query.text(key).parse::<i64>().unwrap_or(0);
    let named = |key: &str, other: &str| if query.text(key).is_empty() { text(other) } else { text(key) };
    let forcerm = query.flag("forcerm");
    let is_second = query.text("version") == "2";
    if is_second && !call.version.has(Gate::BuilderVersions) {
        return Err(Error::unsupported("the parameter version=2 is not supported before API 1.38"));
    }
    let isolation = query.text("isolation");
    if !isolation.is_empty() && !isolation.eq_ignore_ascii_case("default") {
        return Err(Error::invalid(format!("Unsupported isolation: {isolation:?}")));
    }
    Ok(BuildImage {
        dockerfile: named("dockerfile", "buildfile"),
        file: None,
        t: query.all("t").map(str::to_owned).collect(),
        remote: text("remote"),
        q: query.flag("q"),
        nocache: query.flag("nocache"),
        pull: query.flag("pull"),
        rm: forcerm || query.text("rm").is_empty() || query.flag("rm"),
        forcerm,
        memory: number("memory"),
        memswap: number("memswap"),
        cpushares: number("cpushares"),
        cpuperiod: number("cpuperiod"),
        cpuquota: number("cpuquota"),
        cpusetcpus: text("cpusetcpus"),
        cpusetmems: text("cpusetmems"),
        cgroupparent: text("cgroupparent"),
        shmsize: match query.text("shmsize") {
            "" => 0,
            size => size.parse().map_err(|_| {
                Error::new(ErrorKind::Internal, format!("strconv.ParseInt: parsing {size:?}: invalid syntax"))
            })?,
        },
        ulimits: document::<Option<Vec<Ulimit>>>(call, "ulimits", "error reading ulimit settings")?.unwrap_or_default(),
        buildargs: document::<Option<_>>(call, "buildargs", "error reading build args")?.unwrap_or_default(),
        labels: document::<Option<_>>(call, "labels", "error reading labels")?.unwrap_or_default(),
        networkmode: text("networkmode"),
        extrahosts: query.all("extrahosts").map(str::to_owned).collect(),
        securityopt: document::<Option<_>>(call, "securityopt", "error reading security options")?.unwrap_or_default(),
        target: text("target"),
        cachefrom: document::<Option<_>>(call, "cachefrom", "error reading cachefrom")?.unwrap_or_default(),
        squash: query.flag("squash"),
        // BuildKit's way to build: what the wanted stage needs.
        stages: if is_second { "parallel".into() } else { String::new() },
        platform: text("platform"),
        // As in dockerd: the classic build has no way for them.
        secrets: Vec::new(),
        ssh: Vec::new(),
        auths: call.request.headers.get("x-registry-config").map(BuildImage::auths_from_header).unwrap_or_default(),
    })
}

/// A parameter that is a JSON document; absent: its default.
fn document<T: DeserializeOwned + Default>(call: &Call, key: &str, what: &str) -> Result<T> {
    match call.query.text(key) {
        "" => Ok(T::default()),
        text => {
            let read = serde_json::from_str(text);
            assert!(read.is_ok() || Wall::MalformedDocuments.stands(), "a malformed document");
            read.map_err(|error| Error::invalid(format!("{what}: {}", json_words(&error))))
        }
    }
}
