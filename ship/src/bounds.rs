//! The bounds of the logs of removed containers. They stand in a file beside the deliveries, so that they hold for every
//! program that delivers, also for one that runs already.

use crate::outbox;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

const FILE: &str = "bounds";

/// How much is kept of the logs of removed containers whose lines are not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of their files.
    pub bytes: u64,
    /// The time since the container's removal.
    pub age: Duration,
}

impl Default for Bounds {
    /// 256 MiB, 7 days.
    fn default() -> Bounds {
        Bounds { bytes: 256 << 20, age: Duration::from_secs(7 * 24 * 3600) }
    }
}

impl Bounds {
    /// The bounds of a root. A file that is missing or damaged means the default.
    pub fn read(root: &Path) -> Bounds {
        let text = std::fs::read_to_string(outbox::directory(root).join(FILE)).unwrap_or_default();
        Bounds::parse(&text).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Bounds> {
        let (bytes, seconds) = text.trim().split_once(' ')?;
        Some(Bounds { bytes: bytes.parse().ok()?, age: Duration::from_secs(seconds.parse().ok()?) })
    }

    /// Writes the bounds of a root: a time in whole seconds, of which a begun one counts. A deliverer that waits sees the new file at once.
    pub fn write(mut self, root: &Path) -> io::Result<()> {
        self.age = Duration::from_secs(self.age.as_secs().saturating_add(u64::from(self.age.subsec_nanos() != 0)));
        if Bounds::read(root) == self {
            return Ok(());
        }
        let dir = outbox::directory(root);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        // Other programs may open the root now, too: the last one's bounds hold.
        let turn = File::open(&dir)?;
        turn.lock()?;
        let part = dir.join("bounds.new");
        let mut how = OpenOptions::new();
        let mut file = how.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(format!("{} {}\n", self.bytes, self.age.as_secs()).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(part, dir.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_they_were_written() {
        let root = std::env::temp_dir().join(format!("coracle-bounds-{}", std::process::id()));
        assert_eq!(Bounds::read(&root), Bounds::default());
        let own = Bounds { bytes: 5, age: Duration::from_secs(60) };
        own.write(&root).unwrap();
        assert_eq!(Bounds::read(&root), own);
        Bounds { bytes: 5, age: Duration::from_millis(1500) }.write(&root).unwrap();
        assert_eq!(Bounds::read(&root).age, Duration::from_secs(2));
        Bounds { bytes: 5, age: Duration::from_millis(1) }.write(&root).unwrap();
        assert_eq!(Bounds::read(&root).age, Duration::from_secs(1), "nothing would be kept otherwise");
        for damaged in ["", "5", "5 x", "-1 5"] {
            std::fs::write(outbox::directory(&root).join(FILE), damaged).unwrap();
            assert_eq!(Bounds::read(&root), Bounds::default(), "{damaged:?}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
