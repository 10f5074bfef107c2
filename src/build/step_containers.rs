//! The containers of a build's steps.

use super::job::Job;
use super::run_mounts::Held;
use super::short;
use crate::container::names::new_id;
use crate::error::Result;
use crate::model::{BuildImage, ContainerConfig, CreateBody, HostConfig, LogConfig, Resources};

/// A container of a step. The output mentions one for a step that runs nothing, too, though none is made.
struct Temporary {
    id: String,
    is_real: bool,
}

/// The containers of the steps so far that still exist.
#[derive(Default)]
pub(super) struct StepContainers {
    list: Vec<Temporary>,
    /// The caches of steps that may still run.
    held: Vec<Held>,
}

impl StepContainers {
    /// Takes those of a stage that was built beside.
    pub(super) fn absorb(&mut self, other: StepContainers) {
        self.list.extend(other.list);
        self.held.extend(other.held);
    }

    /// Holds the caches of a step until its container is gone, or the build is over.
    pub(super) fn keep(&mut self, held: Held) {
        self.held.push(held);
    }

    /// Removes the containers of the steps so far. One that cannot go stays the build's; the others go all the same.
    pub(super) fn clear(&mut self, job: &mut Job<'_>, shows: bool) -> Result<()> {
        let mut result = Ok(());
        let mut stay = Vec::new();
        for container in std::mem::take(&mut self.list) {
            let gone = if container.is_real {
                job.shop.containers.build_steps.remove_build_step(&container.id)
            } else {
                Ok(())
            };
            let reported = match (&gone, shows) {
                (Ok(()), true) => job.out.removed(short(&container.id)),
                _ => Ok(()),
            };
            if gone.is_err() {
                stay.push(container);
            }
            result = result.and(gone).and(reported);
        }
        self.list = stay;
        if self.list.is_empty() {
            self.held.clear();
        }
        result
    }

    /// The container of a step that runs nothing. It is made only where it is to stay: nobody could see it else.
    pub(super) fn mentioned(&mut self, job: &mut Job<'_>, config: &ContainerConfig) -> Result<String> {
        let stays = !job.request.rm && !job.request.forcerm;
        let id = if stays { self.made(job, config, None)? } else { new_id()? };
        if !stays {
            self.list.push(Temporary { id: id.clone(), is_real: false });
            job.out.running_in(short(&id))?;
        }
        Ok(id)
    }

    /// Makes a container, and reports it. `network`: its network mode, if it is another than the build's.
    pub(super) fn made(
        &mut self,
        job: &mut Job<'_>,
        config: &ContainerConfig,
        network: Option<&str>,
    ) -> Result<String> {
        let mut host_config = host_config(job.request);
        if let Some(mode) = network {
            host_config.network_mode = mode.to_owned();
        }
        let body = CreateBody { config: config.clone(), host_config, ..CreateBody::default() };
        let (step, warnings) = job.shop.containers.build_steps.build_step(&body, &job.building)?;
        let id = step.id.clone();
        self.list.push(Temporary { id: id.clone(), is_real: true });
        for warning in warnings {
            job.out.line(format!(" ---> [Warning] {warning}\n"))?;
        }
        job.out.running_in(short(&id))?;
        Ok(id)
    }

    /// The ids of those that were made.
    pub(super) fn ids(&self) -> Vec<String> {
        self.list.iter().filter(|container| container.is_real).map(|container| container.id.clone()).collect()
    }
}

/// The limits and networks that the request asks for.
fn host_config(request: &BuildImage) -> HostConfig {
    HostConfig {
        log_config: LogConfig { kind: "none".into(), ..LogConfig::default() },
        network_mode: request.networkmode.clone(),
        shm_size: Some(request.shmsize),
        extra_hosts: Some(request.extrahosts.clone()).filter(|hosts| !hosts.is_empty()),
        security_opt: Some(request.securityopt.clone()).filter(|options| !options.is_empty()),
        resources: Resources {
            cpu_shares: request.cpushares,
            memory: request.memory,
            memory_swap: request.memswap,
            cgroup_parent: request.cgroupparent.clone(),
            cpu_period: request.cpuperiod,
            cpu_quota: request.cpuquota,
            cpuset_cpus: request.cpusetcpus.clone(),
            cpuset_mems: request.cpusetmems.clone(),
            ulimits: Some(request.ulimits.clone()).filter(|limits| !limits.is_empty()),
            ..Resources::default()
        },
        ..HostConfig::default()
    }
}
