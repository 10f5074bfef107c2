//! Hostile images: what the usual busybox has, with layers of an attacker on top and any configuration.

use crate::support::archive::{Tar, files, sha256};
use crate::support::{Root, busybox_archive};
use serde_json::{Value, json};

/// An image to be made: busybox below, these layers above it.
pub struct Image {
    layers: Vec<Vec<u8>>,
    config: Value,
    architecture: &'static str,
    document: Value,
}

impl Image {
    pub fn new() -> Image {
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        Image { layers: vec![busybox_layer()], config: json!({ "Cmd": ["sh"] }), architecture, document: json!({}) }
    }

    /// With one more layer.
    pub fn layer(mut self, layer: Tar) -> Image {
        self.layers.push(layer.end());
        self
    }

    /// With the members of this object in its configuration.
    pub fn config(mut self, more: Value) -> Image {
        let Value::Object(more) = more else { panic!("an object") };
        more.into_iter().for_each(|(key, value)| self.config[key] = value);
        self
    }

    pub fn architecture(mut self, name: &'static str) -> Image {
        self.architecture = name;
        self
    }

    /// Replaces or adds the members of this object beside the image's configuration.
    pub fn document(mut self, more: Value) -> Image {
        self.document = more;
        self
    }

    /// As a `docker save` archive.
    pub fn archive(&self, name: &str) -> Vec<u8> {
        let diff_ids: Vec<String> = self.layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
        let mut config = json!({ "architecture": self.architecture, "os": "linux", "created": "2020-01-02T03:04:05Z",
            "config": self.config, "rootfs": { "type": "layers", "diff_ids": diff_ids } });
        for (key, value) in self.document.as_object().expect("an object") {
            config[key] = value.clone();
        }
        let config = config.to_string();
        let config_name = format!("{}.json", sha256(config.as_bytes()));
        let paths: Vec<String> = (0..self.layers.len()).map(|index| format!("{index}/layer.tar")).collect();
        let name = if name.contains(':') { name.to_owned() } else { format!("{name}:latest") };
        let manifest = json!([{ "Config": config_name, "RepoTags": [name], "Layers": paths }]).to_string();
        let mut tar = Tar::new().file(&config_name, config.as_bytes());
        for (path, layer) in paths.iter().zip(&self.layers) {
            tar = tar.file(path, layer);
        }
        tar.file("manifest.json", manifest.as_bytes()).end()
    }

    /// Loads it under this name.
    pub fn load(&self, root: &Root, name: &str) {
        self.try_load(root, name).unwrap_or_else(|e| panic!("load {name}: {e}"));
    }

    pub fn try_load(&self, root: &Root, name: &str) -> coracle::Result<()> {
        root.engine.image_load(&mut &*self.archive(name), &mut |_| Ok(()), None).map(drop)
    }
}

fn busybox_layer() -> Vec<u8> {
    let archive = std::fs::read(busybox_archive()).expect("read the busybox archive");
    let (_, layer) = files(&archive).into_iter().find(|(path, _)| path.ends_with("layer.tar")).expect("its layer");
    layer
}
