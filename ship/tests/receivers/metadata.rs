//! Temporary keys for awslogs: of AWS's own mock of an instance's metadata server, and of a server as containers have it.
//!
//! The servers' places are variables, so that copies of this program deliver.

use crate::moto::Moto;
use crate::world::*;
use serde_json::json;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Has the directory of the test's files, for the copy.
const INSIDE: &str = "CORACLE_METADATA_INSIDE";

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receivers/metadata");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ec2-metadata-mock");
    let package = "github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock";
    let mut command = Command::new("go");
    let built = command.args(["build", "-o"]).arg(&program).arg(package).current_dir(source).output();
    let built = built.expect("go: run tools/setup receivers");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// A time from now on, as servers write it.
fn after(time: Duration) -> String {
    let seconds = (SystemTime::now() + time).duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs();
    let out = Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"]).output();
    String::from_utf8(out.expect("date").stdout).expect("a time").trim().to_owned()
}

/// Key and secret of moto's file.
fn keys(path: &Path) -> [String; 2] {
    let text = std::fs::read_to_string(path).expect("keys");
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("a key").to_owned();
    ["aws_access_key_id = ", "aws_secret_access_key = "].map(of)
}

/// Runs a test again with variables; answers whether this is that run.
fn is_inside(test: &str, variables: &[(&str, String)]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut inside = Command::new(std::env::current_exe().expect("this program"));
    inside.args(["--exact", &format!("metadata::{test}"), "--nocapture"]).env(INSIDE, "1").env("HOME", "/nonexistent");
    inside.envs(variables.iter().map(|(name, value)| (name, value)));
    let ended = inside.output().expect("this program");
    let said = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
    false
}

fn port_of(variable: &str) -> u16 {
    let url = std::env::var(variable).expect("the URL");
    url.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok()).expect("a port")
}

/// A world with the service.
fn begin() -> (World, Moto, Program) {
    let world = World::new();
    let moto = Moto::new(&world);
    let running = moto.start();
    (world, moto, running)
}

/// The failure of a log's delivery, if there is one.
fn error(log: &Log) -> String {
    log.status().map(|status| status.cursor.error()).unwrap_or_default()
}

/// A log whose keys the options do not name.
fn log(world: &World, moto: &Moto, name: &str) -> Log {
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let options = [
        ("awslogs-endpoint", &*endpoint),
        ("awslogs-region", "eu-west-1"),
        ("awslogs-group", "group"),
        ("awslogs-create-group", "true"),
    ];
    world.container(name, "awslogs", &options)
}

#[test]
fn keys_of_an_instance_are_used_and_renewed_before_their_end() {
    let test = "keys_of_an_instance_are_used_and_renewed_before_their_end";
    let url = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    if !is_inside(test, &[(url, format!("http://127.0.0.1:{}", free_port()))]) {
        return;
    }
    let (mut world, moto, _running) = begin();
    let [id, secret] = keys(&moto.keys);
    let port = port_of(url);
    let config = world.dir.join("metadata.json");
    let serve = |secret: &str, until: &str| {
        let keys = json!({ "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": id, "SecretAccessKey": secret,
            "Token": "", "Expiration": until });
        let text = json!({ "metadata": { "values": { "iam-security-credentials": keys } } });
        std::fs::write(&config, text.to_string()).expect("write");
        let mut command = Command::new(program());
        command.args(["--imdsv2", "-n", "127.0.0.1", "-p", &port.to_string(), "-c"]).arg(&config);
        let running = Program::start(command.stdout(std::process::Stdio::null()));
        wait_for("the metadata server", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        running
    };
    // These keys are not to be used for long, and are wrong.
    let running = serve("wrong", &after(Duration::from_secs(301)));
    let mut log = log(&world, &moto, "a");
    world.ship();
    log.write(100);
    wait_for("the refusal", || error(&log) == "the receiver refused the lines with the status 403");
    drop(running);
    let running = serve(&secret, &after(Duration::from_secs(3600)));
    assert_eq!(log.await_delivery(), (100, 0));
    // Good keys are kept: the server is not asked again.
    drop(running);
    log.write(100);
    assert_eq!(log.await_delivery(), (200, 0));
    arrived(&log, || moto.read("group", &log.id));
}

/// Answers requests with one document, and keeps the heads of all.
fn answer_all(listener: TcpListener, document: Arc<Mutex<String>>, heads: Arc<Mutex<Vec<String>>>) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut head = String::new();
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
        heads.lock().expect("a lock").push(head);
        let body = document.lock().expect("a lock").clone();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }
}

#[test]
fn keys_of_a_container_are_asked_for_with_the_token_of_its_file() {
    let test = "keys_of_a_container_are_asked_for_with_the_token_of_its_file";
    let url = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let token = std::env::temp_dir().join(format!("coracle-token-{}", std::process::id()));
    let file = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string());
    if !is_inside(test, &[(url, format!("http://127.0.0.1:{}/v1/keys?x=1", free_port())), file.clone()]) {
        return;
    }
    let token = std::env::var(file.0).expect("the file");
    std::fs::write(&token, "secret token\n").expect("write");
    let (mut world, moto, _running) = begin();
    let [id, secret] = keys(&moto.keys);
    let (document, heads) = (Arc::new(Mutex::new("{}".to_owned())), Arc::new(Mutex::new(Vec::new())));
    let listener = TcpListener::bind(("127.0.0.1", port_of(url))).expect("the port");
    let theirs = (Arc::clone(&document), Arc::clone(&heads));
    std::thread::spawn(move || answer_all(listener, theirs.0, theirs.1));
    let mut log = log(&world, &moto, "a");
    world.ship();
    log.write(100);
    wait_for("the failure", || error(&log) == "there are no credentials for the receiver");
    let until = after(Duration::from_secs(3600));
    *document.lock().expect("a lock") =
        json!({ "AccessKeyId": id, "SecretAccessKey": secret, "Expiration": until }).to_string();
    assert_eq!(log.await_delivery(), (100, 0));
    // One answer is for all logs of the program.
    let before = heads.lock().expect("a lock").len();
    let mut others: Vec<Log> = ["b", "c", "d"].map(|name| self::log(&world, &moto, name)).into();
    world.ship();
    others.iter_mut().for_each(|other| other.write(10));
    others.iter().for_each(|other| assert_eq!(other.await_delivery(), (10, 0)));
    assert_eq!(heads.lock().expect("a lock").len(), before);
    let head = heads.lock().expect("a lock").pop().expect("a request");
    assert!(
        head.starts_with("GET /v1/keys?x=1 HTTP/1.1\r\n") && head.contains("Authorization: secret token\r\n"),
        "{head}"
    );
    std::fs::remove_file(&token).expect("remove");
}

#[test]
fn keys_that_the_service_refuses_are_asked_for_again() {
    let test = "keys_that_the_service_refuses_are_asked_for_again";
    let url = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    if !is_inside(test, &[(url, format!("http://127.0.0.1:{}/keys", free_port()))]) {
        return;
    }
    let (mut world, moto, _running) = begin();
    let [id, secret] = keys(&moto.keys);
    let until = after(Duration::from_secs(3600));
    let document =
        |secret: &str| json!({ "AccessKeyId": id, "SecretAccessKey": secret, "Expiration": until }).to_string();
    let served = Arc::new(Mutex::new(document("withdrawn")));
    let listener = TcpListener::bind(("127.0.0.1", port_of(url))).expect("the port");
    let theirs = Arc::clone(&served);
    std::thread::spawn(move || answer_all(listener, theirs, Arc::default()));
    let mut log = log(&world, &moto, "a");
    world.ship();
    log.write(100);
    wait_for("the refusal", || error(&log) == "the receiver refused the lines with the status 403");
    // The keys so far would be good for an hour.
    *served.lock().expect("a lock") = document(&secret);
    assert_eq!(log.await_delivery(), (100, 0));
}

#[test]
fn a_server_of_keys_that_does_not_answer_holds_up_no_other_log() {
    let test = "a_server_of_keys_that_does_not_answer_holds_up_no_other_log";
    let url = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    if !is_inside(test, &[(url, format!("http://127.0.0.1:{}/keys", free_port()))]) {
        return;
    }
    let (mut world, moto, _running) = begin();
    let listener = TcpListener::bind(("127.0.0.1", port_of(url))).expect("the port");
    let mut waits = log(&world, &moto, "a");
    let mut goes = moto.container(&world, "b", moto.port, &[]);
    world.ship();
    waits.write(100);
    let (asked, _) = listener.accept().expect("a request for keys");
    goes.write(100);
    assert_eq!(goes.await_delivery(), (100, 0));
    // The request that was first still waits for its answer.
    asked.set_nonblocking(true).expect("a socket");
    let mut byte = [0];
    let rest =
        std::iter::repeat_with(|| (&asked).read(&mut byte)).find(|got| !matches!(got, Ok(length) if *length > 0));
    assert!(matches!(rest, Some(Err(error)) if error.kind() == ErrorKind::WouldBlock), "the request was given up");
    assert_eq!(error(&waits), "there are no credentials for the receiver");
}
