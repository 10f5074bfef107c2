//! Lists of things: a table of the usual columns, or what `--format` asks for.

use crate::Failure;
use crate::template::{Subject, Template};
use coracle::model::StringMap;
use serde_json::{Map, Value, json};

/// How the things of a kind are listed.
pub struct Listing {
    /// The fields of `--format`, and the titles of their columns.
    pub titles: &'static [(&'static str, &'static str)],
    /// The columns of the usual table, as a template.
    pub usual: &'static str,
}

impl Listing {
    /// The text of a list. `format`: `table`, `json`, `table TEMPLATE` or a template for each line.
    pub fn text(&self, format: Option<&str>, rows: &[Subject]) -> Result<String, Failure> {
        let (is_table, body) = match format.unwrap_or_default() {
            "" | "table" => (true, self.usual),
            "json" => (false, "{{json .}}"),
            format => match format.strip_prefix("table") {
                Some(body) => (true, body),
                None => (false, format),
            },
        };
        let body = body.trim_matches(' ').replace("\\t", "\t").replace("\\n", "\n");
        let template = Template::parse(&body).map_err(Failure::Usage)?;
        let mut text = String::new();
        let titles = is_table.then(|| self.subject_of_titles());
        for row in titles.iter().chain(rows) {
            text.push_str(&template.render(row).map_err(Failure::Usage)?);
            text.push('\n');
        }
        Ok(if is_table { columns(&text) } else { text })
    }

    fn subject_of_titles(&self) -> Subject {
        let titles = self.titles.iter().map(|(field, title)| ((*field).to_owned(), json!(title)));
        Subject { document: Value::Object(titles.collect()), labels: Some(Map::new()), titles: true }
    }
}

/// A row of a list, and the labels of its thing.
pub fn row(document: Value, labels: Option<&StringMap>) -> Subject {
    let labels = labels.into_iter().flatten().map(|(key, value)| (key.clone(), json!(value))).collect();
    Subject { document, labels: Some(labels), titles: false }
}

/// Labels in one cell.
pub fn joined(labels: Option<&StringMap>) -> String {
    labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The text of a template for one document: `inspect`, `info`. `json` is the document in one line.
pub fn filled(format: &str, document: &Value) -> Result<String, Failure> {
    let template = Template::parse(if format == "json" { "{{json .}}" } else { format }).map_err(Failure::Usage)?;
    template.render(&document.clone().into()).map_err(Failure::Usage)
}

/// The narrowest column, as docker has it, with the blanks behind its text.
const NARROWEST: usize = 10;
/// The blanks between two columns.
const BETWEEN: usize = 3;

/// Lines up the cells that tabs divide. A column is as wide as its widest cell in lines that follow one another.
fn columns(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let mut widths: Vec<Vec<usize>> = lines.iter().map(|cells| vec![0; cells.len()]).collect();
    let most = lines.iter().map(Vec::len).max().unwrap_or(0);
    for column in 0..most {
        let mut at = 0;
        while at < lines.len() {
            let block = lines[at..].iter().take_while(|cells| cells.len() > column + 1).count();
            let cells = lines[at..at + block].iter().map(|cells| cells[column].chars().count() + BETWEEN);
            let width = cells.max().unwrap_or(0).max(NARROWEST);
            widths[at..at + block].iter_mut().for_each(|widths| widths[column] = width);
            at += block.max(1);
        }
    }
    let line = |(cells, widths): (&Vec<&str>, &Vec<usize>)| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    lines.iter().zip(&widths).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOATS: Listing = Listing { titles: &[("ID", "BOAT ID"), ("Name", "NAME")], usual: "{{.ID}}\t{{.Name}}" };

    fn boats(format: Option<&str>) -> Result<String, String> {
        let labels = StringMap::from([("a.sea".to_owned(), "north".to_owned())]);
        let rows =
            [row(json!({ "ID": "1", "Name": "coracle" }), Some(&labels)), row(json!({ "ID": "2", "Name": "" }), None)];
        BOATS.text(format, &rows).map_err(|failure| failure.to_string())
    }

    #[test]
    fn formats_of_lists() {
        for (format, text) in [
            (None, "BOAT ID   NAME\n1         coracle\n2\n"),
            (Some("table"), "BOAT ID   NAME\n1         coracle\n2\n"),
            (Some("table {{upper .Name}}\\t{{.ID}}\\t{{.Label \"a.sea\"}}"), {
                "NAME      BOAT ID   sea\nCORACLE   1         north\n          2\n"
            }),
            (Some("{{.ID}}\\t{{.Name}}"), "1\tcoracle\n2\t\n"),
            (Some("json"), "{\"ID\":\"1\",\"Name\":\"coracle\"}\n{\"ID\":\"2\",\"Name\":\"\"}\n"),
            (Some("{{printf \"%s:%s\" .ID .Name}}"), "1:coracle\n2:\n"),
        ] {
            assert_eq!(boats(format).as_deref(), Ok(text), "{format:?}");
        }
        assert_eq!(boats(Some("table {{.Sail}}")), Err("--format, column 3: there is no field Sail".into()));
        assert_eq!(boats(Some("{{")), Err("--format, column 1: {{ without }}".into()));
    }

    #[test]
    fn columns_of_lines_that_differ() {
        assert_eq!(columns("a\tb\tc\nlonger than ten\tb\nx\ny\tz\n"), {
            "a                 b         c\nlonger than ten   b\nx\ny         z\n"
        });
    }
}
