//! Platforms of images: as requests write them, and which images a platform runs.

use super::{ImageDetail, ImagePlatform};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The operating systems that a platform of one word may name; another word is an architecture.
const SYSTEMS: [&str; 4] = ["linux", "windows", "darwin", "freebsd"];
/// The architectures that a platform of one word may name.
const ARCHITECTURES: [&str; 10] =
    ["386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x", "wasm"];

/// The name that images use for an architecture.
pub(crate) fn architecture_name(name: &str) -> &str {
    match name {
        "x86_64" | "x86-64" => "amd64",
        "aarch64" => "arm64",
        "i386" | "i486" | "i586" | "i686" | "x86" => "386",
        "armhf" | "armel" => "arm",
        other => other,
    }
}

/// The name that images use for a variant of an architecture; both as they are written, in small letters.
fn variant_name<'a>(architecture: &str, variant: &'a str) -> Cow<'a, str> {
    match (architecture, variant) {
        // docker's meaning of Debian's names, whatever variant stands beside them.
        ("armel", _) => "v6".into(),
        ("armhf", _) => "v7".into(),
        ("arm" | "arm64" | "aarch64", "5" | "6" | "7" | "8") => format!("v{variant}").into(),
        _ => variant.into(),
    }
}

/// The greatest generation of 32 bits that a machine of 64 bits runs: the better one, the later it is.
const LAST_OF_32_BITS: u64 = 8;

impl ImagePlatform {
    /// The platform of this machine.
    pub fn of_this_machine() -> ImagePlatform {
        let architecture = architecture_name(std::env::consts::ARCH).to_owned();
        ImagePlatform { architecture, os: "linux".into(), ..ImagePlatform::default() }
    }

    /// The platform of an image, of the words of its configuration; without an architecture it is taken for this machine's.
    pub(crate) fn of_words(os: &str, architecture: &str, variant: &str) -> ImagePlatform {
        let here = ImagePlatform::of_this_machine();
        let architecture = if architecture.is_empty() { here.architecture } else { architecture.to_owned() };
        let os = if os.is_empty() { here.os } else { os.to_owned() };
        ImagePlatform { architecture, os, variant: variant.to_owned(), ..ImagePlatform::default() }.normal()
    }

    /// Writes a platform in the words that images use, as docker reads those of a request, a list and a configuration.
    pub(crate) fn normal(&self) -> ImagePlatform {
        let (architecture, variant) = (self.architecture.to_ascii_lowercase(), self.variant.to_ascii_lowercase());
        ImagePlatform {
            variant: variant_name(&architecture, &variant).into_owned(),
            architecture: architecture_name(&architecture).to_owned(),
            os: self.os.to_ascii_lowercase(),
            ..self.clone()
        }
    }

    /// The platform of an image of the store.
    pub fn of_image(image: &ImageDetail) -> ImagePlatform {
        ImagePlatform::of_words(&image.os, &image.architecture, &image.variant)
    }

    /// Whether a machine of this platform runs images of `image` by itself: one of 64 bits runs those of 32 bits, and a
    /// later variant of a processor those of earlier ones. An image that names no variant is taken for any one.
    pub fn runs(&self, image: &ImagePlatform) -> bool {
        let (here, there) = (self.normal(), image.normal());
        let any = there.variant.is_empty() && (&here.os, &here.architecture) == (&there.os, &there.architecture);
        any || here.distance(&there).is_some()
    }

    /// How far `image` is from the best image for this platform; absent: it does not run here.
    pub(crate) fn distance(&self, image: &ImagePlatform) -> Option<u64> {
        let (here, there) = (self.normal(), image.normal());
        if here.os != there.os {
            return None;
        }
        match (&*here.architecture, &*there.architecture) {
            ("amd64", "386") => Some(u64::from(u8::MAX)),
            ("arm64", "arm") => Some(u64::from(u8::MAX) + LAST_OF_32_BITS.checked_sub(there.generation()?)?),
            (own, other) if own == other => match (here.generation(), there.generation()) {
                (Some(here), Some(there)) => here.checked_sub(there),
                _ => (here.variant == there.variant).then_some(0),
            },
            _ => None,
        }
    }

    /// The number of the processor's variant; absent: the variant has another form.
    fn generation(&self) -> Option<u64> {
        match (&*self.variant, &*self.architecture) {
            ("", "arm") => Some(7),
            ("", "arm64") => Some(8),
            ("", _) => Some(1),
            (variant, _) => variant.strip_prefix('v')?.parse().ok(),
        }
    }

    /// Errors: not found, in docker's words, where the image that a request calls `name` is one of `image`, which this
    /// platform does not run.
    pub fn check(&self, name: &str, image: &ImagePlatform) -> Result<()> {
        if self.runs(image) {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "image with reference {name} was found but its platform ({image}) does not match the specified platform ({self})"
        )))
    }
}

/// The most characters of a word of a platform in a message: the configuration of an image, and a request, have any words.
const MOST_SHOWN: usize = 64;

/// `os/architecture/variant`, without what is empty; long words are cut, and control characters are escaped.
impl fmt::Display for ImagePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.os, &self.architecture, &self.variant];
        let shown = |part: &String| part.chars().take(MOST_SHOWN).flat_map(char::escape_debug).collect::<String>();
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).map(shown).collect();
        f.write_str(&parts.join("/"))
    }
}

/// Reads `os[/architecture[/variant]]`, an architecture alone, or the JSON document of a platform. The parts that are left
/// out are those of this machine.
///
/// ```
/// use coracle::model::ImagePlatform;
///
/// let named: ImagePlatform = "linux/aarch64".parse()?;
/// let document: ImagePlatform = r#"{"os":"linux","architecture":"arm64","variant":"v8"}"#.parse()?;
/// assert_eq!(named.to_string(), "linux/arm64");
/// assert!(named.runs(&document) && !named.runs(&"linux/s390x".parse()?));
/// # Ok::<(), coracle::Error>(())
/// ```
impl FromStr for ImagePlatform {
    type Err = Error;

    fn from_str(text: &str) -> Result<ImagePlatform> {
        let wrong = |why: &str| Error::invalid(format!("platform {text:?}: {why}"));
        let mut platform = if text.starts_with('{') {
            crate::document::read(text.as_bytes()).map_err(|_| wrong("it is not the document of a platform"))?
        } else {
            let parts: Vec<String> = text.split('/').map(str::to_ascii_lowercase).collect();
            words(&parts).ok_or_else(|| wrong("it is neither os[/architecture[/variant]] nor an architecture"))?
        };
        let here = ImagePlatform::of_this_machine();
        platform = platform.normal();
        for (part, own) in [(&mut platform.os, here.os), (&mut platform.architecture, here.architecture)] {
            if part.is_empty() {
                *part = own;
            }
        }
        Ok(platform)
    }
}

/// The platform that the words of a request name.
fn words(parts: &[String]) -> Option<ImagePlatform> {
    let is_word = |part: &String| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    if !parts.iter().all(is_word) {
        return None;
    }
    let (os, architecture, variant) = match parts {
        [one] if SYSTEMS.contains(&one.as_str()) => (one.as_str(), "", ""),
        [one] if ARCHITECTURES.contains(&architecture_name(one)) => ("", one.as_str(), ""),
        [os, architecture] => (os.as_str(), architecture.as_str(), ""),
        [os, architecture, variant] => (os.as_str(), architecture.as_str(), variant.as_str()),
        _ => return None,
    };
    let (os, architecture, variant) = (os.to_owned(), architecture.to_owned(), variant.to_owned());
    Some(ImagePlatform { architecture, os, variant, ..ImagePlatform::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(text: &str) -> ImagePlatform {
        text.parse().unwrap()
    }

    #[test]
    fn platforms_are_read() {
        let here = ImagePlatform::of_this_machine();
        for (text, read) in [
            ("linux/amd64", "linux/amd64".to_owned()),
            ("Linux/x86_64", "linux/amd64".into()),
            ("linux/arm64/v8", "linux/arm64/v8".into()),
            ("s390x", "linux/s390x".into()),
            ("linux", here.to_string()),
            ("{}", here.to_string()),
            (r#"{"os":"linux","architecture":"arm","variant":"v6"}"#, "linux/arm/v6".into()),
            (r#"{"os":"Linux","architecture":"ARM","variant":"V6"}"#, "linux/arm/v6".into()),
            ("linux/armel", "linux/arm/v6".into()),
            ("linux/armel/v7", "linux/arm/v6".into()),
            ("armhf", "linux/arm/v7".into()),
            ("linux/arm/7", "linux/arm/v7".into()),
            ("linux/aarch64/8", "linux/arm64/v8".into()),
        ] {
            assert_eq!(p(text).to_string(), read, "{text}");
        }
        for bad in ["", "/", "planet", "linux/", "linux//v8", "a/b/c/d", "linux/am d64", "{", r#"{"os":5}"#] {
            let error = bad.parse::<ImagePlatform>().unwrap_err();
            assert_eq!(error.http_status(), 400, "{bad}: {error}");
        }
    }

    #[test]
    fn a_platform_runs_images_of_its_own_and_of_less() {
        for (machine, image, runs) in [
            ("linux/amd64", "linux/amd64", true),
            ("linux/amd64", "linux/386", true),
            ("linux/386", "linux/amd64", false),
            ("linux/amd64", "linux/amd64/v3", false),
            ("linux/amd64/v3", "linux/amd64", true),
            ("linux/arm64/v8", "linux/arm64", true),
            ("linux/arm64", "linux/arm64/v8", true),
            ("linux/arm64", "linux/arm/v7", true),
            ("linux/arm/v6", "linux/arm/v7", false),
            ("linux/arm", "linux/arm/v5", true),
            ("linux/arm/v6", "linux/arm", true),
            ("linux/amd64/v2", "linux/amd64", true),
            ("linux/arm64", "linux/arm/v9", false),
            ("linux/s390x/z15", "linux/s390x", true),
            ("linux/s390x", "linux/s390x/z15", false),
            ("linux/amd64", "linux/s390x", false),
            ("windows/amd64", "linux/amd64", false),
        ] {
            assert_eq!(p(machine).runs(&p(image)), runs, "{image} at {machine}");
        }
        assert_eq!(
            p("linux/arm64").check("box", &p("linux/amd64")).unwrap_err().message(),
            "image with reference box was found but its platform (linux/amd64) does not match the specified platform \
             (linux/arm64)"
        );
    }

    #[test]
    fn platforms_have_the_words_of_images_whoever_writes_them() {
        for (architecture, variant, shown) in [
            ("x86_64", "", "linux/amd64"),
            ("aarch64", "V8", "linux/arm64/v8"),
            ("armel", "v7", "linux/arm/v6"),
            ("arm", "7", "linux/arm/v7"),
        ] {
            assert_eq!(ImagePlatform::of_words("Linux", architecture, variant).to_string(), shown);
            let written = ImagePlatform {
                architecture: architecture.into(),
                os: "Linux".into(),
                variant: variant.into(),
                ..ImagePlatform::default()
            };
            assert!(p(shown).runs(&written) && written.runs(&p(shown)), "{shown}");
            assert_eq!(p(shown).distance(&written), Some(0), "{shown}");
        }
    }

    #[test]
    fn machines_of_64_bits_take_the_latest_of_32() {
        let far = |image: &str| p("linux/arm64").distance(&p(image)).unwrap();
        let order = ["linux/arm64", "linux/arm/v8", "linux/arm/v7", "linux/arm/v6", "linux/arm/v5"];
        assert!(order.is_sorted_by(|a, b| far(a) < far(b)), "{:?}", order.map(far));
    }

    #[test]
    fn words_of_hostile_images_are_cut_and_escaped() {
        let long = "x".repeat(1 << 20);
        let hostile = ImagePlatform::of_words("linux", "a\u{1b}[2J\n", &long);
        assert_eq!(hostile.to_string(), format!("linux/a\\u{{1b}}[2j\\n/{}", "x".repeat(MOST_SHOWN)));
    }
}
