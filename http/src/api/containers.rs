//! Containers.

use super::lowered::lowered;
use super::system::nanoseconds;
use crate::answer::{Call, as_object, document, empty, gone, streamed};
use crate::json::{self, Member, Node};
use crate::message::{BodyOut, Response};
use crate::platform;
use crate::schema::{self, CONFIG, HOST_FIELDS};
use crate::stream::{self, Frames};
use crate::versions::{Gate, Noun, Version};
use crate::websocket::Message;
use coracle::model::{
    AttachStreams, ContainerStats, ContainerSummary, CreateBody, DetachKeys, EndpointSettings, HostConfig,
    ListContainers, LogQuery, NetworkingConfig, RemoveContainer, Resources, StatsQuery, StopContainer, UpdateContainer,
    WaitCondition,
};
use coracle::{AttachOptions, Changed, Engine, Error, ErrorKind, Io, LogFormat, Op, Result};

pub(crate) fn list(call: Call) -> Result<Response> {
    let query = ListContainers {
        all: call.query.flag("all"),
        limit: call.query.number("limit")?.unwrap_or(0).max(0),
        size: call.query.flag("size"),
        since: call.query.text("since").into(),
        before: call.query.text("before").into(),
        filters: call.query.filters()?,
    };
    let mut containers = call.engine().container_list(&query)?;
    containers.iter_mut().for_each(|container| listed(container, &call.version));
    document(200, containers)
}

/// Takes away the members of a list item that a version does not have.
pub(super) fn listed(container: &mut ContainerSummary, version: &Version) {
    if !version.has(Gate::ListedAnnotations) {
        container.host_config.annotations.clear();
    }
    if !version.has(Gate::ListedHealth) {
        container.health = None;
    }
}

pub(crate) fn create(mut call: Call) -> Result<Response> {
    let mut body = create_body(&mut call)?;
    body.platform = platform::named(call.query.text("platform"))?;
    if !body.config.mac_address.is_empty() && call.version.has(Gate::NoContainerMac) {
        return Err(Error::invalid(NO_MAC_OF_CONTAINER));
    }
    let name = call.query.get("name").filter(|n| !n.is_empty());
    let mut created = call.engine().container_create(name, &body)?;
    created.warnings.extend(warnings(&body, &call.version));
    document(201, created)
}

const MAC_OF_CONTAINER: &str =
    "The container-wide MacAddress field is now deprecated. It should be specified in EndpointsConfig instead.";
const NO_MAC_OF_CONTAINER: &str =
    "Config.MacAddress: a container has no MAC address from API 1.52 on: set it in EndpointsConfig of the network";

/// The warnings that begin with a version.
fn warnings(body: &CreateBody, version: &Version) -> Vec<String> {
    let mut warnings = Vec::new();
    if !body.config.mac_address.is_empty() && version.has(Gate::EndpointNames) {
        warnings.push(MAC_OF_CONTAINER.to_owned());
    }
    let has_volumes = body.host_config.mounts.iter().any(|mount| mount.kind == "volume");
    if has_volumes && !body.host_config.volume_driver.is_empty() && version.has(Gate::WarnsOfVolumeDriver) {
        warnings.push(
            "HostConfig.VolumeDriver has no effect on the volumes in Mounts: VolumeOptions.DriverConfig has".into(),
        );
    }
    let bindings = body.host_config.port_bindings.iter();
    let unbound = bindings.filter(|(_, bound)| bound.is_some_and(|bound| bound.is_empty()));
    let ports: Vec<String> = unbound.map(|(port, _)| port.to_string()).collect();
    if !ports.is_empty() && version.has(Gate::WarnsOfEmptyBindings) {
        warnings.push(format!(
            "Following container port(s) have an empty list of port-bindings: {}. Such bindings will be discarded in a \
             future version.",
            ports.join(", ")
        ));
    }
    warnings
}

/// The typed request. Its text is gone with the end of this call.
fn create_body(call: &mut Call) -> Result<CreateBody> {
    call.check_json()?;
    let text = call.document()?;
    let Node::Object(body) = schema::read_without(&text, &schema::CREATE, &call.version.dropped_fields())? else {
        return Err(Error::invalid("Config cannot be empty in order to create a container"));
    };
    let mut body = merged(body)?;
    call.version.lift_create(&mut body);
    // Each part by itself: as one document, the configuration would be held in a form of several times its size.
    let mut part = |name: &str| body.iter().position(|(n, _)| n == name).map(|at| body.swap_remove(at).1);
    let (host, networking) = (part("HostConfig"), part("NetworkingConfig"));
    let mut host_config: HostConfig = host.map_or(Ok(HostConfig::default()), schema::typed)?;
    if host_config.ipc_mode.is_empty() && call.version.has(Gate::PrivateIpc) {
        host_config.ipc_mode = "private".into();
    }
    let networking_config: NetworkingConfig = networking.map_or(Ok(NetworkingConfig::default()), schema::typed)?;
    if networking_config.endpoints_config.len() > 1 && !call.version.has(Gate::SeveralNetworks) {
        let names: Vec<&str> = networking_config.endpoints_config.keys().map(String::as_str).collect();
        let text = format!("Container cannot be connected to network endpoints: {}", names.join(", "));
        return Err(Error::invalid(text));
    }
    Ok(CreateBody {
        config: schema::typed(Node::Object(body))?,
        host_config,
        networking_config,
        any_hostname: !call.version.has(Gate::HostnameRule),
        read_only_below: call.version.has(Gate::ReadOnlyBelow),
        platform: None,
    })
}

/// Brings an old body to the present form. Host configuration once stood at the top level: without `HostConfig` all of
/// it is taken from there; with it, five limits still are, where `HostConfig` leaves them open, and others are refused.
fn merged(body: Vec<Member<'_>>) -> Result<Vec<Member<'_>>> {
    let named = |fields: &'static [schema::Field], name: &str| fields.iter().any(|(n, _)| *n == name);
    let (mut config, mut top, mut host, mut others, mut cpuset) = (Vec::new(), Vec::new(), None, Vec::new(), None);
    for (name, value) in body {
        match value {
            Node::Object(fields) if name == "HostConfig" => host = Some(fields),
            value if name == "Cpuset" => cpuset = Some(value),
            value if named(CONFIG, &name) => config.push((name, value)),
            value if named(HOST_FIELDS, &name) => top.push((name, value)),
            value => others.push((name, value)),
        }
    }
    if config.is_empty() {
        return Err(Error::invalid("Config cannot be empty in order to create a container"));
    }
    let mut host = match host {
        None => top,
        Some(mut host) => {
            for (name, value) in top {
                if matches!(&*name, "Memory" | "MemorySwap" | "CpuShares" | "CpusetCpus" | "VolumeDriver") {
                    fill(&mut host, &name, value);
                } else if !schema::is_zero(&value) {
                    return Err(Error::invalid(format!(
                        "{name} stands beside HostConfig: it counts inside of it alone"
                    )));
                }
            }
            host
        }
    };
    if let Some(value) = cpuset {
        fill(&mut host, "CpusetCpus", value);
    }
    config.push(("HostConfig".into(), Node::Object(host)));
    config.extend(others);
    Ok(config)
}

/// Sets a field that is absent, zero or empty.
fn fill<'t>(host: &mut Vec<Member<'t>>, name: &str, value: Node<'t>) {
    let unset =
        |node: &Node<'_>| matches!(node, Node::Number(n) if n == "0") || matches!(node, Node::Text(t) if t.is_empty());
    if host.iter().all(|(n, v)| n != name || unset(v)) {
        host.retain(|(n, _)| n != name);
        host.push((name.to_owned().into(), value));
    }
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    let size = call.query.flag("size") && call.version.has(Gate::InspectSize);
    let mut detail = call.engine().container_inspect(&call.name, size)?;
    for end in detail.network_settings.networks.values_mut() {
        shown(end, &detail.id, &call.version);
    }
    without_zero_limits(&mut detail.host_config.resources, &call.version);
    if call.version.changes(Noun::Container) {
        return document(200, lowered(detail, &call.version)?);
    }
    document(200, detail)
}

/// Takes away the limits that a version shows only where they are set.
fn without_zero_limits(limits: &mut Resources, version: &Version) {
    if version.has(Gate::NoDiskQuota) {
        limits.disk_quota = limits.disk_quota.filter(|bytes| *bytes != 0);
    }
    if version.has(Gate::NoKernelMemory) {
        limits.kernel_memory = limits.kernel_memory.filter(|bytes| *bytes != 0);
    }
}

/// The length of the beginning of an id that clients show.
const SHORT_ID: usize = 12;

/// Takes away the members of an endpoint of the container `id` that a version does not have.
fn shown(end: &mut EndpointSettings, id: &str, version: &Version) {
    if !version.has(Gate::EndpointOptions) {
        end.driver_opts = None;
    }
    if !version.has(Gate::EndpointNames) {
        end.dns_names = None;
    }
    if !version.has(Gate::GatewayPriority) {
        end.gw_priority = 0;
    }
    if version.has(Gate::NoShortAlias)
        && let Some(aliases) = &mut end.aliases
    {
        aliases.retain(|alias| !(alias.len() == SHORT_ID && id.starts_with(alias.as_str())));
    }
}

pub(crate) fn top(call: Call) -> Result<Response> {
    let arguments = call.query.get("ps_args").filter(|a| !a.is_empty()).unwrap_or("-ef");
    document(200, call.engine().container_top(&call.name, arguments)?)
}

pub(crate) fn start(mut call: Call) -> Result<Response> {
    if let Some(host_config) = start_body(&mut call)? {
        call.engine().container_set_host_config(&call.name, &host_config)?;
    }
    // A start attaches nobody. Keys that are not valid are refused all the same.
    DetachKeys::parse(call.query.text("detachKeys"))?;
    match call.engine().container_start(&call.name, None, None)?.changed {
        Changed::Yes => empty(204),
        Changed::No => empty(304),
    }
}

/// The host configuration that clients before 1.24 may send with a start. No JSON object that says something is shorter
/// than eight characters, so `{}` and `null` pass as no body.
fn start_body(call: &mut Call) -> Result<Option<HostConfig>> {
    if call.request.body.length().is_some_and(|n| n <= 7) {
        return Ok(None);
    }
    if call.version.has(Gate::StartWithoutBody) {
        let text = "starting container with non-empty request body was deprecated since API v1.22 and removed in v1.24";
        return Err(Error::invalid(text));
    }
    call.check_json()?;
    let text = call.document()?;
    schema::typed(schema::read(&text, &schema::HOST_CONFIG)?).map(Some)
}

/// `t` in seconds; absent: the container's own time.
fn stop_as_asked(call: &Call) -> Result<StopContainer> {
    let grace_ms = call.query.number("t")?.map(|seconds| seconds.saturating_mul(1000));
    Ok(StopContainer { grace_ms, signal: call.query.text("signal").to_owned() })
}

pub(crate) fn stop(call: Call) -> Result<Response> {
    match call.engine().container_stop_with(&call.name, &stop_as_asked(&call)?, None)? {
        Changed::Yes => empty(204),
        Changed::No => empty(304),
    }
}

pub(crate) fn restart(call: Call) -> Result<Response> {
    call.engine().container_restart_with(&call.name, &stop_as_asked(&call)?, None)?;
    empty(204)
}

pub(crate) fn kill(call: Call) -> Result<Response> {
    let signal = call.query.get("signal").filter(|s| !s.is_empty());
    match call.engine().container_kill(&call.name, signal, None) {
        Ok(()) => empty(204),
        // Before 1.20 killing what does not run was fine.
        Err(error) if error.kind() == ErrorKind::Conflict && !call.version.has(Gate::KillNeedsRunning) => empty(204),
        Err(error) => Err(error),
    }
}

pub(crate) fn pause(call: Call) -> Result<Response> {
    call.engine().container_pause(&call.name)?;
    empty(204)
}

pub(crate) fn unpause(call: Call) -> Result<Response> {
    call.engine().container_unpause(&call.name)?;
    empty(204)
}

pub(crate) fn update(mut call: Call) -> Result<Response> {
    call.check_json()?;
    let text = call.document()?;
    let dropped = call.version.dropped_fields();
    let body: UpdateContainer = schema::typed(schema::read_without(&text, &schema::UPDATE, &dropped)?)?;
    document(200, call.engine().container_update(&call.name, &body)?)
}

pub(crate) fn stats(call: Call) -> Result<Response> {
    let stream = call.query.get("stream").is_none() || call.query.flag("stream");
    let query = StatsQuery { stream, one_shot: !stream && call.query.flag("one-shot") };
    let mut samples = call.engine().container_stats(&call.name, query)?;
    let (client, version) = (call.request.client.clone(), call.version.clone());
    Ok(streamed(&call, Some("application/json"), move |sink| {
        if stream {
            sink.start().map_err(gone)?;
        }
        let op = client.op()?;
        while let Some(mut sample) = samples.next(op.as_ref())? {
            if !version.has(Gate::StatsNameSystem) {
                sample.os_type.clear();
            }
            sink.write_all(&sample_line(&sample, &version)?).map_err(gone)?;
        }
        Ok(())
    }))
}

fn sample_line(sample: &ContainerStats, version: &Version) -> Result<Vec<u8>> {
    if !version.changes(Noun::Stats) {
        return Ok(json::line(sample));
    }
    let mut answer = as_object(sample)?;
    version.lower(Noun::Stats, &mut answer);
    Ok(json::line(&answer))
}

/// With a `condition`, and in later versions, the head goes out when the wait has begun: clients start the container when they
/// have it.
pub(crate) fn wait(call: Call) -> Result<Response> {
    let condition = call.query.text("condition");
    if condition.is_empty() && !call.version.has(Gate::WaitHeadAtOnce) {
        let code = call.engine().container_wait(&call.name, call.request.client.op()?.as_ref())?;
        return document(200, serde_json::json!({ "StatusCode": code }));
    }
    let wait = call.engine().container_wait_begin(&call.name, WaitCondition::parse(condition)?)?;
    let client = call.request.client.clone();
    Ok(streamed(&call, Some("application/json"), move |sink| {
        sink.start().map_err(gone)?;
        let waited = wait.wait(client.op()?.as_ref())?;
        sink.write_all(&json::line(&waited)).map_err(gone)
    }))
}

pub(crate) fn rename(call: Call) -> Result<Response> {
    call.engine().container_rename(&call.name, call.query.text("name"))?;
    empty(204)
}

pub(crate) fn resize(call: Call) -> Result<Response> {
    let (rows, cols) = terminal_size(&call)?;
    call.engine().container_resize(&call.name, rows, cols)?;
    Ok(empty(200)?.with("Content-Type", "text/plain; charset=utf-8"))
}

/// `h` and `w`: both must be given.
pub(super) fn terminal_size(call: &Call) -> Result<(u16, u16)> {
    let size = |key: &str| match call.query.number(key)? {
        None => Err(Error::invalid("strconv.Atoi: parsing \"\": invalid syntax")),
        Some(n) => u16::try_from(n).map_err(|_| Error::invalid(format!("{key}={n}: a terminal has 0 to 65535 of it"))),
    };
    Ok((size("h")?, size("w")?))
}

pub(crate) fn remove(call: Call) -> Result<Response> {
    let flag = |key| call.query.flag(key);
    let how = RemoveContainer { force: flag("force"), volumes: flag("v"), link: flag("link") };
    call.engine().container_remove(&call.name, how, None)?;
    empty(204)
}

pub(crate) fn logs(call: Call) -> Result<Response> {
    let flag = |key| call.query.flag(key);
    let (stdout, stderr) = (flag("stdout"), flag("stderr"));
    if !stdout && !stderr {
        return Err(Error::invalid("Bad parameters: you must choose at least one stream"));
    }
    let query = LogQuery {
        follow: flag("follow"),
        stdout,
        stderr,
        since_ns: call.query.time("since")?.map_or(0, nanoseconds),
        tail: tail(call.query.text("tail")),
    };
    // 0 sets no bound, as for `since`.
    let until_ns = call.query.time("until")?.map(nanoseconds).filter(|until| *until != 0).unwrap_or(i64::MAX);
    let form = LogFormat { timestamps: flag("timestamps"), details: flag("details") };
    let frames = frames(call.engine(), &call.name)?;
    let (engine, client, name) = (call.engine().clone(), call.request.client.clone(), call.name.clone());
    let log = LogReply { log: engine.container_logs(&name, &query, None)?, until_ns, form, frames };
    if stream::wants_tcp(&call.request.headers) {
        let unread = call.context.unread().clone();
        let take = move |socket: crate::message::Duplex| {
            stream::await_head(&socket, &unread);
            // A client that is gone, or does not take it, is the end of it: no answer is left to give.
            let _ =
                client.op().and_then(|op| log.send_to(op.as_ref(), |bytes| stream::send(&socket, bytes).map_err(gone)));
        };
        return Ok(stream::takeover(&call, frames, None, Box::new(take)));
    }
    let kind = call.version.has(Gate::StreamTypes).then(|| stream::media_type(frames));
    Ok(streamed(&call, kind, move |sink| {
        sink.start().map_err(gone)?;
        let op = client.op()?;
        log.send_to(op.as_ref(), |bytes| sink.write_all(bytes).map_err(gone))
    }))
}

/// A log on its way to a client.
struct LogReply {
    log: coracle::LogStream,
    until_ns: i64,
    form: LogFormat,
    frames: Frames,
}

impl LogReply {
    /// Gives the whole log to `send`, in frames. Failures of the log are written into the stream. Errors: the client is gone.
    fn send_to(mut self, op: Option<&Op>, mut send: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = Vec::new();
        while !self.log.ended() {
            match next_frames(&mut self.log, self.until_ns, self.form, self.frames, op, &mut bytes) {
                Ok(over) => {
                    send(&bytes)?;
                    if over {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                Err(error) => {
                    let text = format!("Error grabbing logs: {}\n", error.message());
                    return send(&stream::frame(coracle::Channel::Stderr, text.as_bytes(), self.frames));
                }
            }
        }
        Ok(())
    }
}

/// Waits for lines of a log and puts what is there in `bytes`, as clients get it. Answers whether a line came that is
/// later than `until_ns`; that one and those after it are left out.
fn next_frames(
    log: &mut coracle::LogStream,
    until_ns: i64,
    form: LogFormat,
    frames: Frames,
    op: Option<&Op>,
    bytes: &mut Vec<u8>,
) -> Result<bool> {
    let mut text = Vec::new();
    let mut over = false;
    bytes.clear();
    log.next_batch(None, op, &mut |line| {
        over |= line.time_ns > until_ns;
        if over {
            return Ok(());
        }
        if form == LogFormat::default() {
            stream::push_frame(bytes, line.channel, line.data, frames);
        } else {
            text.clear();
            form.append(line, &mut text);
            stream::push_frame(bytes, line.channel, &text, frames);
        }
        Ok(())
    })?;
    Ok(over)
}

/// Everything that is not a number of lines means all of them.
fn tail(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn frames(engine: &Engine, name: &str) -> Result<Frames> {
    let tty = engine.container_inspect(name, false)?.config.tty;
    Ok(if tty { Frames::Raw } else { Frames::Multiplexed })
}

/// How a refused attach is answered: not a document but a line, at every version.
fn refused_attach(error: &Error) -> Response {
    let mut answer = Response::new(error.http_status(), Vec::new());
    answer.headers.set("Content-Type", stream::RAW_STREAM);
    answer.body = BodyOut::Raw(format!("{}\r\n", error.message()).into_bytes());
    answer
}

pub(crate) fn attach(call: Call) -> Result<Response> {
    Ok(attached(call, false).unwrap_or_else(|error| refused_attach(&error)))
}

/// Attaches over a websocket: one conversation, in which both outputs are one.
pub(crate) fn attach_ws(call: Call) -> Result<Response> {
    attached(call, true)
}

/// Whether a websocket has all three streams, whatever the request names: dockerd does so before 1.42, and the
/// specification of the first versions does not.
fn has_all_streams(version: &Version) -> bool {
    version.has(Gate::WebsocketHasAllStreams) && !version.has(Gate::WebsocketChoosesStreams)
}

fn attached(call: Call, websocket: bool) -> Result<Response> {
    let flag = |key| call.query.flag(key);
    let keys = DetachKeys::parse(call.query.text("detachKeys"))?;
    let detail = call.engine().container_inspect(&call.name, false)?;
    let frames = match detail.config.tty {
        _ if websocket && call.version.has(Gate::BinaryMessages) => Frames::WebSocket(Message::Binary),
        _ if websocket => Frames::WebSocket(Message::Text),
        true => Frames::Raw,
        false => Frames::Multiplexed,
    };
    let all = websocket && has_all_streams(&call.version);
    let (stdin, stdout, stderr) = (all || flag("stdin"), all || flag("stdout"), all || flag("stderr"));
    let live = flag("stream");
    let wanted = LogQuery { follow: false, stdout, stderr, since_ns: 0, tail: None };
    let past = (flag("logs") && (stdout || stderr))
        .then(|| call.engine().container_logs(&call.name, &wanted, None))
        .transpose()?;
    let how = AttachOptions {
        streams: AttachStreams { stdin: live && stdin, stdout: live && stdout, stderr: live && stderr },
        wait_for_start: true,
    };
    let session = call.engine().container_attach(&call.name, Io::default(), how, None)?;
    // Output that is logged from here on comes through the session.
    let attached_at = if live { crate::time::now_ns() } else { i64::MAX };
    let plan = stream::Plan {
        frames,
        keys: detail.config.tty.then_some(keys),
        waits_for_exit: false,
        unread: call.context.unread().clone(),
    };
    let take = move |socket: crate::message::Duplex| {
        if let Some(mut log) = past {
            stream::await_head(&socket, &plan.unread);
            if let Err(error) = replay(&mut log, attached_at, frames, &socket) {
                let text = format!("Error attaching: {}\n", error.message());
                stream::say(&socket, coracle::Channel::Stderr, text.as_bytes(), frames, &plan.unread);
                if websocket {
                    stream::say_goodbye(&socket);
                }
                return;
            }
        }
        if live {
            stream::pump(socket, session, plan);
        } else if websocket {
            stream::say_goodbye(&socket);
        }
    };
    match websocket {
        true => stream::websocket_takeover(&call, Box::new(take)),
        false => Ok(stream::takeover(&call, frames, None, Box::new(take))),
    }
}

fn replay(log: &mut coracle::LogStream, until_ns: i64, frames: Frames, socket: &crate::message::Duplex) -> Result<()> {
    let mut bytes = Vec::new();
    while !log.ended() {
        let over = next_frames(log, until_ns, LogFormat::default(), frames, None::<&Op>, &mut bytes)?;
        stream::send(socket, &bytes).map_err(gone)?;
        if over {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_value;
    use serde_json::{Value, json};

    fn merge(text: &str) -> Result<Value> {
        let Node::Object(body) = schema::read(text.as_bytes(), &schema::CREATE)? else { panic!() };
        merged(body).map(|body| to_value(&Node::Object(body)))
    }

    #[test]
    fn old_bodies_are_merged() {
        let all = merge("{\"Image\":\"i\",\"Memory\":5,\"Dns\":[\"d\"],\"Cpuset\":\"0\"}").unwrap();
        assert_eq!(all["HostConfig"], json!({"Memory": 5, "Dns": ["d"], "CpusetCpus": "0"}));
        let both =
            "{\"Image\":\"i\",\"Memory\":5,\"CpuShares\":6,\"Dns\":[],\"HostConfig\":{\"Memory\":7,\"CpuShares\":0}}";
        assert_eq!(merge(both).unwrap()["HostConfig"], json!({"Memory": 7, "CpuShares": 6}));
        let beside = merge(&both.replace("[]", "[\"d\"]")).unwrap_err();
        assert_eq!(beside.message(), "Dns stands beside HostConfig: it counts inside of it alone");
        let empty = merge("{\"HostConfig\":{\"Memory\":7}}").unwrap_err();
        assert_eq!(empty.message(), "Config cannot be empty in order to create a container");
    }

    #[test]
    fn tails() {
        assert_eq!(
            [tail("all"), tail("-1"), tail("x"), tail(""), tail("0"), tail("12")],
            [None, None, None, None, Some(0), Some(12)]
        );
    }
}
