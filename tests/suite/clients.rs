//! Clients of other makers against `coracle serve`, at API 1.24: docker-compose, dockerode and, in long runs
//! (`CORACLE_TORTURE`: it takes minutes to build), bollard. (The docker command line has [`crate::docker_cli`], docker-py a
//! job in [`crate::http`].)

use crate::docker_cli::{Served, newest_version};
use crate::network::World;
use crate::support::*;
use std::path::PathBuf;
use std::process::Command;

/// A project of docker-compose's, with this in its environment.
struct Project<'a>(&'a Served);

impl Project<'_> {
    fn compose(&self, key: &str, words: &[&str]) -> String {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "docker-compose", "--ansi", "never"]).args(words);
        command.current_dir(project().join("tests/clients/compose"));
        command.env("DOCKER_HOST", format!("unix://{}", self.0.socket.display()));
        command.env("COMPOSE_API_VERSION", "1.24").env("COMPOSE_DOCKER_CLI_BUILD", "0");
        command.env("COMPOSE_PROJECT_NAME", "trial").env("KEY", key);
        let done = command.output().expect("run docker-compose");
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {error}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

#[test]
fn docker_compose_takes_a_project_through_its_life() {
    let _world = World::new();
    let served = Served::new();
    let project = Project(&served);
    let key = |name: &str| served.ok(&["exec", name, "cat", "/data/key"]);
    let ids = |service: &str| {
        let label = format!("label=com.docker.compose.service={service}");
        served.ok(&["ps", "-q", "--filter", &label]).lines().map(str::to_owned).collect::<Vec<_>>()
    };

    project.compose("one", &["up", "-d"]);
    wait_for("the client to reach both", || served.ok(&["logs", "trial_client_1"]).contains("database answers"));
    assert!(served.ok(&["logs", "trial_client_1"]).contains("hello from web"));
    assert_eq!(served.ok(&["exec", "trial_client_1", "sh", "-c", "ulimit -n"]), "500");
    assert_eq!(key("trial_db_1"), "one");
    let address = project.compose("one", &["port", "web", "80"]);
    assert_eq!(crate::network::get(address.trim()).as_deref(), Some("hello from web"));
    assert_eq!(project.compose("one", &["run", "--rm", "-T", "--no-deps", "client", "echo", "once"]), "once\n");

    // A change makes that one anew and keeps its volume.
    let (db, web) = (ids("db"), ids("web"));
    project.compose("two", &["up", "-d", "--scale", "db=2"]);
    assert!(ids("db").len() == 2 && !ids("db").contains(&db[0]) && ids("web") == web);
    wait_for("the new key", || key("trial_db_1") == "two");
    assert_eq!(key("trial_db_2"), "two");

    project.compose("two", &["pause", "db"]);
    assert!(served.ok(&["ps", "--filter", "status=paused", "-q"]).lines().count() == 2);
    project.compose("two", &["unpause", "db"]);
    project.compose("two", &["stop"]);
    assert_eq!(served.ok(&["ps", "-q"]), "");
    project.compose("two", &["start"]);
    assert_eq!(served.ok(&["ps", "-q"]).lines().count(), 4);
    project.compose("two", &["down", "-v", "--rmi", "local"]);
    assert_eq!(served.ok(&["ps", "-aq"]), "");
    assert_eq!(served.ok(&["volume", "ls", "-q"]), "");
    assert_eq!(served.ok(&["network", "ls", "--format", "{{.Name}}"]), "bridge\nhost\nnone");
    assert_eq!(served.ok(&["images", "--format", "{{.Repository}}"]), "busybox");
}

#[test]
fn dockerode_does_a_job() {
    let _world = World::new();
    let served = Served::new();
    let job = Command::new("node")
        .arg(project().join("tests/clients/dockerode.js"))
        .arg(&served.socket)
        .arg(project().join("tests/clients/compose/db"))
        .env("NODE_PATH", modules())
        .output()
        .expect("run node");
    let (out, err) = (String::from_utf8_lossy(&job.stdout), String::from_utf8_lossy(&job.stderr));
    assert!(job.status.success(), "{err}");
    let version = format!("version {}", newest_version());
    let told = [
        version.as_str(),
        "run {\"StatusCode\":3} out",
        " err",
        "",
        "attach {\"StatusCode\":0} got a",
        "got b",
        "",
        // Two messages, each with the eight bytes before it.
        "logs 28",
        "exec typed",
        " 5",
        "stats true true",
        r#"top ["sleep 1000"]"#,
        r#"list [[["/long"],"running"]]"#,
        "paused paused",
        "limit 67108864",
        "archive passwd 2048",
        r#"events ["start","pause","destroy"]"#,
        "volume local 1",
        "network bridge 4",
        "build Successfully tagged made:once",
        "",
        "history 4",
        r#"images ["busybox:latest","made:once","other/name:two"]"#,
        "missing 404 No such container: nobody",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), told);
}

#[test]
fn bollard_does_a_job_in_long_runs() {
    if std::env::var_os("CORACLE_TORTURE").is_none() {
        return;
    }
    let (source, target) = (project().join("tests/clients/bollard"), project().join("target/clients/bollard"));
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let built = Command::new(cargo).args(["build", "-q", "--target-dir"]).arg(&target).current_dir(source).output();
    let built = built.expect("run cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let _world = World::new();
    let served = Served::new();
    let job = Command::new(target.join("debug/bollard-job")).arg(&served.socket).output().expect("run the job");
    assert_eq!(String::from_utf8_lossy(&job.stdout), "done\n", "{}", String::from_utf8_lossy(&job.stderr));
}

/// A small dose of `make test-clients`, which has go-dockerclient and TCP as well.
#[test]
fn clients_lose_no_output_of_execs_and_attaches() {
    let served = Served::new();
    let job = Command::new("python3")
        .arg(project().join("tests/clients/lost.py"))
        .arg("--socket")
        .arg(&served.socket)
        .args(["--count", "12", "--jobs", "2", "--busy", "4", "--clients", "docker-py,dockerode,docker"])
        .env("NODE_PATH", modules())
        .env("DOCKER_CONFIG", served.root.dir.join("config"))
        .output()
        .expect("run lost.py");
    let (out, err) = (String::from_utf8_lossy(&job.stdout), String::from_utf8_lossy(&job.stderr));
    assert!(job.status.success(), "{out}{err}");
    let nothing = out.lines().filter(|line| line.contains("lost 0 of 12 execs, 0 of 12 attaches"));
    assert_eq!(nothing.count(), 3, "{out}");
}

/// The directory in which `tools/setup test` put the modules of node.
fn modules() -> PathBuf {
    project().join("target/clients/node_modules")
}
