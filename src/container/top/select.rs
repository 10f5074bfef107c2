//! The processes that the options of ps select.

use super::failed;
use super::process::{Host, Process};
use crate::error::Result;

/// The type of the items of an option's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Pids,
    Parents,
    Names,
    Users,
    RealUsers,
    Groups,
    RealGroups,
    Sessions,
}

impl Group {
    pub(super) fn what(self) -> &'static str {
        match self {
            Group::Pids | Group::Parents => "list of process IDs",
            Group::Names => "list of command names",
            Group::Users => "list of users",
            Group::RealUsers => "list of real users",
            Group::Groups => "list of effective groups",
            Group::RealGroups => "list of real groups",
            Group::Sessions => "some sort of list",
        }
    }
}

/// Selects the processes that one of the lists names; without lists, every process.
#[derive(Clone, Debug, Default)]
pub(super) struct Select {
    lists: Vec<(Group, Vec<Wanted>)>,
    /// An option that selects all, whatever the lists say.
    pub(super) all: bool,
    /// The selection is inverted.
    pub(super) negated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Id(u32),
    Name(String),
}

impl Select {
    /// Takes the list of an option. Errors: a malformed item; unknown users and groups are found later.
    pub(super) fn add(&mut self, group: Group, list: &str) -> Result<()> {
        let item = |item: &str| {
            let id = item.parse::<u32>().ok();
            match group {
                _ if item.is_empty() => Err(failed("ps: error: improper list")),
                Group::Names => Ok(Wanted::Name(item.chars().take(COMM).collect())),
                Group::Pids | Group::Parents | Group::Sessions => {
                    let bad = || failed("ps: error: process ID list syntax error");
                    id.filter(|id| *id <= i32::MAX as u32).map(Wanted::Id).ok_or_else(bad)
                }
                _ => Ok(id.map_or_else(|| Wanted::Name(item.to_owned()), Wanted::Id)),
            }
        };
        let items = list.split(',').map(item).collect::<Result<_>>()?;
        self.lists.push((group, items));
        Ok(())
    }

    /// Looks up the names of users and groups. Errors: an unknown name.
    pub(super) fn resolve(&mut self, host: &Host) -> Result<()> {
        for (group, items) in &mut self.lists {
            for item in items {
                let Wanted::Name(name) = item else { continue };
                let (id, what) = match group {
                    Group::Users | Group::RealUsers => (host.user_id(name), "user"),
                    Group::Groups | Group::RealGroups => (host.group_id(name), "group"),
                    _ => continue,
                };
                let id = id.ok_or_else(|| failed(format!("ps: error: {what} name does not exist")))?;
                *item = Wanted::Id(id);
            }
        }
        Ok(())
    }

    /// Whether the selection could leave processes out.
    pub(super) fn chooses(&self) -> bool {
        self.negated || (!self.all && !self.lists.is_empty())
    }

    pub(super) fn takes(&self, process: &Process) -> bool {
        let named = |(group, items): &(Group, Vec<Wanted>)| {
            let id = |id: u32| items.contains(&Wanted::Id(id));
            match group {
                Group::Pids => id(process.pid as u32),
                Group::Parents => id(process.ppid as u32),
                Group::Names => items.contains(&Wanted::Name(process.comm.chars().take(COMM).collect())),
                Group::Users => id(process.uids[1]),
                Group::RealUsers => id(process.uids[0]),
                Group::Groups => id(process.gids[1]),
                Group::RealGroups => id(process.gids[0]),
                Group::Sessions => id(process.session as u32),
            }
        };
        let chosen = self.all || self.lists.is_empty() || self.lists.iter().any(named);
        chosen != self.negated
    }
}

/// The length of a program's name that the kernel keeps.
const COMM: usize = 15;
