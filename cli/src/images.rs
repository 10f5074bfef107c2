//! Commands on images.

use crate::args::{Flag, Parsed};
use crate::containers::filters;
use crate::format::{cut, precise, short, size};
use crate::listing::filled;
use crate::listing::{Listing, row};
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, emit, terminal, time};
use coracle::Engine;
use coracle::model::*;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};

pub const ENTRIES: &[Entry] = &[
    Entry::new("images", "[FLAGS] [REPOSITORY[:TAG]]", "List images", LIST, images),
    Entry::new("load", "[FLAGS]", "Load images from an archive (docker save or OCI layout)", LOAD, load),
    Entry::new("save", "[FLAGS] IMAGE...", "Write images to an archive", SAVE, save),
    Entry::new(
        "import",
        "[FLAGS] FILE|URL|- [REPOSITORY[:TAG]]",
        "Make an image of a root file system tar",
        IMPORT,
        import,
    ),
    Entry::new("tag", "IMAGE REPOSITORY[:TAG]", "Give an image another name", &[], tag),
    Entry::new("rmi", "[FLAGS] IMAGE...", "Remove images", RMI, rmi),
    Entry::new("verify", "[FLAGS]", "Look whether all layers and images are as they should be", VERIFY, verify),
    Entry::new("history", "[FLAGS] IMAGE", "How an image was made", HISTORY, history),
];

const LIST: &[Flag] = &[
    Flag::switch(&["all", "a"], "intermediate images, too"),
    Flag::switch(&["quiet", "q"], "only ids"),
    Flag::switch(&["no-trunc"], "whole ids"),
    Flag::switch(&["digests"], "digests, too"),
    Flag::value(&["filter", "f"], "NAME=VALUE", "only those that match"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: Repository Tag ID Digest CreatedAt CreatedSince Size \
         VirtualSize SharedSize UniqueSize Containers",
    ),
];
const LOAD: &[Flag] = &[
    Flag::value(&["input", "i"], "FILE", "the archive (default standard input)"),
    Flag::switch(&["quiet", "q"], "print only what was loaded"),
];
const SAVE: &[Flag] = &[
    Flag::value(&["output", "o"], "FILE", "the archive (default standard output)"),
    Flag::value(&["format"], "docker|oci", "layout of the archive (default docker)"),
];
const VERIFY: &[Flag] = &[
    Flag::switch(&["repair"], "repair what can be, fetching it again where it came from"),
    Flag::switch(&["quiet", "q"], "print only what is damaged"),
    Flag::value(
        &["format"],
        "FORMAT",
        "the report as json (one line), or by a template: {{.Layers}}, {{json .Damage}}",
    ),
];
const IMPORT: &[Flag] = &[
    Flag::value(&["message", "m"], "TEXT", "comment in the history"),
    Flag::value(&["change", "c"], "INSTRUCTION", "a build instruction for the configuration, such as CMD"),
];
const RMI: &[Flag] = &[
    Flag::switch(&["force", "f"], "also where containers use it"),
    Flag::switch(&["no-prune"], "keep untagged parents"),
];
const HISTORY: &[Flag] = &[
    Flag::switch(&["quiet", "q"], "only ids"),
    Flag::switch(&["no-trunc"], "whole texts"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: ID CreatedAt CreatedSince CreatedBy Size Comment",
    ),
];

/// The list of images; with digests.
pub const IMAGES: Listing = Listing {
    titles: &[
        ("Repository", "REPOSITORY"),
        ("Tag", "TAG"),
        ("ID", "IMAGE ID"),
        ("Digest", "DIGEST"),
        ("CreatedAt", "CREATED AT"),
        ("CreatedSince", "CREATED"),
        ("Size", "SIZE"),
        ("VirtualSize", "SIZE"),
        ("SharedSize", "SHARED SIZE"),
        ("UniqueSize", "UNIQUE SIZE"),
        ("Containers", "CONTAINERS"),
    ],
    usual: "{{.Repository}}\t{{.Tag}}\t{{.ID}}\t{{.CreatedSince}}\t{{.Size}}",
};
const WITH_DIGESTS: Listing = Listing {
    titles: IMAGES.titles,
    usual: "{{.Repository}}\t{{.Tag}}\t{{.Digest}}\t{{.ID}}\t{{.CreatedSince}}\t{{.Size}}",
};
const STEPS: Listing = Listing {
    titles: &[
        ("ID", "IMAGE"),
        ("CreatedAt", "CREATED AT"),
        ("CreatedSince", "CREATED"),
        ("CreatedBy", "CREATED BY"),
        ("Size", "SIZE"),
        ("Comment", "COMMENT"),
    ],
    usual: "{{.ID}}\t{{.CreatedSince}}\t{{.CreatedBy}}\t{{.Size}}\t{{.Comment}}",
};

fn images(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filter = match parsed.rest.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        _ => return Err(Failure::Usage("at most one repository".into())),
    };
    let query = ListImages { all: parsed.has("all"), filter, filters: filters(parsed)?, ..ListImages::default() };
    let list = globals.engine()?.image_list(&query)?;
    let whole = parsed.has("no-trunc");
    if parsed.has("quiet") {
        // As docker: a line for each row of the table.
        let lines = list.iter().map(|image| format!("{}\n", id(image, whole)).repeat(subjects(image, whole).len()));
        return emit(&lines.collect::<String>()).map(|()| 0);
    }
    let rows: Vec<Subject> = list.iter().flat_map(|image| subjects(image, whole)).collect();
    let listing = if parsed.has("digests") { WITH_DIGESTS } else { IMAGES };
    emit(&listing.text(parsed.last("format"), &rows)?).map(|()| 0)
}

fn id(image: &ImageSummary, whole: bool) -> String {
    if whole { image.id.clone() } else { short(&image.id) }
}

/// An image as the templates name its fields, once for each of its names.
pub fn subjects(image: &ImageSummary, whole: bool) -> Vec<Subject> {
    let created = image.created.saturating_mul(1_000_000_000);
    let known = |bytes: i64| if bytes < 0 { "N/A".to_owned() } else { precise(bytes) };
    let own = if image.shared_size < 0 { -1 } else { image.size - image.shared_size };
    let of_name = |name: &String| {
        let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "<none>"));
        let mut digests = image.repo_digests.iter().flatten();
        let digest = digests.find_map(|digest| digest.strip_prefix(repository)?.strip_prefix('@'));
        let document = json!({
            "Repository": repository,
            "Tag": tag,
            "ID": id(image, whole),
            "Digest": digest.unwrap_or("<none>"),
            "CreatedAt": time::stamp(created),
            "CreatedSince": if created <= 0 { "N/A".into() } else { time::ago(created) },
            "Size": size(image.size),
            "VirtualSize": precise(image.size),
            "SharedSize": known(image.shared_size),
            "UniqueSize": known(own),
            "Containers": if image.containers < 0 { "N/A".into() } else { image.containers.to_string() },
        });
        row(document, image.labels.as_ref())
    };
    image.repo_tags.iter().flatten().map(of_name).collect()
}

fn load(globals: &Globals, parsed: &Parsed) -> Outcome {
    if !parsed.rest.is_empty() {
        return Err(Failure::Usage("load takes no arguments: use --input FILE".into()));
    }
    let mut archive: Box<dyn Read> = match parsed.last("input") {
        Some(path) => Box::new(File::open(path).map_err(|e| Failure::Here(format!("{path}: {e}")))?),
        None if terminal::stdin_is_one() => {
            return Err(Failure::Here("the archive is to come from standard input, and that is a terminal".into()));
        }
        None => Box::new(std::io::stdin()),
    };
    let engine = globals.engine()?;
    let mut said = false;
    let mut progress = |message: Progress| {
        if !message.stream.is_empty() {
            said = true;
            print_stream(&message.stream)?;
        }
        Ok(())
    };
    let loaded = engine.image_load(&mut archive, &mut progress, None)?;
    if !said {
        for name in loaded {
            let what = if name.starts_with("sha256:") { "Loaded image ID" } else { "Loaded image" };
            emit(&format!("{what}: {name}\n"))?;
        }
    }
    Ok(0)
}

pub fn print_stream(text: &str) -> coracle::Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

fn save(globals: &Globals, parsed: &Parsed) -> Outcome {
    if parsed.rest.is_empty() {
        return Err(Failure::Usage("an image is needed".into()));
    }
    let save = match parsed.last("format") {
        None | Some("docker") => Engine::image_save,
        Some("oci") => Engine::image_save_oci,
        Some(other) => return Err(Failure::Usage(format!("--format {other}: neither docker nor oci"))),
    };
    let engine = globals.engine()?;
    let Some(path) = parsed.last("output") else {
        if terminal::stdout_is_one() {
            return Err(Failure::Here("the archive would go to a terminal: use --output FILE".into()));
        }
        save(&engine, &parsed.rest, &mut std::io::BufWriter::new(std::io::stdout()), None)?;
        return Ok(0);
    };
    // A name that is wrong must not cost the file that is there.
    for name in &parsed.rest {
        engine.image_inspect(name)?;
    }
    let failed = |e: std::io::Error| Failure::Here(format!("{path}: {e}"));
    let mut file = std::io::BufWriter::new(File::create(path).map_err(failed)?);
    save(&engine, &parsed.rest, &mut file, None)?;
    file.flush().map_err(failed)?;
    Ok(0)
}

fn verify(globals: &Globals, parsed: &Parsed) -> Outcome {
    let engine = globals.engine()?;
    let mut request = VerifyImages { repair: parsed.has("repair"), ..VerifyImages::default() };
    if request.repair {
        request.auths = crate::registry::all_credentials(&engine)?;
    }
    let format = parsed.last("format");
    let quiet = parsed.has("quiet");
    let mut progress = |message: Progress| {
        if format.is_some() || quiet && message.status == "ok" {
            return Ok(());
        }
        print_stream(&format!("{}: {}\n", message.id, message.status))
    };
    let report = engine.verify(&request, &mut progress, None)?;
    let left = report.damage.iter().filter(|damage| !damage.repaired).count();
    let code = u8::from(left != 0);
    if let Some(format) = format {
        let document = serde_json::to_value(&report).map_err(|e| Failure::Here(e.to_string()))?;
        return emit(&format!("{}\n", filled(format, &document)?)).map(|()| code);
    }
    for damage in &report.damage {
        let part = match damage.part {
            DamagedPart::Database => "database",
            DamagedPart::Layer => "layer",
            DamagedPart::Image => "image",
        };
        let state = if damage.repaired { "repaired" } else { "damaged" };
        emit(&format!("{state}: {part} {} of {}: {}\n", damage.id, damage.images.join(", "), damage.reason))?;
    }
    emit(&format!("{} layers, {} images, {left} damaged\n", report.layers, report.images))?;
    Ok(code)
}

fn removed(item: &RemovedImage) -> String {
    match item {
        RemovedImage::Untagged(name) => format!("Untagged: {name}\n"),
        RemovedImage::Deleted(id) => format!("Deleted: {id}\n"),
    }
}

fn import(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (source, name) = match parsed.rest.as_slice() {
        [source] => (source, ""),
        [source, name] => (source, name.as_str()),
        _ => return Err(Failure::Usage("a file, a URL or -, and at most one name are needed".into())),
    };
    // A colon after the last slash begins the tag; before it, a port.
    let (repo, tag) = match name.rsplit_once(':') {
        Some((repo, tag)) if !tag.contains('/') => (repo, tag),
        _ => (name, ""),
    };
    let how = ImportImage {
        repo: repo.to_owned(),
        tag: tag.to_owned(),
        message: parsed.last("message").unwrap_or_default().to_owned(),
        source: source.clone(),
        changes: parsed.all("change"),
    };
    if source.starts_with("http://") || source.starts_with("https://") {
        let id = globals.engine()?.image_import_url(source, &how, &mut |_| Ok(()), None)?;
        return emit(&format!("{id}\n")).map(|()| 0);
    }
    let mut rootfs: Box<dyn Read> = match source.as_str() {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(File::open(path).map_err(|e| Failure::Here(format!("{path}: {e}")))?),
    };
    let id = globals.engine()?.image_import(&mut rootfs, &how, &mut |_| Ok(()), None)?;
    emit(&format!("{id}\n")).map(|()| 0)
}

fn tag(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [image, name] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("an image and its new name are needed".into()));
    };
    globals.engine()?.image_tag(image, name)?;
    Ok(0)
}

fn rmi(globals: &Globals, parsed: &Parsed) -> Outcome {
    if parsed.rest.is_empty() {
        return Err(Failure::Usage("an image is needed".into()));
    }
    let how = RemoveImage { force: parsed.has("force"), no_prune: parsed.has("no-prune") };
    let engine = globals.engine()?;
    let mut code = 0;
    for name in &parsed.rest {
        match engine.image_remove(name, how) {
            Ok(items) => {
                for item in items {
                    emit(&removed(&item))?;
                }
            }
            Err(error) => {
                complain!("coracle: {error}");
                code = 1;
            }
        }
    }
    Ok(code)
}

fn history(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [name] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("exactly one image is needed".into()));
    };
    let items = globals.engine()?.image_history(name)?;
    let whole = parsed.has("no-trunc");
    let id = |item: &HistoryItem| if whole || item.id.starts_with('<') { item.id.clone() } else { short(&item.id) };
    if parsed.has("quiet") {
        return emit(&items.iter().map(|item| format!("{}\n", id(item))).collect::<String>()).map(|()| 0);
    }
    let subject = |item: &HistoryItem| {
        let created = item.created.saturating_mul(1_000_000_000);
        let document = json!({
            "ID": id(item),
            "CreatedAt": time::rfc3339(created).replace(".000000000", ""),
            "CreatedSince": if created <= 0 { "N/A".into() } else { time::ago(created) },
            "CreatedBy": if whole { item.created_by.clone() } else { cut(&item.created_by, 45) }.replace('\t', " "),
            "Size": size(item.size),
            "Comment": item.comment,
        });
        row(document, None)
    };
    let rows: Vec<Subject> = items.iter().map(subject).collect();
    emit(&STEPS.text(parsed.last("format"), &rows)?).map(|()| 0)
}
