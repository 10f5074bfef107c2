//! `StorageOpt`: how much a container may write to its root file system.

use crate::error::{Error, Result};
use crate::model::HostConfig;

/// The requested limit in bytes, if any. Errors: an unknown option, a value that is not a size.
pub(crate) fn storage_size(host: &HostConfig) -> Result<Option<u64>> {
    let mut size = None;
    for (key, value) in &host.storage_opt {
        match key.to_ascii_lowercase().as_str() {
            "size" => {
                size = Some(
                    bytes(value)
                        .ok_or_else(|| Error::internal_as_dockerd("container", format!("invalid size: '{value}'")))?,
                )
            }
            _ => return Err(Error::internal_as_dockerd("container", format!("Unknown option {key}"))),
        }
    }
    Ok(size)
}

/// `10g`, `1.5 GiB`, `100`: multiples of 1024.
fn bytes(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let unit = lower[digits..].trim_start();
    let letter = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(unit);
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let number: f64 = lower[..digits].parse().ok()?;
    let bytes = number * 1024f64.powi(power);
    (bytes >= 1.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in [("10G", 10u64 << 30), ("1.5k", 1536), ("100", 100), ("2 MiB", 2 << 20), ("1tb", 1 << 40)] {
            assert_eq!(bytes(text), Some(size), "{text}");
        }
        for bad in ["", "x", "0", "-1", "1x", "g", "1gg"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
