//! Images to and from others: dockerd, skopeo and umoci, by archive and by registry.

use super::registry::{pull, push};
use crate::support::archive::{self, Tar, sha256};
use crate::support::dockerd::{Dockerd, tool, tried};
use crate::support::registry::Registry;
use crate::support::*;
use coracle::Engine;
use coracle::model::*;
use serde_json::{Value, json};

/// The image that goes around: busybox and two layers, one of which comes twice.
const STACK: &str = "stack:1";

/// Fields end in this order: the root's directory has files that the others need.
struct World {
    dockerd: Dockerd,
    registry: Registry,
    root: Root,
}

impl World {
    fn path(&self, name: &str) -> String {
        self.root.dir.join(name).display().to_string()
    }

    fn remote(&self, path: &str) -> String {
        format!("{}/{path}", self.registry.host())
    }

    fn id(&self) -> String {
        self.root.engine.image_inspect(STACK).expect("inspect").id
    }

    /// The image in a directory of ours, as the archive `oci` or as docker's.
    fn saved(&self, oci: bool) -> String {
        let path = self.path(if oci { "ours-oci.tar" } else { "ours.tar" });
        let mut file = std::fs::File::create(&path).expect("create");
        let save = if oci { Engine::image_save_oci } else { Engine::image_save };
        save(&self.root.engine, &[STACK.to_owned()], &mut file, Some(&soon())).expect("save");
        path
    }

    /// The image in the registry, as we push it.
    fn pushed(&self) -> String {
        let name = self.remote("ours/stack:1");
        self.root.engine.image_tag(STACK, &name).expect("tag");
        push(&self.root.engine, &name).expect("push");
        name
    }

    fn skopeo(&self, words: &[&str]) -> String {
        let tls = ["--src-tls-verify=false", "--dest-tls-verify=false"];
        match words[0] {
            "copy" => copied(&[&["copy", "-q"], &tls[..], &words[1..]].concat()),
            _ => tool("skopeo", &[&[words[0], "--tls-verify=false"], &words[1..]].concat()),
        }
    }

    /// The image's configuration in skopeo's view.
    fn config_id(&self, source: &str) -> String {
        let raw = self.skopeo(&["inspect", "--config", "--raw", source]);
        format!("sha256:{}", sha256(raw.as_bytes()))
    }
}

/// A copy by skopeo, which sends equal layers side by side. Debian's registry answers 500 to the question for a blob whose link it writes
/// at that moment (22 times in 600 links, "invalid checksum digest format" in its log), and skopeo gives up then.
fn copied(words: &[&str]) -> String {
    for _ in 0..5 {
        match tried("skopeo", words) {
            Err(text) if text.contains("trying to reuse blob") && text.contains("500") => println!("once more: {text}"),
            result => return result.unwrap_or_else(|text| panic!("skopeo {words:?}: {text}")),
        }
    }
    tool("skopeo", words)
}

/// An image as it came out: its id, and its layers.
struct Came {
    id: String,
    layers: Option<Vec<String>>,
}

impl Came {
    /// For those who write configurations anew: the layers are ours, so the image counts as it.
    fn of_same_layers(self, world: &World) -> String {
        let ours = world.root.engine.image_inspect(STACK).expect("inspect");
        assert_eq!(self.layers, ours.root_fs.layers);
        ours.id
    }
}

/// Loads a file into a new root, where the one image in it runs.
fn loaded(path: &str) -> Came {
    let fresh = Root::empty();
    let mut file = std::fs::File::open(path).expect("open");
    let names = fresh.engine.image_load(&mut file, &mut |_| Ok(()), Some(&soon())).expect("load");
    runs(&fresh, &names[0])
}

fn pulled(name: &str) -> Came {
    let fresh = Root::empty();
    pull(&fresh.engine, name).expect("pull");
    runs(&fresh, name)
}

fn runs(root: &Root, name: &str) -> Came {
    assert_eq!(root.run(&["cat", "/added"], json!({ "Image": name }), b"").ok(), "by hand");
    let detail = root.engine.image_inspect(name).expect("inspect");
    Came { id: detail.id, layers: detail.root_fs.layers }
}

/// The writer, the reader, and a check that returns the id of the resulting image.
type Way = (&'static str, fn(&World) -> String);

const WAYS: &[Way] = &[
    ("our archive to dockerd", |w| {
        assert_eq!(w.dockerd.docker(&["load", "-q", "-i", &w.saved(false)]), "Loaded image: stack:1");
        w.dockerd.docker(&["inspect", "-f", "{{.Id}}", STACK])
    }),
    ("our push to dockerd", |w| {
        let name = w.pushed();
        w.dockerd.docker(&["pull", "-q", &name]);
        w.dockerd.docker(&["inspect", "-f", "{{.Id}}", &name])
    }),
    ("our archive to skopeo", |w| w.config_id(&format!("docker-archive:{}", w.saved(false)))),
    ("our OCI layout to skopeo", |w| w.config_id(&format!("oci-archive:{}:1", w.saved(true)))),
    ("our push to skopeo", |w| w.config_id(&format!("docker://{}", w.pushed()))),
    ("our OCI layout to umoci", |w| {
        let (layout, bundle) = (w.path("layout"), w.path("bundle"));
        std::fs::create_dir(&layout).expect("mkdir");
        tool("tar", &["-xf", &w.saved(true), "-C", &layout]);
        tool("umoci", &["unpack", "--image", &format!("{layout}:1"), &bundle]);
        let added = std::fs::read_to_string(w.root.dir.join("bundle/rootfs/added")).expect("read");
        assert_eq!(added, "by hand");
        w.id()
    }),
    ("dockerd's archive to us", |w| {
        w.dockerd.docker(&["save", "-o", &w.path("theirs.tar"), STACK]);
        loaded(&w.path("theirs.tar")).id
    }),
    ("dockerd's push to us", |w| {
        let name = w.remote("theirs/stack:1");
        w.dockerd.docker(&["tag", STACK, &name]);
        w.dockerd.docker(&["push", "-q", &name]);
        pulled(&name).id
    }),
    ("skopeo's docker archive to us", |w| {
        let to = w.path("skopeo.tar");
        w.skopeo(&["copy", &format!("docker://{}", w.pushed()), &format!("docker-archive:{to}:stack:1")]);
        loaded(&to).id
    }),
    ("skopeo's OCI archive to us", |w| {
        let to = w.path("skopeo-oci.tar");
        w.skopeo(&["copy", &format!("docker://{}", w.pushed()), &format!("oci-archive:{to}:stack:1")]);
        loaded(&to).of_same_layers(w)
    }),
    ("skopeo's OCI push with gzip to us", |w| {
        let to = w.remote("skopeo/gzip:1");
        w.skopeo(&["copy", "--format", "oci", &format!("docker://{}", w.pushed()), &format!("docker://{to}")]);
        pulled(&to).of_same_layers(w)
    }),
    ("skopeo's OCI push with zstd to us", |w| {
        let to = w.remote("skopeo/zstd:1");
        let (from, to_url) = (format!("docker-archive:{}", w.saved(false)), format!("docker://{to}"));
        w.skopeo(&["copy", "--format", "oci", "--dest-compress-format", "zstd", &from, &to_url]);
        pulled(&to).of_same_layers(w)
    }),
    ("skopeo's push in the oldest form to us and to dockerd", |w| {
        let to = w.remote("skopeo/old:1");
        w.skopeo(&["copy", "--format", "v2s1", &format!("docker://{}", w.pushed()), &format!("docker://{to}")]);
        let ours = pulled(&to);
        w.dockerd.docker(&["pull", "-q", &to]);
        assert_eq!(w.dockerd.docker(&["inspect", "-f", "{{.Id}}", &to]), ours.id);
        ours.of_same_layers(w)
    }),
    ("umoci's layout to us", |w| {
        let layout = w.path("theirs");
        w.skopeo(&["copy", &format!("docker://{}", w.pushed()), &format!("oci:{layout}:box")]);
        tool("umoci", &["config", "--image", &format!("{layout}:box"), "--config.env", "MADE=umoci"]);
        let tar = w.path("umoci.tar");
        tool("tar", &["-C", &layout, "-cf", &tar, "."]);
        loaded(&tar).of_same_layers(w)
    }),
];

/// The image as an archive, with the history that some want to see.
fn stack(layers: &[&[u8]]) -> Vec<u8> {
    let diff_ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
    let mut config: Value = serde_json::from_str(&archive::config(json!({ "Cmd": ["sh"] }), &diff_ids)).expect("JSON");
    let step = |i: usize| json!({ "created": "2020-01-02T03:04:05Z", "created_by": format!("step <{i}> & more") });
    // dockerd rewrites images that are older than 1.8.3, or do not name a version.
    config["docker_version"] = json!("20.10.0");
    config["history"] = (0..layers.len()).map(step).collect();
    let config = config.to_string();
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    let paths: Vec<String> = (0..layers.len()).map(|i| format!("{i}/layer.tar")).collect();
    let manifest = json!([{ "Config": config_name, "RepoTags": [STACK], "Layers": paths }]).to_string();
    let mut tar = Tar::new().file(&config_name, config.as_bytes());
    for (path, layer) in paths.iter().zip(layers) {
        tar = tar.file(path, layer);
    }
    tar.file("manifest.json", manifest.as_bytes()).end()
}

#[test]
fn everyone_reads_what_we_make_and_we_what_they_make() {
    let root = Root::new();
    let registry = Registry::start(
        &root.dir.join("registry"),
        "http: {addr: \"127.0.0.1:PORT\"}\ncompatibility:\n  schema1: {enabled: true}",
    );
    let dockerd = Dockerd::start(&root.dir.join("dockerd"));
    let world = World { dockerd, registry, root };
    let mut base = Vec::new();
    world.root.engine.image_save(&[IMAGE.to_owned()], &mut base, Some(&soon())).expect("save");
    let base = archive::files(&base).into_iter().find(|(path, _)| path.ends_with("layer.tar")).expect("a layer").1;
    let layer = Tar::new().file("added", b"by hand").end();
    let stack = stack(&[&base, &layer, &layer]);
    world.root.engine.image_load(&mut &stack[..], &mut |_| Ok(()), Some(&soon())).expect("load");
    for (what, way) in WAYS {
        println!("{what}");
        assert_eq!(way(&world), world.id(), "{what}");
    }
    let shown = world.root.engine.image_list(&ListImages::default()).expect("list");
    assert!(shown.len() <= 2, "{shown:?}");
}
