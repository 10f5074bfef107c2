use super::*;
use crate::kernel::remove::remove_tree;
use std::path::{Path, PathBuf};

/// A directory for a test, removed with the value.
pub(in crate::kernel) struct Scratch(pub(in crate::kernel) PathBuf);

impl Scratch {
    pub(in crate::kernel) fn new(name: &str) -> Scratch {
        // In memory if possible: trees of this size keep a disk busy for minutes.
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir = parent.join(format!("coracle-tree-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    pub(in crate::kernel) fn fd(&self) -> OwnedFd {
        tree::open_dir(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let (Ok(parent), Some(name)) = (tree::open_dir(self.0.parent().unwrap()), self.0.file_name()) {
            let _ = remove_tree(parent.as_fd(), name.as_encoded_bytes());
        }
    }
}

/// Makes nested directories of this name, with a file in every tenth.
fn deep(dir: &OwnedFd, name: &str, depth: usize) {
    let mut at = dir.try_clone().unwrap();
    for level in 0..depth {
        tree::mkdir_at(at.as_fd(), name, 0o755).unwrap();
        if level % 10 == 0 {
            tree::mknod_at(at.as_fd(), "file", libc::S_IFREG | 0o644, (0, 0)).unwrap();
        }
        at = tree::open_dir_at(at.as_fd(), name).unwrap();
    }
}

/// Walks to the end and enters every directory; calls `at` at each step.
fn walk(base: &OwnedFd, at: &mut dyn FnMut(Step, &Walk<'_>)) -> (usize, usize) {
    let mut walk = Walk::new(base.as_fd(), Order::ByName, Mounts::Crossed).unwrap();
    let (mut entered, mut left) = (0, 0);
    while let Some(step) = walk.next().unwrap() {
        at(step, &walk);
        assert!(walk.chain.open.len() <= OPEN);
        match step {
            Step::Left => left += 1,
            Step::Entry if walk.is_dir() => {
                if let Some(dir) = walk.open().unwrap() {
                    walk.enter(dir).unwrap();
                    entered += 1;
                }
            }
            Step::Entry => {}
        }
    }
    (entered, left)
}

/// The names of a directory are kept while it is walked: their order is known only after all were read.
#[test]
fn a_name_takes_its_length_and_16_bytes() {
    const COUNT: usize = 20_000;
    const EACH: usize = "one of twenty-four bytes".len() + 16;
    let scratch = Scratch::new("many");
    let base = scratch.fd();
    for number in 0..COUNT {
        tree::mknod_at(base.as_fd(), format!("one of {number:017}"), libc::S_IFREG | 0o644, (0, 0)).unwrap();
    }
    let walk = Walk::new(base.as_fd(), Order::ByName, Mounts::Crossed).unwrap();
    assert_eq!(walk.names.len(), COUNT);
    let held = walk.bytes.capacity() + walk.names.capacity() * size_of::<Name>();
    // A growing vector may have room for as much again.
    assert!((COUNT * EACH..=2 * COUNT * EACH).contains(&held), "{held}");
}

#[test]
fn a_hundred_thousand_levels_are_walked_and_removed_on_little_stack() {
    let scratch = Scratch::new("deep");
    let base = scratch.fd();
    deep(&base, "d", 100_000);
    let walked = move || {
        let (mut files, mut deepest) = (0, 0);
        let counted = walk(&base, &mut |step, walk| {
            files += usize::from(step == Step::Entry && walk.name() == b"file");
            deepest = deepest.max(walk.depth());
            assert!(step == Step::Entry || walk.left().is_some());
        });
        assert_eq!((counted, files, deepest), ((100_000, 100_000), 10_000, 99_999));
        remove_tree(base.as_fd(), "d").unwrap();
        assert_eq!(tree::names(base.as_fd()).unwrap(), [b"file"]);
    };
    std::thread::Builder::new().stack_size(64 << 10).spawn(walked).unwrap().join().unwrap();
}

#[test]
fn names_and_paths_in_order() {
    let scratch = Scratch::new("order");
    std::fs::create_dir_all(scratch.0.join("b/c")).unwrap();
    for name in ["a", "b/x", "b/c/y", "z"] {
        std::fs::write(scratch.0.join(name), b"").unwrap();
    }
    let base = scratch.fd();
    let mut visited = Vec::new();
    walk(&base, &mut |step, walk| {
        let mark = if step == Step::Left { "<" } else { "" };
        visited.push(format!("{mark}{}", String::from_utf8_lossy(walk.path())));
        assert!(walk.path().ends_with(walk.name()) && !walk.name().contains(&b'/'));
        assert!(walk.stat().unwrap().is_some());
    });
    assert_eq!(visited, ["a", "b", "b/c", "b/c/y", "<b/c", "b/x", "<b", "z"]);
    // The caller's descriptor can still be read from its beginning.
    assert_eq!(walk(&base, &mut |_, _| {}), (2, 2));
}

/// A directory that is moved meanwhile never leads a walk out of its tree.
#[test]
fn directories_that_are_moved_meanwhile() {
    let scratch = Scratch::new("moved");
    let inside = |depth: usize| -> PathBuf { scratch.0.join("base").join(vec!["d"; depth].join("/")) };
    for moved in [1, 2, 5, 12, 19, 20] {
        let (base, outside) = (scratch.0.join("base"), scratch.0.join("outside"));
        std::fs::create_dir_all(&base).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("secret"), b"").unwrap();
        let fd = tree::open_dir(&base).unwrap();
        deep(&fd, "d", 20);
        std::fs::write(base.join("last"), b"").unwrap();
        let (mut seen, mut lost) = (Vec::new(), 0);
        let (entered, left) = walk(&fd, &mut |step, walk| {
            if step == Step::Entry && walk.depth() == 20 {
                panic!("nothing is in the deepest");
            }
            // The walk leaves the deepest directory first: then one above is moved out of the tree.
            if step == Step::Left && walk.path().len() == 39 {
                std::fs::rename(inside(moved), outside.join("taken")).unwrap();
            }
            lost += usize::from(step == Step::Left && walk.left().is_none());
            if step == Step::Entry {
                seen.push(String::from_utf8_lossy(walk.name()).into_owned());
            }
        });
        assert_eq!((entered, left), (20, 20), "{moved}: a directory is left as often as it is entered");
        assert!(!seen.iter().any(|name| ["secret", "taken", "outside", "base"].contains(&name.as_str())), "{seen:?}");
        assert_eq!(seen.last().map(String::as_str), Some("last"), "{moved}: what is there still is visited");
        assert!(lost < 20, "{moved}: {lost}");
        remove_tree(scratch.fd().as_fd(), "base").unwrap();
        remove_tree(scratch.fd().as_fd(), "outside").unwrap();
    }
}

/// A link in place of a closed directory is not followed when the walk finds its way again.
#[test]
fn a_link_in_the_place_of_a_directory() {
    let scratch = Scratch::new("link");
    let (base, outside) = (scratch.0.join("base"), scratch.0.join("outside"));
    std::fs::create_dir_all(&base).unwrap();
    let fd = tree::open_dir(&base).unwrap();
    deep(&fd, "d", 20);
    let mut moved = false;
    let (entered, left) = walk(&fd, &mut |step, walk| {
        assert_ne!(walk.name(), b"secret");
        if step == Step::Left && !moved {
            moved = true;
            // All but the first are removed, and a link leads to a tree with the same names and more.
            std::fs::create_dir_all(outside.join("d/d/d/d/d/d/d/d/d/d/d/secret")).unwrap();
            std::fs::rename(base.join("d/d"), scratch.0.join("away")).unwrap();
            std::os::unix::fs::symlink(Path::new("../../outside/d"), base.join("d/d")).unwrap();
            std::fs::rename(scratch.0.join("away/d/d/d/d/d/d"), outside.join("d/taken")).unwrap();
        }
    });
    assert!(moved);
    assert_eq!((entered, left), (20, 20));
}

#[test]
fn long_paths_are_told_short() {
    check_path(&[b'x'; LONGEST_PATH]).unwrap();
    let error = check_path(&[b'x'; LONGEST_PATH + 1]).unwrap_err();
    assert!(
        error.message().len() < 250 && error.message().ends_with("...: the path is longer than 4095 bytes"),
        "{error}"
    );
}
