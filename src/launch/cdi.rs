//! Devices by their names in specifications of the Container Device Interface (CDI): files of the host's administrator that
//! say which nodes, mounts, variables and groups a container gets with a device.

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::file::read_bounded;
use crate::kernel::path::clean;
use crate::launch::yaml;
use crate::model::DeviceRequest;
use crate::order::Order as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The name of the driver in a request.
const DRIVER: &str = "cdi";
/// The largest specification that is read, and how many of a directory.
const MAX_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 1000;

/// A container's part of the devices that it was given.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edits {
    pub nodes: Vec<Node>,
    pub mounts: Vec<Mount>,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    pub groups: Vec<u32>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub on_host: String,
    pub in_container: String,
    /// Letters of a device cgroup; empty: all.
    pub permissions: String,
    /// Permission bits, user and group in place of those of the host's node.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

/// A file or a directory of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub source: String,
    pub target: String,
    /// `MOUNT_ATTR_*`.
    pub attributes: u64,
    pub recursive: bool,
}

/// Checks requests for devices: those of CDI name their devices, and there are no other drivers here.
pub(crate) fn check(requests: &[DeviceRequest]) -> Result<()> {
    for request in requests {
        if request.driver != DRIVER {
            let sets = request.capabilities.iter().map(|set| format!("[{}]", set.join(" "))).collect::<Vec<_>>();
            return Err(Error::unsupported(format!(
                "could not select device driver {:?} with capabilities: [{}] (HostConfig.DeviceRequests: the only driver \
                 here is {DRIVER})",
                request.driver,
                sets.join(" ")
            )));
        }
        let others = [
            ("Count", request.count != 0),
            ("Capabilities", !request.capabilities.is_empty()),
            ("Options", !request.options.is_empty()),
        ];
        if let Some((field, _)) = others.iter().find(|(_, said)| *said) {
            return Err(Error::unsupported(format!(
                "HostConfig.DeviceRequests.{field}: CDI devices are named in DeviceIDs"
            )));
        }
        if request.device_ids.is_empty() {
            return Err(Error::invalid("HostConfig.DeviceRequests: a request for CDI devices has no DeviceIDs"));
        }
        request.device_ids.iter().try_for_each(|id| Name::parse(id).map(drop))?;
    }
    Ok(())
}

/// The edits of the requested devices, as the specifications in `dirs` are now; a later directory counts before an earlier.
///
/// Errors: a device that no specification has, or two files of one directory have; an edit that the engine cannot make.
pub(crate) fn resolve(requests: &[DeviceRequest], dirs: &[PathBuf]) -> Result<Edits> {
    let mut edits = Edits::default();
    if requests.is_empty() {
        return Ok(edits);
    }
    check(requests)?;
    let mut found = Specifications::read(dirs)?;
    let mut used: Vec<usize> = Vec::new();
    for id in requests.iter().flat_map(|request| &request.device_ids) {
        let (spec, device) = found.device(id)?;
        if !used.contains(&spec) {
            used.push(spec);
            found.specs[spec].edits.add_to(&mut edits, &found.specs[spec].kind)?;
        }
        found.specs[spec].devices[device].edits.add_to(&mut edits, id)?;
    }
    Ok(edits)
}

/// The devices that the specifications in `dirs` have, sorted, and the reasons for which specifications cannot be read.
pub(crate) fn devices(dirs: &[PathBuf]) -> (BTreeSet<String>, Vec<String>) {
    match Specifications::read(dirs) {
        Ok(found) => {
            let of =
                |spec: &Spec| spec.devices.iter().map(|one| format!("{}={}", spec.kind, one.name)).collect::<Vec<_>>();
            (found.specs.iter().flat_map(of).collect(), found.failed)
        }
        Err(error) => (BTreeSet::new(), vec![error.message().to_owned()]),
    }
}

/// `vendor.com/class=name`.
struct Name<'a> {
    kind: &'a str,
    name: &'a str,
}

impl Name<'_> {
    fn parse(text: &str) -> Result<Name<'_>> {
        let word = |text: &str, others: &[char]| {
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') || others.contains(&c);
            ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(inner)
        };
        let parts = text.split_once('=').and_then(|(kind, name)| Some((kind, kind.split_once('/')?, name)));
        match parts {
            Some((kind, (vendor, class), name)) if word(vendor, &[]) && word(class, &[]) && word(name, &[':']) => {
                Ok(Name { kind, name })
            }
            _ => {
                Err(Error::invalid(format!("invalid CDI device name {text:?}: it has the form vendor.com/class=name")))
            }
        }
    }
}

/// The specifications of the host.
struct Specifications {
    specs: Vec<Spec>,
    /// For each specification the number of its directory; a higher one counts first.
    ranks: Vec<usize>,
    /// Files that could not be read, with the reason: an error only for a device that is not found elsewhere.
    failed: Vec<String>,
}

impl Specifications {
    fn read(dirs: &[PathBuf]) -> Result<Specifications> {
        let mut found = Specifications { specs: Vec::new(), ranks: Vec::new(), failed: Vec::new() };
        for (rank, dir) in dirs.iter().enumerate() {
            let entries = match std::fs::read_dir(dir) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                entries => entries.map_err(|e| Error::io(format_args!("list {}", dir.display()), &e))?,
            };
            let mut files: Vec<PathBuf> = entries.flatten().take(MAX_FILES).map(|entry| entry.path()).collect();
            files.order();
            files.iter().for_each(|file| found.take(rank, file));
        }
        Ok(found)
    }

    fn take(&mut self, rank: usize, file: &Path) {
        // The names that the format knows.
        let format = match file.extension().and_then(|end| end.to_str()) {
            Some("json") => Format::Json,
            Some("yaml") => Format::Yaml,
            _ => return,
        };
        match read(file, format) {
            Ok(spec) => {
                self.specs.push(spec);
                self.ranks.push(rank);
            }
            Err(error) => self.failed.push(error.message().to_owned()),
        }
    }

    /// The specification and the place in it of a device.
    fn device(&mut self, id: &str) -> Result<(usize, usize)> {
        let name = Name::parse(id)?;
        let mut best: Option<(usize, usize, usize)> = None;
        for (at, spec) in self.specs.iter().enumerate().filter(|(_, spec)| spec.kind == name.kind) {
            let Some(device) = spec.devices.iter().position(|device| device.name == name.name) else { continue };
            match best {
                Some((rank, ..)) if rank == self.ranks[at] => {
                    return Err(unresolvable(id, "two specifications of one directory have it"));
                }
                Some((rank, ..)) if rank > self.ranks[at] => {}
                _ => best = Some((self.ranks[at], at, device)),
            }
        }
        let reasons = self.failed.join("; ");
        best.map(|(_, spec, device)| (spec, device)).ok_or_else(|| unresolvable(id, &reasons))
    }
}

fn unresolvable(id: &str, why: &str) -> Error {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    Error::new(ErrorKind::Internal, format!("CDI device injection failed: unresolvable CDI devices {id}{why}"))
}

/// A specification, as far as the engine knows the format.
#[derive(Deserialize)]
struct Spec {
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default, rename = "containerEdits")]
    edits: ContainerEdits,
}

#[derive(Deserialize)]
struct Device {
    name: String,
    #[serde(default, rename = "containerEdits")]
    edits: ContainerEdits,
}

/// The edits of a device, or of all devices of a specification.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerEdits {
    env: Vec<String>,
    device_nodes: Vec<NodeEdit>,
    mounts: Vec<MountEdit>,
    additional_gids: Vec<u32>,
    /// Hooks, and edits of later versions of the format: the engine makes none of them.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeEdit {
    path: String,
    #[serde(default)]
    host_path: String,
    #[serde(default)]
    permissions: String,
    file_mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MountEdit {
    host_path: String,
    container_path: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default, rename = "type")]
    kind: String,
}

/// How a specification is written.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Yaml,
}

fn read(file: &Path, format: Format) -> Result<Spec> {
    let text = read_bounded(file, MAX_BYTES)?;
    let text = text.ok_or_else(|| Error::not_found(format!("{} is gone", file.display())))?;
    let invalid = |error: &dyn std::fmt::Display| Error::invalid(format!("{}: {error}", file.display()));
    match format {
        Format::Json => crate::document::read(&text).map_err(|error| invalid(&error)),
        Format::Yaml => {
            let text = std::str::from_utf8(&text).map_err(|error| invalid(&error))?;
            let document = yaml::read(text).map_err(|error| invalid(&error))?;
            serde_json::from_value(document).map_err(|error| invalid(&error))
        }
    }
}

impl ContainerEdits {
    /// `id`: the device that has these edits, for errors.
    fn add_to(&self, edits: &mut Edits, id: &str) -> Result<()> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if let Some((name, _)) = self.others.iter().find(|(_, value)| !is_empty(value)) {
            return Err(Error::unsupported(format!("CDI device {id}: {name} of its specification are not supported")));
        }
        if let Some(bad) =
            self.env.iter().find(|entry| entry.starts_with('=') || !entry.contains('=') || entry.contains('\0'))
        {
            return Err(Error::invalid(format!("CDI device {id}: invalid environment variable {bad:?}")));
        }
        edits.env.extend(self.env.iter().cloned());
        edits.groups.extend(&self.additional_gids);
        for node in &self.device_nodes {
            edits.nodes.push(node.node(id)?);
        }
        for mount in &self.mounts {
            edits.mounts.push(mount.mount(id)?);
        }
        Ok(())
    }
}

impl NodeEdit {
    fn node(&self, id: &str) -> Result<Node> {
        check_path(id, &self.path)?;
        check_path(id, &self.host_path)?;
        Ok(Node {
            on_host: if self.host_path.is_empty() { self.path.clone() } else { self.host_path.clone() },
            in_container: self.path.clone(),
            permissions: self.permissions.clone(),
            mode: self.file_mode.map(|mode| mode & 0o7777),
            uid: self.uid,
            gid: self.gid,
        })
    }
}

/// No path of a device has NUL bytes or other control characters.
fn check_path(id: &str, path: &str) -> Result<()> {
    match path.contains(char::is_control) {
        true => Err(Error::invalid(format!("CDI device {id}: the path {path:?} has control characters"))),
        false => Ok(()),
    }
}

impl MountEdit {
    fn mount(&self, id: &str) -> Result<Mount> {
        let refused = |what: &str| Error::unsupported(format!("CDI device {id}: a mount with {what} is not supported"));
        if !matches!(self.kind.as_str(), "" | "bind") {
            return Err(refused(&format!("the type {:?}", self.kind)));
        }
        check_path(id, &self.host_path)?;
        check_path(id, &self.container_path)?;
        if !self.host_path.starts_with('/')
            || !self.container_path.starts_with('/')
            || clean(&self.container_path) == "/"
        {
            return Err(refused("a path that is not absolute, or on the root"));
        }
        let mut mount = Mount {
            source: clean(&self.host_path),
            target: clean(&self.container_path),
            attributes: 0,
            recursive: false,
        };
        for option in &self.options {
            match option.as_str() {
                "ro" => mount.attributes |= libc::MOUNT_ATTR_RDONLY,
                "nosuid" => mount.attributes |= libc::MOUNT_ATTR_NOSUID,
                "nodev" => mount.attributes |= libc::MOUNT_ATTR_NODEV,
                "noexec" => mount.attributes |= libc::MOUNT_ATTR_NOEXEC,
                "rbind" => mount.recursive = true,
                "rw" | "bind" | "private" | "rprivate" => {}
                other => return Err(refused(&format!("the option {other:?}"))),
            }
        }
        Ok(mount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(value: Value) -> Vec<DeviceRequest> {
        vec![serde_json::from_value(value).unwrap()]
    }

    fn named(ids: &[&str]) -> Vec<DeviceRequest> {
        request(json!({ "Driver": "cdi", "DeviceIDs": ids }))
    }

    #[test]
    fn requests_for_other_drivers_are_refused_by_name() {
        let gpu = request(json!({ "Count": -1, "Capabilities": [["gpu", "nvidia"]] }));
        let error = check(&gpu).unwrap_err();
        let text = "could not select device driver \"\" with capabilities: [[gpu nvidia]]";
        assert!(error.kind() == ErrorKind::Unsupported && error.message().starts_with(text), "{error}");
        let many = request(json!({ "Driver": "cdi", "DeviceIDs": ["a/b=c"], "Count": 1 }));
        assert!(check(&many).unwrap_err().message().starts_with("HostConfig.DeviceRequests.Count"));
        assert!(check(&named(&[])).is_err());
        for bad in ["/dev/null", "a=b", "a/b", "a/b=", "/b=c", "a/b=c/d", "a/b/c=d", "a/b=../c"] {
            assert!(check(&named(&[bad])).unwrap_err().message().contains("invalid CDI device name"), "{bad}");
        }
        check(&named(&["vendor.com/class=name:0", "x/y=z"])).unwrap();
    }

    fn dirs(files: &[(&str, &str, Value)]) -> (PathBuf, Vec<PathBuf>) {
        let name = std::thread::current().name().unwrap_or("cdi").replace("::", "-");
        let base = std::env::temp_dir().join(format!("coracle-{}-{name}", std::process::id()));
        let dirs = ["first", "second"].map(|name| base.join(name)).to_vec();
        dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        for (dir, file, text) in files {
            std::fs::write(base.join(dir).join(file), text.to_string()).unwrap();
        }
        (base, dirs)
    }

    fn spec(kind: &str, name: &str, edits: Value) -> Value {
        json!({ "cdiVersion": "0.6.0", "kind": kind, "devices": [{ "name": name, "containerEdits": edits }],
            "containerEdits": { "env": ["ALL=1"] } })
    }

    #[test]
    fn a_later_directory_counts_first_and_conflicts_are_told() {
        let (base, dirs) = dirs(&[
            ("first", "a.json", spec("v.com/x", "one", json!({ "env": ["FROM=first"] }))),
            ("second", "a.json", spec("v.com/x", "one", json!({ "env": ["FROM=second"], "additionalGids": [7] }))),
            ("first", "b.json", spec("v.com/y", "two", json!({}))),
            ("first", "c.json", spec("v.com/y", "two", json!({}))),
            ("first", "d.json", spec("v.com/z", "hooked", json!({ "hooks": [{ "hookName": "createContainer" }] }))),
            ("first", "e.yaml", json!({ "kind": "v.com/e" })),
            ("first", "f.yaml", json!("no map")),
            ("first", "g.yml", json!("of no format")),
        ]);
        let edits = resolve(&named(&["v.com/x=one"]), &dirs).unwrap();
        assert_eq!((edits.env, edits.groups), (vec!["ALL=1".to_owned(), "FROM=second".to_owned()], vec![7]));
        let error = |id: &str| resolve(&named(&[id]), &dirs).unwrap_err().message().to_owned();
        assert!(error("v.com/y=two").contains("two specifications of one directory"));
        assert!(error("v.com/z=hooked").contains("hooks of its specification are not supported"));
        let missing = error("v.com/x=none");
        assert!(missing.starts_with("CDI device injection failed: unresolvable CDI devices v.com/x=none"), "{missing}");
        assert!(missing.contains("f.yaml: invalid type") && !missing.contains("g.yml"), "{missing}");
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_fifo_beside_the_specifications_does_not_hold_a_start_up() {
        let (base, dirs) = dirs(&[("first", "a.json", spec("v/c", "d", json!({})))]);
        nix::unistd::mkfifo(&dirs[0].join("b.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(resolve(&named(&["v/c=d"]), &dirs).unwrap().env, ["ALL=1"]);
        let error = resolve(&named(&["v/c=e"]), &dirs).unwrap_err();
        assert!(error.message().contains("b.json: no regular file"), "{error}");
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn paths_with_control_characters_are_refused() {
        let of = |edits: Value| {
            let asked: ContainerEdits = serde_json::from_value(edits).unwrap();
            asked.add_to(&mut Edits::default(), "v/c=d").unwrap_err().message().to_owned()
        };
        for edits in [
            json!({ "deviceNodes": [{ "path": "/dev/a\0b" }] }),
            json!({ "deviceNodes": [{ "path": "/dev/a", "hostPath": "/dev/a\nb" }] }),
            json!({ "mounts": [{ "hostPath": "/a\0b", "containerPath": "/c" }] }),
            json!({ "mounts": [{ "hostPath": "/a", "containerPath": "/c\u{1b}" }] }),
        ] {
            assert!(of(edits.clone()).ends_with("has control characters"), "{edits}");
        }
    }

    #[test]
    fn nodes_and_mounts_are_read() {
        let node =
            json!({ "path": "/dev/inside", "hostPath": "/dev/null", "fileMode": 432, "uid": 5, "permissions": "rw" });
        let mount =
            json!({ "hostPath": "/usr//lib", "containerPath": "/opt/lib/", "options": ["ro", "nosuid", "rbind"] });
        let (base, dirs) =
            dirs(&[("first", "a.json", spec("v/c", "d", json!({ "deviceNodes": [node], "mounts": [mount] })))]);
        let edits = resolve(&named(&["v/c=d"]), &dirs).unwrap();
        let node = &edits.nodes[0];
        assert_eq!(
            (node.on_host.as_str(), node.in_container.as_str(), node.mode),
            ("/dev/null", "/dev/inside", Some(0o660))
        );
        let mount = &edits.mounts[0];
        assert_eq!((mount.source.as_str(), mount.target.as_str(), mount.recursive), ("/usr/lib", "/opt/lib", true));
        assert_eq!(mount.attributes, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID);
        std::fs::remove_dir_all(base).unwrap();
    }
}
