//! The container that buildx makes for its builders (driver docker-container), with a busybox in buildkitd's place: the fields of
//! its creation, a lasting exec as a pipe for both directions, and mounts, namespaces and control groups inside.
//! `make test-tools` builds through a real one.

use crate::support::*;
use coracle::model::ExecConfig;
use coracle::{Channel, Io, SessionRead};
use serde_json::json;

/// A control group that does not exist yet, two levels deep.
const PARENT: &str = "coracle-test-builder/buildx";

/// Removes the control groups that the test named: they are its user's.
struct Groups;

impl Drop for Groups {
    fn drop(&mut self) {
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
        for base in hierarchies.chain(["/sys/fs/cgroup".into()]) {
            for dir in [PARENT, "coracle-test-builder"] {
                let _ = std::fs::remove_dir(base.join(dir));
            }
        }
    }
}

/// The work of an executor of builds: a mount and a namespace of its own, and a control group for a step.
const EXECUTOR: &str = "set -e; mkdir -p /var/lib/buildkit/step; mount -t tmpfs none /var/lib/buildkit/step
mkdir -p /l /u /w /m; mount -t tmpfs none /w; mkdir /w/up /w/work; echo below >/l/file
mount -t overlay none -o lowerdir=/l,upperdir=/w/up,workdir=/w/work /m; cat /m/file; echo above >/m/file; cat /w/up/file
unshare -m -p -f sh -c 'mount -t proc proc /proc; test $$ = 1 && echo alone'
group=/sys/fs/cgroup/pids; test -d $group || group=/sys/fs/cgroup
mkdir $group/step; sh -c 'echo $$ >'$group'/step/cgroup.procs; echo grouped'; rmdir $group/step";

#[test]
fn a_builder_of_buildx_works() {
    let _groups = Groups;
    let root = Root::new();
    let builder = json!({ "HostConfig": {
        "Privileged": true, "Init": true, "RestartPolicy": { "Name": "unless-stopped" },
        "CgroupParent": format!("/{PARENT}"), "NetworkMode": "none",
        "Mounts": [{ "Type": "volume", "Source": "buildx_state", "Target": "/var/lib/buildkit" }],
    } });
    let id = root.sleeper_with("buildx_buildkit_tools0", builder);
    let path = Cgroups::of(root.pid(&id)).path("pids");
    assert!(path.starts_with(&format!("/{PARENT}/")), "{path}");
    assert_eq!(root.exec(&id, &["sh", "-c", EXECUTOR]).ok(), "below\nabove\nalone\ngrouped");
    // As `buildctl dial-stdio`: bytes go there and come back, and the exec stays until its input ends.
    let pipe = json!({ "Cmd": ["cat"], "AttachStdin": true, "AttachStdout": true, "AttachStderr": true });
    let pipe: ExecConfig = serde_json::from_value(pipe).expect("an exec body");
    let exec = root.engine.exec_create(&id, &pipe).expect("exec create");
    let session =
        root.engine.exec_start(&exec, Some(Io::default()), Some(&soon())).expect("exec start").expect("a session");
    let mut buffer = vec![0; 65536];
    for round in 0..200_u32 {
        // Every byte there is, in another order each time, of a length that no buffer has.
        let sent: Vec<u8> = (0..30_011_u32).map(|at| (at.wrapping_mul(round * 2 + 1) >> 3) as u8).collect();
        let mut at = 0;
        while at < sent.len() {
            at += session.write(&sent[at..], Some(&soon())).expect("write");
        }
        let mut came: Vec<u8> = Vec::new();
        while came.len() < sent.len() {
            match session.read(&mut buffer, Some(&soon())).expect("read") {
                SessionRead::Data(Channel::Stdout, n) => came.extend(&buffer[..n]),
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert!(came == sent, "round {round}");
    }
    session.close_stdin().expect("end the input");
    assert_eq!(read_output(&session).stdout, b"");
    assert_eq!(session.wait(Some(&soon())).expect("wait"), 0);
}
