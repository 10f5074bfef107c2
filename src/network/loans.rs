//! Addresses that plugins gave and no row has yet. Each program that asks notes them in a file of its own at once, which is
//! locked as long as the program lives; of one that was killed before its rows were written, the next open gives it back.

use super::Networks;
use super::endpoint::read;
use super::spec::Network;
use crate::error::{Error, Result};
use crate::kernel::file::{lock_byte, try_lock_byte};
use crate::store::networks as table;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// Below the run directory.
const LOANS: &str = "net/loans";

/// A pool, or an address of it.
#[derive(Serialize, Deserialize)]
struct Given {
    plugin: String,
    pool: String,
    /// Empty: the pool itself.
    address: String,
}

/// The addresses that were given for one operation; forgotten when it goes, for they are written down or given back then.
pub(super) struct Loan {
    dir: PathBuf,
    file: Option<(File, PathBuf)>,
}

impl Loan {
    /// Notes what a plugin gave.
    pub(super) fn note(&mut self, plugin: &str, pool: &str, address: &str) -> Result<()> {
        let given = Given { plugin: plugin.into(), pool: pool.into(), address: address.into() };
        let mut line = serde_json::to_vec(&given).map_err(|e| Error::internal(format!("write a loan: {e}")))?;
        line.push(b'\n');
        if self.file.is_none() {
            self.file = Some(self.open()?);
        }
        let failed = |e: &std::io::Error| Error::io("note what a plugin gave", e);
        self.file.as_mut().map_or(Ok(()), |(file, _)| file.write_all(&line)).map_err(|e| failed(&e))
    }

    /// It has its name once it is locked: whoever finds it unlocked finds its writer dead.
    fn open(&self) -> Result<(File, PathBuf)> {
        let failed = |e: &std::io::Error| Error::io(format_args!("write {}", self.dir.display()), e);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(|e| failed(&e))?;
        let name = crate::hex::random_id()?;
        let (staged, path) = (self.dir.join(format!(".{name}")), self.dir.join(&name));
        let file = File::options().append(true).create_new(true).mode(0o600).open(&staged).map_err(|e| failed(&e))?;
        lock_byte(&file, 0, staged.display())?;
        std::fs::rename(&staged, &path).map_err(|e| failed(&e))?;
        Ok((file, path))
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Networks {
    pub(super) fn loan(&self) -> Loan {
        Loan { dir: self.run.join(LOANS), file: None }
    }

    /// Gives back what was given to programs that were killed. Where the plugin is not there, that is for another time.
    pub(super) fn settle_loans(&self) -> Result<()> {
        let Ok(entries) = std::fs::read_dir(self.run.join(LOANS)) else { return Ok(()) };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let opened = File::options().read(true).write(true).open(&path);
            let Some(file) = opened.ok().filter(|_| !name.starts_with('.')) else { continue };
            if !try_lock_byte(&file, 0)? {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let given: Vec<Given> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            if self.give_back_loan(&given)? {
                let _ = std::fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Whether it is done.
    fn give_back_loan(&self, given: &[Given]) -> Result<bool> {
        let networks = self.register.all()?;
        let mut leases = Vec::new();
        for row in self.register.db.read(table::all_endpoints)? {
            leases.extend(read(&row)?.leases);
        }
        for one in given.iter().rev() {
            let written =
                |network: &&Network| network.spec.ipam.driver == one.plugin && network.spec.pools.contains(&one.pool);
            let network = networks.iter().find(written);
            let bare = one.address.split('/').next().unwrap_or_default();
            let of_network = network.is_some_and(|network| {
                let mut pools = network.spec.ipam.config.iter();
                pools.any(|pool| pool.gateway == bare || pool.auxiliary_addresses.values().any(|ip| ip == bare))
            });
            let leased = leases.iter().any(|lease| lease.pool == one.pool && lease.address == one.address);
            if if bare.is_empty() { network.is_some() } else { of_network || leased } {
                continue;
            }
            let Ok(ipam) = self.plugins.hurried().find(&one.plugin, "IpamDriver") else { return Ok(false) };
            // Best effort, as every giving back.
            let _ = match bare {
                "" => ipam.call::<Value>("IpamDriver.ReleasePool", &json!({ "PoolID": one.pool })),
                _ => ipam.call::<Value>("IpamDriver.ReleaseAddress", &json!({ "PoolID": one.pool, "Address": bare })),
            };
        }
        Ok(true)
    }
}
