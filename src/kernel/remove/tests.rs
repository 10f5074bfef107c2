use super::*;
use crate::kernel::walk::tests::Scratch;

#[test]
fn links_and_files_go_and_what_they_lead_to_stays() {
    let scratch = Scratch::new("links");
    let at = |name: &str| scratch.0.join(name);
    std::fs::create_dir_all(at("kept/dir")).unwrap();
    std::fs::create_dir_all(at("gone/in")).unwrap();
    std::fs::write(at("kept/file"), b"x").unwrap();
    for (target, link) in [("../kept", "gone/dir"), ("../kept/file", "gone/file"), ("nowhere", "gone/in/nowhere")] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    std::os::unix::fs::symlink("kept", at("link")).unwrap();
    let base = scratch.fd();
    for name in ["gone", "link", "nothing"] {
        remove_tree(base.as_fd(), name).unwrap();
    }
    assert_eq!(tree::names(base.as_fd()).unwrap(), [b"kept"]);
    assert!(at("kept/dir").is_dir() && at("kept/file").is_file());
}
