//! Copies of a root that is in use: `Engine::snapshot_root`, `coracle root copy`.

use crate::support::dockerd::tool;
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind, Op};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Numbers to its log, to a volume, to files of its own layer.
const WRITERS: [(&str, &str); 3] = [
    ("logs", "while :; do i=$((i+1)); echo line $i; [ $((i%50)) -ne 0 ] || sleep 0.01; done"),
    ("volume", "while :; do i=$((i+1)); echo line $i >> /data/lines; [ $((i%50)) -ne 0 ] || sleep 0.01; done"),
    (
        "layer",
        "mkdir -p /own; while :; do i=$((i+1)); echo $i > /own/$i; [ $i -lt 999 ] || rm /own/$((i-998)); [ $((i%50)) -ne 0 ] || sleep 0.01; done",
    ),
];

/// The kinds of files in a layer: deletions, an opaque directory, links, a fifo, a socket's place, holes, modes,
/// attributes.
const ODD: &str = "rm -rf /bin/vi /etc /usr; mkdir /etc /usr; echo new > /usr/new; mkdir /odd; cd /odd; echo a > a; ln a b; \
                   ln -s nowhere c; mkfifo d; truncate -s 64M holes; echo end >> holes; chmod 4751 a; chown 12:34 c; \
                   touch -d '2001-02-03 04:05:06' a; mkdir -p e/f/g; chmod 1777 e";

fn copy(root: &Root, to: &Path, how: CopyRoot) -> coracle::Result<RootCopy> {
    root.engine.snapshot_root(to.join("root"), how, &mut |_| Ok(()), Some(&soon()))
}

fn open_copy(dir: PathBuf) -> Root {
    Root { engine: Engine::open_with(options_at(&dir)).expect("open the copy"), dir }
}

fn facts(path: &Path) -> String {
    let program = project().join("tests/support/tree-facts").display().to_string();
    // Overlayfs notes there what is true of one place alone.
    tool(&program, &[&path.display().to_string(), "trusted.overlay.origin", "trusted.overlay.uuid"])
}

/// The numbers after `line `, which must follow each other; the last one may be cut.
#[track_caller]
fn counted(text: &str) -> usize {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for (index, line) in whole.lines().enumerate() {
        assert_eq!(line, format!("line {}", index + 1), "of {} bytes", text.len());
    }
    whole.lines().count()
}

#[test]
fn a_root_is_copied_while_three_containers_write() {
    let root = Root::new();
    let mut ids = Vec::new();
    for (name, script) in WRITERS {
        let binds = host(json!({ "NetworkMode": "none", "Binds": [format!("{name}:/data")] }));
        let id = root.create(name, body(&["sh", "-c", script], binds));
        root.start(&id);
        ids.push(id);
    }
    let odd = root.create("odd", body(&["sh", "-c", ODD], json!({})));
    root.start(&odd);
    assert_eq!(root.wait(&odd), 0);
    let upper = |root: &Root, id: &str| root.dir.join("root/containers").join(id).join("upper");
    nix::sys::stat::mknod(
        &upper(&root, &odd).join("odd/socket"),
        nix::sys::stat::SFlag::S_IFSOCK,
        nix::sys::stat::Mode::S_IRWXU,
        0,
    )
    .expect("a socket");
    let volume = root.dir.join("root/volumes/volume/_data/lines");
    wait_for("lines", || std::fs::metadata(&volume).is_ok_and(|file| file.len() > 1 << 14));
    for pause in [false, true] {
        let to = temp_dir();
        let report = copy(&root, &to, CopyRoot { pause }).expect("copy the root");
        assert_eq!(report.left, [], "pause {pause}");
        assert_eq!((report.images, report.containers.len(), report.volumes.len()), (1, 4, 3));
        let ran: Vec<&str> = report.containers.iter().filter(|one| one.ran).map(|one| one.name.as_str()).collect();
        assert_eq!(ran.len(), 3, "{ran:?}");
        assert_eq!(std::fs::metadata(to.join("root")).expect("it").mode() & 0o7777, 0o700);
        let copied = open_copy(to);
        assert_eq!(copied.engine.damage_at_open(), [] as [String; 0]);
        assert!(
            copied.engine.verify(&VerifyImages::default(), &mut |_| Ok(()), None).expect("verify").damage.is_empty()
        );
        assert_ne!(identity(&copied.dir.join("root"))["id"], identity(&root.dir.join("root"))["id"]);
        assert_eq!(facts(&upper(&copied, &odd)), facts(&upper(&root, &odd)));
        assert_eq!(copied.inspect(&odd).state.exit_code, 0);
        for id in &ids {
            let state = copied.inspect(id).state;
            assert_eq!((state.status.as_str(), state.exit_code), ("exited", 255));
            assert!(state.error.contains("was copied"), "{}", state.error);
            assert!(state.finished_at.starts_with("20"), "{}", state.finished_at);
            assert_eq!(root.status(id), "running", "the original goes on");
        }
        assert!(counted(&String::from_utf8(copied.logs("logs").stdout).expect("text")) > 0);
        let lines = std::fs::read_to_string(copied.dir.join("root/volumes/volume/_data/lines")).expect("the volume");
        assert!(counted(&lines) > 0);
        assert!(std::fs::read_dir(upper(&copied, &ids[2]).join("own")).expect("the layer").count() > 0);
        // The containers start, and continue where they were.
        let before = copied.logs("logs").stdout.len();
        copied.start("logs");
        wait_for("more lines", || copied.logs("logs").stdout.len() > before);
        copied.start("volume");
        assert_eq!(copied.exec("volume", &["test", "-s", "/data/lines"]).code, 0);
    }
}

#[test]
fn an_open_refuses_the_result_of_a_killed_copy() {
    let root = Root::new();
    for name in ["first", "second"] {
        let id =
            root.create(name, body(&["sh", "-c", "echo x > /x"], host(json!({ "Binds": [format!("{name}:/v")] }))));
        root.start(&id);
        root.wait(&id);
    }
    // After this many lines about copied files; a copy has five here.
    for lines in 0..5 {
        let to = temp_dir();
        let mut command = Command::new(built("coracle"));
        command.args(["--root".as_ref(), root.dir.join("root").as_os_str()]);
        command.args(["--run".as_ref(), root.dir.join("run").as_os_str()]);
        command.args(["root", "copy"]).arg(to.join("root")).stdout(Stdio::piped());
        let mut child = command.spawn().expect("run coracle");
        let mut told = BufReader::new(child.stdout.take().expect("its output"));
        for _ in 0..lines {
            told.read_line(&mut String::new()).expect("a line");
        }
        if lines == 0 {
            wait_for("its beginning", || {
                to.join("root/unfinished-copy").exists() || child.try_wait().is_ok_and(|end| end.is_some())
            });
        }
        child.kill().expect("kill it");
        child.wait().expect("its end");
        let opened = Engine::open_with(options_at(&to));
        if to.join("root/unfinished-copy").exists() {
            let error = opened.err().expect("the open is refused");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(error.message().contains("did not come to its end"), "{error}");
            let again = copy(&root, &to, CopyRoot::default()).expect_err("it is not empty");
            assert!(again.message().contains("did not come to its end"), "{again}");
        } else {
            // The copy was faster: then it is whole.
            let engine = opened.expect("open the copy");
            assert_eq!(
                engine.container_list(&ListContainers { all: true, ..Default::default() }).expect("list").len(),
                2
            );
        }
        std::fs::remove_dir_all(&to).expect("clean up");
    }
    // The copies' resources are free again.
    drop(root.reopen());
    for name in ["first", "second"] {
        root.engine.container_remove(name, RemoveContainer::default(), None).expect("remove");
    }
    root.engine.image_remove(IMAGE, RemoveImage::default()).expect("remove the image");
    assert_eq!(std::fs::read_dir(root.dir.join("root/layers")).expect("layers").count(), 0);
}

#[test]
fn a_copy_that_fails_leaves_its_place_as_it_was() {
    let root = Root::new();
    let dir = temp_dir();
    let refused = |to: &Path, kind: ErrorKind, text: &str| {
        let error = root.engine.snapshot_root(to, CopyRoot::default(), &mut |_| Ok(()), None).expect_err("refused");
        assert!(error.kind() == kind && error.message().contains(text), "{error}");
    };
    std::fs::create_dir(dir.join("full")).expect("mkdir");
    std::fs::write(dir.join("full/mine"), "kept").expect("write");
    refused(&dir.join("full"), ErrorKind::Conflict, "it holds mine");
    refused(&root.dir.join("root/tmp/in"), ErrorKind::Invalid, "lies in the engine root");
    assert!(!root.dir.join("root/tmp/in").exists());
    refused(&dir.join("no/such/parent"), ErrorKind::Io, "no such file");
    let op = Op::new().expect("an op");
    op.cancel();
    let copy = |to: &Path, op: &Op| root.engine.snapshot_root(to, CopyRoot::default(), &mut |_| Ok(()), Some(op));
    assert_eq!(copy(&dir.join("new"), &op).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    assert!(!dir.join("new").exists());
    // A disk that is full in the middle.
    let small = dir.join("small");
    std::fs::create_dir(&small).expect("mkdir");
    mount(Some("small"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=256k,mode=0700")).expect("mount");
    let error = copy(&small, &soon()).expect_err("no room");
    let left = std::fs::read_dir(&small).expect("read it").count();
    umount2(&small, MntFlags::MNT_DETACH).expect("unmount");
    assert_eq!((error.raw_os_error(), left), (Some(libc::ENOSPC), 0), "{error}");
    assert_eq!(std::fs::read(dir.join("full/mine")).expect("read"), b"kept");
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_file_system_that_shares_content_shares_it_with_the_copy() {
    if !Path::new("/usr/sbin/mkfs.xfs").exists()
        || !std::fs::read_to_string("/proc/filesystems").is_ok_and(|all| all.contains("xfs"))
    {
        println!("not tried: no mkfs.xfs (tools/setup test installs it), or no xfs in the kernel");
        return;
    }
    let dir = temp_dir();
    let (file, at) = (dir.join("disk"), dir.join("mnt"));
    std::fs::create_dir(&at).expect("mkdir");
    std::fs::File::create(&file).and_then(|file| file.set_len(512 << 20)).expect("a disk");
    let text = |path: &Path| path.display().to_string();
    tool("mkfs.xfs", &["-q", "-m", "reflink=1", &text(&file)]);
    tool("mount", &["-o", "loop", &text(&file), &text(&at)]);
    let tried = std::panic::catch_unwind(|| {
        let root = Root { engine: Engine::open_with(options_at(&at)).expect("open a root"), dir: at.clone() };
        root.load(&busybox_archive());
        let report = root.engine.snapshot_root(at.join("copy/root"), CopyRoot::default(), &mut |_| Ok(()), None);
        assert_eq!(report.expect_err("no parent").kind(), ErrorKind::Io);
        std::fs::create_dir(at.join("copy")).expect("mkdir");
        let report = copy(&root, &at.join("copy"), CopyRoot::default()).expect("copy");
        assert!(report.shared > 1 << 20 && report.bytes == 0, "{report:?}");
        let engine = Engine::open_with(options_at(&at.join("copy"))).expect("open the copy");
        assert!(engine.verify(&VerifyImages::default(), &mut |_| Ok(()), None).expect("verify").damage.is_empty());
    });
    tool("umount", &["-l", &text(&at)]);
    std::fs::remove_dir_all(&dir).expect("clean up");
    assert!(tried.is_ok(), "see above");
}
