//! A network's driver: one value from the request and the stored document on, in place of its name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A driver, in requests and documents by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) enum Driver {
    /// A bridge that the engine makes.
    #[default]
    Bridge,
    Macvlan,
    Ipvlan,
    /// The host's network namespace.
    Host,
    /// No network but the loopback interface.
    Null,
    /// A plugin of that name.
    Plugin(String),
}

impl Driver {
    /// The driver's name in the API.
    pub(crate) fn name(&self) -> &str {
        match self {
            Driver::Bridge => "bridge",
            Driver::Macvlan => "macvlan",
            Driver::Ipvlan => "ipvlan",
            Driver::Host => "host",
            Driver::Null => "null",
            Driver::Plugin(name) => name,
        }
    }
}

impl From<String> for Driver {
    fn from(name: String) -> Driver {
        match name.as_str() {
            "bridge" => Driver::Bridge,
            "macvlan" => Driver::Macvlan,
            "ipvlan" => Driver::Ipvlan,
            "host" => Driver::Host,
            "null" => Driver::Null,
            _ => Driver::Plugin(name),
        }
    }
}

impl From<Driver> for String {
    fn from(driver: Driver) -> String {
        driver.name().to_owned()
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_written_back() {
        for name in ["bridge", "macvlan", "ipvlan", "host", "null", "weave", ""] {
            let driver = Driver::from(name.to_owned());
            assert_eq!(matches!(driver, Driver::Plugin(_)), matches!(name, "weave" | ""), "{name}");
            assert_eq!(serde_json::to_value(&driver).unwrap(), name);
            assert_eq!(serde_json::from_value::<Driver>(name.into()).unwrap(), driver);
        }
    }
}
