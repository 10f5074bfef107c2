//! Devices of the Container Device Interface: `DeviceRequests` of the driver `cdi`.

use crate::container_later_fields::ask;
use crate::support::*;
use coracle::ErrorKind;
use coracle_http::Router;
use serde_json::{Value, json};
use std::path::Path;

/// A root whose specifications of devices lie in a directory of its own.
fn root_with(specs: &[(&str, Value)]) -> Root {
    let root = Root::with(|options| options.cdi_dirs = vec![options.root.with_file_name("cdi")]);
    root.load(&busybox_archive());
    let dir = root.dir.join("cdi");
    std::fs::create_dir_all(&dir).expect("a directory");
    for (name, spec) in specs {
        std::fs::write(dir.join(name), spec.to_string()).expect("a specification");
    }
    root
}

fn with_device(id: &str) -> Value {
    host(json!({ "NetworkMode": "none", "DeviceRequests": [{ "Driver": "cdi", "DeviceIDs": [id] }] }))
}

fn null_device(library: &Path) -> Value {
    let edits = json!({
        "env": ["DEVICE=given", "PATH=/opt/bin:/bin"],
        "deviceNodes": [{ "path": "/dev/given", "hostPath": "/dev/loop-control", "fileMode": 384, "gid": 77, "permissions": "r" }],
        "mounts": [{ "hostPath": library, "containerPath": "/opt/library", "options": ["ro", "nosuid", "bind"] }],
        "additionalGids": [4242],
    });
    json!({ "cdiVersion": "0.6.0", "kind": "example.com/test", "devices": [{ "name": "one", "containerEdits": edits }],
        "containerEdits": { "env": ["EVERY=device"] } })
}

// field: HostConfig.DeviceRequests
#[test]
fn a_device_brings_nodes_mounts_variables_and_groups() {
    let root = root_with(&[]);
    let library = root.dir.join("library");
    std::fs::create_dir_all(&library).expect("a directory");
    std::fs::write(library.join("file"), "of the driver").expect("a file");
    std::fs::write(root.dir.join("cdi/example.json"), null_device(&library).to_string()).expect("a specification");
    let script = "cat /opt/library/file; echo; echo $DEVICE $EVERY $PATH; id -G; stat -c '%t:%T %a %g' /dev/given; \
                  exec 3</dev/given && echo opened; \
                  touch /opt/library/x 2>/dev/null || echo read-only";
    let id = root.create("given", body(&["sh", "-c", script], with_device("example.com/test=one")));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let wanted = "of the driver\ngiven device /opt/bin:/bin\n0 4242\na:ed 600 77\nopened\nread-only";
    assert_eq!(root.logs(&id).out(), wanted);
    let kept = root.inspect(&id).host_config.resources.device_requests;
    assert_eq!(
        (kept[0].driver.as_str(), kept[0].device_ids.as_slice()),
        ("cdi", &["example.com/test=one".to_owned()][..])
    );
    // Changed limits keep the device.
    let sleeper = root.create("kept", body(&["sleep", "1000"], with_device("example.com/test=one")));
    root.start(&sleeper);
    let limits = serde_json::from_value(json!({ "Memory": 64 << 20, "MemorySwap": 64 << 20 })).expect("limits");
    root.engine.container_update(&sleeper, &limits).expect("update");
    root.engine.container_restart(&sleeper, Some(0), None).expect("restart");
    assert_eq!(root.exec(&sleeper, &["sh", "-c", "exec 3</dev/given && echo opened"]).ok(), "opened");
}

/// A specification as vendors' tools write it.
#[test]
fn a_specification_may_be_yaml() {
    let root = root_with(&[]);
    let library = root.dir.join("library");
    std::fs::create_dir_all(&library).expect("a directory");
    std::fs::write(library.join("file"), "of the driver").expect("a file");
    let spec = format!(
        "---\n# Of a vendor.\ncdiVersion: 0.5.0\nkind: example.com/yaml\ndevices:\n- name: \"0\"\n  containerEdits:\n    deviceNodes:\n    \
         - path: /dev/given\n      hostPath: /dev/loop-control\n      fileMode: 0640\n      uid: 5\n      permissions: r\n    env:\n    \
         - DEVICE=given\ncontainerEdits:\n  env:\n  - EVERY=device\n  mounts:\n  - hostPath: {}\n    containerPath: /opt/library\n    \
         options: [ro, nosuid, nodev, bind]\n",
        library.display()
    );
    std::fs::write(root.dir.join("cdi/vendor.yaml"), spec).expect("a specification");
    let hooked = "cdiVersion: 0.5.0\nkind: example.com/hooked\ndevices:\n- name: all\n  containerEdits: {}\ncontainerEdits:\n  hooks:\n  \
                  - hookName: createContainer\n    path: /usr/bin/hook\n    args: [hook, update]\n";
    std::fs::write(root.dir.join("cdi/hooked.yaml"), hooked).expect("a specification");
    std::fs::write(root.dir.join("cdi/odd.yaml"), "kind: &a example.com/odd\n").expect("a specification");
    let script = "cat /opt/library/file; echo; echo $DEVICE $EVERY; stat -c '%t:%T %a %u' /dev/given; \
                  exec 3</dev/given && echo opened; touch /opt/library/x 2>/dev/null || echo read-only";
    let id = root.create("given", body(&["sh", "-c", script], with_device("example.com/yaml=0")));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    assert_eq!(root.logs(&id).out(), "of the driver\ngiven device\na:ed 640 5\nopened\nread-only");
    let start = |device: &str| {
        let id = root.create("", body(&["true"], with_device(device)));
        root.engine.container_start(&id, None, None).map(drop)
    };
    fails(start("example.com/hooked=all"), ErrorKind::Unsupported, "hooks of its specification are not supported");
    fails(start("example.com/odd=all"), ErrorKind::Internal, "odd.yaml: line 1: anchors are not supported");
    let info = root.engine.info().expect("info");
    assert_eq!(info["DiscoveredDevices"][1], json!({ "Source": "cdi", "ID": "example.com/yaml=0" }));
    let warned = info["Warnings"].as_array().expect("warnings");
    assert!(warned.iter().any(|one| one.as_str().is_some_and(|text| text.contains("odd.yaml"))), "{warned:?}");
}

#[test]
fn devices_that_are_not_there_and_other_drivers_are_refused_by_name() {
    let hooked = json!({ "cdiVersion": "0.6.0", "kind": "example.com/hooked", "devices": [{ "name": "one",
        "containerEdits": { "hooks": [{ "hookName": "createContainer", "path": "/bin/true" }] } }] });
    let root = root_with(&[("hooked.json", hooked)]);
    let start = |device: &str| {
        let id = root.create("", body(&["true"], with_device(device)));
        root.engine.container_start(&id, None, None).map(drop)
    };
    fails(start("example.com/hooked=two"), ErrorKind::Internal, "unresolvable CDI devices example.com/hooked=two");
    fails(start("example.com/hooked=one"), ErrorKind::Unsupported, "hooks of its specification are not supported");
    let gpu = json!([{ "Driver": "", "Count": -1, "Capabilities": [["gpu"]] }]);
    let tried = root.try_create("", body(&["true"], host(json!({ "DeviceRequests": gpu }))));
    fails(tried, ErrorKind::Unsupported, "could not select device driver \"\" with capabilities: [[gpu]]");
    let tried = root.try_create("", body(&["true"], with_device("/dev/null")));
    fails(tried, ErrorKind::Invalid, "invalid CDI device name \"/dev/null\"");
    let router = Router::new(root.engine.clone());
    assert_eq!(ask(&router, "GET", "/v1.44/info").1["CDISpecDirs"], json!([root.dir.join("cdi")]));
}

#[test]
fn an_update_keeps_the_devices_of_the_start() {
    let root = root_with(&[]);
    let file = root.dir.join("cdi/example.json");
    std::fs::write(&file, null_device(&root.dir).to_string()).expect("a specification");
    let id = root.create("kept", body(&["sleep", "1000"], with_device("example.com/test=one")));
    let limit = |memory: u64| {
        let limits = serde_json::from_value(json!({ "Memory": memory, "MemorySwap": memory })).expect("limits");
        root.engine.container_update(&id, &limits).expect("update").warnings
    };
    let opens = || root.exec(&id, &["sh", "-c", "exec 3</dev/given && echo opened"]).ok();
    root.start(&id);
    // Another device has the name now.
    let other = json!({ "deviceNodes": [{ "path": "/dev/other", "hostPath": "/dev/null" }] });
    let spec = json!({ "cdiVersion": "0.6.0", "kind": "example.com/test", "devices": [{ "name": "one",
        "containerEdits": other }] });
    std::fs::write(&file, spec.to_string()).expect("a specification");
    limit(64 << 20);
    root.engine.container_restart(&id, Some(0), None).expect("restart");
    assert_eq!(root.exec(&id, &["sh", "-c", "test -c /dev/other && echo new"]).ok(), "new", "a start looks again");
    std::fs::write(&file, null_device(&root.dir).to_string()).expect("a specification");
    root.engine.container_restart(&id, Some(0), None).expect("restart");
    // The specification is gone: neither the limits nor the plan need it.
    std::fs::remove_file(&file).expect("removal");
    limit(96 << 20);
    assert_eq!(opens(), "opened");
    root.engine.container_stop(&id, Some(0), None).expect("stop");
    limit(128 << 20);
    let started = root.engine.container_start(&id, None, None);
    fails(started.map(drop), ErrorKind::Internal, "unresolvable CDI devices example.com/test=one");
}

#[test]
fn mounts_of_devices_have_the_order_and_the_bounds_of_others() {
    let root = root_with(&[]);
    let (above, below) = (root.dir.join("above"), root.dir.join("below"));
    std::fs::create_dir_all(above.join("inner")).expect("a directory");
    std::fs::create_dir_all(&below).expect("a directory");
    std::fs::write(below.join("file"), "of the request").expect("a file");
    let start = |target: &str, bind: String| {
        let edits = json!({ "mounts": [{ "hostPath": above, "containerPath": target, "options": ["ro"] }] });
        let spec = json!({ "cdiVersion": "0.6.0", "kind": "example.com/test", "devices": [{ "name": "one",
            "containerEdits": edits }] });
        std::fs::write(root.dir.join("cdi/example.json"), spec.to_string()).expect("a specification");
        let host = host(json!({ "NetworkMode": "none", "Binds": [bind],
            "DeviceRequests": [{ "Driver": "cdi", "DeviceIDs": ["example.com/test=one"] }] }));
        let id = root.create("", body(&["cat", "/opt/inner/file"], host));
        root.engine.container_start(&id, None, None).map(|_| id)
    };
    let bind = || format!("{}:/opt/inner:ro", below.display());
    // The device's directory does not cover the mount below it.
    let id = start("/opt", bind()).expect("start");
    assert_eq!((root.wait(&id), root.logs(&id).out().as_str()), (0, "of the request"));
    for target in ["/proc/sys", "/proc", "/sys", "/dev/pts/x", "/dev/null"] {
        fails(start(target, bind()), ErrorKind::Invalid, "cannot be mounted because");
    }
}
