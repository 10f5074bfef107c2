//! Platforms of images: the pull of one that a request names, local images that are of another one, and containers of such.

use crate::cli::coracle;
use crate::container_later_fields::ask;
use crate::store;
use crate::support::archive::{self, Tar, sha256};
use crate::support::registry::{Answered, Request, Scripted};
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::{ImagePlatform, PullImage, RemoveImage};
use coracle_http::{ReplyBody, Router};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// A platform that no machine of this test has, and the variant of one.
const OTHER: &str = "linux/s390x";
const ARM: &str = "linux/arm/v6";

/// Documents and blobs of a registry by their paths.
type Paths = BTreeMap<String, (&'static str, Vec<u8>)>;

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// Puts an image for a platform into the repository `made/hand`; answers its entry of a list.
fn put(paths: &mut Paths, platform: &str) -> Value {
    let of: ImagePlatform = platform.parse().expect("a platform");
    let layer = Tar::new().entry(b'0', "platform", "", 0o755, platform.as_bytes()).end();
    let mut config: Value =
        serde_json::from_str(&archive::config(json!({ "Cmd": ["/platform"] }), &[digest(&layer)])).expect("JSON");
    config["architecture"] = json!(of.architecture);
    config["variant"] = json!(of.variant);
    let config = config.to_string().into_bytes();
    let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "size": bytes.len(), "digest": digest(bytes) });
    let manifest = json!({ "schemaVersion": 2, "config": part("application/vnd.docker.container.image.v1+json", &config),
        "layers": [part("application/vnd.oci.image.layer.v1.tar", &layer)] });
    let manifest = manifest.to_string().into_bytes();
    let mut entry = part(MANIFEST, &manifest);
    entry["platform"] = json!(of);
    for blob in [config, layer] {
        paths.insert(format!("/v2/made/hand/blobs/{}", digest(&blob)), ("application/octet-stream", blob));
    }
    paths.insert(format!("/v2/made/hand/manifests/{}", digest(&manifest)), (MANIFEST, manifest.clone()));
    paths.insert(format!("/v2/made/hand/manifests/{}", of.architecture), (MANIFEST, manifest));
    entry
}

/// A registry with a list of images for this machine, for another one and for a variant, and each under a tag of its own. The
/// list `odd` names this machine for the image of another one.
fn registry() -> Scripted {
    let mut paths = Paths::new();
    let here = ImagePlatform::of_this_machine();
    let entries: Vec<Value> = [OTHER, ARM, &here.to_string()].map(|platform| put(&mut paths, platform)).into();
    let mut odd = entries[0].clone();
    odd["platform"] = json!(here);
    for (tag, entries) in [("list", entries), ("odd", vec![odd])] {
        let list = json!({ "schemaVersion": 2, "manifests": entries }).to_string().into_bytes();
        for name in [tag.to_owned(), digest(&list)] {
            paths.insert(format!("/v2/made/hand/manifests/{name}"), (LIST, list.clone()));
        }
    }
    paths.insert("/v2/".into(), ("application/json", b"{}".to_vec()));
    Scripted::start(move |asked: &Request| match paths.get(&asked.target) {
        Some((kind, body)) => Answered::new(200, body.clone()).with("Content-Type", kind),
        None => Answered::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"not here"}]}"#),
    })
}

/// Asks with empty credentials; answers the status and the text, of a stream to its end.
fn answer(router: &Router, method: &str, target: &str) -> (u16, String) {
    let auth = [("X-Registry-Auth", "e30=")];
    let reply = router.request(method, target, &auth, Vec::new(), None).expect("an answer");
    let mut bytes = Vec::new();
    match reply.body {
        ReplyBody::Bytes(all) => bytes = all.to_vec(),
        ReplyBody::Stream(fd, _) => drop(UnixStream::from(fd).read_to_end(&mut bytes).expect("the stream")),
        other => panic!("{other:?}"),
    }
    (reply.status, String::from_utf8_lossy(&bytes).into_owned())
}

/// Pulls over HTTP; answers the stream.
fn pull(router: &Router, name: &str, platform: &str) -> String {
    let (status, text) = answer(router, "POST", &format!("/images/create?fromImage={name}&platform={platform}"));
    assert!(status == 200 || text.contains("no matching manifest"), "{status} {text}");
    text
}

#[test]
fn a_pull_takes_the_image_of_the_platform_that_is_named() {
    let server = registry();
    let root = Root::empty();
    let router = Router::new(root.engine.clone());
    let name = format!("{}/made/hand:list", server.host());
    let found = |name: &str| {
        let image = root.engine.image_inspect(name).expect("inspect");
        ImagePlatform::of_image(&image).to_string()
    };
    for platform in [OTHER, ARM, "linux/arm/v7"] {
        let request = PullImage { name: name.clone(), platform: platform.parse().ok(), ..PullImage::default() };
        root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("pull");
        // A later variant takes the image of an earlier one.
        assert_eq!(found(&name), if platform == OTHER { OTHER } else { ARM });
    }
    assert!(pull(&router, &name, OTHER).contains("Downloaded newer image"));
    assert_eq!(found(&name), OTHER);
    // Without a platform, this machine's.
    assert!(pull(&router, &name, "").contains("Downloaded newer image"));
    assert_eq!(found(&name), ImagePlatform::of_this_machine().to_string());
    // No image of the list, and an image without a list.
    let none = pull(&router, &name, "linux/riscv64");
    assert!(none.contains("no matching manifest for linux/riscv64 in the manifest list entries"), "{none}");
    let alone = format!("{}/made/hand:s390x", server.host());
    let told = pull(&router, &alone, ARM);
    let warning =
        format!("WARNING: image with reference {alone} was found but its platform (linux/s390x) does not match");
    assert!(told.contains(&warning) && told.contains("Downloaded newer image"), "{told}");
    let (status, text) = answer(&router, "POST", &format!("/images/create?fromImage={name}&platform=a%20planet"));
    assert!(status == 400 && text.contains("platform"), "{status} {text}");
    assert!(!pull(&router, &alone, OTHER).contains("WARNING"));
}

#[test]
fn the_command_pulls_for_the_platform_that_it_is_given() {
    let server = registry();
    let root = Root::empty();
    let name = format!("{}/made/hand:list", server.host());
    let run = |platform: &str| {
        let mut command = coracle(&root.dir);
        command.env("DOCKER_CONFIG", &root.dir).args(["pull", "-q", "--platform", platform, &name]);
        let output = command.output().expect("run the command");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for platform in [OTHER, ARM] {
        let (code, told) = run(platform);
        assert_eq!(code, Some(0), "{told}");
        let image = root.engine.image_inspect(&name).expect("inspect");
        assert_eq!(ImagePlatform::of_image(&image).to_string(), platform);
    }
    for (platform, words) in
        [("linux/riscv64", "no matching manifest for linux/riscv64"), ("a planet", "platform \"a planet\"")]
    {
        let (code, told) = run(platform);
        assert!(code == Some(1) && told.contains(words), "{code:?} {told}");
    }
}

/// Creates a container of `image`; answers the status and the document.
fn create(router: &Router, image: &str, platform: &str) -> (u16, Value) {
    let json = [("Content-Type", "application/json")];
    let target = format!("/containers/create?platform={platform}");
    let body = json!({ "Image": image }).to_string().into_bytes();
    let reply = router.request("POST", &target, &json, body, None).expect("an answer");
    let ReplyBody::Bytes(bytes) = reply.body else { panic!("{target}: a stream") };
    (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
}

// parameter: POST /containers/create: platform
#[test]
fn local_images_of_another_platform_are_not_found() {
    let server = registry();
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let other = format!("{}/made/hand:s390x", server.host());
    pull(&router, &other, OTHER);
    let here = ImagePlatform::of_this_machine();
    let text = |image: &str, is: &str, wanted: &str| {
        format!(
            "image with reference {image} was found but its platform ({is}) does not match the specified platform ({wanted})"
        )
    };
    let (status, answer) = create(&router, IMAGE, OTHER);
    assert_eq!((status, &answer["message"]), (404, &json!(text(IMAGE, &here.to_string(), OTHER))));
    let (status, answer) = create(&router, &other, &here.to_string());
    assert_eq!((status, &answer["message"]), (404, &json!(text(&other, OTHER, &here.to_string()))));
    assert_eq!(create(&router, IMAGE, "a/b/c/d").0, 400);
    // The image's own platform, and none: with a warning, if this machine does not run the image by itself.
    let (status, answer) = create(&router, &other, OTHER);
    assert_eq!((status, &answer["Warnings"]), (201, &json!([])), "{answer}");
    let warning = format!(
        "The requested image's platform ({OTHER}) does not match the detected host platform ({here}) and no specific platform \
         was requested"
    );
    let (status, answer) = create(&router, &other, "");
    assert_eq!((status, &answer["Warnings"]), (201, &json!([warning])), "{answer}");
    let (status, answer) = create(&router, IMAGE, &here.to_string());
    assert_eq!((status, &answer["Warnings"]), (201, &json!([])), "{answer}");
    for (method, path) in [("GET", "json?platform="), ("GET", "history?platform="), ("DELETE", "?platforms=")] {
        let slash = if path.starts_with('?') { "" } else { "/" };
        let document = "%7B%22os%22%3A%22linux%22%2C%22architecture%22%3A%22s390x%22%7D";
        for platform in [OTHER, document] {
            let (status, answer) = ask(&router, method, &format!("/images/{IMAGE}{slash}{path}{platform}"));
            let wanted = json!(text(IMAGE, &here.to_string(), OTHER));
            assert_eq!((status, &answer["message"]), (404, &wanted), "{method} {path} {platform}");
        }
    }
    assert_eq!(ask(&router, "GET", &format!("/images/{other}/json?platform={OTHER}")).0, 200);
    assert_eq!(ask(&router, "GET", &format!("/images/{other}/history?platform={OTHER}")).0, 200);
    // A start is tried: only the kernel knows which programs it can run.
    let (_, answer) = create(&router, &other, OTHER);
    let id = answer["Id"].as_str().expect("an id");
    fails(root.engine.container_start(id, None, Some(&soon())), ErrorKind::Internal, "exec format error");
}

#[test]
fn a_save_and_a_push_check_every_tag_that_they_are_about() {
    let server = registry();
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let repository = format!("{}/made/hand", server.host());
    pull(&router, &format!("{repository}:s390x"), OTHER);
    root.engine.image_tag(IMAGE, "twin:one").expect("tag");
    let here = ImagePlatform::of_this_machine().to_string();
    let get = |names: &str, platform: &str| answer(&router, "GET", &format!("/images/{names}&platform={platform}"));
    let refused = |(status, text): (u16, String), image: &str| {
        assert!(
            status == 404 && text.contains(&format!("image with reference {image} was found but")),
            "{status} {text}"
        );
    };
    // Repositories without the tag `latest`, by familiar and by full names; an id has no tags.
    let id = root.engine.image_inspect(IMAGE).expect("inspect").id;
    let names = ["twin/get?a=b", "get?names=twin", "get?names=docker.io/library/twin&names=busybox:latest"];
    for names in names.map(str::to_owned).into_iter().chain([format!("get?names={id}")]) {
        assert_eq!(get(&names, &here).0, 200, "{names}");
    }
    refused(get("get?names=busybox&names=twin", OTHER), "busybox:latest");
    refused(get("get?names=twin", OTHER), "twin:one");
    refused(get(&format!("get?names={id}"), OTHER), &id);
    root.engine.image_tag(&format!("{repository}:s390x"), "twin:two").expect("tag");
    refused(get("get?names=twin", &here), "twin:two");
    assert_eq!(get("get?names=twin:one", &here).0, 200);
    assert_eq!(get("get?names=absent", &here).0, 404);
    let push = |query: &str| answer(&router, "POST", &format!("/images/{repository}/push?{query}"));
    // The registry takes no pushes: its refusal stands in the stream.
    assert_eq!(push(&format!("platform={OTHER}")).0, 200);
    assert_eq!(push(&format!("tag=s390x&platform={OTHER}")).0, 200);
    refused(push(&format!("platform={here}")), &format!("{repository}:s390x"));
    refused(push(&format!("tag=s390x&platform={here}")), &format!("{repository}:s390x"));
}

#[test]
fn damaged_images_of_other_platforms_are_fetched_again() {
    let server = registry();
    let root = Root::empty();
    let router = Router::new(root.engine.clone());
    let repaired = || {
        let report = store::verify(&root.engine, true);
        assert!(report.damage.len() == 1 && report.damage[0].repaired, "{report:?}");
        assert_eq!(store::verify(&root.engine, false).damage, []);
    };
    // The damaged configuration does not tell its platform any more.
    pull(&router, &format!("{}/made/hand:list", server.host()), OTHER);
    store::harm_configuration(&root, &format!("{}/made/hand:list", server.host()));
    repaired();
    // The configuration names another platform than the list.
    root.engine.image_remove(&format!("{}/made/hand:list", server.host()), RemoveImage::default()).expect("remove");
    pull(&router, &format!("{}/made/hand:odd", server.host()), "");
    let file = store::layer_with(&root, "platform").join("diff/platform");
    std::fs::write(file, b"other content").expect("write");
    repaired();
}
