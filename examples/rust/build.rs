//! Builds an image, and shows what the builder says: `cargo run --example build -- ROOT`. The root has the image busybox.

use coracle::model::{BuildImage, RemoveImage};
use coracle::{Context, Engine, ErrorKind};

const FILE: &str = "FROM busybox\nRUN echo hello > /greeting\nCMD [\"cat\", \"/greeting\"]\n";

fn main() -> coracle::Result<()> {
    let root = std::env::args().nth(1).unwrap_or("/var/lib/coracle".into());
    let engine = Engine::open(root)?;
    let build = BuildImage {
        file: Some(FILE.into()),
        t: vec!["greeting:rust".into()],
        networkmode: "none".into(),
        ..Default::default()
    };
    // A context is needed where the file copies from it: a directory, or a tar.
    let built = engine.image_build(
        &build,
        Context::None,
        &mut |progress| {
            print!("{}", progress.stream);
            Ok(())
        },
        None,
    );
    match built {
        Ok(id) => println!("built {id}"),
        Err(error) if error.kind() == ErrorKind::Invalid => return Err(error.context("a mistake in the build file")),
        Err(error) => return Err(error),
    }
    engine.image_remove("greeting:rust", RemoveImage::default())?;
    Ok(())
}
