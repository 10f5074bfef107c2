//! The platform that a request names, and the images that it is about.

use crate::answer::Call;
use coracle::Result;
use coracle::model::ImagePlatform;

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
