//! Build files and contexts of an attacker.

use crate::canary::{Canary, SECRET};
use crate::images::Image;
use crate::support::archive::Tar;
use crate::support::*;
use coracle::Context;
use coracle::model::BuildImage;
use serde_json::json;

/// Builds from a context with this build file; answers the image's id or the error.
fn build(root: &Root, file: &str, context: Tar) -> Result<String, String> {
    let bytes = context.file("Dockerfile", file.as_bytes()).end();
    let how = BuildImage::default();
    let built = root.engine.image_build(&how, Context::Tar(&mut &bytes[..]), &mut |_| Ok(()), Some(&soon()));
    built.map_err(|error| error.message().to_owned())
}

// attack: 34, 105
#[test]
fn what_a_build_copies_stays_in_its_image() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let layer = Tar::new().symlink("absolute", &canary.path("")).symlink("climbing", &canary.climb(""));
    Image::new().layer(layer).load(&root, "base");
    for link in ["absolute", "climbing"] {
        for step in [
            format!("COPY f /{link}/new/f"),
            format!("COPY f /{link}/passwd"),
            format!("ADD f /{link}/"),
            format!("WORKDIR /{link}/a/b\nCOPY f ."),
            format!("COPY f /x/../../../../{link}/f"),
        ] {
            let built = build(&root, &format!("FROM base\n{step}\n"), Tar::new().file("f", b"evil"));
            canary.untouched();
            let _ = built.map(|image| {
                let inside = json!({ "Image": image, "Entrypoint": [""], "Cmd": ["true"] });
                root.run(&["true"], inside, b"").ok()
            });
        }
        let stolen =
            build(&root, &format!("FROM base AS a\nFROM base\nCOPY --from=a /{link}/passwd /stolen\n"), Tar::new());
        canary.untouched();
        if let Ok(image) = stolen {
            let text = root.run(&["cat", "/stolen"], json!({ "Image": image }), b"").out();
            assert!(!text.contains(SECRET));
        }
    }
    let context = Tar::new().symlink("out", &canary.path("")).symlink(".dockerignore", &canary.path("passwd"));
    let built = build(&root, "FROM base\nCOPY out/passwd /stolen\n", context);
    assert!(built.is_err(), "a link of the context led out: {built:?}");
    canary.untouched();
}
