//! Ships an image: `cargo run --example ship -- ROOT FROM TO`. FROM is an archive (`image.tar`), or an image that is pulled if it
//! is not here; TO is an archive, or a name whose registry gets the image. Credentials are those of `docker login` (no helpers).

use coracle::model::{DockerConfig, Progress, PullImage, PushImage, RegistryAuth};
use coracle::{Engine, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Write};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, from, to] = arguments.as_slice() else {
        return Err(Error::invalid("usage: ship ROOT FROM TO"));
    };
    let engine = Engine::open(root)?;
    let image = fetch(&engine, from)?;
    deliver(&engine, &image, to)
}

/// The image is in the root afterwards; returns its name.
fn fetch(engine: &Engine, from: &str) -> Result<String> {
    if is_archive(from) {
        let mut archive = BufReader::new(File::open(from)?);
        let mut meter = Meter::new("load");
        let names = engine.image_load(&mut archive, &mut |message| meter.show(&message), None)?;
        return names.into_iter().next().ok_or_else(|| Error::invalid(format!("{from} has no image")));
    }
    match engine.image_inspect(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return found.map(|_| from.to_owned()),
    }
    let mut meter = Meter::new("pull");
    engine.image_pull(&PullImage::of(from).auth(credentials(from)?), &mut |message| meter.show(&message), None)?;
    Ok(from.to_owned())
}

fn deliver(engine: &Engine, image: &str, to: &str) -> Result<()> {
    if is_archive(to) {
        let mut archive = BufWriter::new(File::create(to)?);
        engine.image_save(&[image.to_owned()], &mut archive, None)?;
        archive.flush()?;
        println!("saved {image} to {to}");
        return Ok(());
    }
    engine.image_tag(image, to)?;
    let mut meter = Meter::new("push");
    let request = PushImage::of(to).auth(credentials(to)?);
    let pushed = engine.image_push(&request, &mut |message| meter.show(&message), None)?;
    println!("pushed {image} to {to}: {}", pushed.digest);
    Ok(())
}

fn is_archive(text: &str) -> bool {
    text.ends_with(".tar")
}

fn credentials(name: &str) -> Result<RegistryAuth> {
    let Some(path) = DockerConfig::default_path() else { return Ok(RegistryAuth::default()) };
    DockerConfig::load(path)?.credentials(name, &mut |program, _| Err(Error::unsupported(format!("run {program}"))))
}

/// Shows the progress of an operation: one line that is written again and again on a terminal, else a line for each layer.
struct Meter {
    verb: &'static str,
    /// The bytes of each layer that came so far, and all of its bytes.
    layers: BTreeMap<String, (i64, i64)>,
    on_terminal: bool,
}

impl Meter {
    fn new(verb: &'static str) -> Meter {
        Meter { verb, layers: BTreeMap::new(), on_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, message: &Progress) -> Result<()> {
        match message.progress_detail.filter(|detail| detail.total > 0) {
            Some(detail) => {
                self.layers.insert(message.id.clone(), (detail.current, detail.total));
                self.line("\r", "");
            }
            None if !message.id.is_empty() && !self.on_terminal => {
                eprintln!("{} {}: {}", self.verb, message.id, message.status);
            }
            None => self.line("\r", "\n"),
        }
        Ok(())
    }

    fn line(&self, before: &str, behind: &str) {
        let (current, total) = self.layers.values().fold((0, 0), |(a, b), (current, all)| (a + current, b + all));
        if self.on_terminal && total > 0 {
            let (done, all) = (current as f64 / 1e6, total as f64 / 1e6);
            eprint!(
                "{before}{} {:3} %  {done:.1} of {all:.1} MB in {} layers {behind}",
                self.verb,
                current * 100 / total,
                { self.layers.len() }
            );
        }
    }
}
