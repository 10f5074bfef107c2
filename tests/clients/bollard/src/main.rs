//! A job by bollard: `bollard-job SOCKET [default|negotiated]`, with API 1.24, with the version that bollard names by itself or
//! with the one that it negotiates. bollard 0.21.1 drops the version when it joins it to a path, so its requests have none. The
//! job fails at the first answer that bollard cannot read or that is not what it is to be.

use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::*;
use bollard::query_parameters::*;
use bollard::{ClientVersion, Docker};
use futures_util::{StreamExt, TryStreamExt};
use tokio::io::AsyncWriteExt;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(ToString::to_string).collect())
}

fn body(command: &[&str]) -> ContainerCreateBody {
    ContainerCreateBody { image: Some("busybox".into()), cmd: words(command), ..Default::default() }
}

async fn text(
    mut output: impl StreamExt<Item = std::result::Result<impl ToString, bollard::errors::Error>> + Unpin,
) -> Result<String> {
    let mut text = String::new();
    while let Some(piece) = output.next().await {
        text += &piece?.to_string();
    }
    Ok(text)
}

/// A container that reads its input, attached before it is started.
async fn attached(docker: &Docker) -> Result<()> {
    let script = "while read line; do echo got $line; done; exit 4";
    let input = ContainerCreateBody {
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        host_config: Some(HostConfig { network_mode: Some("none".into()), ..Default::default() }),
        ..body(&["sh", "-c", script])
    };
    let named = CreateContainerOptions { name: Some("reader".into()), ..Default::default() };
    let id = docker.create_container(Some(named), input).await?.id;
    let all = AttachContainerOptions { stream: true, stdin: true, stdout: true, stderr: true, ..Default::default() };
    let mut session = docker.attach_container(&id, Some(all)).await?;
    docker.start_container(&id, None::<StartContainerOptions>).await?;
    session.input.write_all(b"a\nb\n").await?;
    session.input.shutdown().await?;
    drop(session.input);
    assert_eq!(text(session.output).await?, "got a\ngot b\n");
    let end: Vec<_> = docker.wait_container(&id, None::<WaitContainerOptions>).collect().await;
    assert!(format!("{end:?}").contains("code: 4"), "{end:?}");
    let state = docker.inspect_container(&id, None::<InspectContainerOptions>).await?.state;
    assert_eq!(state.and_then(|state| state.exit_code), Some(4));
    let both = LogsOptions { stdout: true, stderr: true, timestamps: true, ..Default::default() };
    assert_eq!(text(docker.logs(&id, Some(both))).await?.lines().count(), 2);
    docker.remove_container(&id, None::<RemoveContainerOptions>).await?;
    Ok(())
}

/// One that stays: exec, samples, changes, networks, archives.
async fn long(docker: &Docker) -> Result<()> {
    let id = docker.create_container(None::<CreateContainerOptions>, body(&["sleep", "1000"])).await?.id;
    docker.start_container(&id, None::<StartContainerOptions>).await?;
    let echo = CreateExecOptions { attach_stdout: Some(true), cmd: Some(vec!["echo", "hi"]), ..Default::default() };
    let exec = docker.create_exec(&id, echo).await?.id;
    let StartExecResults::Attached { output, .. } = docker.start_exec(&exec, None).await? else {
        return Err("the exec is not attached".into());
    };
    assert_eq!(text(output).await?, "hi\n");
    assert_eq!(docker.inspect_exec(&exec).await?.exit_code, Some(0));
    let once = StatsOptions { stream: false, ..Default::default() };
    let sample = docker.stats(&id, Some(once)).try_next().await?.ok_or("no sample")?;
    assert!(sample.memory_stats.and_then(|memory| memory.usage) > Some(0));
    assert_eq!(docker.top_processes(&id, None::<TopOptions>).await?.processes.map(|rows| rows.len()), Some(1));
    let sized = ListContainersOptions { all: true, size: true, ..Default::default() };
    assert_eq!(docker.list_containers(Some(sized)).await?.len(), 1);
    docker.pause_container(&id).await?;
    docker.unpause_container(&id).await?;
    let limits = ContainerUpdateBody { memory: Some(64 << 20), memory_swap: Some(128 << 20), ..Default::default() };
    docker.update_container(&id, limits).await?;
    let wire = NetworkCreateRequest { name: "wire".into(), ..Default::default() };
    docker.create_network(wire).await?;
    let connect = NetworkConnectRequest { container: id.clone(), ..Default::default() };
    docker.connect_network("wire", connect).await?;
    let network = docker.inspect_network("wire", None::<InspectNetworkOptions>).await?;
    assert_eq!(network.containers.map(|containers| containers.len()), Some(1));
    assert_eq!(docker.list_networks(None::<ListNetworksOptions>).await?.len(), 4);
    let path = DownloadFromContainerOptions { path: "/etc/passwd".into() };
    let archive: Vec<_> = docker.download_from_container(&id, Some(path)).try_collect().await?;
    assert!(archive.concat().starts_with(b"passwd"));
    docker.stop_container(&id, Some(StopContainerOptions { t: Some(0), ..Default::default() })).await?;
    docker.remove_container(&id, Some(RemoveContainerOptions { v: true, ..Default::default() })).await?;
    docker.remove_network("wire").await?;
    Ok(())
}

async fn connect(socket: &str, version: Option<&str>) -> Result<Docker> {
    let old = ClientVersion { major_version: 1, minor_version: 24 };
    let docker = |version| Docker::connect_with_unix(socket, 60, version);
    Ok(match version {
        None => docker(&old)?,
        Some("default") => docker(bollard::API_DEFAULT_VERSION)?,
        Some("negotiated") => docker(bollard::API_DEFAULT_VERSION)?.negotiate_version().await?,
        Some(other) => return Err(format!("{other} is not default or negotiated").into()),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let socket = std::env::args().nth(1).ok_or("usage: bollard-job SOCKET [default|negotiated]")?;
    let docker = connect(&socket, std::env::args().nth(2).as_deref()).await?;
    assert_eq!(docker.version().await?.min_api_version.as_deref(), Some("1.18"));
    assert_eq!(docker.info().await?.containers, Some(0));
    assert_eq!(docker.list_images(None::<ListImagesOptions>).await?.len(), 1);
    assert_eq!(docker.image_history("busybox").await?.len(), 1);
    assert!(docker.inspect_image("busybox").await?.id.is_some_and(|id| id.starts_with("sha256:")));
    attached(&docker).await?;
    long(&docker).await?;
    let kept = VolumeCreateRequest { name: Some("kept".into()), ..Default::default() };
    assert_eq!(docker.create_volume(kept).await?.driver, "local");
    assert_eq!(docker.list_volumes(None::<ListVolumesOptions>).await?.volumes.map(|all| all.len()), Some(1));
    docker.remove_volume("kept", None::<RemoveVolumeOptions>).await?;
    let past = EventsOptions { since: Some("1".into()), until: Some("4000000000".into()), ..Default::default() };
    let first: Vec<_> = docker.events(Some(past)).take(5).try_collect().await?;
    assert_eq!(first.len(), 5);
    let error = docker.inspect_container("nobody", None::<InspectContainerOptions>).await.unwrap_err();
    assert!(error.to_string().contains("No such container: nobody"), "{error}");
    println!("done");
    Ok(())
}
