//! Swarm mode: `coracle serve` with the program `coracle-swarm`, asked by raw requests at API 1.24 and by docker's command. Every
//! member has a root of its own, and ports of 127.0.0.1.

use crate::oracle::{call_at, document};
use crate::support::dockerd::Dockerd;
use crate::support::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The program, built once in a run.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let library = built("coracle").parent().expect("target/debug").to_owned();
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swarm/coracle-swarm");
        let made = Command::new(project().join("swarm/build")).arg(&library).arg(&program).output();
        let made = made.expect("run swarm/build");
        assert!(made.status.success(), "swarm/build: {}", String::from_utf8_lossy(&made.stderr));
        program
    })
}

/// An engine that may be in a swarm, and its server.
struct Member {
    root: Root,
    server: Child,
    socket: PathBuf,
    /// The address of its managers' door.
    address: String,
}

impl Member {
    fn new() -> Member {
        Member::with_program(program())
    }

    fn with_program(program: &Path) -> Member {
        let root = Root::empty();
        let socket = root.dir.join("api.sock");
        let server = serve(&root, &socket, program);
        root.load(&busybox_archive());
        let member = Member { root, server, socket, address: free_address() };
        wait_for("the server", || UnixStream::connect(&member.socket).is_ok());
        member
    }

    fn run_dir(&self) -> PathBuf {
        self.root.dir.join("run/swarm")
    }

    fn at(&self, version: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, bytes) = call_at(&self.socket, version, method, path, body.as_bytes());
        (status, document(&bytes))
    }

    fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.at("1.24", method, path, &body)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    #[track_caller]
    fn refused(&self, method: &str, path: &str, body: Value, status: u16, text: &str) {
        let (got, answer) = self.call(method, path, body.clone());
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(got == status && message.contains(text), "{method} {path} {body}: {got} {answer}");
    }

    fn init(&self) -> String {
        let (status, id) = self.call("POST", "/swarm/init", json!({ "ListenAddr": self.address }));
        assert_eq!(status, 200, "{id}");
        id.as_str().expect("the node's id").to_owned()
    }

    fn join(&self, other: &Member, role: &str) {
        let token = other.get("/swarm")["JoinTokens"][role].clone();
        let body = json!({ "ListenAddr": self.address, "RemoteAddrs": [other.address], "JoinToken": token });
        let (status, answer) = self.call("POST", "/swarm/join", body);
        assert_eq!(status, 200, "{answer}");
    }

    /// Makes a service, and answers its id.
    fn service(&self, body: Value) -> String {
        let (status, made) = self.call("POST", "/services/create", body);
        assert_eq!(status, 201, "{made}");
        made["ID"].as_str().expect("the service's id").to_owned()
    }

    /// Changes a service's description.
    fn update(&self, id: &str, change: impl Fn(&mut Value)) {
        // The managers may change the service meanwhile: the version is that of this moment.
        wait_for("an update of the service", || {
            let service = self.get(&format!("/services/{id}"));
            let mut spec = service["Spec"].clone();
            change(&mut spec);
            let path = format!("/services/{id}/update?version={}", service["Version"]["Index"]);
            let (status, answer) = self.call("POST", &path, spec);
            let is_late = answer["message"].as_str().is_some_and(|text| text.contains("update out of sequence"));
            assert!(status == 200 || is_late, "{answer}");
            status == 200
        });
    }

    /// The tasks of a service in a state.
    fn tasks(&self, service: &str, state: &str) -> Vec<Value> {
        let filters = format!("%7B%22service%22%3A%5B%22{service}%22%5D%7D");
        let all = self.get(&format!("/tasks?filters={filters}"));
        let all = all.as_array().expect("a list").clone();
        all.into_iter().filter(|task| task["Status"]["State"] == state).collect()
    }

    #[track_caller]
    fn runs(&self, service: &str, count: usize) -> Vec<Value> {
        self.come_to(service, "running", count)
    }

    #[track_caller]
    fn come_to(&self, service: &str, state: &str, count: usize) -> Vec<Value> {
        let name = format!("{count} tasks of {service} that are {state}");
        wait_for(&name, || self.tasks(service, state).len() == count);
        self.tasks(service, state)
    }

    /// The containers of tasks, by name: also those of earlier tasks, which are kept for a while.
    fn containers(&self) -> Vec<String> {
        self.listed("all=1")
    }

    /// The containers of tasks that run.
    fn running(&self) -> Vec<String> {
        self.listed("all=0")
    }

    fn listed(&self, how: &str) -> Vec<String> {
        let all = self.get(&format!("/containers/json?{how}&filters=%7B%22is-task%22%3A%5B%22true%22%5D%7D"));
        let all = all.as_array().expect("a list");
        let mut names: Vec<String> =
            all.iter().map(|one| one["Names"][0].as_str().unwrap_or_default().to_owned()).collect();
        names.sort();
        names
    }

    /// The process of its program; `None`: none lives.
    fn process(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.run_dir().join("lock")).ok()?;
        let pid = Pid::from_raw(text.trim().parse().ok()?);
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name.trim() == "coracle-swarm").then_some(pid)
    }

    fn leave(&self) {
        let (status, answer) = self.call("POST", "/swarm/leave?force=1", Value::Null);
        assert_eq!(status, 200, "{answer}");
    }

    fn docker(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "120", "docker"]).args(words).stdin(Stdio::null());
        command.env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        command.env("DOCKER_API_VERSION", "1.24").env("DOCKER_CONFIG", self.root.dir.join("config"));
        let made = command.output().expect("run docker");
        let out = String::from_utf8_lossy(&made.stdout).trim_end().to_owned();
        match made.status.success() {
            true => Ok(out),
            false => Err(format!("{out}{}", String::from_utf8_lossy(&made.stderr))),
        }
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        self.docker(words).unwrap_or_else(|text| panic!("{words:?}: {text}"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The root's end removes the containers; the program must not make new ones.
        if let Some(pid) = self.process() {
            let _ = kill(pid, Signal::SIGKILL);
            for _ in 0..500 {
                if self.process().is_none() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        let _ = kill(Pid::from_raw(self.server.id() as i32), Signal::SIGTERM);
        let _ = self.server.wait();
    }
}

fn serve(root: &Root, socket: &Path, program: &Path) -> Child {
    let mut command = Command::new(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
    command.args(["serve", "--durability", "off", "--swarm-program"]).arg(program);
    command.args(["-H", &format!("unix://{}", socket.display())]);
    command.stderr(Stdio::null()).spawn().expect("run coracle serve")
}

/// An address of this machine that nobody listens at.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

/// A service of busybox on the machine's own network.
fn sleepers(name: &str, replicas: u64) -> Value {
    service(name, json!(["sleep", "1000"]), json!({ "Replicated": { "Replicas": replicas } }))
}

fn service(name: &str, words: Value, mode: Value) -> Value {
    json!({
        "Name": name,
        "TaskTemplate": {
            // Nobody listens at this registry: the image is the one that is here.
            "ContainerSpec": { "Image": "busybox:latest", "Args": words, "StopGracePeriod": 0 },
            "RestartPolicy": { "Condition": "any", "Delay": 0 },
        },
        "Networks": [{ "Target": "host" }],
        "Mode": mode,
    })
}

const NO_MANAGER: &str = "This node is not a swarm manager. Use \"docker swarm init\" or \"docker swarm join\"";

#[test]
fn a_swarm_of_one_is_begun_used_and_left() {
    let member = Member::new();
    member.refused("GET", "/swarm", Value::Null, 406, NO_MANAGER);
    member.refused("POST", "/swarm/leave", Value::Null, 406, "This node is not part of a swarm");
    assert_eq!(member.get("/info")["Swarm"]["LocalNodeState"], "inactive");
    assert_eq!(member.process(), None, "a question starts no program");

    let id = member.init();
    member.refused("POST", "/swarm/init", json!({ "ListenAddr": member.address }), 406, "already part of a swarm");
    let (status, answer) = member.at("1.25", "POST", "/swarm/init", &json!({ "ListenAddr": member.address }));
    assert_eq!(status, 503, "{answer}");
    let info = member.get("/info")["Swarm"].clone();
    assert_eq!(
        (&info["NodeID"], &info["LocalNodeState"], &info["ControlAvailable"]),
        (&json!(id), &json!("active"), &json!(true))
    );
    assert_eq!((&info["Nodes"], &info["Managers"], &info["NodeAddr"]), (&json!(1), &json!(1), &json!("127.0.0.1")));
    let swarm = member.get("/swarm");
    assert_eq!(
        swarm["Spec"]["Raft"],
        json!({ "SnapshotInterval": 10000, "KeepOldSnapshots": 0, "LogEntriesForSlowFollowers": 500,
        "ElectionTick": 3, "HeartbeatTick": 1 })
    );
    assert!(
        swarm["JoinTokens"]["Worker"].as_str().is_some_and(|token| token.starts_with("SWMTKN-1-") && token.len() == 85)
    );
    let nodes = member.get("/nodes");
    assert_eq!(
        (&nodes[0]["ID"], &nodes[0]["Spec"]["Role"], &nodes[0]["Status"]["State"]),
        (&json!(id), &json!("manager"), &json!("ready"))
    );
    assert_eq!(
        nodes[0]["ManagerStatus"],
        json!({ "Leader": true, "Reachability": "reachable", "Addr": member.address })
    );

    let web = member.service(sleepers("web", 2));
    assert_eq!(web.len(), 25);
    let tasks = member.runs("web", 2);
    let mut names: Vec<String> =
        tasks.iter().map(|task| format!("/web.{}.{}", task["Slot"], task["ID"].as_str().unwrap())).collect();
    names.sort();
    assert_eq!(member.containers(), names);
    let container = member.get(&format!("/containers{}/json", names[0]));
    let labels = &container["Config"]["Labels"];
    assert_eq!(labels["com.docker.swarm.service.id"], json!(web));
    assert_eq!(
        (&labels["com.docker.swarm.service.name"], &labels["com.docker.swarm.node.id"]),
        (&json!("web"), &json!(id))
    );
    assert_eq!(container["HostConfig"]["RestartPolicy"]["Name"], "no");

    // A task that ends gets a successor in its slot.
    let (status, _) = member.call("POST", &format!("/containers{}/kill", names[0]), Value::Null);
    assert_eq!(status, 204);
    wait_for("a successor", || {
        let now = member.tasks("web", "running");
        now.len() == 2 && now.iter().any(|task| !tasks.iter().any(|old| old["ID"] == task["ID"]))
    });
    assert_eq!(member.tasks("web", "failed")[0]["Status"]["Err"], "task: non-zero exit (137)");

    member.update("web", |spec| spec["Mode"]["Replicated"]["Replicas"] = json!(3));
    member.runs("web", 3);
    let stale = member.get("/services/web")["Spec"].clone();
    member.refused("POST", "/services/web/update?version=1", stale, 500, "update out of sequence");
    member.refused("POST", "/services/create", sleepers("web", 1), 409, "name conflicts with an existing object");
    member.refused(
        "POST",
        "/swarm/leave",
        Value::Null,
        406,
        "Removing the last manager erases all current state of the swarm.",
    );

    let (status, answer) = member.call("DELETE", "/services/web", Value::Null);
    assert_eq!((status, answer), (200, Value::Null));
    wait_for("no container", || member.containers().is_empty());

    member.service(sleepers("left", 2));
    member.runs("left", 2);
    member.leave();
    assert!(member.containers().is_empty(), "a member that leaves takes its tasks along");
    assert_eq!(member.get("/info")["Swarm"]["LocalNodeState"], "inactive");
    assert!(std::fs::read_dir(member.root.dir.join("root/swarm")).expect("the directory").next().is_none());
    member.refused("GET", "/services", Value::Null, 406, NO_MANAGER);
    // A root that left a swarm can begin another one at once.
    assert_ne!(member.init(), id);
    member.leave();
    wait_for("the program's end", || member.process().is_none());
}

#[test]
fn tasks_have_everything_that_their_service_says() {
    let member = Member::new();
    member.init();
    let template = json!({
        "ContainerSpec": {
            "Image": "busybox:latest", "Labels": { "own": "1", "com.docker.swarm.task.id": "mine" },
            "Command": ["sleep"], "Args": ["1000"], "Env": ["A=b", "NODE={{.Node.Hostname}}", "SLOT={{.Task.Slot}}"],
            "Dir": "/tmp", "User": "1:2", "StopGracePeriod": 1_500_000_000,
            "Mounts": [
                { "Type": "volume", "Source": "data", "Target": "/data", "VolumeOptions": { "Labels": { "v": "1" } } },
                { "Type": "bind", "Source": "/usr/share", "Target": "/share", "ReadOnly": true },
                { "Type": "tmpfs", "Target": "/scratch", "TmpfsOptions": { "SizeBytes": 1_048_576 } },
            ],
        },
        "Resources": { "Limits": { "NanoCPUs": 500_000_000, "MemoryBytes": 33_554_432 } },
        "LogDriver": { "Name": "json-file", "Options": { "max-size": "1m" } },
    });
    member.service(json!({ "Name": "full", "TaskTemplate": template, "Networks": [{ "Target": "host" }] }));
    let task = member.runs("full", 1)[0].clone();
    let name = format!("full.1.{}", task["ID"].as_str().unwrap());
    let container = member.get(&format!("/containers/{name}/json"));
    let (config, host) = (&container["Config"], &container["HostConfig"]);
    assert_eq!((&config["Entrypoint"], &config["Cmd"]), (&json!(["sleep"]), &json!(["1000"])));
    assert_eq!((&config["WorkingDir"], &config["User"]), (&json!("/tmp"), &json!("1:2")));
    let env = config["Env"].as_array().expect("a list");
    let node = member.get("/nodes")[0]["Description"]["Hostname"].as_str().expect("a name").to_owned();
    for wanted in ["A=b".to_owned(), format!("NODE={node}"), "SLOT=1".to_owned()] {
        assert!(env.contains(&json!(wanted)), "{env:?} lacks {wanted}");
    }
    assert_eq!(config["Labels"]["own"], "1");
    assert_eq!(config["Labels"]["com.docker.swarm.task.id"], task["ID"], "a service cannot take another task's name");
    assert_eq!(config["Labels"]["com.docker.swarm.task.name"], json!(name));
    assert_eq!(
        (&host["CpuPeriod"], &host["CpuQuota"], &host["Memory"]),
        (&json!(100_000), &json!(50_000), &json!(33_554_432))
    );
    assert_eq!(host["LogConfig"], json!({ "Type": "json-file", "Config": { "max-size": "1m" } }));
    assert_eq!(host["NetworkMode"], "host");
    let volume = member.get("/volumes/data");
    assert_eq!(volume["Labels"], json!({ "v": "1" }));
    let seen =
        member.root.exec(&name, &["sh", "-c", "touch /share/x; mount | grep -c ' /scratch type tmpfs'; ls -d /data"]);
    assert!(seen.out().ends_with("1\n/data") && seen.err().contains("Read-only file system"), "{seen:?}");
    let status = &task["Status"];
    assert_eq!((&status["Message"], &status["ContainerStatus"]["ContainerID"]), (&json!("started"), &container["Id"]));

    // Global services, services that come to an end, and tasks that cannot start.
    member.service(service("everywhere", json!(["sleep", "1000"]), json!({ "Global": {} })));
    assert_eq!(member.runs("everywhere", 1)[0].get("Slot"), None);
    let mut once = service("once", json!(["true"]), Value::Null);
    once["TaskTemplate"]["RestartPolicy"]["Condition"] = json!("none");
    member.service(once.clone());
    assert_eq!(member.come_to("once", "complete", 1)[0]["Status"]["Message"], "finished");
    once["Name"] = json!("wrong");
    once["TaskTemplate"]["ContainerSpec"]["Args"] = json!(["no-such-program"]);
    member.service(once.clone());
    let err = member.come_to("wrong", "failed", 1)[0]["Status"]["Err"].as_str().expect("a reason").to_owned();
    assert!(err.contains("starting container failed") && err.contains("no-such-program"), "{err}");
    once["Name"] = json!("absent");
    once["TaskTemplate"]["ContainerSpec"]["Image"] = json!("127.0.0.1:9/absent:1");
    member.service(once);
    let err = member.come_to("absent", "rejected", 1)[0]["Status"]["Err"].as_str().expect("a reason").to_owned();
    assert!(err.contains("No such image: 127.0.0.1:9/absent:1"), "{err}");
}

#[test]
fn containers_outlive_the_program_and_the_server() {
    let mut member = Member::new();
    member.init();
    member.service(sleepers("web", 3));
    let before = ids(&member.runs("web", 3));
    for round in 0..4 {
        kill(member.process().expect("the program"), Signal::SIGKILL).expect("kill it");
        wait_for("its end", || member.process().is_none());
        assert_eq!(member.containers().len(), 3);
        if round == 2 {
            // The server starts the program of a member by itself.
            kill(Pid::from_raw(member.server.id() as i32), Signal::SIGKILL).expect("kill the server");
            member.server.wait().expect("its end");
            member.server = serve(&member.root, &member.socket, program());
            wait_for("the program", || member.process().is_some());
            wait_for("the server", || UnixStream::connect(&member.socket).is_ok());
        }
        wait_for("the managers", || member.call("GET", "/services", Value::Null).0 == 200);
        // The state of tasks is that of the last program until this one has looked.
        wait_for("the same tasks", || ids(&member.tasks("web", "running")) == before);
        assert_eq!(member.containers().len(), 3);
    }
    // A container that ended while no program lived is replaced.
    kill(member.process().expect("the program"), Signal::SIGKILL).expect("kill it");
    wait_for("its end", || member.process().is_none());
    let name = member.containers()[0].clone();
    assert_eq!(member.call("POST", &format!("/containers{name}/kill"), Value::Null).0, 204);
    wait_for("the managers", || member.call("GET", "/services", Value::Null).0 == 200);
    wait_for("a successor", || {
        let now = ids(&member.tasks("web", "running"));
        now.len() == 3 && now != before
    });
    // A container whose task no manager knows is removed by the next program.
    kill(member.process().expect("the program"), Signal::SIGKILL).expect("kill it");
    wait_for("its end", || member.process().is_none());
    let labels = json!({ "com.docker.swarm.task": "", "com.docker.swarm.task.id": "0123456789abcdefghijklmno" });
    member.root.create("orphan", json!({ "Image": "busybox", "Cmd": ["true"], "Labels": labels }));
    wait_for("the managers", || member.call("GET", "/services", Value::Null).0 == 200);
    assert_eq!(member.call("GET", "/containers/orphan/json", Value::Null).0, 404);
}

fn ids(tasks: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = tasks.iter().map(|task| task["ID"].as_str().unwrap_or_default().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn a_member_whose_port_is_taken_says_so_and_comes_back() {
    let member = Member::new();
    let id = member.init();
    kill(member.process().expect("the program"), Signal::SIGKILL).expect("kill it");
    wait_for("its end", || member.process().is_none());
    let taken = TcpListener::bind(&member.address).expect("the port");
    wait_for("the reason", || {
        let (status, answer) = member.call("GET", "/services", Value::Null);
        assert_eq!(status, 406, "{answer}");
        let swarm = member.get("/info")["Swarm"].clone();
        assert_eq!(swarm["NodeID"], json!(id), "{swarm}");
        swarm["LocalNodeState"] == "error"
            && swarm["Error"].as_str().is_some_and(|text| text.contains("address already in use"))
    });
    drop(taken);
    wait_for("the managers", || member.call("GET", "/services", Value::Null).0 == 200);
    wait_for("an active member", || member.get("/info")["Swarm"]["LocalNodeState"] == "active");
}

/// Kills of the program at any moment of its work: `make test-swarm` makes 200.
#[test]
fn kills_at_any_moment_lose_no_task() {
    let kills: u64 = std::env::var("CORACLE_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let member = Member::new();
    member.init();
    let web = member.service(sleepers("web", 2));
    member.runs("web", 2);
    let mut random = Random(kills);
    for round in 0..kills {
        let replicas = 1 + random.below(5);
        wait_for("the managers", || member.call("GET", "/services", Value::Null).0 == 200);
        if random.below(3) > 0 {
            let service = member.get("/services/web");
            let mut spec = service["Spec"].clone();
            spec["Mode"]["Replicated"]["Replicas"] = json!(replicas);
            let path = format!("/services/{web}/update?version={}", service["Version"]["Index"]);
            // The managers may have changed the service since.
            let (status, answer) = member.call("POST", &path, spec);
            assert!(status == 200 || status == 500, "{round}: {answer}");
        }
        std::thread::sleep(std::time::Duration::from_millis(random.below(900) as u64));
        kill(member.process().expect("the program"), Signal::SIGKILL).expect("kill it");
        wait_for("its end", || member.process().is_none());
    }
    wait_for("the managers", || member.call("GET", "/services", Value::Null).0 == 200);
    let wanted = member.get("/services/web")["Spec"]["Mode"]["Replicated"]["Replicas"].as_u64().expect("a number");
    wait_for("all tasks, each with its container", || {
        let tasks = member.tasks("web", "running");
        let mut names: Vec<String> = tasks
            .iter()
            .map(|task| format!("/web.{}.{}", task["Slot"], task["ID"].as_str().unwrap_or_default()))
            .collect();
        names.sort();
        tasks.len() as u64 == wanted && member.running() == names
    });
    assert_eq!(member.call("DELETE", "/services/web", Value::Null).0, 200);
    wait_for("no container", || member.containers().is_empty());
}

#[test]
fn two_members_share_the_tasks() {
    let (manager, worker) = (Member::new(), Member::new());
    manager.init();
    let wrong = json!({ "RemoteAddrs": [manager.address], "JoinToken": "SWMTKN-1-x", "ListenAddr": worker.address });
    worker.refused("POST", "/swarm/join", wrong, 400, "invalid join token");
    worker.join(&manager, "Worker");
    let info = worker.get("/info")["Swarm"].clone();
    assert_eq!((&info["LocalNodeState"], &info["ControlAvailable"]), (&json!("active"), &json!(false)));
    assert_eq!(info["RemoteManagers"][0]["Addr"], json!(manager.address));
    worker.refused("GET", "/nodes", Value::Null, 406, "Worker nodes can't be used to view or modify cluster state.");
    let second = info["NodeID"].as_str().expect("an id").to_owned();
    wait_for("two nodes that are ready", || {
        let nodes = manager.get("/nodes");
        nodes.as_array().is_some_and(|all| all.len() == 2 && all.iter().all(|node| node["Status"]["State"] == "ready"))
    });
    manager.service(sleepers("web", 4));
    manager.runs("web", 4);
    assert_eq!((manager.containers().len(), worker.containers().len()), (2, 2), "tasks are spread");
    let here = |label: &str| format!("%7B%22node%22%3A%5B%22{label}%22%5D%7D");
    assert_eq!(manager.get(&format!("/tasks?filters={}", here(&second))).as_array().map(Vec::len), Some(2));

    let set = |change: &dyn Fn(&mut Value)| {
        wait_for("an update of the node", || {
            let node = manager.get(&format!("/nodes/{second}"));
            let mut spec = node["Spec"].clone();
            change(&mut spec);
            let path = format!("/nodes/{second}/update?version={}", node["Version"]["Index"]);
            manager.call("POST", &path, spec).0 == 200
        });
    };
    set(&|spec| spec["Availability"] = json!("drain"));
    wait_for("an empty worker", || worker.running().is_empty() && manager.tasks("web", "running").len() == 4);
    set(&|spec| {
        spec["Availability"] = json!("active");
        spec["Role"] = json!("manager");
        spec["Labels"] = json!({ "zone": "b" });
    });
    wait_for("a second manager", || worker.call("GET", "/nodes", Value::Null).0 == 200);
    // Either manager answers for the swarm.
    let mut placed = sleepers("placed", 2);
    placed["TaskTemplate"]["Placement"] = json!({ "Constraints": ["node.labels.zone==b"] });
    worker.service(placed);
    wait_for("its tasks", || manager.tasks("placed", "running").len() == 2);
    assert_eq!(worker.running().len(), 2);

    manager.refused(
        "DELETE",
        &format!("/nodes/{second}"),
        Value::Null,
        400,
        "is a cluster manager and is a member of the raft cluster",
    );
    set(&|spec| spec["Role"] = json!("worker"));
    wait_for("a worker again", || worker.call("GET", "/nodes", Value::Null).0 == 406);
    let (status, answer) = worker.call("POST", "/swarm/leave", Value::Null);
    assert_eq!((status, answer), (200, Value::Null), "a worker leaves without force");
    assert!(worker.containers().is_empty());
    wait_for("a node that is down", || manager.get(&format!("/nodes/{second}"))["Status"]["State"] == "down");
    let (status, answer) = manager.call("DELETE", &format!("/nodes/{second}"), Value::Null);
    assert_eq!((status, answer), (200, Value::Null));
    assert_eq!(manager.get("/nodes").as_array().map(Vec::len), Some(1));
}

#[test]
fn bad_requests_are_refused_by_name() {
    let member = Member::new();
    let listen = member.address.clone();
    let init = |more: Value| {
        let mut body = json!({ "ListenAddr": listen });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    for (body, text) in [
        (json!({}), "invalid ListenAddr \"\": invalid empty address"),
        (json!({ "ListenAddr": "127.0.0.1" }), "could not parse listen address 127.0.0.1"),
        (json!({ "ListenAddr": "nowhere:2377" }), "listen address must be an IP address or network interface"),
        (
            init(json!({ "AdvertiseAddr": "0.0.0.0" })),
            "advertise address must be a non-zero IP address or network interface",
        ),
        (init(json!({ "Spec": { "Name": "other" } })), "swarm spec must be named \"default\""),
        (init(json!({ "Spec": { "Raft": { "ElectionTick": 1, "HeartbeatTick": 1 } } })), "ElectionTick"),
        (
            init(json!({ "Spec": { "CAConfig": { "NodeCertExpiry": 1 } } })),
            "minimum certificate expiry time is: 1h0m0s",
        ),
        (init(json!({ "ListenAddr": 5 })), "ListenAddr"),
    ] {
        member.refused("POST", "/swarm/init", body, 400, text);
        assert_eq!(member.get("/info")["Swarm"]["LocalNodeState"], "inactive");
    }
    for (body, text) in [
        (json!({}), "at least 1 RemoteAddr is required to join"),
        (json!({ "RemoteAddrs": ["127.0.0.1:9"], "JoinToken": "x", "ListenAddr": listen }), "invalid join token"),
    ] {
        member.refused("POST", "/swarm/join", body, 400, text);
    }
    member.init();
    let changed = |pointer: &str, value: Value| {
        let mut body = sleepers("bad", 1);
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object").insert(key.to_owned(), value);
        body
    };
    for (pointer, value, status, text) in [
        ("/Name", json!("-bad-"), 400, "name must be valid as a DNS name component"),
        ("/TaskTemplate/ContainerSpec", Value::Null, 400, "image reference must be provided"),
        ("/TaskTemplate/ContainerSpec/Image", json!(""), 400, "image reference must be provided"),
        ("/TaskTemplate/ContainerSpec/Image", json!("BAD IMAGE"), 400, "is not a valid repository/tag"),
        ("/TaskTemplate/Resources", json!({ "Limits": { "MemoryBytes": 1 } }), 400, "Must be at least 4MiB"),
        ("/TaskTemplate/Resources", json!({ "Limits": { "NanoCPUs": 1 } }), 400, "Must be at least 0.001"),
        ("/TaskTemplate/RestartPolicy", json!({ "Condition": "zz" }), 400, "invalid RestartCondition: \"zz\""),
        (
            "/TaskTemplate/Placement",
            json!({ "Constraints": ["zone"] }),
            500,
            "constraint expected one operator from ==, !=",
        ),
        ("/UpdateConfig", json!({ "FailureAction": "zz" }), 400, "unrecognized update failure action zz"),
        ("/EndpointSpec", json!({ "Mode": "xx" }), 400, "invalid resolution mode: \"xx\""),
        ("/EndpointSpec", json!({ "Ports": [{ "TargetPort": 80 }] }), 501, "publishing on all nodes is not built yet"),
        ("/Networks", json!([{ "Target": "nowhere" }]), 404, "network nowhere not found"),
        ("/Mode", json!({ "Replicated": { "Replicas": "many" } }), 400, "Mode.Replicated.Replicas"),
    ] {
        member.refused("POST", "/services/create", changed(pointer, value), status, text);
    }
    assert_eq!(member.get("/services"), json!([]), "a refused service leaves nothing");
    for (method, path, status, text) in [
        ("GET", "/services/none", 404, "service none not found"),
        ("GET", "/nodes/none", 404, "node none not found"),
        ("GET", "/tasks/none", 404, "task none not found"),
        ("DELETE", "/services/none", 404, "service none not found"),
        ("GET", "/tasks?filters=%7B%22zz%22%3A%5B%22x%22%5D%7D", 400, "zz"),
        ("GET", "/tasks?filters=%7B%22node%22%3A%5B%22x%22%5D%7D", 404, "node x not found"),
        ("GET", "/nodes?filters=%7B%22role%22%3A%5B%22king%22%5D%7D", 400, "Invalid role filter: 'king'"),
        ("GET", "/services?filters=%7B", 400, "filters"),
    ] {
        member.refused(method, path, Value::Null, status, text);
    }
    let spec = member.get("/swarm")["Spec"].clone();
    member.refused("POST", "/swarm/update?version=x", spec.clone(), 400, "invalid swarm version 'x'");
    member.refused("POST", "/swarm/update?version=1", spec.clone(), 500, "update out of sequence");
    let index = member.get("/swarm")["Version"]["Index"].clone();
    let path = format!("/swarm/update?rotateWorkerToken=maybe&version={index}");
    member.refused("POST", &path, spec.clone(), 400, "invalid value for rotateWorkerToken: maybe");
    let before = member.get("/swarm")["JoinTokens"].clone();
    let (status, answer) = member.call("POST", &format!("/swarm/update?rotateWorkerToken=1&version={index}"), spec);
    assert_eq!(status, 200, "{answer}");
    let after = member.get("/swarm")["JoinTokens"].clone();
    assert!(before["Worker"] != after["Worker"] && before["Manager"] == after["Manager"]);
    let id = member.get("/nodes")[0]["ID"].as_str().expect("an id").to_owned();
    let index = member.get("/nodes")[0]["Version"]["Index"].clone();
    let path = format!("/nodes/{id}/update?version={index}");
    member.refused("POST", &path, json!({ "Role": "zz", "Availability": "active" }), 400, "invalid Role: \"zz\"");
    member.refused("POST", &path, json!({ "Role": "manager", "Availability": "" }), 400, "invalid Availability: \"\"");
    let demoted = json!({ "Role": "worker", "Availability": "active" });
    member.refused("POST", &path, demoted, 400, "attempting to demote the last manager of the swarm");
}

#[test]
fn without_the_program_the_error_names_it() {
    let member = Member::with_program(Path::new("/nowhere/coracle-swarm"));
    let text = "swarm mode needs the program coracle-swarm: /nowhere/coracle-swarm: no such file or directory";
    member.refused("POST", "/swarm/init", json!({ "ListenAddr": member.address }), 501, text);
    member.refused("GET", "/swarm", Value::Null, 406, NO_MANAGER);
    // A program that ends at once.
    let member = Member::with_program(Path::new("/bin/false"));
    member.refused("POST", "/swarm/init", json!({ "ListenAddr": member.address }), 503, "coracle-swarm ended");
}

#[test]
fn docker_speaks_to_a_swarm() {
    let member = Member::new();
    let said = member.ok(&["swarm", "init", "--listen-addr", &member.address, "--advertise-addr", &member.address]);
    assert!(
        said.starts_with("Swarm initialized: current node (") && said.contains("docker swarm join --token SWMTKN-1-"),
        "{said}"
    );
    assert_eq!(
        member.ok(&["node", "ls", "--format", "{{.Status}} {{.Availability}} {{.ManagerStatus}}"]),
        "Ready Active Leader"
    );
    let create = ["service", "create", "--name", "web", "--replicas", "2", "--network", "host", "-l", "a=b"];
    member.ok(&[&create[..], &["busybox:latest", "sleep", "1000"]].concat());
    wait_for("two of two", || {
        member.ok(&["service", "ls", "--format", "{{.Name}} {{.Mode}} {{.Replicas}}"]) == "web replicated 2/2"
    });
    member.ok(&["service", "scale", "web=3"]);
    member.runs("web", 3);
    let shown = member.ok(&["service", "ps", "--format", "{{.Name}} {{.Image}} {{.DesiredState}}", "web"]);
    assert_eq!(shown.lines().filter(|line| line.ends_with(" busybox:latest Running")).count(), 3, "{shown}");
    assert_eq!(
        member.ok(&["service", "inspect", "-f", "{{.Spec.Labels.a}} {{.Spec.Mode.Replicated.Replicas}}", "web"]),
        "b 3"
    );
    member.ok(&["service", "update", "--env-add", "X=y", "web"]);
    wait_for("an update that is complete", || {
        member.ok(&["service", "inspect", "-f", "{{.UpdateStatus.State}}", "web"]) == "completed"
    });
    for name in member.containers() {
        let env = member.get(&format!("/containers{name}/json"))["Config"]["Env"].clone();
        let runs = member.get(&format!("/containers{name}/json"))["State"]["Running"] == json!(true);
        assert!(!runs || env.as_array().is_some_and(|all| all.contains(&json!("X=y"))), "{name}: {env}");
    }
    let id = member.get("/nodes")[0]["ID"].as_str().expect("an id").to_owned();
    member.ok(&["node", "update", "--label-add", "zone=a", &id]);
    assert_eq!(member.ok(&["node", "inspect", "-f", "{{.Spec.Labels.zone}} {{.Spec.Role}}", "self"]), "a manager");
    member.ok(&["swarm", "update", "--task-history-limit", "2"]);
    assert_eq!(member.get("/swarm")["Spec"]["Orchestration"]["TaskHistoryRetentionLimit"], 2);
    let token = member.ok(&["swarm", "join-token", "-q", "manager"]);
    assert!(token.starts_with("SWMTKN-1-"), "{token}");
    assert!(member.ok(&["info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.Nodes}}"]).ends_with("active 1"));
    member.ok(&["service", "rm", "web"]);
    let refused = member.docker(&["swarm", "leave"]).unwrap_err();
    assert!(refused.contains("Removing the last manager erases all current state of the swarm."), "{refused}");
    assert_eq!(member.ok(&["swarm", "leave", "--force"]), "Node left the swarm.");
}

/// The answers of one engine to requests in an order: statuses, and the texts of errors.
fn answers(ask: &dyn Fn(&str, &str, &Value) -> (u16, Value), address: &str) -> Vec<String> {
    let init = json!({ "ListenAddr": address, "AdvertiseAddr": address });
    let web = sleepers("web", 1);
    let mut renamed = sleepers("other", 1);
    renamed["TaskTemplate"]["ContainerSpec"]["Image"] = json!("BAD IMAGE");
    let mut alone = sleepers("alone", 1);
    alone["Networks"] = json!([{ "Target": "none" }]);
    let asked = [
        ("GET", "/swarm", Value::Null),
        ("GET", "/nodes", Value::Null),
        ("GET", "/networks/host?scope=swarm", Value::Null),
        ("POST", "/swarm/leave", Value::Null),
        ("POST", "/swarm/init", json!({ "ListenAddr": "nowhere:1" })),
        ("POST", "/swarm/init", json!({ "ListenAddr": address, "AdvertiseAddr": "0.0.0.0" })),
        ("POST", "/swarm/init", json!({ "ListenAddr": address, "Spec": { "Name": "x" } })),
        ("POST", "/swarm/join", json!({ "ListenAddr": address })),
        ("POST", "/swarm/init", init.clone()),
        ("POST", "/swarm/init", init),
        ("POST", "/swarm/join", json!({ "ListenAddr": address, "RemoteAddrs": ["127.0.0.1:9"], "JoinToken": "x" })),
        ("GET", "/networks/host?scope=swarm", Value::Null),
        ("GET", "/networks/none?scope=swarm", Value::Null),
        ("GET", "/services", Value::Null),
        ("GET", "/services/none", Value::Null),
        ("GET", "/tasks/none", Value::Null),
        ("GET", "/nodes/none", Value::Null),
        ("POST", "/services/create", web.clone()),
        ("POST", "/services/create", web.clone()),
        ("POST", "/services/create", alone),
        ("POST", "/services/create", renamed),
        ("POST", "/services/web/update?version=1", web.clone()),
        ("POST", "/services/web/update?version=x", web),
        ("DELETE", "/services/none", Value::Null),
        ("DELETE", "/services/web", Value::Null),
        ("POST", "/swarm/update?version=1", json!({ "Name": "default" })),
        ("POST", "/swarm/leave", Value::Null),
        ("POST", "/swarm/leave?force=1", Value::Null),
        ("GET", "/tasks", Value::Null),
    ];
    let told = |answer: &Value| answer["message"].as_str().unwrap_or_default().to_owned();
    let said = asked.iter().map(|(method, path, body)| {
        let (status, answer) = ask(method, path, body);
        // Ids of objects differ.
        let text = told(&answer).split(" already exists").next().unwrap_or_default().to_owned();
        format!("{method} {path}: {status} {text}")
    });
    said.collect()
}

#[test]
fn refusals_are_those_of_dockerd() {
    let member = Member::new();
    let dir = temp_dir();
    let dockerd = Dockerd::start_apart(&dir);
    dockerd.docker(&["load", "-i", &busybox_archive().display().to_string()]);
    let peer = dir.join("sock");
    // At a version for which the specification names no other statuses.
    let theirs = answers(
        &|method, path, body| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let (status, bytes) = call_at(&peer, "1.41", method, path, body.as_bytes());
            (status, document(&bytes))
        },
        &free_address(),
    );
    let ours = answers(&|method, path, body| member.at("1.41", method, path, body), &member.address);
    assert_eq!(ours, theirs);
}
