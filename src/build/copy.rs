//! COPY and ADD.

use super::base::base_image;
use super::files::{Copier, ROOT, make_way, open_dir, open_file, resolve, split, stat};
use super::job::Job;
use super::mode::Mode;
#[cfg(feature = "registry")]
use super::remote::{download, repository};
use super::sources::{Source, SourceFile, hash_of, hash_with_paths, own_file, owner, without_pivot};
use super::state::{Finished, State};
use crate::buildfile::{Copy, Heredoc, Patterns};
use crate::container::extract;
use crate::error::{Error, Result};
use crate::image::archive_reader::{Room, TarReader, Unrecorded, decompressed};
use crate::kernel::tree::{self, Stat};
use std::io::{BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The files that one COPY or ADD copies from.
pub(super) struct Sources<'s, 'a> {
    pub(super) job: &'s mut Job<'a>,
    pub(super) context: Option<&'s Arc<OwnedFd>>,
    /// The stages that are done.
    pub(super) finished: &'s [Finished],
}

impl Sources<'_, '_> {
    pub(super) fn copy(mut self, state: &mut State<'_>, copy: &Copy, is_add: bool) -> Result<()> {
        let word = if is_add { "ADD" } else { "COPY" };
        // Files from an image keep their owners, unless another is named.
        let keeps_owner = !copy.from.is_empty() && copy.chown.is_empty();
        let excluded = Patterns::of_flags(&copy.excluded).map_err(|error| error.context(word))?;
        let all = self.all(copy, is_add, keeps_owner, &excluded)?;
        if all.len() > 1 && !copy.destination.ends_with('/') {
            return Err(Error::invalid(format!(
                "When using {word} with more than one source file, the destination must be a directory and end with a /"
            )));
        }
        let mut comment = format!("{word} ");
        for (flag, value) in [("chown", &copy.chown), ("chmod", &copy.chmod)] {
            if !value.is_empty() {
                comment.push_str(&format!("--{flag}={value}"));
            }
        }
        // Two flags that change the layer of the same files.
        for (flag, is_set) in [("parents", copy.parents), ("link", copy.link)] {
            if is_set {
                comment.push_str(&format!("--{flag} "));
            }
        }
        let hash = if copy.parents { hash_with_paths(&all) } else { hash_of(&all) };
        let comment = format!("{}{} in {} ", comment, hash, copy.destination);
        let config = state.nop_in_one(&comment);
        if self.job.probe(state, &config)? {
            return Ok(());
        }
        let destination = destination(&state.config.working_dir, &copy.destination);
        let mode = Mode::read(&copy.chmod)?;
        let (op, image, room) = (self.job.op, state.image.clone(), Room::of(self.job.shop.options));
        let layer = self.job.write(image.as_deref(), |root| {
            let owner = match copy.chown.as_str() {
                "" if keeps_owner => None,
                "" => Some(ROOT),
                text => Some(
                    owner(root, text)
                        .map_err(|error| error.context("unable to convert uid/gid chown string to host mapping"))?,
                ),
            };
            let copier = Copier { owner, mode, excluded: &excluded, op };
            let unpack = is_add.then_some(room);
            if copy.link {
                passes_no_link(root, &destination)?;
                if let [one] = all.as_slice() {
                    make_room(root, copy, &destination, one, is_add)?;
                }
            }
            if all.is_empty() {
                // All sources are left out.
                let dir = if destination.ends_with('/') { destination.as_str() } else { split(&destination).0 };
                return copier.make_dirs(root, &resolve(root, dir)?, copier.owner.unwrap_or(ROOT)).map(drop);
            }
            let each = all.iter().try_for_each(|found| {
                let place = if copy.parents { below(root, &destination, found, &copier)? } else { destination.clone() };
                put(root, &place, found, &copier, unpack)
            });
            each.map_err(|error| error.context("failed to copy files"))
        })?;
        self.job.commit(state, config, "", layer)
    }

    fn all(&mut self, copy: &Copy, is_add: bool, owners: bool, excluded: &Patterns) -> Result<Vec<SourceFile>> {
        let failed = |error: Error| error.context(if is_add { "ADD failed" } else { "COPY failed" });
        let from = match copy.from.as_str() {
            "" => self.context.cloned(),
            name => Some(self.tree_of(name)?),
        };
        let is_context = copy.from.is_empty();
        let mut all = Vec::new();
        for source in &copy.sources {
            if let Some(files) = repository(self.job, source, copy, is_add, excluded).map_err(failed)? {
                all.push(files);
                continue;
            }
            if is_url(source) {
                match is_add {
                    true => all.push(download(self.job, source, copy).map_err(failed)?),
                    false => return Err(failed(Error::invalid("source can't be a URL for COPY"))),
                }
                continue;
            }
            if !copy.checksum.is_empty() {
                return Err(failed(Error::invalid(format!(
                    "--checksum is of downloads and repositories alone: {source} is neither"
                ))));
            }
            let root = from.clone().ok_or_else(|| failed(Error::invalid("missing build context")))?;
            let (source, dropped) = if copy.parents { without_pivot(source) } else { (source.clone(), 0) };
            let parents = copy.parents.then_some(dropped);
            let from = Source { root, is_context, owners, excluded, parents, op: self.job.op };
            all.extend(from.find(&source).map_err(failed)?);
        }
        for doc in &copy.documents {
            all.push(self.document(doc)?);
        }
        match all.is_empty() {
            true => Err(failed(Error::invalid("no source files were specified"))),
            false => Ok(all.into_iter().filter(|found| !found.left_out).collect()),
        }
    }

    /// The tree of an earlier stage, by name or number, or of an image.
    fn tree_of(&mut self, name: &str) -> Result<Arc<OwnedFd>> {
        let image = self.image_of(name)?;
        self.root_of(image.as_deref())
    }

    /// The image of an earlier stage, or an image; it stays until the build is over. `None`: the stage is empty.
    pub(super) fn image_of(&mut self, name: &str) -> Result<Option<String>> {
        let wrong = |error: Error| error.context(format_args!("invalid from flag value {name}"));
        let lower = name.to_lowercase();
        let by_name = self.finished.iter().find(|stage| !stage.name.is_empty() && stage.name == lower);
        let stage = match (by_name, name.parse::<i64>()) {
            (Some(stage), _) => Some(stage),
            (None, Ok(number)) => match usize::try_from(number) {
                Ok(number) if number == self.finished.len() => {
                    return Err(wrong(Error::invalid("refers to current build stage")));
                }
                Ok(number) if number < self.finished.len() => Some(&self.finished[number]),
                _ => return Err(wrong(Error::invalid("index out of bounds"))),
            },
            (None, Err(_)) => None,
        };
        let image = match stage {
            // The words of an image's triggers are known only now.
            Some(stage) if !stage.is_built => {
                return Err(wrong(Error::unsupported(
                    "a trigger of the base image names it, and the stage does not need it by itself",
                )));
            }
            Some(stage) => stage.image.clone(),
            None => Some(base_image(self.job, name).map_err(wrong)?.0),
        };
        image.as_deref().map_or(Ok(()), |image| self.job.building.hold(image))?;
        Ok(image)
    }

    pub(super) fn root_of(&self, image: Option<&str>) -> Result<Arc<OwnedFd>> {
        self.job.shop.containers.build_steps.build_root(image).map(Arc::new)
    }

    /// A source that stands in the build file.
    fn document(&mut self, doc: &Heredoc) -> Result<SourceFile> {
        let (_, stage) = self.job.building.directory()?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        #[cfg(feature = "attacks")]
        if let (false, Some(context)) = (crate::walls::Wall::DocumentsApart.stands(), &self.context) {
            tree::open_at(context.as_fd(), &doc.name, flags, 0o600)?;
        }
        let mut file = std::fs::File::from(tree::open_at(stage.dir.as_fd(), &doc.name, flags, 0o600)?);
        file.write_all(doc.content.as_bytes()).map_err(|e| Error::io("write a document", &e))?;
        tree::chmod_fd(file.as_fd(), 0o644)?;
        tree::utime_fd(file.as_fd(), tree::Time::default())?;
        own_file(stage.dir, &doc.name, "document", self.job.op)
    }
}

/// The destination of a source that keeps the directories above it. Those that are missing there become what they are in
/// the source.
fn below(root: &OwnedFd, destination: &str, found: &SourceFile, copier: &Copier<'_>) -> Result<String> {
    let real = found.real.clone();
    let is_dir = stat(&found.root, &real)?.is_some_and(|there| there.is_dir());
    let kept = if is_dir { found.kept.as_str() } else { split(&found.kept).0 };
    let destination = destination.trim_end_matches('/');
    let dropped = found.path.trim_matches('/').strip_suffix(&found.kept).unwrap_or_default();
    for end in kept.match_indices('/').map(|(at, _)| at).chain([kept.len()]).filter(|end| *end > 0) {
        let place = resolve(root, &format!("{destination}/{}", &kept[..end]))?;
        if stat(root, &place)?.is_some() {
            continue;
        }
        let dir = open_dir(&found.root, &resolve(&found.root, &format!("{dropped}{}", &kept[..end]))?)?;
        let made = copier.make_dirs(root, &place, copier.owner.unwrap_or(ROOT))?;
        copier.finish(made.as_fd(), dir.as_fd(), &tree::stat_fd(dir.as_fd())?)?;
    }
    Ok(format!("{destination}/{kept}/"))
}

/// BuildKit makes the layer of `--link` without the image below, so that a link there is not followed, but replaced. Here
/// the layer is made on that image.
///
/// Errors: the destination passes a link.
fn passes_no_link(root: &OwnedFd, destination: &str) -> Result<()> {
    let written = crate::container::spec::clean(destination);
    match resolve(root, destination)? == written {
        true => Ok(()),
        false => Err(Error::unsupported(format!("--link: a link of the image is on the way to {destination}"))),
    }
}

/// The layer of `--link` does not know the image below: a file whose destination does not say that it is a directory takes
/// the place of a directory of the image. An archive that is unpacked is a directory.
fn make_room(root: &OwnedFd, copy: &Copy, destination: &str, found: &SourceFile, is_add: bool) -> Result<()> {
    let says_directory = destination.ends_with('/') || matches!(split(&copy.destination).1, "." | "..");
    let there = stat(&found.root, &found.real)?;
    let is_dir = there.as_ref().is_some_and(Stat::is_dir);
    let unpacks = is_add && there.is_some_and(|there| is_unpacked(found, &there));
    let (above, name) = split(destination);
    if says_directory || is_dir || copy.parents || name.is_empty() || stat(root, above)?.is_none() {
        return Ok(());
    }
    make_way(open_dir(root, above)?.as_fd(), name.as_bytes(), unpacks)
}

/// Copies one source, or unpacks it, where archives are to be.
fn put(root: &OwnedFd, destination: &str, found: &SourceFile, copier: &Copier<'_>, unpack: Option<Room>) -> Result<()> {
    let real = found.real.clone();
    let there =
        stat(&found.root, &real)?.ok_or_else(|| Error::not_found(format!("{}: source path not found", found.path)))?;
    let place = resolve(root, destination)?;
    let is_dir = |stat: Option<Stat>| stat.is_some_and(|stat| stat.is_dir());
    let exists = is_dir(stat(root, &place)?);
    if there.is_dir() {
        let to = copier.make_dirs(root, &place, ROOT)?;
        copier.content_at(&found.kept, &open_dir(&found.root, &real)?, &to)?;
        return match copier.owner {
            Some((user, group)) if !exists => tree::chown_fd(to.as_fd(), user, group),
            _ => Ok(()),
        };
    }
    if let Some(room) = unpack.filter(|_| is_unpacked(found, &there)) {
        copier.make_dirs(root, &place, ROOT)?;
        let mut file = open_file(&found.root, &real)?;
        return extract(root, &place, &mut file, found.root.as_fd(), room, copier.op);
    }
    let place = match destination.ends_with('/') || exists {
        true => format!("{}/{}", place.trim_end_matches('/'), split(&found.path).1),
        false => place,
    };
    let (above, new) = split(&place);
    if new.is_empty() {
        return Err(Error::invalid("the destination is the root directory"));
    }
    let to = copier.make_dirs(root, above, copier.owner.unwrap_or(ROOT))?;
    let (above, name) = split(&real);
    let from = open_dir(&found.root, above)?;
    copier.one(from.as_fd(), name.as_bytes(), to.as_fd(), new.as_bytes(), &there)
}

/// Whether ADD unpacks a source.
fn is_unpacked(found: &SourceFile, there: &Stat) -> bool {
    found.may_unpack && there.is_file() && is_archive(&found.root, &found.real)
}

/// Whether a file is a tar, plain or compressed: by what is in it. One whose decoder needs too much is an archive, too:
/// the unpacking reports it.
fn is_archive(root: &OwnedFd, path: &str) -> bool {
    let read = || -> Result<bool> {
        let mut plain = BufReader::new(decompressed(BufReader::new(open_file(root, path)?), Room::WIDE)?);
        Ok(TarReader::new(&mut plain, &mut Unrecorded).next()?.is_some())
    };
    read().unwrap_or(false)
}

/// Where a destination is, seen from a working directory; a slash at its end stays.
fn destination(working_dir: &str, asked: &str) -> String {
    if asked.starts_with('/') {
        return asked.to_owned();
    }
    let path = crate::container::spec::clean(&format!("/{working_dir}/{asked}"));
    if asked.ends_with('/') && !path.ends_with('/') { path + "/" } else { path }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(not(feature = "registry"))]
fn repository(_: &Job<'_>, _: &str, _: &Copy, _: bool, _: &Patterns) -> Result<Option<SourceFile>> {
    Ok(None)
}

#[cfg(not(feature = "registry"))]
fn download(_: &mut Job<'_>, _: &str, _: &Copy) -> Result<SourceFile> {
    Err(Error::unsupported("a URL: this build of the library has no HTTP client (feature \"registry\")"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_stand_in_the_working_directory() {
        for (dir, asked, want) in [
            ("/w", "a", "/w/a"),
            ("/w", "a/", "/w/a/"),
            ("/w", ".", "/w"),
            ("/w", "./", "/w/"),
            ("", "a", "/a"),
            ("/w", "/a/", "/a/"),
            ("/w", "../x", "/x"),
        ] {
            assert_eq!(destination(dir, asked), want);
        }
    }
}
