//! The `tag` option of a log: a text with `{{.Field}}` in it, in Docker's syntax.

use super::Spec;
use crate::container::names::short_id;
use crate::error::{Error, Result};

/// The facts of a container that a tag can name.
pub(crate) struct TagFacts<'a> {
    pub id: &'a str,
    /// Without a slash.
    pub name: &'a str,
    /// The host's name.
    pub host: &'a str,
    pub spec: &'a Spec,
}

/// A piece of a tag.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Field(Field),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Id,
    FullId,
    Name,
    SlashName,
    ImageId,
    ImageFullId,
    ImageName,
    DaemonName,
    Command,
    Entrypoint,
    Hostname,
}

const FIELDS: [(&str, Field); 15] = [
    ("ID", Field::Id),
    ("FullID", Field::FullId),
    ("Name", Field::Name),
    ("ImageID", Field::ImageId),
    ("ImageFullID", Field::ImageFullId),
    ("ImageName", Field::ImageName),
    ("DaemonName", Field::DaemonName),
    ("Command", Field::Command),
    ("Hostname", Field::Hostname),
    ("ContainerID", Field::FullId),
    ("ContainerName", Field::SlashName),
    ("ContainerImageID", Field::ImageFullId),
    ("ContainerImageName", Field::ImageName),
    ("ContainerEntrypoint", Field::Entrypoint),
    ("DaemonHostname", Field::Hostname),
];

/// Checks a tag. Errors: an unknown field, a template with more than fields.
pub(super) fn check_tag(tag: &str) -> Result<()> {
    parse(tag).map(|_| ())
}

/// The tag of a container.
pub(crate) fn tag_text(tag: &str, facts: &TagFacts<'_>) -> Result<String> {
    Ok(parse(tag)?
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Field(field) => value(field, facts),
        })
        .collect())
}

fn value(field: Field, facts: &TagFacts<'_>) -> String {
    let spec = facts.spec;
    match field {
        Field::Id => short_id(facts.id),
        Field::FullId => facts.id.into(),
        Field::Name => facts.name.into(),
        Field::SlashName => format!("/{}", facts.name),
        Field::ImageId => short_id(&spec.image_id),
        Field::ImageFullId => spec.image_id.clone(),
        Field::ImageName => spec.image_name.clone(),
        Field::DaemonName => "docker".into(),
        Field::Command => std::iter::once(&spec.path).chain(&spec.args).cloned().collect::<Vec<_>>().join(" "),
        Field::Entrypoint => spec.path.clone(),
        Field::Hostname => facts.host.into(),
    }
}

fn parse(tag: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = tag;
    while let Some((text, action)) = rest.split_once("{{") {
        let (action, after) = action.split_once("}}").ok_or_else(|| broken("unclosed action"))?;
        let (mut text, mut after) = (text, after);
        // A dash also removes the white space on its side.
        let action = match action.strip_prefix("- ") {
            Some(action) => {
                text = text.trim_end();
                action
            }
            None => action,
        };
        let action = match action.strip_suffix(" -") {
            Some(action) => {
                after = after.trim_start();
                action
            }
            None => action,
        };
        let name = action.trim().strip_prefix('.').filter(|name| name.chars().all(char::is_alphanumeric));
        let name = name.ok_or_else(|| {
            Error::unsupported(format!(
                "LogConfig: tag: {{{{{action}}}}} is not supported yet, only fields as {{{{.Name}}}}"
            ))
        })?;
        let known = FIELDS.iter().find(|(known, _)| *known == name);
        let (_, field) = known.ok_or_else(|| broken(&format!("can't evaluate field {name}")))?;
        pieces.extend([Piece::Text(text), Piece::Field(*field)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn broken(what: &str) -> Error {
    Error::invalid(format!("failed to initialize logging driver: template: log-tag: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> Result<String> {
        let spec = Spec {
            image_id: "sha256:0123456789abcdef".into(),
            image_name: "busybox".into(),
            path: "sh".into(),
            args: vec!["-c".into(), "x".into()],
            ..Spec::default()
        };
        tag_text(text, &TagFacts { id: "aaaabbbbccccdddd", name: "web", host: "box", spec: &spec })
    }

    #[test]
    fn fields_are_filled_in() {
        for (text, want) in [
            ("", ""),
            ("plain", "plain"),
            ("{{.ID}}|{{ .FullID }}", "aaaabbbbcccc|aaaabbbbccccdddd"),
            ("{{.Name}} {{.ContainerName}}", "web /web"),
            ("{{.ImageName}}@{{.ImageID}}", "busybox@sha256:01234"),
            ("{{.DaemonName}}/{{.Hostname}}/{{.Command}}", "docker/box/sh -c x"),
            ("a {{- .Name -}} b", "awebb"),
        ] {
            assert_eq!(tag(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn the_template_refuses_unknown_fields() {
        for (text, status) in [("{{.Nope}}", 400), ("{{.Name", 400), ("{{json .}}", 501), ("{{if .Name}}x{{end}}", 501)]
        {
            assert_eq!(tag(text).unwrap_err().http_status(), status, "{text}");
        }
    }
}
