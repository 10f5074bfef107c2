//! Swarm mode: the program `coracle-swarm` answers the swarm's part of the API at a socket in the run directory. Here is the way to
//! it, and its start. Nothing of a swarm is in this library.

mod config;
mod door;
mod program;

pub use door::{SwarmAnswer, SwarmRequest};

use crate::error::{Error, ErrorKind, Result};
use crate::notes::{LogLevel, note};
use crate::options::Options;
use program::Program;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The greatest size of the description of a membership, in bytes.
const LONGEST_MEMBER: u64 = 4 << 20;

/// The way from a root to its program.
pub(crate) struct Swarm {
    /// The file that a member of a swarm has: `swarm/member.json` of the root.
    member: PathBuf,
    /// The socket of the program.
    socket: PathBuf,
    program: Program,
}

impl Swarm {
    /// The way from a root with its run directory. Starts the program of a root that is in a swarm, if the options allow that, and
    /// it does not run. Errors of the start are noted: each later request tries again.
    pub(crate) fn resumed((root, run): (&Path, &Path), options: &Options) -> Swarm {
        let run = run.join("swarm");
        let swarm = Swarm {
            member: root.join("swarm/member.json"),
            socket: run.join("api.sock"),
            program: Program::new(root, run, options),
        };
        swarm.resume();
        swarm
    }

    /// Whether the root is in a swarm, or joins one.
    pub(crate) fn is_member(&self) -> bool {
        self.member.exists()
    }

    fn resume(&self) {
        if !self.is_member() || !self.program.is_named() || door::connect(&self.socket).is_ok() {
            return;
        }
        if let Err(error) = self.program.start() {
            note(LogLevel::Error, "swarm", None, || error.to_string());
        }
    }

    /// Sends a request to the program. `None`: the root is in no swarm, and the request begins or joins none.
    ///
    /// Errors: the program does not run and may not be started (`Unavailable`; `Unsupported` for a request that begins or joins a
    /// swarm), or it ends, or it does not answer.
    pub(crate) fn send(&self, request: &SwarmRequest<'_>) -> Result<Option<SwarmAnswer>> {
        let connected = match door::connect(&self.socket) {
            Ok(connected) => connected,
            Err(_) if !request.enters && !self.is_member() => return Ok(None),
            Err(_) => self.program.reach(request.enters, || door::connect(&self.socket))?,
        };
        door::send(connected, request).map(Some)
    }

    /// The member `Swarm` of `info`. `None`: the root is in no swarm.
    pub(crate) fn info(&self) -> Option<Value> {
        if !self.is_member() {
            return None;
        }
        Some(self.described().unwrap_or_else(|error| {
            json!({
                "NodeID": "",
                "NodeAddr": "",
                "LocalNodeState": "error",
                "ControlAvailable": false,
                "Error": error.message(),
                "RemoteManagers": null,
            })
        }))
    }

    fn described(&self) -> Result<Value> {
        let request =
            SwarmRequest { method: "GET", target: "/v1.24/member", registry_auth: None, body: &[], enters: false };
        let missing = || Error::new(ErrorKind::Unavailable, "the root has left its swarm");
        let answer = self.send(&request)?.ok_or_else(missing)?;
        let mut bytes = Vec::new();
        let read = answer.body.take(LONGEST_MEMBER).read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read the answer of coracle-swarm", &error))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::internal(format!("the answer of coracle-swarm: {error}")))
    }
}
