//! Swarm mode: requests to the program that makes the root a member of a swarm.

use super::Engine;
use crate::error::Result;
use crate::swarm::{SwarmAnswer, SwarmRequest};
use serde_json::Value;

impl Engine {
    /// Sends a request of the swarm's part of the API (`/swarm`, `/nodes`, `/services`, `/tasks`) to the program `coracle-swarm` of
    /// the root, and answers its answer, whatever its status is. The program is started, if it does not run and
    /// [`crate::Options::swarm_program`] names it. `None`: the root is in no swarm, and the request begins or joins none.
    ///
    /// ```no_run
    /// use coracle::SwarmRequest;
    ///
    /// let mut options = coracle::Options::new("/var/lib/coracle");
    /// options.swarm_program = Some("/usr/libexec/coracle/coracle-swarm".into());
    /// let engine = coracle::Engine::open_with(options)?;
    /// let body = br#"{"ListenAddr": "0.0.0.0:2377", "AdvertiseAddr": "eth0"}"#;
    /// let init = SwarmRequest { method: "POST", target: "/v1.24/swarm/init", registry_auth: None, body, enters: true };
    /// if let Some(answer) = engine.swarm_request(&init)? {
    ///     println!("{}: {}", answer.status, std::io::read_to_string(answer.body).unwrap_or_default());
    /// }
    /// # Ok::<(), coracle::Error>(())
    /// ```
    ///
    /// Errors: the program is needed and not named, or cannot be executed (`Unsupported` for a request that enters a swarm,
    /// `Unavailable` for others); it ends or does not answer (`Unavailable`, `Timeout`).
    pub fn swarm_request(&self, request: &SwarmRequest<'_>) -> Result<Option<SwarmAnswer>> {
        self.0.swarm.send(request)
    }

    /// The membership of a swarm: the member `Swarm` of [`Engine::info`]. `None`: the root is in no swarm.
    #[must_use]
    pub fn swarm_info(&self) -> Option<Value> {
        self.0.swarm.info()
    }
}
