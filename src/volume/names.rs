//! The names of volumes and of their driver.

use crate::error::{Error, Result};
use crate::hex::random_id;

/// Checks a volume's name as the local driver has it. Errors name no volume: the caller says which.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.len() < 2 {
        let text = "volume name is too short, names should be at least two alphanumeric characters";
        return Err(Error::invalid(text));
    }
    let mut bytes = name.bytes();
    let good = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    if !good {
        return Err(Error::invalid(format!(
            "{name:?} includes invalid characters for a local volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are \
             allowed. If you intended to pass a host directory, use absolute path"
        )));
    }
    if name.len() > 255 {
        return Err(Error::invalid("volume name is too long, at most 255 characters are taken"));
    }
    Ok(())
}

/// A name for a volume that nobody named: 64 hex digits.
pub(crate) fn new_name() -> Result<String> {
    random_id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["ab", "A1", "a_.-", &"x".repeat(255)] {
            check_name(good).unwrap();
        }
        for bad in ["", "a", ".a", "-a", "a b", "a/b", "..", "é1", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert_eq!(new_name().unwrap().len(), 64);
    }
}
