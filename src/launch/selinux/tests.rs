use super::*;
use std::collections::BTreeSet;
use std::os::fd::AsFd;

const FEDORA: &str = "process = \"system_u:system_r:container_t:s0\"
content = \"system_u:object_r:virt_var_lib_t:s0\"
file = \"system_u:object_r:container_file_t:s0\"
ro_file=\"system_u:object_r:container_ro_file_t:s0\"
sandbox_kvm_process = \"system_u:system_r:svirt_qemu_net_t:s0\"
";

fn policy() -> Policy {
    Policy::parse(FEDORA).unwrap()
}

fn asked(values: &[&str]) -> Result<LabelRequest> {
    LabelRequest::parse(values.iter().copied())
}

fn labels(values: &[&str]) -> (String, String) {
    let labels = policy().labels(&asked(values).unwrap(), "s0:c1,c2");
    (labels.process, labels.mount)
}

#[test]
fn labels_are_read_in_their_parts() {
    for text in [
        "system_u:system_r:container_t:s0",
        "u:r:t-1.x:s0:c1,c2",
        "u:r:t:s0-s15:c0.c1023",
        "u:r:t:s0:c1-s1:c1,c3.c5",
        "u:r:t",
    ] {
        assert_eq!(text.parse::<Context>().unwrap().to_string(), text);
    }
    for bad in [
        "",
        "u",
        "u:r",
        "u::t:s0",
        "u:r:t:",
        "u:r:t:0",
        "u:r:t:s0:",
        "u:r:t:s0:c",
        "u:r:t:s0:c1,",
        "u r:r:t",
        "u:r:t:s0\"",
        "u:r:t:s0:c123456",
    ] {
        assert!(bad.parse::<Context>().is_err(), "{bad}");
    }
}

#[test]
fn types_are_those_of_the_policy() {
    let expected =
        ("system_u:system_r:container_t:s0:c1,c2".into(), "system_u:object_r:container_file_t:s0:c1,c2".into());
    assert_eq!(labels(&[]), expected);
    assert_eq!(policy().of_images(), "system_u:object_r:container_ro_file_t:s0");
    assert!(Policy::parse("process = \"u:r:t:s0\"").unwrap_err().message().contains("no label of file"));
    assert!(Policy::parse("process = \"u\"\nfile=\"u:r:t\"").is_err());
    let without = Policy::parse("process = \"u:r:t\"\nfile = \"u:r:f\"").unwrap();
    assert_eq!(without.free_level(|_| Ok(true)).unwrap(), "");
    let made = without.labels(&LabelRequest::NOTHING, "");
    assert_eq!((made.process.as_str(), made.mount.as_str(), made.level()), ("u:r:t", "u:r:f", String::new()));
}

#[test]
fn options_change_their_part() {
    let (process, mount) =
        labels(&["user:staff_u", "role:staff_r", "type:svirt_t", "level:s0:c7", "filetype:svirt_file_t"]);
    assert_eq!(process, "staff_u:staff_r:svirt_t:s0:c7");
    assert_eq!(mount, "staff_u:object_r:svirt_file_t:s0:c7");
    assert_eq!(labels(&["type:a_t", "type:b_t"]).0, "system_u:system_r:b_t:s0:c1,c2");
    let none = (String::new(), "system_u:object_r:container_file_t:s0:c1022,c1023".to_owned());
    assert_eq!(labels(&["level:s0:c7", "disable"]), none);
    assert_eq!(labels(&["disable", "level:s0:c7"]), none);
    for (bad, why) in [
        ("x", "disable, or user"),
        ("colour:red", "there are user"),
        ("type:", "cannot be part"),
        ("type:a:b", "cannot be part"),
        ("user:a\nb", "cannot be part"),
        ("level:7", "cannot be part"),
        ("level:s0:c1,c2\",x", "cannot be part"),
    ] {
        let error = asked(&[bad]).unwrap_err();
        assert!(error.message().contains(&format!("label={bad}: ")) && error.message().contains(why), "{error}");
    }
}

#[test]
fn a_peer_has_the_label_of_the_other() {
    let other = "system_u:system_r:other_t:s0:c3,c4";
    let made = policy().labels(&LabelRequest::as_another(other).unwrap(), "s0:c1,c2");
    assert_eq!((made.process.as_str(), made.level().as_str()), (other, "s0:c3,c4"));
    assert!(made.mount.ends_with(":container_file_t:s0:c3,c4"));
    assert_eq!(
        LabelRequest::as_another("").unwrap(),
        LabelRequest::NOTHING,
        "nobody loses a label by a peer without one"
    );
}

#[test]
fn levels_are_free_ones_in_order() {
    let mut given = BTreeSet::new();
    for _ in 0..500 {
        let level = policy().free_level(|level| Ok(!given.contains(level))).unwrap();
        let (low, high) = level.strip_prefix("s0:c").and_then(|pair| pair.split_once(",c")).unwrap();
        let (low, high) = (low.parse::<u16>().unwrap(), high.parse::<u16>().unwrap());
        assert!(low < high && high < CATEGORIES && low != CATEGORIES - 2, "{level}");
        assert!(given.insert(level));
    }
    assert!(policy().free_level(|_| Ok(false)).is_err());
    assert_eq!(pair(1022 << 32 | 1023), None);
    assert_eq!(pair(5 << 32 | 1027), Some((3, 5)));
    assert_eq!(pair(5 << 32 | 5), None);
    let shared = shared("system_u:object_r:container_file_t:s0:c1,c2").unwrap();
    assert_eq!(shared, "system_u:object_r:container_file_t:s0");
}

/// The kernel keeps this attribute with or without SELinux.
#[test]
fn a_tree_gets_its_label_and_nothing_that_links_lead_to() {
    let label = "system_u:object_r:container_file_t:s0:c1,c2";
    let dir = std::env::temp_dir().join(format!("coracle-relabel-{}", std::process::id()));
    let (source, other) = (dir.join("source"), dir.join("other"));
    std::fs::create_dir_all(source.join("a/b")).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(source.join("a/b/file"), "").unwrap();
    std::fs::write(other.join("secret"), "").unwrap();
    std::os::unix::fs::symlink(&other, source.join("dir")).unwrap();
    std::os::unix::fs::symlink(other.join("secret"), source.join("link")).unwrap();
    std::os::unix::fs::symlink(&source, dir.join("alias")).unwrap();
    let opened = relabel::open_source(&source, &[]).unwrap();
    let has = |path: &Path| relabel::has(relabel::open_own(path).unwrap().as_fd(), label).unwrap();
    relabel::tree(opened.as_fd(), label, true).unwrap();
    for name in ["", "a", "a/b", "a/b/file", "dir", "link"] {
        assert!(has(&source.join(name)), "{name}");
    }
    assert!(!has(&other) && !has(&other.join("secret")), "what links lead to is another's");

    // A directory with the label is only entered on request.
    std::fs::write(source.join("a/new"), "").unwrap();
    relabel::tree(opened.as_fd(), label, false).unwrap();
    assert!(!has(&source.join("a/new")));
    relabel::tree(opened.as_fd(), label, true).unwrap();
    assert!(has(&source.join("a/new")));

    for (path, why) in [
        (dir.join("alias"), "symbolic link"),
        (dir.join("alias/a"), "symbolic link"),
        ("/".into(), "belongs to the system"),
        ("/etc".into(), "belongs to the system"),
        ("/usr".into(), "belongs to the system"),
        ("/home".into(), "belongs to the system"),
        ("/proc/sys/vm".into(), "belongs to the system"),
        (dir.join("../../../../../../proc/sys/vm"), "belongs to the system"),
        (dir.join("../../../../../../etc"), "belongs to the system"),
        ("/dev/null".into(), "belongs to the system"),
    ] {
        let error = relabel::open_source(&path, &[]).unwrap_err();
        assert!(error.message().contains("is not allowed") && error.message().contains(why), "{error}");
    }
    for (asked, kept) in [
        (source.clone(), source.join("a/b")),
        (source.clone(), source.clone()),
        (source.join("a/b/file"), source.clone()),
        (other.join("../source/a"), source.clone()),
        (source.join("a"), dir.join("alias")),
    ] {
        let error = relabel::open_source(&asked, &[&kept]).unwrap_err();
        assert!(error.message().contains("engine's own"), "{error}");
    }
    relabel::open_source(&source.join("a"), &[&other]).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
