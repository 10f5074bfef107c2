//! `manual`: the manual pages of section 1, made from the table of flags.

use crate::args::{Command, Flag, Parsed, dashed};
use crate::{Entry, Failure, GLOBAL, Globals, Outcome, emit};
use crate::{commands, template};
use std::path::Path;

pub const ENTRIES: &[Entry] =
    &[Entry::new("manual", "DIR", "Write the manual pages of every command into a directory", &[], manual)];

fn manual(_: &Globals, parsed: &Parsed) -> Outcome {
    let [dir] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("exactly one directory is needed".into()));
    };
    let mut pages = 0;
    for (file, page) in pages_of_all() {
        let path = Path::new(dir).join(file);
        std::fs::write(&path, page).map_err(|e| Failure::Here(format!("{}: {e}", path.display())))?;
        pages += 1;
    }
    emit(&format!("{pages} pages in {dir}\n")).map(|()| 0)
}

/// The file name and the text of each page.
fn pages_of_all() -> Vec<(String, String)> {
    let mut all = vec![("coracle.1".to_owned(), page_of_the_whole())];
    all.extend(commands::entries().map(|entry| (format!("{}.1", page_name(&entry.command)), page(&entry.command))));
    all
}

/// `coracle-network-ls`
fn page_name(command: &Command) -> String {
    format!("coracle-{}", command.name.replace(' ', "-"))
}

fn page(command: &Command) -> String {
    let name = page_name(command);
    let mut text = head(&name, command.about);
    text.push_str(&format!(".SH SYNOPSIS\n.B coracle {}\n{}\n", roff(command.name), roff(command.usage)));
    flags(&mut text, command.all_flags());
    let others = commands::other_names(command.name);
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|other| format!("coracle {other}")).collect();
        text.push_str(&format!(".SH OTHER NAMES\n{}\n", roff(&names.join(", "))));
    }
    text.push_str(".SH SEE ALSO\n.BR coracle (1)\n");
    text
}

fn page_of_the_whole() -> String {
    let mut text = head("coracle", GLOBAL.about);
    text.push_str(&format!(".SH SYNOPSIS\n.B coracle\n{}\n", roff(GLOBAL.usage)));
    flags(&mut text, GLOBAL.all_flags());
    text.push_str(".SH COMMANDS\n");
    for entry in commands::entries() {
        let command = &entry.command;
        text.push_str(&format!(".TP\n.BR {} (1)\n{}\n", roff(&page_name(command)), roff(command.about)));
    }
    text.push_str(&formats());
    text.push_str(&signals());
    text.push_str(".SH EXIT STATUS\n");
    for (code, meaning) in EXIT_CODES {
        text.push_str(&format!(".TP\n.B {code}\n{}\n", roff(meaning)));
    }
    text
}

/// The section on `--format`.
fn formats() -> String {
    let functions: Vec<&str> = template::function_names().collect();
    let paragraphs = [
        "Commands that list things take \"table\" (the usual columns), \"json\" (a document a line), \"table TEMPLATE\" (columns of \
         your own, divided by \\t) or a TEMPLATE for each line; \"inspect\", \"info\" and \"version\" take \"json\" or a template. A \
         command's page names its fields.",
        "A template is text with actions in {{ and }}, as docker's command has them: {{.Field.Inner}}, {{json .Field}}, \
         {{.Label \"name\"}}, {{if}}, {{else if}}, {{else}}, {{range}}, {{with}}, {{break}}, {{continue}}, {{end}}, variables ($x := \
         ...), pipes (a | b), parentheses, and {{- and -}}, which take the white space beside them along. {{define}}, \
         {{template}} and {{block}} are not supported.",
        &format!("Functions: {}.", functions.join(", ")),
        "coracle ps --format 'table {{.Names}}\\t{{upper .State}}'",
    ];
    let paragraphs = paragraphs.iter().map(|text| format!(".PP\n{}\n", roff(text)));
    format!(".SH FORMATS\n{}", paragraphs.collect::<String>())
}

/// The section on signals to commands that wait for a process.
fn signals() -> String {
    let paragraphs = SIGNALS.iter().map(|text| format!(".PP\n{}\n", roff(text)));
    format!(".SH SIGNALS\n{}", paragraphs.collect::<String>())
}

const SIGNALS: &[&str] = &[
    "run, start --attach and attach pass signals on to the container's first process (unless --sig-proxy=false), and wait for its \
     end. A process that ignores SIGTERM goes on; the third SIGINT or SIGTERM ends the command alone, and coracle kill NAME ends \
     the container. SIGKILL ends the command alone, too, unless it runs with --ephemeral.",
    "A signal to exec ends exec alone, with 128 and the signal's number: the process in the container goes on.",
];

/// The exit codes that all commands share.
const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "The command did its work."),
    ("1", "The engine refused, or a part of the work failed. Standard error has the reason."),
    (
        "125",
        "The command line is wrong (any command; also without a command, and exec with -it without a terminal, where docker's \
         command has 0 and 1), or run failed before the container's process began.",
    ),
    ("126", "run: the program cannot be executed. exec: the program is not there, or cannot be executed."),
    ("127", "run: the program is not there."),
    ("141", "Nobody reads the command's standard output any more."),
    (
        "other",
        "run, exec, attach, start --attach: the exit code of the container's process. exec: 128 and the number of the signal that ended the command.",
    ),
];

fn head(name: &str, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let title = name.to_uppercase();
    format!(
        ".TH {} 1 \"\" \"Coracle {version}\" \"Coracle\"\n.SH NAME\n{} \\- {}\n",
        roff(&title),
        roff(name),
        roff(about)
    )
}

fn flags(text: &mut String, all: impl Iterator<Item = &'static Flag>) {
    let all: Vec<&Flag> = all.collect();
    if all.is_empty() {
        return;
    }
    text.push_str(".SH OPTIONS\n");
    for flag in all {
        let names: Vec<String> = flag.names.iter().map(|name| format!("\\fB{}\\fR", roff(&dashed(name)))).collect();
        let value = flag.value.map(|value| format!(" \\fI{}\\fR", roff(value))).unwrap_or_default();
        text.push_str(&format!(".TP\n{}{value}\n{}\n", names.join(", "), roff(flag.help)));
    }
}

/// A text as roff takes it literally.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with a dot or a quote would be a request.
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let pages = pages_of_all();
        assert_eq!(pages.len(), commands::entries().count() + 1);
        let page = |name: &str| &pages.iter().find(|(file, _)| file == name).expect(name).1;
        assert!(page("coracle-network-ls.1").contains(".B coracle network ls\n"));
        assert!(page("coracle-ps.1").contains("coracle container ls"));
        assert!(page("coracle-run.1").contains("\\fB\\-\\-memory\\fR, \\fB\\-m\\fR \\fISIZE\\fR\n"));
        assert!(page("coracle.1").contains(".BR coracle\\-run (1)\n"));
        let signals = page("coracle.1").split_once(".SH SIGNALS\n").expect("the section on signals").1;
        assert!(signals.contains("A process that ignores SIGTERM goes on") && signals.contains("ends exec alone"));
        assert!(page("coracle.1").contains(".SH FORMATS\n") && page("coracle.1").contains("println, slice, split"));
    }

    #[test]
    fn texts_are_literal() {
        assert_eq!(roff(".x\\y-z"), "\\&.x\\ey\\-z");
    }
}
