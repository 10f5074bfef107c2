//! A container's configuration and state, as clients see them.

use super::list::{ContainerView, select};
use super::overview::Overview;
use super::spec::{self, LogDriver, Spec};
use super::state::{Verb, decide};
use super::text::{StateView, command_text, format_time, state_text, status_text};
use super::{Execs, Finder, Groups, Links, Places, Planner, Register, Snapshot, delivery, network, now_ns};
use crate::error::Result;
use crate::image::Images;
use crate::kernel::size::tree_size;
use crate::log::LogStream;
use crate::model::*;
use crate::store::Cached;
use crate::store::states::{STATE_OOM, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Go's zero time, "never".
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Containers as clients see them: lists, details, logs, processes.
pub(crate) struct Views {
    /// The rows that the last list read.
    pub(super) overview: Cached<Overview>,
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) groups: Arc<Groups>,
    pub(super) finder: Arc<Finder>,
    pub(super) planner: Arc<Planner>,
    pub(super) execs: Arc<Execs>,
    pub(super) images: Arc<Images>,
}

impl Views {
    /// Lists containers, newest first.
    pub(crate) fn list(&self, query: &ListContainers) -> Result<Vec<ContainerSummary>> {
        let mut list = Vec::new();
        self.list_each(query, &mut |summary| {
            list.push(summary);
            Ok(())
        })?;
        Ok(list)
    }

    /// Lists containers one by one.
    pub(crate) fn list_each(
        &self,
        query: &ListContainers,
        visit: &mut dyn FnMut(ContainerSummary) -> Result<()>,
    ) -> Result<()> {
        let all = self.all()?;
        let found = self.finder.without_the_ended(self.snapshots(&all)?);
        let networks = &all.networks;
        let mut views: Vec<ContainerView> =
            found.iter().enumerate().map(|(place, found)| view(place, found, networks, query)).collect();
        for link in &all.links {
            if let Some(view) = views.iter_mut().find(|view| view.id == link.child_id) {
                view.links.push(link.name());
            }
        }
        let ancestors = |name: &str| -> Result<BTreeSet<String>> { self.images.catalog.descendants(name) };
        let chosen = select(&views, query, &ancestors)?;
        let mut listing = Listing { networks, images: ImageNames::new(&self.images), size: query.size, now: now_ns() };
        for view in chosen {
            visit(self.summary(&found[view.place], view, &mut listing)?)?;
        }
        Ok(())
    }

    fn summary(&self, found: &Snapshot, view: &ContainerView, listing: &mut Listing<'_>) -> Result<ContainerSummary> {
        let (row, spec) = (&found.row, &found.spec);
        let sizes = if listing.size { Some(self.sizes(found)?) } else { None };
        Ok(ContainerSummary {
            id: row.id.clone(),
            names: std::iter::once(format!("/{}", row.name)).chain(view.links.clone()).collect(),
            image: listing.images.of(found),
            image_id: row.image_id.clone(),
            command: command_text(&spec.path, &spec.args),
            created: row.created_ns / 1_000_000_000,
            ports: network::port_map(found, listing.networks).into(),
            // As in dockerd, a list omits sizes of 0.
            size_rw: sizes.map(|(rw, _)| rw).filter(|size| *size != 0),
            size_root_fs: sizes.map(|(_, all)| all).filter(|size| *size != 0),
            labels: spec.config.labels.clone(),
            state: state_text(&view.state).into(),
            status: status_text(&view.state, listing.now) + damage_text(spec),
            host_config: SummaryHostConfig {
                network_mode: spec.host_config.network_mode.clone(),
                annotations: spec.host_config.annotations.clone(),
            },
            network_settings: SummaryNetworks { networks: in_list(network::networks(found, listing.networks)) },
            mounts: spec::mount_points(spec),
            health: Some(super::health::summary(found)),
        })
    }

    /// Everything about one container.
    pub(crate) fn inspect(&self, reference: &str, size: bool) -> Result<ContainerDetail> {
        let found = self.finder.find_any(reference)?;
        let (row, spec) = (&found.row, &found.spec);
        let sizes = if size { Some(self.sizes(&found)?) } else { None };
        let dir = self.places.dir(&row.id);
        let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let logs = matches!(spec.host_config.log(), LogDriver::JsonFile { .. });
        let execs = self.execs.running_execs(&row.id)?;
        // One transaction: each one costs as much as what is read here.
        let (view, links, lower) = self.register.db.read(|tx| {
            let (view, links) = (network::View::of_one(tx, &found)?, Links::texts(tx, &row.id)?);
            Ok((view, links, self.places.lower_in(tx, &row.image_id).ok()))
        })?;
        Ok(ContainerDetail {
            id: row.id.clone(),
            created: format_time(row.created_ns),
            path: spec.path.clone(),
            args: spec.args.clone(),
            state: ContainerState {
                health: self.health(&found),
                error: self.planner.error_text(&found),
                log_delivery: delivery::shown(&self.places, &found)?,
                ..state(&found)
            },
            image: row.image_id.clone(),
            resolv_conf_path: path("resolv.conf"),
            hostname_path: path("hostname"),
            hosts_path: path("hosts"),
            log_path: if logs { self.places.log_path(&found).to_string_lossy().into_owned() } else { String::new() },
            name: format!("/{}", row.name),
            restart_count: i64::from(found.now.state.restarts),
            driver: "overlay2".into(),
            exec_ids: (!execs.is_empty()).then_some(execs),
            host_config: shown_host_config(&found, links),
            graph_driver: GraphDriver { name: "overlay2".into(), data: lower.map(|lower| graph_data(&dir, &lower)) },
            size_rw: sizes.map(|(rw, _)| rw),
            size_root_fs: sizes.map(|(_, all)| all),
            mounts: spec::mount_points(spec),
            config: spec.config.clone(),
            network_settings: network::network_settings(&found, &view),
            app_armor_profile: profile(&found)?,
            process_label: spec.process_label.clone(),
            mount_label: spec.mount_label.clone(),
        })
    }

    /// Bytes of the writable layer, and of all layers together.
    fn sizes(&self, found: &Snapshot) -> Result<(i64, i64)> {
        let upper = tree_size(&self.places.dir(&found.row.id).join("upper"), None)?;
        let image = self.images.catalog.size(&found.row.image_id).unwrap_or(0);
        Ok((upper, upper + image))
    }

    /// Reads a container's log.
    pub(crate) fn logs(&self, reference: &str, query: &LogQuery) -> Result<LogStream> {
        if !query.stdout && !query.stderr {
            return Err(crate::Error::invalid("Bad parameters: you must choose at least one stream"));
        }
        let found = self.finder.find(reference)?;
        if matches!(found.spec.host_config.log(), LogDriver::None | LogDriver::Delivered { readable: false, .. }) {
            return Err(crate::Error::unsupported("configured logging driver does not support reading"));
        }
        let (slot, id, register) = (found.row.slot, found.row.id.clone(), Arc::clone(&self.register));
        // A follower waits for the start of a container that is not started yet, or is restarting.
        let alive = move || register.states.now(slot, &id).is_ok_and(|now| now.is_live());
        let opened = LogStream::open(self.places.log_path(&found), query, Box::new(alive));
        // A removal may have removed the directory meanwhile.
        opened.or_else(|error| self.register.if_there(&found, Err(error)))
    }

    /// The container's processes.
    pub(crate) fn top(&self, reference: &str, ps_args: &str) -> Result<Top> {
        let found = self.finder.find(reference)?;
        decide(Verb::Top, &found)?;
        let live = self.groups.live_groups(&found)?;
        let top = super::top::top(&live.pids()?, ps_args)?;
        self.register.event(&found, "top", &[])?;
        Ok(top)
    }
}

/// The host configuration with its links, and with the members that inspect always has.
fn shown_host_config(found: &Snapshot, links: Option<Vec<String>>) -> HostConfig {
    let mut host = HostConfig::clone(&found.spec.host_config);
    host.links = links;
    host.resources.disk_quota.get_or_insert(0);
    host.resources.kernel_memory.get_or_insert(0);
    host
}

/// The directories of a container's root file system: those of its image are the lower ones.
fn graph_data(dir: &Path, lower: &[PathBuf]) -> StringMap {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let lower: Vec<String> = lower.iter().map(|path| text(path)).collect();
    StringMap::from([
        ("LowerDir".to_owned(), lower.join(":")),
        ("UpperDir".to_owned(), text(&dir.join("upper"))),
        ("WorkDir".to_owned(), text(&dir.join("work"))),
    ])
}

/// The mark of a container with a damaged document in lists; inspect gives the reason.
fn damage_text(spec: &Spec) -> &'static str {
    if spec.is_whole() { "" } else { " (damaged)" }
}

/// The AppArmor profile as dockerd shows it: before the first start the requested one, then the one in use.
fn profile(found: &Snapshot) -> Result<String> {
    if found.now.state.started_ns != 0 || found.spec.apparmor.is_empty() {
        return Ok(found.spec.apparmor.clone());
    }
    Ok(spec::security(&found.spec.host_config)?.apparmor.unwrap_or_default())
}

/// The facts that the summaries of all containers in a list share.
struct Listing<'a> {
    networks: &'a network::View,
    images: ImageNames<'a>,
    /// The request wants the sizes of containers.
    size: bool,
    /// Nanoseconds since 1970.
    now: i64,
}

/// The names of images in a list; each is looked up once.
struct ImageNames<'a> {
    images: &'a Images,
    ids: BTreeMap<String, Option<String>>,
}

impl<'a> ImageNames<'a> {
    fn new(images: &'a Images) -> ImageNames<'a> {
        ImageNames { images, ids: BTreeMap::new() }
    }

    /// The name of the image at the creation, or its id if that name means another image now.
    fn of(&mut self, found: &Snapshot) -> String {
        let name = &found.spec.image_name;
        if !self.ids.contains_key(name) {
            self.ids.insert(name.clone(), self.images.catalog.resolve(name).ok());
        }
        match self.ids.get(name) {
            Some(Some(id)) if *id == found.row.image_id => name.clone(),
            _ => found.row.image_id.clone(),
        }
    }
}

/// The facts that the query selects by; others are left empty.
fn view(place: usize, found: &Snapshot, view: &network::View, query: &ListContainers) -> ContainerView {
    let asks = |filter: &str| query.filters.contains_key(filter);
    let networks = if asks("network") { network::networks(found, view) } else { BTreeMap::new() };
    ContainerView {
        place,
        id: found.row.id.clone(),
        name: found.row.name.clone(),
        links: Vec::new(),
        created_ns: found.row.created_ns,
        state: state_view(found),
        image_id: found.row.image_id.clone(),
        labels: if asks("label") || asks("is-task") { found.spec.config.labels.clone() } else { StringMap::new() },
        mounts: if asks("volume") { spec::mount_points(&found.spec) } else { Vec::new() },
        ports: if asks("publish") || asks("expose") {
            network::port_map(found, view).into()
        } else {
            PortList::default()
        },
        networks: networks.into_iter().map(|(name, end)| (name, end.network_id)).collect(),
    }
}

fn state_view(found: &Snapshot) -> StateView {
    let now = &found.now;
    let state = &now.state;
    StateView {
        // A container that is being started does not count as running.
        running: now.is_live() && state.status() != Status::Starting,
        paused: state.status() == Status::Paused,
        restarting: state.status() == Status::Restarting,
        removing: false,
        dead: false,
        exit_code: state.exit_code,
        started_ns: state.started_ns,
        finished_ns: state.finished_ns,
        health: super::health::status(found),
    }
}

fn state(found: &Snapshot) -> ContainerState {
    let (view, now) = (state_view(found), &found.now.state);
    let time = |ns: i64| if ns == 0 { NEVER.to_owned() } else { format_time(ns) };
    ContainerState {
        status: state_text(&view).into(),
        running: view.running,
        paused: view.paused,
        restarting: view.restarting,
        oom_killed: now.flags & STATE_OOM != 0,
        log_lost: i64::try_from(now.log_lost).unwrap_or(i64::MAX),
        dead: false,
        pid: now.pid,
        // For a running container the exit code is that of the previous run, and is not shown.
        exit_code: if view.running && !view.restarting { 0 } else { now.exit_code },
        error: String::new(),
        started_at: time(now.started_ns),
        finished_at: time(now.finished_ns),
        health: None,
        log_delivery: None,
    }
}

/// Lists show neither links nor aliases, and no options and names.
fn in_list(mut networks: BTreeMap<String, EndpointSettings>) -> BTreeMap<String, EndpointSettings> {
    for end in networks.values_mut() {
        (end.links, end.aliases, end.driver_opts, end.dns_names) = (None, None, None, None);
    }
    networks
}
