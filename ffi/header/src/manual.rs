//! Manual pages of section 3, one for each function, from the header's comments.

use crate::items::Item;
use std::path::Path;

/// Writes the pages into a directory.
pub fn write(functions: &[&Item], directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for function in functions {
        std::fs::write(directory.join(format!("{}.3", function.name)), page(function))?;
    }
    Ok(())
}

/// A page: the function's summary, declaration, description, errors, and its rules for threads and blocking.
fn page(function: &Item) -> String {
    let paragraphs = function.paragraphs();
    let name = &function.name;
    let summary = paragraphs.first().map_or("", |text| first_sentence(text));
    let mut page = format!(
        ".TH {name} 3 \"\" \"coracle {}\" \"Coracle\"\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n.nf\n#include <coracle.h>\n.sp\n",
        env!("CARGO_PKG_VERSION"),
        roff(summary.trim_end_matches('.'))
    );
    page += &format!("{}\n.fi\n.SH DESCRIPTION\n", roff(function.declaration()));
    let mut section = "DESCRIPTION";
    for text in &paragraphs {
        let wanted = match text {
            text if text.starts_with("Errors: ") => "ERRORS",
            text if text.starts_with("Threads: ") => "ATTRIBUTES",
            _ => section,
        };
        match wanted == section {
            true => page += ".PP\n",
            false => page += &format!(".SH {wanted}\n"),
        }
        section = wanted;
        page += &format!("{}\n", roff(text.strip_prefix("Errors: ").unwrap_or(text)));
    }
    page += ".SH SEE ALSO\nThe rules for all functions (handles, texts, documents, threads, errors) stand at the beginning of\n.IR coracle.h .\n";
    page
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(sentence, _)| sentence)
}

/// Text for roff: no backslash, hyphen, or dot or quotation mark at the beginning of a line means anything.
fn roff(text: &str) -> String {
    let plain = text.replace('\\', "\\e").replace('-', "\\-");
    let safe = plain.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    safe.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_parts_of_a_comment() {
        let text = "/**\n * Stops it. And waits.\n *\n * .x: a-b\\c.\n *\n * Errors: EINVALID (x).\n *\n * Threads: any. Since: 0.1.\n */\nint coracle_x(int x);";
        let page = page(&Item { name: "coracle_x".into(), text: text.into() });
        for part in [
            ".SH NAME\ncoracle_x \\- Stops it\n",
            ".sp\nint coracle_x(int x);\n.fi\n",
            ".SH DESCRIPTION\n.PP\nStops it. And waits.\n.PP\n\\&.x: a\\-b\\ec.\n",
            ".SH ERRORS\nEINVALID (x).\n",
            ".SH ATTRIBUTES\nThreads: any. Since: 0.1.\n",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }
}
