//! Testcontainers for Rust by its blocking side, on an image that is here; the last line is `done`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testcontainers::core::wait::ExitWaitStrategy;
use testcontainers::core::{ExecCommand, Healthcheck, IntoContainerPort, WaitFor};
use testcontainers::runners::SyncRunner;
use testcontainers::{GenericImage, ImageExt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PORT: u16 = 8080;

fn busybox() -> GenericImage {
    GenericImage::new("busybox", "latest")
}

fn page(port: u16) -> Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.write_all(b"GET /index.html HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A server and a client of it on a network of their own, with files in and out, an exec and a second start.
fn two_on_a_network() -> Result<()> {
    let script = "echo ready; echo hi > /index.html; exec httpd -f -p 8080 -h /";
    let server = busybox()
        .with_exposed_port(PORT.tcp())
        .with_wait_for(WaitFor::message_on_stdout("ready"))
        .with_wait_for(WaitFor::healthcheck())
        .with_cmd(["sh", "-c", script])
        .with_env_var("KIND", "server")
        .with_network("rust-wire")
        .with_container_name("rust-web")
        .with_copy_to("/copied", b"copied\n".to_vec())
        .with_health_check(
            Healthcheck::cmd_shell("wget -qO- http://127.0.0.1:8080/index.html")
                .with_interval(Duration::from_millis(200)),
        )
        .start()?;
    let mut exec = server.exec(ExecCommand::new(["sh", "-c", "echo $KIND; cat /copied; echo word >&2; exit 3"]))?;
    assert_eq!(exec.stdout_to_vec()?, b"server\ncopied\n");
    assert_eq!(exec.stderr_to_vec()?, b"word\n");
    assert_eq!(exec.exit_code()?, Some(3));
    assert_eq!(server.copy_file_from("/index.html", Vec::new())?, b"hi\n");
    assert!(page(server.get_host_port_ipv4(PORT)?)?.ends_with("hi\n"));
    let client = busybox()
        .with_wait_for(WaitFor::exit(ExitWaitStrategy::new().with_exit_code(0)))
        .with_cmd(["wget", "-qO-", "http://rust-web:8080/index.html"])
        .with_network("rust-wire")
        .start()?;
    assert_eq!(client.stdout_to_vec()?, b"hi\n");
    client.rm()?;
    server.stop_with_timeout(Some(0))?;
    assert_eq!((server.is_running()?, server.exit_code()?), (false, Some(137)));
    server.start()?;
    assert!(server.is_running()?);
    server.rm()?;
    Ok(())
}

/// Limits and settings arrive in the container; a wrong exit code is told.
fn settings() -> Result<()> {
    let container = busybox()
        .with_wait_for(WaitFor::exit(ExitWaitStrategy::new()))
        .with_cmd(["sh", "-c", "hostname; pwd; id -u; ulimit -n; touch /file 2> /dev/null || echo whole"])
        .with_hostname("named")
        .with_working_dir("/tmp")
        .with_user("7")
        .with_ulimit("nofile", 99, Some(99))
        .with_readonly_rootfs(true)
        .start()?;
    assert_eq!(String::from_utf8(container.stdout_to_vec()?)?, "named\n/tmp\n7\n99\nwhole\n");
    container.rm()?;
    let failed = busybox()
        .with_wait_for(WaitFor::exit(ExitWaitStrategy::new().with_exit_code(0)))
        .with_cmd(["sh", "-c", "exit 4"])
        .start();
    let error = failed.err().ok_or("a start with a wrong exit code was taken")?.to_string();
    assert!(error.contains('4'), "{error}");
    Ok(())
}

fn main() -> Result<()> {
    two_on_a_network()?;
    settings()?;
    println!("done");
    Ok(())
}
