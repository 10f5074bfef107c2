//! `login` and `logout`: credentials of registries in docker's configuration file, or with a credential helper.

use crate::args::{Flag, Parsed};
use crate::{Entry, Failure, Globals, Outcome, emit, registry, terminal};
use coracle::model::{DockerConfig, RegistryAuth, to_base64};
use serde_json::{Map, Value, json};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const ENTRIES: &[Entry] = &[
    Entry::new(
        "login",
        "[FLAGS] [REGISTRY]",
        "Check credentials of a registry (default docker.io), and keep them for pull and push",
        &[
            Flag::value(&["username", "u"], "NAME", "the user; else the command asks"),
            Flag::value(&["password", "p"], "TEXT", "the password; other users of the machine can see it meanwhile"),
            Flag::switch(&["password-stdin"], "the password is standard input"),
        ],
        login,
    ),
    Entry::new("logout", "[REGISTRY]", "Forget the credentials of a registry (default docker.io)", &[], logout),
];

/// The key that docker keeps the default registry's credentials under.
const DEFAULT_KEY: &str = "https://index.docker.io/v1/";
/// The user name for helpers if the secret is an identity token.
const TOKEN_USER: &str = "<token>";

fn login(globals: &Globals, parsed: &Parsed) -> Outcome {
    let server = server(parsed)?;
    let username = match parsed.last("username") {
        Some(name) => name.to_owned(),
        None if parsed.has("password-stdin") => return Err(Failure::Usage("--password-stdin needs --username".into())),
        None => asked("Username: ", false)?,
    };
    let password = match (parsed.last("password"), parsed.has("password-stdin")) {
        (Some(_), true) => return Err(Failure::Usage("--password and --password-stdin cannot stand together".into())),
        (Some(password), false) => password.to_owned(),
        (None, true) => read_password()?,
        (None, false) => asked("Password: ", true)?,
    };
    if username.is_empty() || password.is_empty() {
        return Err(Failure::Usage("a user and a password are needed".into()));
    }
    let mut auth = RegistryAuth { username, password, serveraddress: server.clone(), ..RegistryAuth::default() };
    let status = globals.engine()?.registry_auth(&auth, None)?;
    auth.identitytoken = status.identity_token;
    let kept = Config::open()?.keep(&server, &auth)?;
    emit(&format!("{}\nThe credentials are kept {kept}.\n", status.status)).map(|()| 0)
}

fn logout(_: &Globals, parsed: &Parsed) -> Outcome {
    let server = server(parsed)?;
    let text = match Config::open()?.forget(&server)? {
        true => format!("Removed the credentials of {server}\n"),
        false => format!("Not logged in to {server}\n"),
    };
    emit(&text).map(|()| 0)
}

/// The key of the registry that the command line names.
fn server(parsed: &Parsed) -> Result<String, Failure> {
    match parsed.rest.as_slice() {
        [] => Ok(DEFAULT_KEY.into()),
        [one] => {
            let host =
                one.split_once("://").map_or(one.as_str(), |(_, rest)| rest).split('/').next().unwrap_or_default();
            match host {
                "" => Err(Failure::Usage(format!("{one:?} names no registry"))),
                "docker.io" | "index.docker.io" | "registry-1.docker.io" => Ok(DEFAULT_KEY.into()),
                host => Ok(host.to_owned()),
            }
        }
        _ => Err(Failure::Usage("at most one registry".into())),
    }
}

/// A line from the terminal, which does not show it if it is a secret.
fn asked(prompt: &str, is_secret: bool) -> Result<String, Failure> {
    if !terminal::stdin_is_one() {
        return Err(Failure::Usage("standard input is not a terminal: use --username and --password-stdin".into()));
    }
    emit(prompt)?;
    let quiet = is_secret.then(terminal::Quiet::enter).flatten();
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    if quiet.is_some() {
        emit("\n")?;
    }
    read.map_err(|e| Failure::Here(format!("standard input: {e}")))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_password() -> Result<String, Failure> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(64 << 10);
    input.read_to_string(&mut text).map_err(|e| Failure::Here(format!("standard input: {e}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Docker's configuration file, with all that it holds.
struct Config {
    path: PathBuf,
    document: Map<String, Value>,
}

impl Config {
    fn open() -> Result<Config, Failure> {
        let path = DockerConfig::default_path()
            .ok_or_else(|| Failure::Here("neither HOME nor DOCKER_CONFIG says where credentials are kept".into()))?;
        // A link to the file stays a link.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(broken(&path, &error)),
        };
        let document = match text.trim() {
            "" => Map::new(),
            text => serde_json::from_str(text).map_err(|_| Failure::Here(format!("{}: not JSON", path.display())))?,
        };
        Ok(Config { path, document })
    }

    /// The helper that keeps the credentials of a registry.
    fn helper(&self, server: &str) -> Option<String> {
        let own = self.document.get("credHelpers").and_then(|helpers| helpers.get(server));
        let name = own.or_else(|| self.document.get("credsStore"))?.as_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Stores credentials; returns the place.
    fn keep(&mut self, server: &str, auth: &RegistryAuth) -> Result<String, Failure> {
        if let Some(name) = self.helper(server) {
            let (user, secret) = match auth.identitytoken.as_str() {
                "" => (auth.username.as_str(), &auth.password),
                token => (TOKEN_USER, &token.to_owned()),
            };
            let request = json!({ "ServerURL": server, "Username": user, "Secret": secret });
            registry::run_helper(&name, "store", &request.to_string())?;
            return Ok(format!("by docker-credential-{name}"));
        }
        let mut entry = json!({ "auth": to_base64(format!("{}:{}", auth.username, auth.password).as_bytes()) });
        if !auth.identitytoken.is_empty() {
            // Like docker: the token replaces the password.
            entry = json!({
                "auth": to_base64(format!("{}:", auth.username).as_bytes()),
                "identitytoken": auth.identitytoken,
            });
        }
        self.auths()?.insert(server.to_owned(), entry);
        self.write()?;
        Ok(format!("in {}, readable for its owner, not encrypted", self.path.display()))
    }

    /// Forgets the credentials of a registry; whether there were some.
    fn forget(&mut self, server: &str) -> Result<bool, Failure> {
        let in_file = self.auths()?.remove(server).is_some();
        if in_file {
            self.write()?;
        }
        let Some(name) = self.helper(server) else { return Ok(in_file) };
        let known = registry::run_helper(&name, "get", server).is_ok();
        if known {
            registry::run_helper(&name, "erase", server)?;
        }
        Ok(in_file || known)
    }

    fn auths(&mut self) -> Result<&mut Map<String, Value>, Failure> {
        let auths = self.document.entry("auths").or_insert_with(|| json!({}));
        let wrong = || Failure::Here(format!("{}: \"auths\" is not an object", self.path.display()));
        auths.as_object_mut().ok_or_else(wrong)
    }

    /// Writes the file anew: whole or not at all, and readable for its owner alone.
    fn write(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| broken(&self.path, &error);
        let dir = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).map_err(failed)?;
        let text = format!("{:#}\n", Value::Object(self.document.clone()));
        let new = dir.join(format!(".config.json.{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&new);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.and_then(|()| std::fs::rename(&new, &self.path)).map_err(|error| {
            let _ = std::fs::remove_file(&new);
            failed(error)
        })
    }
}

fn broken(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Here(format!("{}: {error}", path.display()))
}
