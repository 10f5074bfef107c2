//! Merges a request's configuration with the image's.

use super::clean;
use crate::error::{Error, Result};
use crate::model::{ContainerConfig, Healthcheck};

/// The user's configuration, completed by the image's.
pub(super) fn merge(user: &ContainerConfig, image: &ContainerConfig) -> ContainerConfig {
    let mut merged = user.clone();
    fill(&mut merged.user, &image.user);
    fill(&mut merged.working_dir, &image.working_dir);
    fill(&mut merged.stop_signal, &image.stop_signal);
    merged.exposed_ports.extend(image.exposed_ports.iter());
    if let Some(volumes) = image.volumes.as_ref().filter(|volumes| !volumes.is_empty()) {
        let merged = merged.volumes.get_or_insert_default();
        merged.extend(volumes.iter().map(|(path, empty)| (path.clone(), *empty)));
    }
    #[cfg(feature = "attacks")]
    if !crate::walls::Wall::LabelsAreText.stands() {
        // A label by which an image could choose the user in other engines.
        merged.user = image.labels.get("io.containerd.user").cloned().unwrap_or(merged.user);
    }
    for (key, value) in &image.labels {
        merged.labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    merged.env = merge_env(user.env.as_deref(), image.env.as_deref());
    merge_command(&mut merged, image);
    merged.healthcheck = merge_healthcheck(user.healthcheck.as_ref(), image.healthcheck.as_ref());
    merged
}

/// The program and its arguments; an entrypoint of one empty word counts as absent. Errors: there is no command.
pub(super) fn command(config: &mut ContainerConfig) -> Result<(String, Vec<String>)> {
    if config.entrypoint.as_deref() == Some(&[String::new()]) {
        config.entrypoint = None;
    }
    let mut words = config.entrypoint.iter().chain(&config.cmd).flatten().cloned();
    let path = words.next().ok_or_else(|| Error::invalid("No command specified"))?;
    Ok((path, words.collect()))
}

/// The directory as an absolute clean path; empty stays empty.
pub(super) fn working_dir(path: &str) -> Result<String> {
    match path.chars().next() {
        None => Ok(String::new()),
        Some('/') => Ok(clean(path)),
        Some(_) => {
            Err(Error::invalid(format!("the working directory '{path}' is invalid, it needs to be an absolute path")))
        }
    }
}

fn fill(value: &mut String, from: &str) {
    if value.is_empty() {
        *value = from.to_owned();
    }
}

fn merge_env(user: Option<&[String]>, image: Option<&[String]>) -> Option<Vec<String>> {
    let Some(user) = user.filter(|env| !env.is_empty()) else { return image.map(<[String]>::to_vec) };
    let mut merged = user.to_vec();
    let inherited = image.unwrap_or_default();
    merged.extend(inherited.iter().filter(|entry| !user.iter().any(|own| key(own) == key(entry))).cloned());
    Some(merged)
}

fn key(entry: &str) -> &str {
    entry.split_once('=').map_or(entry, |(key, _)| key)
}

/// An entrypoint of the user's own drops the image's command; `[]` is an empty entrypoint.
fn merge_command(merged: &mut ContainerConfig, image: &ContainerConfig) {
    let empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
    if !empty(&merged.entrypoint) {
        return;
    }
    if empty(&merged.cmd) {
        merged.cmd.clone_from(&image.cmd);
    }
    if merged.entrypoint.is_none() {
        merged.entrypoint.clone_from(&image.entrypoint);
    }
}

fn merge_healthcheck(user: Option<&Healthcheck>, image: Option<&Healthcheck>) -> Option<Healthcheck> {
    let (Some(user), Some(image)) = (user, image) else { return user.or(image).cloned() };
    let first = |own, inherited| if own == 0 { inherited } else { own };
    Some(Healthcheck {
        test: if user.test.is_empty() { image.test.clone() } else { user.test.clone() },
        interval: first(user.interval, image.interval),
        timeout: first(user.timeout, image.timeout),
        retries: first(user.retries, image.retries),
        start_period: first(user.start_period, image.start_period),
        start_interval: first(user.start_interval, image.start_interval),
    })
}
