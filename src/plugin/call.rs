//! A call of a plugin and its answer, whichever way it takes.

use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// The greatest size of an answer, in bytes.
pub(super) const LONGEST: usize = 4 << 20;
/// The type of the bodies.
pub(super) const TYPE: &str = "application/vnd.docker.plugins.v1.2+json";

/// `TLSConfig` of a plugin's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Tls {
    #[serde(rename = "InsecureSkipVerify")]
    pub insecure_skip_verify: bool,
    /// The authority that signed the plugin's certificate; absent: those of the host.
    #[serde(rename = "CAFile")]
    pub ca_file: Option<PathBuf>,
    #[serde(rename = "CertFile")]
    pub cert_file: Option<PathBuf>,
    #[serde(rename = "KeyFile")]
    pub key_file: Option<PathBuf>,
}

pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

pub(super) enum Failed {
    /// The connection failed: the request was not sent.
    Connect(std::io::Error),
    Talk(std::io::Error),
    NotHttp,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Connect(error) => write!(f, "connect: {error}"),
            Failed::Talk(error) => error.fmt(f),
            Failed::NotHttp => f.write_str("the answer is not HTTP"),
        }
    }
}
