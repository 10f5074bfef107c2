//! Contexts of git repositories over TLS and through proxies: git's own program for web servers, behind a server of TLS.
//!
//! The machine's authorities and the proxies come from the environment of a program, so a command of its own builds each time.

use crate::support::faulty::{TlsFront, Tunnels};
use crate::support::git::{Repository, web};
use crate::support::registry::{Answered, Scripted, make_certificates};
use crate::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variables that a test sets, in both forms.
const VARIABLES: [&str; 5] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];

/// A repository behind TLS, with its authority.
struct Served {
    root: Root,
    web: Scripted,
    front: TlsFront,
    authority: PathBuf,
}

impl Served {
    fn new() -> Served {
        let root = Root::new();
        let repository = Repository::new(&root.dir.join("git"));
        repository.write("Dockerfile", "FROM busybox\nCOPY . /in/\n");
        repository.write("which", "trunk");
        repository.commit("first");
        repository.push();
        let dir = root.dir.join("certificates");
        make_certificates(&dir);
        let web = web(&repository.dir);
        let front = TlsFront::start(&dir, web.port);
        Served { root, web, front, authority: dir.join("ca.pem") }
    }

    /// The repository's address at a host of the certificate.
    fn at(&self, host: &str) -> String {
        format!("https://{host}:{}/x.git", self.front.port)
    }

    /// Builds with these variables, and no others that matter; returns the image's id, or the error.
    fn build(&self, flags: &[&str], variables: &[(&str, &str)], remote: &str) -> Result<String, String> {
        let mut command = Command::new(built("coracle"));
        let dir = |name: &str| self.root.dir.join(name).into_os_string();
        command.args(["--root".into(), dir("root"), "--run".into(), dir("run")]).args(flags);
        command.args(["build", "-q", "--no-cache", "--network", "none", remote]);
        for name in VARIABLES {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        let out = command.envs(variables.iter().copied()).env("DOCKER_CONFIG", dir("none")).output().expect("coracle");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text").trim_end().to_owned();
        if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
    }

    /// Builds as [`Served::build`] does, with the authority; the image has the repository's files.
    #[track_caller]
    fn builds(&self, variables: &[(&str, &str)], remote: &str) {
        let trust = [("SSL_CERT_FILE", shown(&self.authority))];
        let image = self.build(&[], &[&trust, variables].concat(), remote);
        let image = image.unwrap_or_else(|error| panic!("{remote} with {variables:?}: {error}"));
        let config = serde_json::json!({ "Image": image });
        assert_eq!(self.root.run(&["cat", "/in/which"], config, b"").ok(), "trunk");
    }

    /// The build fails with these words, and without this secret.
    #[track_caller]
    fn fails(&self, variables: &[(&str, &str)], remote: &str, words: &[&str]) {
        let trust = [("SSL_CERT_FILE", shown(&self.authority))];
        let error = self.build(&[], &[&trust, variables].concat(), remote).expect_err(remote);
        assert!(words.iter().all(|word| error.contains(word)), "{remote} with {variables:?}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[test]
fn a_repository_over_tls_needs_a_trusted_authority_and_the_right_name() {
    let served = Served::new();
    let here = served.at("127.0.0.1");
    served.builds(&[], &here);
    served.builds(&[], &format!("{here}#trunk"));
    served.builds(&[], &here.replace("//", "//me:secret@").replace("/x.git", "/locked/x.git"));
    served.builds(&[], &here.replace("/x.git", "/moved/x.git"));
    served.fails(&[], &here.replace("/x.git", "/locked/x.git"), &["user and a password"]);
    served.fails(&[], &here.replace("//", "//me:secret-two@").replace("/x.git", "/locked/x.git"), &["status 401"]);

    // The machine's authorities alone, another one of the same name, and another name of the same server.
    let asked = served.web.asked().len();
    let other = served.root.dir.join("other");
    make_certificates(&other);
    let other = other.join("ca.pem");
    for variables in [vec![], vec![("SSL_CERT_FILE", shown(&other))]] {
        let error = served.build(&[], &variables, &here).expect_err("an authority that nobody trusts");
        assert!(error.contains(&format!("remote: {here}: ")) && error.contains("certificate"), "{error}");
    }
    served.fails(&[], &served.at("localhost"), &["remote: https://localhost:", "certificate", "localhost"]);
    // Trust in a registry does not extend to a server of files, even if both have one name.
    let listed = format!("127.0.0.1:{}", served.front.port);
    let error = served.build(&["--insecure-registry", &listed], &[], &here).expect_err("a registry's trust");
    assert!(error.contains("certificate"), "{error}");
    // None of them got as far as a request.
    assert_eq!(served.web.asked().len(), asked);
    // TLS where there is none, and none where there is TLS.
    served.fails(&[], &format!("https://{}/x.git", served.web.host()), &["remote: https://127.0.0.1:"]);
    served.fails(&[], &here.replace("https", "http"), &["remote: http://127.0.0.1:"]);
}

#[test]
fn a_repository_is_reached_through_the_proxy_of_the_environment() {
    let served = Served::new();
    // A name that only the proxy knows; the tunnel shows it nothing but the name.
    let there = served.at("registry.test");
    let proxy = Tunnels::start(served.front.port);
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let target = format!("registry.test:{}", served.front.port);
    let mut seen = 0;
    let mut asked = |what: &str| {
        let asked = proxy.asked().split_off(seen);
        seen += asked.len();
        assert!(asked.iter().all(|asked| asked.method == "CONNECT" && asked.target == target), "{what}: {asked:?}");
        asked
    };
    for name in ["HTTPS_PROXY", "https_proxy"] {
        served.builds(&[(name, &address)], &there);
        assert!(!asked(name).is_empty(), "{name}");
    }
    served.builds(&[("HTTPS_PROXY", &address.replace("//", "//me:secret@"))], &there);
    assert!(asked("a password").iter().all(|asked| asked.header("proxy-authorization") == "Basic bWU6c2VjcmV0"));
    // The server behind the proxy is looked at as any other.
    let error = served.build(&[], &[("HTTPS_PROXY", &address)], &there).expect_err("an authority that nobody trusts");
    assert!(error.contains("certificate"), "{error}");
    asked("no trust");

    // Exempt names, and this machine, are asked straight.
    for exempt in ["registry.test", "other.test, .test", "*"] {
        for name in ["NO_PROXY", "no_proxy"] {
            served.fails(&[("HTTPS_PROXY", &address), (name, exempt)], &there, &["remote: ", "registry.test"]);
        }
    }
    served.builds(&[("HTTPS_PROXY", &address)], &served.at("127.0.0.1"));
    served.fails(&[("HTTP_PROXY", &address)], &there, &["registry.test"]);
    assert!(asked("exempt").is_empty());

    // Proxies that do not answer, that refuse, or that speak no HTTP. The error names the proxy: the server may be all
    // right.
    let through = |proxy: &str| format!("(through the proxy {proxy})");
    let closed = Scripted::start(|_| Answered::new(407, "").with("Proxy-Authenticate", "Basic realm=\"x\""));
    let refuses = format!("http://me:secret@{}", closed.host());
    served.fails(
        &[("HTTPS_PROXY", &refuses)],
        &there,
        &["remote: https://registry.test:", "407", &through(&closed.host())],
    );
    assert!(closed.asked().iter().all(|asked| asked.method == "CONNECT"));
    served.fails(&[("HTTPS_PROXY", "http://me:secret@127.0.0.1:1")], &there, &["refused", &through("127.0.0.1:1")]);
    served.fails(&[("HTTPS_PROXY", "secret words")], &there, &["HTTPS_PROXY is not the address of a proxy"]);
}

#[test]
fn a_repository_without_tls_is_reached_through_its_own_proxy() {
    let served = Served::new();
    let there = format!("http://registry.test:{}/x.git", served.web.port);
    let proxy = Tunnels::start(served.web.port);
    let address = format!("http://127.0.0.1:{}", proxy.port);
    for name in ["HTTP_PROXY", "http_proxy"] {
        served.builds(&[(name, &address)], &there);
    }
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.method == "CONNECT"), "{asked:?}");
    served.fails(&[("HTTPS_PROXY", &address)], &there, &["remote: http://registry.test:"]);
    served.fails(&[("HTTP_PROXY", &address), ("NO_PROXY", ".test")], &there, &["remote: http://registry.test:"]);
    assert_eq!(proxy.asked().len(), asked.len());
}
