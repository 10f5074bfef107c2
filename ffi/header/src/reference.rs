//! The reference: a page for each section of the header, in `docs/reference`, from the comments of its items.

use crate::items::{Header, Item};
use crate::schema;
use crate::sections::{self, SECTIONS, Section};

/// The pages: the name and the text of each.
pub fn pages(header: &Header) -> Vec<(String, String)> {
    let index: String = SECTIONS
        .iter()
        .map(|section| format!("- [{}]({}): {}\n", section.title, file_of(section), first_sentence(section.about)))
        .collect();
    let rules = "The rules for all functions (handles, texts, documents, threads, errors) stand at the beginning of\n\
                 [coracle.h](../../include/coracle.h). These pages are made from the same source: `make header` writes both.\n";
    let mut pages = vec![("README.md".to_owned(), format!("# Reference of the C interface\n\n{rules}\n{index}"))];
    pages.extend(SECTIONS.iter().map(|section| (file_of(section), page(section, header))));
    pages
}

fn file_of(section: &Section) -> String {
    format!("{}.md", section.title.to_lowercase().replace(' ', "-"))
}

fn first_sentence(text: &str) -> String {
    let text = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.clone(), |(sentence, _)| format!("{sentence}."))
}

fn page(section: &Section, header: &Header) -> String {
    let about: Vec<&str> = section.about.lines().map(str::trim).collect();
    let mut page = format!("# {}\n\n{}\n", section.title, about.join("\n"));
    for item in sections::items(section, header) {
        page += &format!("\n## {}\n\n```c\n{}\n```\n", item.name, item.declaration().trim_end());
        for text in item.paragraphs() {
            page += &format!("\n{}\n", paragraph(item, &text));
        }
    }
    page
}

/// A paragraph of a comment; its head, if it has one, stands out, and schemas are links.
fn paragraph(item: &Item, text: &str) -> String {
    if text.starts_with("Schemas: ") {
        let link =
            |(argument, name): (String, String)| format!("`{argument}` [{name}](../../include/schema/{name}.json)");
        return format!(
            "**Schemas:** {}.",
            schema::named_by(item).into_iter().map(link).collect::<Vec<_>>().join(", ")
        );
    }
    let plain = text.replace('<', "&lt;").replace('*', "\\*").replace('_', "\\_");
    ["Errors:", "Threads:"]
        .iter()
        .find_map(|head| plain.strip_prefix(head).map(|rest| format!("**{head}**{rest}")))
        .unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_each_item_of_its_section_with_its_links() {
        let item = Item {
            name: "coracle_x".into(),
            text: "/**\n * Does *it*.\n *\n * Schemas: out_json x.\n *\n * Errors: EIO.\n */\nint coracle_x(char **out_json);".into(),
        };
        let section = Section { title: "Some things", about: "About them. More.", items: &["coracle_x"] };
        let header = Header { before: String::new(), items: vec![item], after: String::new() };
        let page = page(&section, &header);
        for part in [
            "# Some things\n\nAbout them. More.\n",
            "## coracle_x\n\n```c\nint coracle_x(char **out_json);\n```\n\nDoes \\*it\\*.\n",
            "**Schemas:** `out_json` [x](../../include/schema/x.json).\n",
            "**Errors:** EIO.\n",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(
            (file_of(&section).as_str(), first_sentence(section.about).as_str()),
            ("some-things.md", "About them.")
        );
    }
}
