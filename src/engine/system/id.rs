//! The engine's id: made once, kept in its root.

use crate::error::{Error, Result};
use crate::hex::random_bytes;
use crate::kernel::file;
use std::path::Path;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Groups of four characters.
const GROUPS: usize = 12;

/// The id of the engine on `root`: twelve groups of four base32 characters.
pub(super) fn of(root: &Path) -> Result<String> {
    let path = root.join(crate::store::identity::SHOWN_ID);
    match read(&path)? {
        Some(id) => Ok(id),
        None => {
            file::make_once(&path, random()?.as_bytes(), true)?;
            let lost = || Error::corrupt(format!("{}: removed while it was read", path.display()));
            read(&path)?.ok_or_else(lost)
        }
    }
}

fn read(path: &Path) -> Result<Option<String>> {
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| Error::io(format_args!("read {}", path.display()), &e))?,
    };
    if !is_id(&text) {
        return Err(Error::corrupt(format!("{}: not an engine id; remove it to get a new one", path.display())));
    }
    Ok(Some(text))
}

fn is_id(text: &str) -> bool {
    let groups: Vec<&str> = text.split(':').collect();
    groups.len() == GROUPS && groups.iter().all(|g| g.len() == 4 && g.bytes().all(|byte| ALPHABET.contains(&byte)))
}

fn random() -> Result<String> {
    let bytes = random_bytes::<{ GROUPS * 4 }>()?;
    let groups = bytes.chunks(4).map(|group| {
        let characters = group.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
        characters.collect::<String>()
    });
    Ok(groups.collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_form() {
        let id = random().unwrap();
        assert_eq!(id.len(), 59);
        assert!(is_id(&id));
        assert_ne!(id, random().unwrap());
        for text in ["", "AAAA", &id[1..], &id.to_lowercase(), &format!("{id}\n")] {
            assert!(!is_id(text), "{text}");
        }
    }
}
