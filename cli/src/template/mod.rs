//! The templates of `--format`: the part of Go's text/template that docker's pages use, on JSON documents.
//!
//! [`Template::parse`] reads a text into nodes (`lexer`, `parser`), [`Template::render`] runs them on a document (`eval`,
//! with `functions` and `printf`). Every error names its place in the text.

mod eval;
mod functions;
mod lexer;
mod parser;
mod printf;
mod values;

pub use functions::names as function_names;
pub use printf::quoted;

use parser::Node;
use serde_json::{Map, Value};

/// A template that was read.
pub struct Template {
    source: String,
    nodes: Vec<Node>,
}

/// A mistake in a template, or one that a document showed, with its offset in the text.
#[derive(Debug)]
struct Mistake {
    at: usize,
    text: String,
}

impl Mistake {
    fn new(at: usize, text: impl Into<String>) -> Mistake {
        Mistake { at, text: text.into() }
    }

    /// A sentence for the user: the line only if the template has several.
    fn sentence(&self, source: &str) -> String {
        let before = source.get(..self.at).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        match source.contains('\n') {
            true => format!("--format, line {line}, column {column}: {}", self.text),
            false => format!("--format, column {column}: {}", self.text),
        }
    }
}

/// The thing that a template shows: its fields, and its labels for `{{.Label "name"}}`.
#[derive(Default, Clone)]
pub struct Subject {
    /// The fields.
    pub document: Value,
    /// The labels, if the thing can have some.
    pub labels: Option<Map<String, Value>>,
    /// Whether the fields are the titles of a table's columns: functions that change a text leave titles as they are.
    pub titles: bool,
}

impl From<Value> for Subject {
    fn from(document: Value) -> Subject {
        Subject { document, labels: None, titles: false }
    }
}

impl Template {
    /// Reads a template. Errors: a sentence for the user.
    pub fn parse(source: &str) -> Result<Template, String> {
        let nodes = parser::parse(source).map_err(|mistake| mistake.sentence(source))?;
        Ok(Template { source: source.to_owned(), nodes })
    }

    /// The text of the template for `subject`. Errors: a sentence for the user.
    pub fn render(&self, subject: &Subject) -> Result<String, String> {
        eval::render(&self.nodes, subject).map_err(|mistake| mistake.sentence(&self.source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(source: &str) -> Result<String, String> {
        let document = json!({
            "Id": "0123456789", "Name": "/boat", "Created": 3, "Share": 2.5, "None": null, "Empty": [],
            "State": { "Status": "running", "ExitCode": 0, "Running": true },
            "Config": { "Labels": { "a.b": "1" }, "Cmd": ["sh", "-c", "true"], "Env": ["A=1", "B=2"] },
            "Mounts": [{ "Source": "/x" }, { "Source": "/y" }],
        });
        Template::parse(source)?.render(&document.into())
    }

    /// Every line is a template and its output; docker's command printed the same for a container.
    const SAME: &[(&str, &str)] = &[
        ("{{.State.Status}} {{ .State.ExitCode }}", "running 0"),
        ("{{.ID}} {{.id}}", "0123456789 0123456789"),
        ("{{json .State}}!", r#"{"ExitCode":0,"Running":true,"Status":"running"}!"#),
        ("{{.Config.Cmd}} {{.Config.Labels}} {{.Empty}} {{.None}}", "[sh -c true] map[a.b:1] [] <nil>"),
        ("{{.Config.Labels.zz}}|{{index .Config.Labels \"zz\"}}|", "<no value>||"),
        ("{{index .Config.Labels \"a.b\"}} {{index .Config.Cmd 1}}", "1 -c"),
        ("{{(index .Mounts 1).Source}} {{index (index .Mounts 0) \"Source\"}}", "/y /x"),
        ("{{range .Config.Env}}{{.}};{{end}}", "A=1;B=2;"),
        ("{{range $i, $e := .Config.Env}}{{$i}}{{$e}}{{if $i}}{{break}}{{end}},{{end}}", "0A=1,1B=2"),
        ("{{range $k, $v := .Config.Labels}}{{$k}}={{$v}};{{else}}none{{end}}", "a.b=1;"),
        ("{{range .Empty}}x{{else}}none{{end}}{{range 3}}{{.}}{{end}}", "none012"),
        ("{{range .Config.Env}}{{if eq . \"A=1\"}}{{continue}}{{end}}{{.}}{{end}}", "B=2"),
        ("{{if .State.Health}}{{.State.Health.Status}}{{else}}no check{{end}}", "no check"),
        ("{{if eq .State.Status \"created\"}}a{{else if .State.Running}}b{{else}}c{{end}}", "b"),
        ("{{with .Config.Labels}}{{json .}}{{end}}{{with 0}}a{{else with 2}}{{.}}{{end}}", "{\"a.b\":\"1\"}2"),
        ("{{- \" a \" -}}  x {{- /* c */ -}} y", " a xy"),
        ("{{$x := 1}}{{$x = 2}}{{$x}}{{$x | printf \"%03d\" | upper}}", "2002"),
        ("{{and 1 0}} {{or \"\" \"b\"}} {{not true}} {{eq 1 1 2}} {{ne 1 2}} {{lt 1 2}} {{ge \"b\" \"a\"}}", {
            "0 b false true true true true"
        }),
        ("{{split .Name \"/\" | json}} {{join .Config.Cmd \"+\"}} {{title \"hello wORLD foo_bar\"}}", {
            "[\"\",\"boat\"] sh+-c+true Hello WORLD Foo_bar"
        }),
        (
            "{{pad \"x\" 1 2}}|{{pad \"\" 1 2}}|{{truncate \"abc\" 2}} {{lower \"ABC\"}} {{upper .Name}}",
            " x  ||ab abc /BOAT",
        ),
        ("{{'a'}} {{0x10}} {{1e3}} {{-5}} {{1.5}} {{true}} {{`raw\\n`}}", "97 16 1000 -5 1.5 true raw\\n"),
        ("{{slice \"abcdef\" 1 3}} {{index \"abc\" 1}} {{len .Config.Cmd}}{{len \"abc\"}}{{.Config.Labels | len}}", {
            "bc 98 331"
        }),
        ("{{print 1 2 \"a\" \"b\" 3}} {{println \"x\" 1}}", "1 2ab3 x 1\n"),
        ("{{(1)}} {{(.Config).Env}} {{$.Name}} {{\"a\" | printf \"%s-%s\" \"b\"}}", "1 [A=1 B=2] /boat b-a"),
        ("{{1e30}} {{.Share}} {{print nil}} {{json \"<&>\"}}", "1e+30 2.5 <nil> \"<&>\""),
        ("a\\tb", "a\\tb"),
    ];

    #[test]
    fn the_language_of_docker_s_pages() {
        for (template, text) in SAME {
            assert_eq!(fill(template).as_deref(), Ok(*text), "{template}");
        }
    }

    /// Every line is a template, and its error.
    const MISTAKES: &[(&str, &str)] = &[
        ("{{.Nope}}", "column 3: there is no field Nope"),
        ("a {{.State.Nope}}", "column 5: there is no field Nope in .State.Nope"),
        ("{{.State.Health.Status}}", "column 3: .State.Health.Status: there is no field Health"),
        ("{{.Name.x}}", "column 3: .Name.x: Name is a text, which has no fields"),
        ("{{foo .Name}}", "column 3: there is no function foo"),
        ("{{", "column 1: {{ without }}"),
        ("{{.Name}", "column 8: unexpected '}'"),
        ("x{{/* c }}", "column 2: a comment without its end */"),
        ("{{\"a}}", "column 3: a text without its closing quote"),
        ("{{if}}", "column 3: a value is needed behind if"),
        ("x\n {{end}}", "line 2, column 4: {{end}} without {{if}}, {{range}} or {{with}}"),
        ("{{range .Mounts}}", "column 3: {{range}} without {{end}}"),
        ("{{template \"x\"}}", "column 3: template is not supported"),
        ("{{ $x }}", "column 4: there is no variable $x"),
        ("{{nil}}", "column 3: nil alone is not a value"),
        ("{{eq 1 \"a\"}}", "column 3: eq: a number and a text cannot be compared"),
        ("{{index .Config.Cmd 5}}", "column 3: index: 5 is beyond the 3 entries"),
        ("{{index .None 0}}", "column 3: index: null has no entries"),
        ("{{join 3 \",\"}}", "column 3: join needs a list, not a number"),
        ("{{upper 3}}", "column 3: upper needs a text, not a number"),
        ("{{upper}}", "column 3: upper needs 1 argument, not 0"),
        ("{{len 3}}", "column 3: len: a number has no length"),
        ("{{.Name 1}}", "column 3: .Name takes no arguments"),
        ("{{range .Name}}{{end}}", "column 9: range over a text"),
        ("{{break}}", "column 3: {{break}} outside of {{range}}"),
        ("{{range 9000000000}}{{end}}", "column 9: range: more than 1000000 turns"),
        ("{{range 2000}}{{range 2000}}{{end}}{{end}}", "column 23: range: more than 1000000 turns"),
        ("{{$x := \"ab\"}}{{range 99}}{{$x = print $x $x}}{{end}}", {
            "column 34: print: a text of more than 4194304 bytes"
        }),
        ("{{$x := \"ab\"}}{{range 20}}{{$x = print $x $x}}{{end}}{{range 99}}{{$x}}{{end}}", {
            "column 62: range: more than 67108864 bytes of output"
        }),
    ];

    #[test]
    fn mistakes_name_their_place() {
        for (template, text) in MISTAKES {
            let error = fill(template).expect_err(template);
            assert_eq!(error.strip_prefix("--format, "), Some(*text), "{template}");
        }
    }

    #[test]
    fn labels_by_name() {
        let labels = Some(Map::from_iter([("a.b-c".to_owned(), json!("1"))]));
        let subject = Subject { document: json!({ "Names": "boat" }), labels: labels.clone(), titles: false };
        let template = Template::parse("{{upper .Names}} {{.Label \"a.b-c\"}}{{.Label \"x\"}}").expect("parses");
        assert_eq!(template.render(&subject).as_deref(), Ok("BOAT 1"));
        let titles = Subject { document: json!({ "Names": "Title" }), labels, titles: true };
        assert_eq!(template.render(&titles).as_deref(), Ok("Title b cx"));
    }

    #[test]
    fn no_text_breaks_the_evaluator() {
        const PARTS: &[&str] = &[
            "{{",
            "}}",
            "-",
            " ",
            "\n",
            ".",
            ".Name",
            ".Config.Cmd",
            "$x",
            ":=",
            "=",
            "|",
            "(",
            ")",
            ",",
            "if",
            "else",
            "end",
            "range",
            "with",
            "break",
            "continue",
            "index",
            "slice",
            "printf",
            "\"%5.2q%d%*x\"",
            "\"ä\\",
            "'a'",
            "`",
            "1e9",
            "-1",
            "0x",
            "nil",
            "json",
            "title",
            "/*",
            "*/",
            "ß",
            "truncate",
            "and",
            "not",
        ];
        // A generator of numbers that is the same in every run.
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut rendered = 0;
        for _ in 0..30_000 {
            let count = 1 + next(14);
            let middle: String = (0..count).map(|_| PARTS[next(PARTS.len())]).collect();
            // Half of them are one action, so that more than lexing happens.
            let source = if next(2) == 0 { format!("{{{{{middle}}}}}") } else { middle };
            rendered += usize::from(fill(&source).is_ok());
        }
        assert!(rendered > 1000, "only {rendered} of the texts were templates");
    }

    #[test]
    fn nesting_has_a_bound() {
        let deep = format!("{{{{{}1{}}}}}", "(".repeat(5000), ")".repeat(5000));
        assert!(fill(&deep).is_err_and(|error| error.contains("too deep")), "parentheses");
        let deep = format!("{}{}", "{{if 1}}".repeat(5000), "{{end}}".repeat(5000));
        assert!(fill(&deep).is_err_and(|error| error.contains("too deep")), "blocks");
    }
}
