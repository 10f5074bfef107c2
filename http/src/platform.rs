//! The platform that a request names, and the images that it is about.

use crate::answer::Call;
use coracle::Result;
use coracle::model::{Filters, ImagePlatform, ListImages};

/// The platform that a parameter of a request names; an empty one names none.
pub(crate) fn named(text: &str) -> Result<Option<ImagePlatform>> {
    Some(text).filter(|text| !text.is_empty()).map(str::parse).transpose()
}

/// Errors: an image is not of a platform that the parameter `name` names.
pub(crate) fn check_images(call: &Call, name: &str, images: &[String]) -> Result<()> {
    for text in call.query.all(name).filter(|text| !text.is_empty()) {
        let wanted: ImagePlatform = text.parse()?;
        for image in images {
            wanted.check(image, &ImagePlatform::of_image(&call.engine().image_inspect(image)?))?;
        }
    }
    Ok(())
}

/// As [`check_images`], of a request for which a repository without a tag means all of its tags.
pub(crate) fn check_repositories(call: &Call, names: &[String]) -> Result<()> {
    if call.query.text("platform").is_empty() {
        return Ok(());
    }
    let mut images = Vec::new();
    for name in names {
        images.append(&mut tags(call, name)?);
    }
    check_images(call, "platform", &images)
}

/// The local tags of a repository; a name that has none stands for itself.
fn tags(call: &Call, name: &str) -> Result<Vec<String>> {
    let itself = vec![name.to_owned()];
    // The filter takes patterns, and no name of an image has these characters.
    if name.contains(['*', '?', '[', '\\']) {
        return Ok(itself);
    }
    let filters = Filters::from([("reference".to_owned(), itself.clone())]);
    let query = ListImages { all: true, filters, ..ListImages::default() };
    let tags: Vec<String> =
        call.engine().image_list(&query)?.into_iter().flat_map(|image| image.repo_tags.unwrap_or_default()).collect();
    Ok(if tags.is_empty() { itself } else { tags })
}
