//! `squash`: one layer in the place of those that the last stage put on its base.

use super::Build;
use super::job::Job;
use crate::error::{Error, Result};
use crate::image::archive_writer::TarWriter;
use crate::image::{Digest, difference};
use std::os::fd::AsFd;

/// The image that the build answers with: squashed, if that was asked for.
pub(super) fn squash(build: &mut Build<'_>, image: String) -> Result<String> {
    if !build.job.request.squash {
        return Ok(image);
    }
    let base = build.finished.last().and_then(|stage| stage.base.clone());
    let squashed = squashed(&mut build.job, &image, base.as_deref());
    let id = squashed.map_err(|error| error.context("error squashing image"))?;
    build.job.out.squashed(&id)?;
    Ok(id)
}

fn squashed(job: &mut Job<'_>, image: &str, base: Option<&str>) -> Result<String> {
    for id in [Some(image), base].into_iter().flatten() {
        job.building.hold(id)?;
    }
    let layer = match job.building.layers_above(image, base)?.as_slice() {
        [] => return Err(Error::invalid("the build added no layer")),
        [one] => *one,
        _ => merged(job, image, base)?,
    };
    job.building.squashed(image, base, layer)
}

/// The layers of an image above its base as one.
fn merged(job: &mut Job<'_>, image: &str, base: Option<&str>) -> Result<Digest> {
    let steps = &job.shop.containers.build_steps;
    let (new, old, op) = (steps.build_root(Some(image))?, steps.build_root(base)?, job.op);
    job.building.layer_of_tar_or_nothing(&mut |out| {
        let mut tar = TarWriter::new(out, op);
        difference(&mut tar, new.as_fd(), old.as_fd())?;
        tar.finish()
    })
}
