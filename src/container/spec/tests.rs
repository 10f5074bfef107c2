use super::mounts::tmpfs_mounts;
use super::process::{DeviceNode, Rlimit, devices};
use super::security::Security;
use super::*;
use crate::error::ErrorKind;
use crate::plugin::Plugins;
use serde_json::{Value, json};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn defaults() -> Defaults {
    Defaults {
        remap: None,
        apparmor: None,
        selinux: false,
        lease: None,
        log_driver: "json-file".into(),
        log_options: StringMap::new(),
        cgroup_parent: "/coracle".into(),
        engine: "0123456789ab".into(),
        host_name: "vm".into(),
        host: HostFacts::everything(),
        plugins: Plugins::new(&[]),
    }
}

fn image(config: Value) -> ImageView {
    ImageView { id: "sha256:1".into(), architecture: "amd64".into(), config: serde_json::from_value(config).unwrap() }
}

fn body(mut extra: Value) -> CreateBody {
    let mut body = json!({"Image": "busybox", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}});
    let host = extra.as_object_mut().unwrap().remove("HostConfig").unwrap_or(json!({}));
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body["HostConfig"].as_object_mut().unwrap().extend(host.as_object().unwrap().clone());
    serde_json::from_value(body).unwrap()
}

fn checked_spec(request: &CreateBody, image: &ImageView, defaults: &Defaults) -> Result<(Spec, Vec<String>)> {
    resolve(&validate(request, defaults)?, image, ID, &[])
}

fn try_create(extra: Value) -> Result<(Spec, Vec<String>)> {
    checked_spec(&body(extra), &image(json!({})), &defaults())
}

fn create(extra: Value) -> Spec {
    try_create(extra).unwrap().0
}

fn host(host_config: Value) -> HostConfig {
    serde_json::from_value(host_config).unwrap()
}

fn decided(host_config: Value) -> DecidedHost {
    DecidedHost::of(host(host_config)).unwrap()
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| text.to_string()).collect()
}

/// Host configuration that a create must refuse: status, text.
#[test]
fn mistakes_in_the_host_configuration() {
    let rows = [
        (json!({"Memory": 100}), 400, "Minimum memory limit allowed is 6MB"),
        (json!({"Memory": -1}), 400, "Minimum memory limit allowed is 6MB"),
        (
            json!({"MemorySwap": 100_000_000}),
            400,
            "You should always set the Memory limit when using Memoryswap limit, see usage",
        ),
        (
            json!({"Memory": 8 << 20, "MemorySwap": 7 << 20}),
            400,
            "Minimum memoryswap limit should be larger than memory limit, see usage",
        ),
        (json!({"MemorySwappiness": 101}), 400, "Invalid value: 101, valid memory swappiness range is 0-100"),
        (json!({"MemorySwappiness": -2}), 400, "Invalid value: -2, valid memory swappiness range is 0-100"),
        (json!({"MemoryReservation": 1}), 400, "Minimum memory reservation allowed is 6MB"),
        (
            json!({"MemoryReservation": 9 << 20, "Memory": 8 << 20}),
            400,
            "Minimum memory limit can not be less than memory reservation limit, see usage",
        ),
        (json!({"KernelMemory": 1}), 400, "Minimum kernel memory limit allowed is 6MB"),
        (
            json!({"CpuPeriod": 999}),
            400,
            "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
        ),
        (
            json!({"CpuPeriod": 1_000_001}),
            400,
            "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
        ),
        (json!({"CpuQuota": 999}), 400, "CPU cfs quota can not be less than 1ms (i.e. 1000)"),
        (json!({"CpuShares": -1}), 400, "CpuShares: shares: invalid argument"),
        (json!({"CpusetCpus": "x"}), 400, "Invalid value x for cpuset cpus: invalid format: x"),
        (json!({"CpusetCpus": "1-0"}), 400, "Invalid value 1-0 for cpuset cpus: invalid format: 1-0"),
        (json!({"CpusetCpus": "0,,1"}), 400, "Invalid value 0,,1 for cpuset cpus: invalid format: 0,,1"),
        (
            json!({"CpusetCpus": "0-4294967295"}),
            400,
            "Invalid value 0-4294967295 for cpuset cpus: value of out range, maximum is 8192",
        ),
        (json!({"CpusetCpus": "0-99"}), 400, "Requested CPUs are not available - requested 0-99, available: 0-1"),
        (json!({"CpusetCpus": "+1"}), 400, "Invalid value +1 for cpuset cpus: invalid format: +1"),
        (json!({"CpusetMems": "x"}), 400, "Invalid value x for cpuset mems: invalid format: x"),
        (json!({"CpusetMems": "9"}), 400, "Requested memory nodes are not available - requested 9, available: 0"),
        (json!({"BlkioWeight": 9}), 400, "Range of blkio weight is from 10 to 1000"),
        (json!({"BlkioWeight": 1001}), 400, "Range of blkio weight is from 10 to 1000"),
        (
            json!({"BlkioWeightDevice": [{"Path": "/dev/vda", "Weight": 5}]}),
            400,
            "Range of blkio weight is from 10 to 1000",
        ),
        (json!({"OomScoreAdj": 1001}), 400, "Invalid value 1001, range for oom score adj is [-1000, 1000]"),
        (json!({"OomScoreAdj": -1001}), 400, "Invalid value -1001, range for oom score adj is [-1000, 1000]"),
        (json!({"ShmSize": -1}), 400, "SHM size can not be less than 0"),
        (json!({"Runtime": "zz"}), 400, "Unknown runtime specified zz"),
        (json!({"RestartPolicy": {"Name": "zz"}}), 400, "invalid restart policy 'zz'"),
        (
            json!({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 3}}),
            400,
            "maximum retry count cannot be used with restart policy 'always'",
        ),
        (
            json!({"RestartPolicy": {"Name": "no", "MaximumRetryCount": -3}}),
            400,
            "maximum retry count cannot be used with restart policy 'no'",
        ),
        (
            json!({"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": -3}}),
            400,
            "maximum retry count cannot be negative",
        ),
        (json!({"LogConfig": {"Type": "zz"}}), 400, "logger: no log driver named 'zz' is registered"),
        (
            json!({"LogConfig": {"Type": "json-file", "Config": {"zz": "1"}}}),
            400,
            "unknown log opt 'zz' for json-file log driver",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"tag": "1"}}}),
            400,
            "unknown log opt 'tag' for log driver local",
        ),
        (json!({"LogConfig": {"Config": {"mode": "odd"}}}), 400, "logger: logging mode not supported: odd"),
        (
            json!({"LogConfig": {"Config": {"mode": "non-blocking", "max-buffer-size": "1q"}}}),
            400,
            "error parsing option max-buffer-size: invalid size: '1q'",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"mode": "non-blocking", "max-buffer-size": "-1"}}}),
            400,
            "error parsing option max-buffer-size: invalid size: '-1'",
        ),
        (
            json!({"LogConfig": {"Config": {"max-buffer-size": "1m", "zz": "1"}}}),
            400,
            "logger: max-buffer-size option is only supported with 'mode=non-blocking'",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"mode": "blocking", "max-buffer-size": "1m"}}}),
            400,
            "logger: max-buffer-size option is only supported with 'mode=non-blocking'",
        ),
        (json!({"LogConfig": {"Config": {"zz": "1"}}}), 400, "unknown log opt 'zz' for json-file log driver"),
        (
            json!({"LogConfig": {"Config": {"max-size": "10kx"}}}),
            400,
            "failed to initialize logging driver: invalid size: '10kx'",
        ),
        (
            json!({"LogConfig": {"Config": {"max-size": "0"}}}),
            400,
            "failed to initialize logging driver: max-size must be a positive number",
        ),
        (
            json!({"LogConfig": {"Config": {"max-file": "0"}}}),
            400,
            "failed to initialize logging driver: max-file cannot be less than 1",
        ),
        (
            json!({"LogConfig": {"Config": {"max-file": "x"}}}),
            400,
            "failed to initialize logging driver: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            json!({"LogConfig": {"Config": {"compress": "zz"}}}),
            400,
            "failed to initialize logging driver: strconv.ParseBool: parsing \"zz\": invalid syntax",
        ),
        (
            json!({"LogConfig": {"Config": {"compress": "true", "max-size": "1m"}}}),
            400,
            "failed to initialize logging driver: compress cannot be true when max-file is less than 2 or max-size is not set",
        ),
        (
            json!({"LogConfig": {"Config": {"compress": "1", "max-file": "3"}}}),
            400,
            "failed to initialize logging driver: compress cannot be true when max-file is less than 2 or max-size is not set",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"max-file": "1"}}}),
            400,
            "failed to initialize logging driver: compression cannot be enabled when max file count is 1",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"compress": "zz"}}}),
            400,
            "failed to initialize logging driver: error reading compress log option: \
             strconv.ParseBool: parsing \"zz\": invalid syntax",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"max-size": "x"}}}),
            400,
            "failed to initialize logging driver: invalid value for max-size: x: invalid size: 'x'",
        ),
        (
            json!({"LogConfig": {"Type": "local", "Config": {"max-file": "-1"}}}),
            400,
            "failed to initialize logging driver: max file count cannot be less than 0",
        ),
        (json!({"SecurityOpt": ["foo"]}), 500, "invalid --security-opt 1: \"foo\""),
        (json!({"SecurityOpt": ["foo=bar"]}), 500, "invalid --security-opt 2: \"foo=bar\""),
        (json!({"SecurityOpt": ["no-new-privileges=zz"]}), 500, "invalid --security-opt 2: \"no-new-privileges=zz\""),
        (json!({"CapAdd": ["FOO"]}), 400, "invalid CapAdd: unknown capability: \"CAP_FOO\""),
        (json!({"CapDrop": ["cap_foo"]}), 400, "invalid CapDrop: unknown capability: \"CAP_FOO\""),
        (json!({"CapAdd": [" chown"]}), 400, "invalid CapAdd: unknown capability: \"CAP_ CHOWN\""),
        (json!({"ExtraHosts": ["bad"]}), 400, "bad format for add-host: \"bad\""),
        (json!({"ExtraHosts": [":1.2.3.4"]}), 400, "bad format for add-host: \":1.2.3.4\""),
        (json!({"ExtraHosts": ["a\n6.6.6.6 b:1.2.3.4"]}), 400, "bad format for add-host: \"a\\n6.6.6.6 b:1.2.3.4\""),
        (json!({"ExtraHosts": ["a:b"]}), 400, "invalid IP address in add-host: \"b\""),
        (json!({"Dns": ["1.2.3.4\nsearch x"]}), 400, "Dns: \"1.2.3.4\\nsearch x\" is not an ip address"),
        (json!({"DnsSearch": ["a b"]}), 400, "DnsSearch: \"a b\" is not one word"),
        (json!({"DnsOptions": [""]}), 400, "DnsOptions: \"\" is not one word"),
        (json!({"Isolation": "hyperv"}), 500, "Invalid isolation: \"hyperv\" - linux only supports 'default'"),
        (
            json!({"IOMaximumIOps": 1}),
            500,
            "Invalid QoS settings: linux does not support configuration of maximum IOPs",
        ),
        (
            json!({"IOMaximumBandwidth": 1}),
            500,
            "Invalid QoS settings: linux does not support configuration of maximum bandwidth",
        ),
        (
            json!({"NetworkMode": "container:"}),
            400,
            "Invalid network mode: invalid container format container:<name|id>",
        ),
        (json!({"PidMode": "zz"}), 400, "invalid PID mode: zz"),
        (json!({"PidMode": "container:"}), 400, "invalid PID mode: container:"),
        (json!({"IpcMode": "zz"}), 400, "invalid IPC mode: zz"),
        (json!({"UTSMode": "zz"}), 400, "invalid UTS mode: zz"),
        (json!({"Devices": [{"PathOnHost": "/dev/null", "CgroupPermissions": "rx"}]}), 400, "invalid device mode: rx"),
        (json!({"Devices": [{"PathInContainer": "/dev/x"}]}), 400, "Devices: \"\" is not an absolute path"),
        (json!({"CgroupParent": "a\nb"}), 400, "CgroupParent: \"a\\nb\" holds a control character"),
    ];
    for (host_config, status, text) in rows {
        let error = try_create(json!({"HostConfig": host_config})).expect_err(text);
        assert_eq!((error.http_status(), error.message()), (status, text), "{host_config}");
    }
}

/// The rest of the create body.
#[test]
fn mistakes_in_the_configuration() {
    let rows = [
        (json!({"Hostname": "-bad"}), "invalid hostname format: -bad"),
        (json!({"Hostname": "a_b"}), "invalid hostname format: a_b"),
        (json!({"Hostname": "a..b"}), "invalid hostname format: a..b"),
        (json!({"Hostname": "a\nb"}), "invalid hostname format: a\nb"),
        (json!({"Domainname": "a b"}), "invalid domain name format: \"a b\""),
        (json!({"WorkingDir": "rel"}), "the working directory 'rel' is invalid, it needs to be an absolute path"),
        (json!({"StopSignal": "FOO"}), "Invalid signal: FOO"),
        (json!({"StopSignal": 0}), "Invalid signal: 0"),
        (json!({"StopSignal": "65"}), "Invalid signal: 65"),
        (json!({"Env": ["A=1", "=x"]}), "invalid environment variable: =x"),
        (json!({"Env": [""]}), "invalid environment variable: "),
        (json!({"Env": ["A=\u{0}"]}), "Env: \"A=\\0\" holds a NUL byte"),
        (json!({"Cmd": ["a\u{0}"]}), "Cmd: \"a\\0\" holds a NUL byte"),
        (json!({"User": "a\nb"}), "User: \"a\\nb\" holds a control character"),
        (json!({"Cmd": null}), "No command specified"),
        (json!({"Cmd": []}), "No command specified"),
        (json!({"Entrypoint": [""], "Cmd": null}), "No command specified"),
        (
            json!({"Healthcheck": {"Test": ["CMD", "x"], "Interval": 5}}),
            "Interval in Healthcheck cannot be less than 1ms",
        ),
        (json!({"Healthcheck": {"Timeout": -1}}), "Timeout in Healthcheck cannot be less than 1ms"),
        (json!({"Healthcheck": {"Retries": -1}}), "Retries in Healthcheck cannot be negative"),
        (json!({"NetworkingConfig": {"EndpointsConfig": {"a": null}}}), "no EndpointSettings for a"),
        (
            json!({"NetworkingConfig": {"EndpointsConfig": {"a": {"IPAMConfig": {"IPv4Address": "::1"}}}}}),
            "invalid IPv4 address: ::1",
        ),
    ];
    for (config, text) in rows {
        let error = try_create(config.clone()).expect_err(text);
        assert_eq!((error.http_status(), error.message()), (400, text), "{config}");
    }
    let long = "a".repeat(64);
    assert!(try_create(json!({"Hostname": long})).is_err());
    assert_eq!(create(json!({"Hostname": &long[..63]})).config.hostname, &long[..63]);
    let empty = CreateBody { host_config: host(json!({"Memory": 1})), ..CreateBody::default() };
    let error = checked_spec(&empty, &image(json!({"Cmd": ["a"]})), &defaults()).unwrap_err();
    assert_eq!(error.message(), "Config cannot be empty in order to create a container");
}

#[test]
fn host_names_of_old_requests_are_one_word() {
    let check = |name: &str| {
        let old = CreateBody { any_hostname: true, ..body(json!({"Hostname": name})) };
        let resolved = checked_spec(&old, &image(json!({})), &defaults());
        resolved.map(|_| ()).map_err(|error| error.message().to_owned())
    };
    for good in ["my_host", "-bad", "a..b", &"h".repeat(64)] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for bad in ["a b", "a\nb", "a\tb", "a#b", "h\u{e9}", "a\0", &"h".repeat(65)] {
        assert_eq!(check(bad), Err(format!("invalid hostname format: {bad}")), "{bad}");
    }
}

#[test]
fn options_that_exclude_each_other() {
    let join = "container:x";
    let rows = [
        (json!({"Hostname": "h", "HostConfig": {"NetworkMode": join}}), "hostname and the network mode"),
        (json!({"Hostname": "h", "HostConfig": {"UTSMode": "host"}}), "hostname and the UTS mode"),
        (
            json!({"HostConfig": {"NetworkMode": join, "Links": ["a"]}}),
            "container type network can't be used with links. This would result in undefined behavior",
        ),
        (
            json!({"HostConfig": {"NetworkMode": "host", "Links": ["a"]}}),
            "host type networking can't be used with links. This would result in undefined behavior",
        ),
        (json!({"HostConfig": {"NetworkMode": join, "Dns": ["1.1.1.1"]}}), "dns and the network mode"),
        (
            json!({"HostConfig": {"NetworkMode": join, "ExtraHosts": ["a:1.1.1.1"]}}),
            "custom host-to-IP mapping and the network mode",
        ),
        (
            json!({"HostConfig": {"NetworkMode": join, "PublishAllPorts": true}}),
            "port publishing and the container type network mode",
        ),
        (
            json!({"HostConfig": {"NetworkMode": join, "PortBindings": {"1/tcp": null}}}),
            "port publishing and the container type network mode",
        ),
        (
            json!({"ExposedPorts": {"1/tcp": {}}, "HostConfig": {"NetworkMode": join}}),
            "port exposing and the container type network mode",
        ),
        (
            json!({"MacAddress": "02:42:00:00:00:01", "HostConfig": {"NetworkMode": join}}),
            "mac-address and the network mode",
        ),
        (
            json!({"MacAddress": "02:42:00:00:00:01", "HostConfig": {"NetworkMode": "host"}}),
            "mac-address and the network mode",
        ),
    ];
    for (config, what) in rows {
        let error = try_create(config.clone()).expect_err(what);
        assert_eq!(error.message(), format!("conflicting options: {what}"), "{config}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn errors_name_the_unsupported_field() {
    let hosted = |host: Value| json!({"HostConfig": host});
    let rows = [(hosted(json!({"LogConfig": {"Config": {"tag": "{{json .}}"}}})), "LogConfig")];
    for (config, field) in rows {
        let error = try_create(config.clone()).expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{config}: {error}");
        assert!(error.message().starts_with(field), "{config}: {error}");
    }
}

/// The decision of a create, by the profile that the engine gives containers that name none.
#[test]
fn profiles() {
    let decided = |host: Value, default| apparmor(&serde_json::from_value(host).unwrap(), default).unwrap();
    let own = Some("coracle-default-1");
    for (host, default, profile) in [
        (json!({}), None, ""),
        (json!({}), own, "coracle-default-1"),
        (json!({"SecurityOpt": ["apparmor="]}), own, "coracle-default-1"),
        (json!({"SecurityOpt": ["apparmor=unconfined"]}), own, "unconfined"),
        (json!({"SecurityOpt": ["apparmor:unconfined"]}), own, "unconfined"),
        (json!({"SecurityOpt": ["apparmor=unconfined"]}), None, ""),
        (json!({"Privileged": true}), own, "unconfined"),
        (json!({"Privileged": true}), None, ""),
        (json!({}), Some("unconfined"), "unconfined"),
    ] {
        assert_eq!(decided(host.clone(), default), profile, "{host} {default:?}");
    }
}

#[test]
fn accepted_forms() {
    let rows = [
        json!({"Hostname": "h", "HostConfig": {"NetworkMode": "host"}}),
        json!({"NetworkDisabled": true, "HostConfig": {"NetworkMode": ""}}),
        json!({"Healthcheck": {"Test": ["NONE"]}}),
        json!({"Healthcheck": {}}),
        json!({"ExposedPorts": {"80/tcp": {}}}),
        json!({"NetworkingConfig": {"EndpointsConfig": {"none": {}}}}),
        json!({"HostConfig": {"Memory": 8 << 20, "MemorySwap": -1, "CpuQuota": -1, "PidsLimit": -1}}),
        json!({"HostConfig": {"CpusetCpus": "0-1,1", "CpusetMems": "0", "CpuShares": 1}}),
        json!({"HostConfig": {"PidMode": "host", "IpcMode": "container:x", "UTSMode": "host"}}),
        json!({"HostConfig": {"PidMode": "container:x", "IpcMode": "shareable", "UsernsMode": "host"}}),
        json!({"HostConfig": {"Runtime": "runc", "Isolation": "Default", "RestartPolicy": {"MaximumRetryCount": 3}}}),
        json!({"HostConfig": {"SecurityOpt": ["no-new-privileges", "label=disable", "apparmor:unconfined"]}}),
        json!({"HostConfig": {"LogConfig": {"Type": "none", "Config": {"zz": "1"}}}}),
        json!({"HostConfig": {"ExtraHosts": ["a:::1"], "Dns": ["::1"], "DnsSearch": ["."]}}),
        json!({"HostConfig": {"Ulimits": [{"Name": "zz", "Soft": 1, "Hard": 1}]}}),
        json!({"HostConfig": {"Sysctls": {"kernel.x": "1"}, "Tmpfs": {"/b": "zz=1"}}}),
    ];
    for config in rows {
        let (_, warnings) = try_create(config.clone()).unwrap_or_else(|error| panic!("{config}: {error}"));
        assert_eq!(warnings, Vec::<String>::new(), "{config}");
    }
}

#[test]
fn defaults_as_inspect_shows_them() {
    let spec = create(json!({"HostConfig": {"Memory": 8 << 20}}));
    let host = &spec.host_config;
    assert_eq!(host.shm_size, Some(DEFAULT_SHM_SIZE));
    assert_eq!(host.resources.memory_swap, 16 << 20);
    assert_eq!(host.resources.memory_swappiness, None);
    assert_eq!(host.resources.oom_kill_disable, Some(false));
    assert_eq!(host.log_config.kind, "json-file");
    assert_eq!(spec.config.hostname, &ID[..12]);
    assert_eq!((spec.image_id.as_str(), spec.image_name.as_str()), ("sha256:1", "busybox"));
    assert_eq!(spec.cgroup_parent, "/coracle");
    assert_eq!(create(json!({"HostConfig": {"CgroupParent": "a/../../b/"}})).cgroup_parent, "/b");
    assert_eq!(create(json!({"HostConfig": {"ShmSize": 0}})).host_config.shm_size, Some(DEFAULT_SHM_SIZE));
    assert_eq!(create(json!({"HostConfig": {"NetworkMode": "host"}})).config.hostname, "vm");
    assert_eq!(create(json!({"HostConfig": {"UTSMode": "host"}})).config.hostname, &ID[..12]);
    let disabled = create(json!({"NetworkDisabled": true, "HostConfig": {"NetworkMode": ""}}));
    assert_eq!(disabled.host_config.network_mode, "default");
}

#[test]
fn a_spec_survives_its_store() {
    let spec = create(json!({"Hostname": "h", "Env": ["A=1"], "Labels": {"k": "v"}, "StopSignal": 9,
        "HostConfig": {"Binds": ["/a:/b:ro,rslave"], "Tmpfs": {"/t": "size=1m"}, "Memory": 8 << 20,
        "Devices": [{"PathOnHost": "/dev/null"}], "SecurityOpt": ["seccomp=unconfined"]}}));
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    let older: Spec = serde_json::from_str(r#"{"path":"sh"}"#).unwrap();
    assert_eq!(older.path, "sh");
}

#[test]
fn many_ports_survive_their_store_in_a_short_text() {
    let (few, many): (Vec<u16>, Vec<u16>) = ((1..=1024).collect(), (1..=65535).collect());
    for ports in [few, many] {
        let exposed: Value = ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
        let host = |port: &u16| json!([{ "HostIp": "127.0.0.1", "HostPort": port.to_string() }]);
        let bound: Value = ports.iter().map(|port| (format!("{port}/tcp"), host(port))).collect();
        let spec =
            create(json!({ "ExposedPorts": exposed, "HostConfig": { "PortBindings": bound, "AutoRemove": true } }));
        assert_eq!(spec.host_config.port_bindings.len(), ports.len());
        let text = serde_json::to_string(&spec).unwrap();
        assert!(text.contains(r#""AutoRemove":true"#), "the index of such containers looks for it");
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
        let plain = text.contains(r#""80/tcp":{}"#);
        assert_eq!((plain, text.len() < 10_000), if ports.len() == 1024 { (true, false) } else { (false, true) });
    }
    for text in [r#"{"config":[]}"#, r#"{"config":[{}]}"#, r#"{"config":[{},"1"]}"#, r#"{"config":5}"#] {
        assert!(serde_json::from_str::<Spec>(text).is_err(), "{text}");
    }
}

#[test]
fn limits_that_the_host_cannot_set_are_dropped_with_a_warning() {
    let mut poor = defaults();
    poor.host = HostFacts::default();
    let body = body(json!({"HostConfig": {
        "Memory": 8 << 20, "MemoryReservation": 7 << 20, "MemorySwappiness": 5, "KernelMemory": 8 << 20,
        "OomKillDisable": true, "PidsLimit": 5, "CpuShares": 5, "CpuPeriod": 5000, "CpuQuota": 5000,
        "CpusetCpus": "0", "CpusetMems": "0", "BlkioWeight": 50, "CpuPercent": 5,
        "BlkioWeightDevice": [{"Path": "/dev/vda", "Weight": 50}], "BlkioDeviceReadBps": [{"Path": "/a", "Rate": 1}],
        "BlkioDeviceWriteBps": [{"Path": "/a", "Rate": 1}], "BlkioDeviceReadIOps": [{"Path": "/a", "Rate": 1}],
        "BlkioDeviceWriteIOps": [{"Path": "/a", "Rate": 1}]}}));
    let (spec, warnings) = checked_spec(&body, &image(json!({})), &poor).unwrap();
    let not = |what: &str| format!("Your kernel does not support {what}");
    let mounted = "or the cgroup is not mounted.";
    let expected = vec![
        not(&format!("memory limit capabilities {mounted} Limitation discarded.")),
        not(&format!("memory swappiness capabilities {mounted} Memory swappiness discarded.")),
        not(&format!("memory soft limit capabilities {mounted} Limitation discarded.")),
        not(&format!("kernel memory limit capabilities {mounted} Limitation discarded.")),
        not("OomKillDisable. OomKillDisable discarded."),
        not(&format!("PIDs limit capabilities {mounted} PIDs limit discarded.")),
        not(&format!("CPU shares {mounted} Shares discarded.")),
        not(&format!("CPU cfs period {mounted} Period discarded.")),
        not(&format!("CPU cfs quota {mounted} Quota discarded.")),
        "linux does not support CPU percent. Percent discarded.".into(),
        not(&format!("cpuset {mounted} Cpuset discarded.")),
        not(&format!("Block I/O weight {mounted} Weight discarded.")),
        not(&format!("Block I/O weight_device {mounted} Weight-device discarded.")),
        not(&format!("BPS Block I/O read limit {mounted} Block I/O BPS read limit discarded.")),
        not(&format!("BPS Block I/O write limit {mounted} Block I/O BPS write limit discarded.")),
        not(&format!("IOPS Block read limit {mounted} Block I/O IOPS read limit discarded.")),
        not(&format!("IOPS Block write limit {mounted} Block I/O IOPS write limit discarded.")),
    ];
    assert_eq!(warnings, expected);
    let unlimited = create(json!({})).host_config.resources.clone();
    let empty = Some(Vec::new());
    let left = crate::model::Resources {
        memory_swap: -1,
        oom_kill_disable: None,
        blkio_weight_device: Some(Vec::new()),
        blkio_device_read_bps: empty.clone(),
        blkio_device_write_bps: empty.clone(),
        blkio_device_read_iops: empty.clone(),
        blkio_device_write_iops: empty,
        ..unlimited
    };
    assert_eq!(spec.host_config.resources, left);
}

#[test]
fn swap_alone_may_be_missing() {
    let mut defaults = defaults();
    defaults.host.swap_limit = false;
    let body = body(json!({"HostConfig": {"Memory": 8 << 20}}));
    let (spec, warnings) = checked_spec(&body, &image(json!({})), &defaults).unwrap();
    assert_eq!(spec.host_config.resources.memory_swap, -1);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].ends_with("Memory limited without swap."), "{warnings:?}");
}

#[test]
fn an_oom_killer_that_is_off_without_a_limit_is_warned_about() {
    let (_, warnings) = try_create(json!({"HostConfig": {"OomKillDisable": true}})).unwrap();
    assert!(warnings[0].starts_with("OOM killer is disabled"), "{warnings:?}");
    let (_, warnings) = try_create(json!({"HostConfig": {"OomKillDisable": true, "Memory": 8 << 20}})).unwrap();
    assert!(warnings.is_empty());
}

/// Entrypoint and command of user and image: the resulting program, and the text in inspect.
#[test]
fn entrypoint_and_command() {
    let both = json!({"Entrypoint": ["ie"], "Cmd": ["ic"]});
    let rows = [
        (json!({"Entrypoint": null, "Cmd": null}), json!(["ie", "ic"])),
        (json!({"Entrypoint": null, "Cmd": []}), json!(["ie", "ic"])),
        (json!({"Entrypoint": null, "Cmd": ["c"]}), json!(["ie", "c"])),
        (json!({"Entrypoint": ["e"], "Cmd": null}), json!(["e"])),
        (json!({"Entrypoint": ["e"], "Cmd": ["c"]}), json!(["e", "c"])),
        (json!({"Entrypoint": [], "Cmd": null}), json!(["ic"])),
        (json!({"Entrypoint": [], "Cmd": ["c"]}), json!(["c"])),
        (json!({"Entrypoint": [""], "Cmd": ["c"]}), json!(["c"])),
        (json!({"Entrypoint": "", "Cmd": ["c"]}), json!(["c"])),
        (json!({"Entrypoint": "e e", "Cmd": "sleep 1"}), json!(["e e", "sleep 1"])),
    ];
    for (user, runs) in rows {
        let (spec, _) = checked_spec(&body(user.clone()), &image(both.clone()), &defaults()).unwrap();
        let mut words = vec![spec.path];
        words.extend(spec.args);
        assert_eq!(json!(words), runs, "{user}");
    }
    let error = checked_spec(&body(json!({"Entrypoint": [""], "Cmd": null})), &image(both), &defaults()).unwrap_err();
    assert_eq!(error.message(), "No command specified");
}

#[test]
fn everything_else_of_the_image() {
    let image = image(json!({"User": "iu", "WorkingDir": "/iw/../x", "StopSignal": "INT", "Tty": true,
        "Hostname": "ih", "Domainname": "id", "OpenStdin": true, "OnBuild": ["RUN x"],
        "ExposedPorts": {"80/tcp": {}, "1/udp": {}}, "Env": ["A=i", "B=i", "C"], "Labels": {"a": "i", "b": "i"},
        "Volumes": {"/iv": {}}, "Healthcheck": {"Test": ["CMD", "i"], "Retries": 3}}));
    let user = json!({"ExposedPorts": {"80/tcp": {}, "9/tcp": {}}, "Env": ["B=u", "D", "A"], "Labels": {"b": "u"}});
    let (spec, warnings) = checked_spec(&body(user), &image, &defaults()).unwrap();
    let config = &spec.config;
    assert_eq!((config.user.as_str(), config.working_dir.as_str(), config.stop_signal.as_str()), ("iu", "/x", "INT"));
    assert_eq!(config.env, Some(strings(&["B=u", "D", "A", "C"])));
    assert_eq!(json!(config.labels), json!({"a": "i", "b": "u"}));
    assert_eq!(config.exposed_ports.iter().collect::<Vec<_>>(), ["1/udp", "80/tcp", "9/tcp"]);
    assert_eq!((config.tty, config.open_stdin, config.on_build.as_ref()), (false, false, None));
    assert_eq!((config.hostname.as_str(), config.domainname.as_str()), (&ID[..12], ""));
    assert_eq!(config.volumes.as_ref().unwrap().keys().collect::<Vec<_>>(), ["/iv"]);
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    assert_eq!((spec.mounts[0].target.as_str(), spec.mounts[0].anonymous), ("/iv", true));
    let own = json!({"User": "u", "WorkingDir": "/w/", "StopSignal": 10, "Healthcheck": {"Test": ["NONE"]}});
    let (spec, warnings) = checked_spec(&body(own), &image, &defaults()).unwrap();
    assert_eq!((spec.config.user.as_str(), spec.config.working_dir.as_str()), ("u", "/w"));
    assert_eq!(stop_signal(&spec.config), 10);
    let health = spec.config.healthcheck.unwrap();
    assert_eq!((health.test, health.retries), (strings(&["NONE"]), 3));
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    for hostile in [json!({"User": "a\nb"}), json!({"Env": ["A=\u{0}"]}), json!({"Entrypoint": ["\u{0}"]})] {
        assert!(checked_spec(&body(json!({})), &self::image(hostile.clone()), &defaults()).is_err(), "{hostile}");
    }
    let nameless = self::image(json!({"Env": ["", "=x", "A=1"]}));
    let (spec, _) = checked_spec(&body(json!({})), &nameless, &defaults()).unwrap();
    assert_eq!(environment(&spec, "h", &[])[2..], ["A=1"]);
    let relative = self::image(json!({"WorkingDir": "rel"}));
    assert!(checked_spec(&body(json!({})), &relative, &defaults()).is_err());
}

#[test]
fn the_environment() {
    let env = |config: Value| environment(&create(config), "h", &[]);
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(env(json!({})), [path, "HOSTNAME=h"]);
    assert_eq!(env(json!({"Tty": true})), [path, "HOSTNAME=h", "TERM=xterm"]);
    let all = json!({"Tty": true, "Env": ["A=1", "PATH=/bin", "TERM=x", "B", "C=2", "C=3", "HOSTNAME=q", "A", "E="]});
    assert_eq!(env(all), ["PATH=/bin", "HOSTNAME=q", "TERM=x", "C=3", "E="]);
    assert_eq!(env(json!({"Env": ["PATH"]})), ["HOSTNAME=h"]);
    assert_eq!(hostname(&create(json!({"Hostname": "hh"})), ID), "hh");
    assert_eq!(hostname(&Spec::default(), ID), &ID[..12]);
}

#[test]
fn resource_limits() {
    let of = |list: Value| ulimits(&host(json!({"Ulimits": list})));
    let one = |name: &str, soft: i64, hard: i64| of(json!([{"Name": name, "Soft": soft, "Hard": hard}]));
    let nofile = libc::RLIMIT_NOFILE as i32;
    assert_eq!(one("nofile", 1, 2).unwrap(), [Rlimit { resource: nofile, soft: 1, hard: 2 }]);
    assert_eq!(one("core", -1, -1).unwrap()[0].soft, u64::MAX);
    let twice = of(json!([{"Name": "nofile", "Soft": 1, "Hard": 2}, {"Name": "nofile", "Soft": 3, "Hard": 4}]));
    assert_eq!(twice.unwrap(), [Rlimit { resource: nofile, soft: 3, hard: 4 }]);
    assert_eq!(of(Value::Null).unwrap(), []);
    assert_eq!(one("zz", 1, 1).unwrap_err().message(), "wrong rlimit value: RLIMIT_ZZ");
    for (soft, hard) in [(2, 1), (-1, 10), (10, 0), (-5, -1)] {
        assert_eq!(one("nofile", soft, hard).unwrap_err().http_status(), 500, "{soft} {hard}");
    }
}

#[test]
fn signals() {
    let rows = [
        ("9", Some(9)),
        ("70", Some(70)),
        ("KILL", Some(9)),
        ("sigkill", Some(9)),
        ("SIGUSR1", Some(10)),
        ("winch", Some(28)),
        ("RTMIN", Some(34)),
        ("SIGRTMIN+3", Some(37)),
        ("rtmax-1", Some(63)),
        ("RTMAX", Some(64)),
        ("", None),
        ("0", None),
        ("-9", None),
        ("SIG", None),
        ("SIGSIGKILL", None),
        ("RTMIN+15", Some(49)),
        ("RTMAX-14", Some(50)),
        ("RTMIN+16", None),
        ("RTMIN+0", None),
        ("RTMIN+01", None),
        ("RTMIN+-1", None),
        ("RTMIN+", None),
        ("RTMAX-15", None),
        ("RTMAX-30", None),
        ("FOO", None),
        ("9 ", None),
        ("99999999999", None),
    ];
    for (text, number) in rows {
        let got = parse_signal(text);
        assert_eq!(got.as_ref().ok(), number.as_ref(), "{text}");
        if let Err(error) = got {
            assert_eq!(
                (error.kind(), error.message()),
                (ErrorKind::Invalid, format!("Invalid signal: {text}").as_str())
            );
        }
    }
    assert!(
        signal_exists(64)
            && !signal_exists(65)
            && !signal_exists(32)
            && !signal_exists(33)
            && signal_exists(31)
            && signal_exists(34)
            && !signal_exists(0)
    );
    assert_eq!(stop_signal(&ContainerConfig::default()), libc::SIGTERM);
    assert_eq!(stop_signal(&ContainerConfig { stop_signal: "70".into(), ..Default::default() }), libc::SIGTERM);
}

#[test]
fn binds() {
    let mounts = create(json!({"HostConfig": {"Binds": ["/tmp/x/../y:/d/e/../c:ro", "/etc:/e:rslave,ro", "/u:/u:",
        "/a:/b:rw,shared,Z,cached", "/p:/proc/uptime", "/sys:/sys:ro", "/dev/log:/dev/log", "/s:/dev/shm"]}}))
    .mounts;
    let brief: Vec<_> = mounts
        .iter()
        .map(|m| {
            (m.source.as_str(), m.target.as_str(), m.mode_text.as_str(), m.read_only, m.propagation_text(), m.flags)
        })
        .collect();
    let row = |source, target, mode, ro, propagation: &str| {
        (source, target, mode, ro, propagation.to_owned(), if ro { libc::MOUNT_ATTR_RDONLY } else { 0 })
    };
    let expected = [
        row("/a", "/b", "rw,shared,Z,cached", false, "shared"),
        row("/etc", "/e", "rslave,ro", true, "rslave"),
        row("/sys", "/sys", "ro", true, "rprivate"),
        row("/u", "/u", "", false, "rprivate"),
        row("/tmp/y", "/d/c", "ro", true, "rprivate"),
        row("/dev/log", "/dev/log", "", false, "rprivate"),
        row("/s", "/dev/shm", "", false, "rprivate"),
        row("/p", "/proc/uptime", "", false, "rprivate"),
    ];
    assert_eq!(brief, expected);
    assert!(mounts.iter().all(|mount| mount.kind == MountKind::Bind));
}

#[test]
fn volumes_among_the_mounts() {
    let spec = create(json!({"Volumes": {"/anon": {}, "rel/x": {}, "/b": {}, "/t": {}}, "HostConfig": {
        "Binds": ["vol:/b:ro,nocopy", "/one", "/h:/c"], "Tmpfs": {"/t": ""}}}));
    let brief: Vec<_> =
        spec.mounts.iter().map(|m| (m.target.as_str(), m.name.as_str(), m.anonymous, m.no_copy, m.read_only)).collect();
    let expected = [
        ("/anon", "", true, false, false),
        ("/b", "vol", false, true, true),
        ("/c", "", false, false, false),
        ("/one", "", true, false, false),
        ("/rel/x", "", true, false, false),
    ];
    assert_eq!(brief, expected);
    let points: Vec<_> = mount_points(&spec).into_iter().map(|p| (p.kind, p.driver, p.propagation)).collect();
    assert_eq!(points[1], ("volume".into(), "local".into(), String::new()));
    assert_eq!(points[2], ("bind".into(), String::new(), "rprivate".into()));
}

#[test]
fn own_mounts_override_those_of_volumes_from() {
    let host = HostConfig { binds: Some(strings(&["own:/b"])), ..Default::default() };
    let theirs = |target: &str, name: &str| Mount {
        kind: MountKind::Volume,
        target: target.into(),
        name: name.into(),
        source: "/somewhere".into(),
        mode_text: "rw".into(),
        ..Default::default()
    };
    let inherited = [taken_over(&theirs("/a", "v1"), false), taken_over(&theirs("/b", "v2"), true)];
    assert!(inherited[0].read_only && inherited[0].no_copy && inherited[0].mode_text.is_empty());
    let config =
        ContainerConfig { volumes: Some([("/a".to_string(), crate::model::Empty {})].into()), ..Default::default() };
    let mounts = mount_requests::mounts(&config, &host, &inherited).unwrap();
    let brief: Vec<_> = mounts.iter().map(|m| (m.target.as_str(), m.name.as_str())).collect();
    assert_eq!(brief, [("/a", "v1"), ("/b", "own")]);
    let from = |text: &str| volumes_from(&HostConfig { volumes_from: Some(strings(&[text])), ..Default::default() });
    assert_eq!(from("c:ro").unwrap(), [("c".to_string(), false)]);
    assert_eq!(from("c:z").unwrap(), [("c".to_string(), true)]);
    for bad in ["c:zz", "c:nocopy", "c:rshared", ":ro", ""] {
        assert!(from(bad).is_err(), "{bad}");
    }
}

#[test]
fn bad_binds() {
    let bind = |why: &str, spec: &str| {
        format!("invalid volume specification: '{spec}': invalid mount config for type \"bind\": {why}")
    };
    let root = "invalid specification: destination can't be '/'";
    let rows = [
        ("/a:/", 500, bind(root, "/a:/")),
        ("/a:/b/..", 500, bind(root, "/a:/b/..")),
        ("/a:b", 500, bind("invalid mount path: 'b' mount path must be absolute", "/a:b")),
        ("/a:", 500, "invalid volume specification: '/a:'".into()),
        ("/a::ro", 500, bind("field Target must not be empty", "/a::ro")),
        ("/a:/b:zz", 500, "invalid mode: zz".into()),
        ("/a:/b:ro,rw", 500, "invalid mode: ro,rw".into()),
        ("/a:/b:ro,", 500, "invalid mode: ro,".into()),
        ("/a:/b:shared,slave", 500, "invalid mode: shared,slave".into()),
        ("/a:/b:unbindable", 500, "invalid mode: unbindable".into()),
        ("/a:/b:c:d", 500, "invalid volume specification: '/a:/b:c:d'".into()),
        ("/a:/b:nocopy", 500, bind("field VolumeOptions must not be specified", "/a:/b:nocopy")),
        (
            "v1:/b:shared",
            500,
            "invalid volume specification: 'v1:/b:shared': invalid mount config for type \"volume\": field BindOptions \
             must not be specified"
                .into(),
        ),
        ("", 500, "invalid volume specification: ''".into()),
        (":/b", 500, "invalid volume specification: ':/b'".into()),
        ("/a:ro", 500, "invalid volume specification: '/a:ro'".into()),
        ("/a\n:/b", 400, "Binds: \"/a\\n:/b\" holds a control character".into()),
        ("/a:/proc", 400, "\"/proc\" cannot be mounted because it is not of type proc".into()),
        ("/a:/proc/sys", 400, "\"/proc/sys\" cannot be mounted because it is inside /proc".into()),
        ("/a:/x/../proc/1/attr", 400, "\"/proc/1/attr\" cannot be mounted because it is inside /proc".into()),
        ("/a:/sys", 400, "\"/sys\" cannot be mounted because it is not of type sysfs".into()),
        (
            "devices:/dev",
            400,
            "\"/dev\" cannot be mounted because it is the container's own /dev: bind a directory, or name the devices in Devices".into(),
        ),
        ("/a:/dev/pts/0", 400, "\"/dev/pts/0\" cannot be mounted because it is the container's own device".into()),
    ];
    for (text, status, message) in rows {
        let error = try_create(json!({"HostConfig": {"Binds": [text]}})).expect_err(text);
        assert_eq!((error.http_status(), error.message()), (status, message.as_str()), "{text}");
    }
    let relative = try_create(json!({"HostConfig": {"Binds": ["rel/x:/b"]}})).unwrap_err();
    assert_eq!(relative.http_status(), 400);
    assert!(
        relative.message().starts_with("create rel/x: \"rel/x\" includes invalid characters for a local volume name")
    );
}

#[test]
fn one_target_once() {
    let rows = [
        json!({"Binds": ["/a:/b", "/c:/b/"]}),
        json!({"Binds": ["/a:/b"], "Tmpfs": {"/x/../b": ""}}),
        json!({"Tmpfs": {"/b": "", "/b/": ""}}),
    ];
    for host_config in rows {
        let error = try_create(json!({"HostConfig": host_config})).unwrap_err();
        assert_eq!((error.http_status(), error.message()), (400, "Duplicate mount point: /b"), "{host_config}");
    }
    let rows = [
        ("b", "invalid mount path: 'b' mount path must be absolute"),
        ("/", "invalid specification: destination can't be '/'"),
        ("/proc/uptime", "\"/proc/uptime\" cannot be mounted because it is inside /proc"),
        ("/sys", "\"/sys\" cannot be mounted because it is not of type sysfs"),
    ];
    for (target, text) in rows {
        let error = try_create(json!({"HostConfig": {"Tmpfs": {target: ""}}})).expect_err(target);
        assert_eq!((error.http_status(), error.message()), (400, text), "{target}");
    }
}

#[test]
fn tmpfs_options() {
    let of = |options: &str| tmpfs_mounts(&host(json!({"Tmpfs": {"/t/": options}})));
    let (nosuid, nodev, noexec) = (libc::MOUNT_ATTR_NOSUID, libc::MOUNT_ATTR_NODEV, libc::MOUNT_ATTR_NOEXEC);
    let locked = nosuid | nodev | noexec;
    let rows = [
        ("", locked, ""),
        ("defaults", locked, ""),
        ("exec,size=1m,mode=700,uid=3", nosuid | nodev, "size=1m,mode=700,uid=3"),
        ("rw,exec,suid,dev,noatime,strictatime,ro", libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_STRICTATIME, ""),
        ("noatime,relatime,nodiratime", locked | libc::MOUNT_ATTR_NODIRATIME, ""),
        ("ro,rw", locked, ""),
        ("size=1m,size=2m,sync", locked, "size=2m,sync"),
        ("sync,async", locked, ""),
        ("rslave", locked, ""),
    ];
    for (text, flags, options) in rows {
        let mount = of(text).unwrap().remove(0);
        assert_eq!((mount.flags, mount.options.as_str()), (flags, options), "{text}");
        assert_eq!((mount.target.as_str(), mount.read_only), ("/t", flags & libc::MOUNT_ATTR_RDONLY != 0));
    }
    assert_eq!(of("rslave").unwrap()[0].propagation_text(), "rslave");
    let rows = [
        ("zz=1", r#"["zz" "1"]"#),
        ("zz", r#"["zz"]"#),
        ("zz=1,yy", r#"["yy"]"#),
        ("size", r#"["size"]"#),
        ("size=1m,", r#"[""]"#),
        ("bind", r#"["bind"]"#),
        ("ro=1", r#"["ro" "1"]"#),
    ];
    for (text, option) in rows {
        let error = of(text).expect_err(text);
        assert_eq!((error.http_status(), error.message()), (500, format!("invalid tmpfs option {option}").as_str()));
    }
}

#[test]
fn parents_are_mounted_before_children() {
    let spec = create(json!({"HostConfig": {"Binds": ["/x:/a/b/c", "/y:/z"], "Tmpfs": {"/a/b": "", "/a": "size=1m"}}}));
    let table = mount_table(&spec, Vec::new()).unwrap();
    assert_eq!(table.iter().map(|mount| mount.target.as_str()).collect::<Vec<_>>(), ["/a", "/z", "/a/b", "/a/b/c"]);
    let points = mount_points(&spec);
    assert_eq!(points.iter().map(|point| point.destination.as_str()).collect::<Vec<_>>(), ["/a/b/c", "/z"]);
    assert_eq!(
        json!(points[1]),
        json!({"Type": "bind", "Source": "/y", "Destination": "/z", "Mode": "", "RW": true, "Propagation": "rprivate"})
    );
}

#[test]
fn kernel_parameters() {
    let of = |name: &str, value: &str| sysctls(&decided(json!({"Sysctls": {name: value}})));
    let rows = [
        ("kernel.shmmax", "kernel/shmmax"),
        ("kernel/shmmax", "kernel/shmmax"),
        ("kernel.domainname", "kernel/domainname"),
        ("fs.mqueue.msg_max", "fs/mqueue/msg_max"),
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net/ipv4/conf/eth0.100/forwarding", "net/ipv4/conf/eth0.100/forwarding"),
        ("net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding"),
    ];
    for (name, path) in rows {
        assert_eq!(of(name, "1024\t65000").unwrap(), [(path.to_owned(), "1024\t65000".to_owned())], "{name}");
    }
    let rows = [
        ("kernel.x", "sysctl \"kernel.x\" is not in a separate kernel namespace"),
        ("kernel.shm", "sysctl \"kernel.shm\" is not in a separate kernel namespace"),
        ("kernel.shmmax.x", "sysctl \"kernel.shmmax.x\" is not in a separate kernel namespace"),
        ("fs.file-max", "sysctl \"fs.file-max\" is not in a separate kernel namespace"),
        ("net", "sysctl \"net\" is not a valid name"),
        ("kernel.hostname", "sysctl \"kernel.hostname\" is not allowed as it conflicts with the Hostname field"),
        ("net/../kernel/core_pattern", "sysctl \"net/../kernel/core_pattern\" is not a valid name"),
        ("net...x", "sysctl \"net...x\" is not a valid name"),
        ("net.././x", "sysctl \"net.././x\" is not a valid name"),
        ("net.x=1 kernel.y", "sysctl \"net.x=1 kernel.y\" is not a valid name"),
        ("net.x+y", "sysctl \"net.x+y\" is not a valid name"),
        ("net.x\ny", "sysctl \"net.x\\ny\" is not a valid name"),
        ("/net/x", "sysctl \"/net/x\" is not a valid name"),
        ("", "sysctl \"\" is not a valid name"),
    ];
    for (name, text) in rows {
        let error = of(name, "1").expect_err(name);
        assert_eq!((error.http_status(), error.message()), (500, text), "{name}");
    }
    for value in ["1\n2", "0+kernel.core_pattern=x", "a=b", "\u{0}"] {
        assert!(of("net.ipv4.x", value).is_err(), "{value:?}");
    }
    let shared = [
        (
            json!({"NetworkMode": "host", "Sysctls": {"net.x": "1"}}),
            "sysctl \"net.x\" not allowed in host network namespace",
        ),
        (
            json!({"IpcMode": "host", "Sysctls": {"kernel.msgmax": "1"}}),
            "sysctl \"kernel.msgmax\" is not allowed in the hosts ipc namespace",
        ),
        (
            json!({"IpcMode": "host", "Sysctls": {"fs.mqueue.msg_max": "1"}}),
            "sysctl \"fs.mqueue.msg_max\" is not allowed in the hosts ipc namespace",
        ),
        (
            json!({"UTSMode": "host", "Sysctls": {"kernel.domainname": "1"}}),
            "sysctl \"kernel.domainname\" is not allowed in the host's uts namespace",
        ),
    ];
    for (host_config, text) in shared {
        assert_eq!(sysctls(&decided(host_config)).expect_err(text).message(), text);
    }
}

#[test]
fn security_options() {
    let of = |list: Value| security(&host(json!({"SecurityOpt": list}))).unwrap();
    let is = |seccomp, no_new_privs| Security { seccomp, no_new_privs, apparmor: None };
    assert_eq!(of(Value::Null), is(Seccomp::Default, false));
    assert_eq!(of(json!(["no-new-privileges", "seccomp:unconfined"])), is(Seccomp::Unconfined, true));
    assert_eq!(of(json!(["no-new-privileges:true", "no-new-privileges=false"])), is(Seccomp::Default, false));
    assert_eq!(of(json!(["seccomp={\"a\":1}"])), is(Seccomp::Profile("{\"a\":1}".into()), false));
    let privileged = host(json!({"Privileged": true, "SecurityOpt": ["seccomp={}"]}));
    assert_eq!(security(&privileged).unwrap().seccomp, Seccomp::Unconfined);
    assert_eq!((masked_paths(&privileged, 8).len(), readonly_paths(&privileged).len()), (0, 0));
    let masked = masked_paths(&host(json!({})), 2);
    for path in [
        "/proc/kcore",
        "/proc/interrupts",
        "/sys/devices/virtual/powercap",
        "/sys/firmware",
        "/sys/devices/system/cpu/cpu1/thermal_throttle",
    ] {
        assert!(masked.iter().any(|masked| masked == path), "{path}");
    }
    assert_eq!(readonly_paths(&host(json!({}))).len(), 5);
}

#[test]
fn restart_policies() {
    let of = |name: &str, count: i64| {
        restart_policy(&crate::model::RestartPolicy { name: name.into(), maximum_retry_count: count }).unwrap()
    };
    assert_eq!(of("", 3), RestartPolicy::No);
    assert_eq!(of("no", 0), RestartPolicy::No);
    assert_eq!(of("always", 0), RestartPolicy::Always);
    assert_eq!(of("unless-stopped", 0), RestartPolicy::UnlessStopped);
    assert_eq!(of("on-failure", 0), RestartPolicy::OnFailure { max: None });
    assert_eq!(of("on-failure", 3), RestartPolicy::OnFailure { max: Some(3) });
}

#[test]
fn log_configuration() {
    let mut defaults = defaults();
    defaults.log_options = [("max-size".to_owned(), "1k".to_owned())].into();
    let of = |config: Value| {
        let body = body(json!({"HostConfig": {"LogConfig": config}}));
        let spec = checked_spec(&body, &image(json!({})), &defaults).unwrap().0;
        spec.host_config.log().clone()
    };
    let file = |max_size, max_file| LogDriver::JsonFile { max_size, max_file, compress: false, buffer: None };
    assert_eq!(of(json!({})), file(Some(1000), 1));
    assert_eq!(
        of(json!({"Type": "json-file", "Config": {"max-size": "1.5m", "max-file": "3"}})),
        file(Some(1_500_000), 3)
    );
    assert_eq!(of(json!({"Type": "none"})), LogDriver::None);
    let local = |max_size, max_file, compress| LogDriver::Local { max_size, max_file, compress, buffer: None };
    assert_eq!(of(json!({"Type": "local"})), local(20_000_000, 5, true));
    assert_eq!(
        of(json!({"Type": "local", "Config": {"max-size": "1m", "max-file": "2", "compress": "false"}})),
        local(1_000_000, 2, false)
    );
    let delivered = |max_size, max_file, compress, readable, buffer| LogDriver::Delivered {
        max_size,
        max_file,
        compress,
        readable,
        buffer,
    };
    assert_eq!(of(json!({"Type": "journald"})), delivered(20_000_000, 5, true, true, None));
    let drops = json!({"mode": "non-blocking"});
    let buffered = delivered(20_000_000, 5, true, true, Some(1_000_000));
    assert_eq!(of(json!({"Type": "journald", "Config": drops})), buffered);
    let bounds = json!({"cache-max-size": "1m", "cache-max-file": "1", "cache-disabled": "true"});
    assert_eq!(of(json!({"Type": "syslog", "Config": bounds})), delivered(1_000_000, 1, false, false, None));
    defaults.log_driver = "none".into();
    let body = body(json!({"HostConfig": {"LogConfig": {"Type": "json-file"}}}));
    let spec = checked_spec(&body, &image(json!({})), &defaults).unwrap().0;
    assert_eq!(spec.host_config.log().clone(), file(None, 1));
}

#[test]
fn sizes_of_the_log_s_buffer() {
    let of = |options: Value| {
        let spec = create(json!({"HostConfig": {"LogConfig": {"Type": "json-file", "Config": options}}}));
        match *spec.host_config.log() {
            LogDriver::JsonFile { buffer, .. } => buffer,
            ref other => panic!("{other:?}"),
        }
    };
    assert_eq!((of(json!({})), of(json!({"mode": ""})), of(json!({"mode": "blocking"}))), (None, None, None));
    assert_eq!(of(json!({"mode": "non-blocking"})), Some(1_000_000));
    for (text, bytes) in [("4m", 4 << 20), ("1.5 KiB", 1536), ("100", 100), ("0", 0), ("2GB", 2 << 30)] {
        assert_eq!(of(json!({"mode": "non-blocking", "max-buffer-size": text})), Some(bytes), "{text}");
    }
}

#[test]
fn log_attributes_of_labels_and_variables() {
    let spec = create(json!({"Labels": {"a": "1", "b": "2", "c1": "3"}, "Env": ["E=x=y", "F=z", "G"],
        "HostConfig": {"LogConfig": {"Config": {"labels": "a,zz", "labels-regex": "^c", "env": "E,G"}}}}));
    let of = |spec: &Spec| json!(log_attributes(&TagFacts { id: ID, name: "web", host: "h", spec }).unwrap());
    assert_eq!(of(&spec), json!({"a": "1", "c1": "3", "E": "x=y"}));
    assert_eq!(of(&create(json!({"Labels": {"a": "1"}}))), json!({}));
    let tagged = create(json!({"HostConfig": {"LogConfig": {"Config": {"tag": "{{.Name}}/{{.ID}}"}}}}));
    assert_eq!(of(&tagged), json!({"tag": format!("web/{}", &ID[..12])}));
}

#[test]
fn devices_with_defaults() {
    let of = |list: Value| devices(&host(json!({"Devices": list}))).unwrap();
    let node = |host: &str, inside: &str, permissions: &str| DeviceNode {
        path_on_host: host.into(),
        path_in_container: inside.into(),
        permissions: permissions.into(),
    };
    assert_eq!(of(json!([{"PathOnHost": "/dev/./fuse"}])), [node("/dev/fuse", "/dev/fuse", "rwm")]);
    assert_eq!(
        of(json!([{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "mr"}])),
        [node("/dev/a", "/dev/b", "mr")]
    );
}

#[test]
fn the_hosts_file() {
    let standard = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
        ff00::0\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n";
    let named =
        create(json!({"Hostname": "hh", "Domainname": "dd.com", "HostConfig": {"ExtraHosts": ["q:1.2.3.4", "z:::1"]}}));
    assert_eq!(hosts_file(&create(json!({})), "host's", "", &[], &[]), standard);
    assert_eq!(
        hosts_file(&named, "host's", "", &[], &strings(&["172.17.0.2"])),
        format!("{standard}1.2.3.4\tq\n::1\tz\n172.17.0.2\thh.dd.com hh\n")
    );
    assert_eq!(hostname_file(&named), "hh\n");
    let on_host = |more: Value| {
        let mut config = json!({"NetworkMode": "host"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(json!({"HostConfig": config}))
    };
    assert_eq!(hosts_file(&on_host(json!({})), "host's", "", &[], &[]), "host's");
    assert_eq!(
        hosts_file(&on_host(json!({"ExtraHosts": ["q:1.2.3.4"]})), "host's", "", &[], &[]),
        format!("{standard}1.2.3.4\tq\n")
    );
}

#[test]
fn the_resolver_file() {
    let text = "# comment\nsearch x.y\nnameserver 127.0.0.53\nnameserver 10.0.0.1\nnameserver ::1\noptions a b\n";
    let local = "nameserver 127.0.0.53\nnameserver ::1%lo\n";
    let rows = [
        (json!({}), text, "# comment\nsearch x.y\nnameserver 10.0.0.1\noptions a b\n"),
        (json!({"NetworkMode": "host"}), text, text),
        (json!({}), local, "nameserver 8.8.8.8\nnameserver 8.8.4.4\n"),
        (json!({}), "", "nameserver 8.8.8.8\nnameserver 8.8.4.4\n"),
        (json!({"Dns": ["1.1.1.1", "::2"]}), text, "search x.y\nnameserver 1.1.1.1\nnameserver ::2\noptions a b\n"),
        (
            json!({"Dns": ["1.1.1.1"], "DnsSearch": ["a.b", "c"], "DnsOptions": ["x:1"]}),
            text,
            "search a.b c\nnameserver 1.1.1.1\noptions x:1\n",
        ),
        (json!({"DnsSearch": ["."]}), text, "nameserver 10.0.0.1\noptions a b\n"),
        (json!({"DnsSearch": ["z"]}), local, "search z\nnameserver 8.8.8.8\nnameserver 8.8.4.4\n"),
        (
            json!({"NetworkMode": "host", "DnsOptions": ["o"]}),
            text,
            "search x.y\nnameserver 127.0.0.53\nnameserver 10.0.0.1\nnameserver ::1\noptions o\n",
        ),
    ];
    for (host_config, host_text, expected) in rows {
        assert_eq!(resolv_conf(host_text, &decided(host_config.clone())), expected, "{host_config}");
    }
}
