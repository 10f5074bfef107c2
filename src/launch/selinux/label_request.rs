//! Security options about labels: `label=disable`, `label=user:`, `role:`, `type:`, `level:`, `filetype:`.

use super::context::{Context, is_level, is_name};
use crate::error::{Error, Result};

/// The label that a container requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabelRequest {
    /// The processes have no label of their own.
    Disabled,
    /// The processes have a label; absent parts come from the policy, the level from the engine.
    Own {
        user: Option<String>,
        role: Option<String>,
        kind: Option<String>,
        level: Option<String>,
        /// The type of the container's files.
        file_kind: Option<String>,
    },
}

impl LabelRequest {
    /// Nothing in particular.
    pub(crate) const NOTHING: LabelRequest =
        LabelRequest::Own { user: None, role: None, kind: None, level: None, file_kind: None };

    /// Reads the values of all `label=` options; of two for the same part, the later one counts. Errors: an unknown
    /// word.
    pub(crate) fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<LabelRequest> {
        let mut asked = LabelRequest::NOTHING;
        let mut disabled = false;
        for value in values {
            let wrong = |why: &str| Error::invalid(format!("SecurityOpt: label={value}: {why}"));
            if matches!(value, "" | "disable") {
                disabled |= value == "disable";
                continue;
            }
            let Some((key, text)) = value.split_once(':') else {
                return Err(wrong(
                    "disable, or user, role, type, filetype or level with a colon and a value, is needed",
                ));
            };
            let LabelRequest::Own { user, role, kind, level, file_kind } = &mut asked else { break };
            let (place, good) = match key {
                "user" => (user, is_name(text)),
                "role" => (role, is_name(text)),
                "type" => (kind, is_name(text)),
                "filetype" => (file_kind, is_name(text)),
                "level" => (level, is_level(text)),
                _ => return Err(wrong("there are user, role, type, filetype and level")),
            };
            if !good {
                return Err(wrong("this cannot be part of a label"));
            }
            *place = Some(text.to_owned());
        }
        Ok(if disabled { LabelRequest::Disabled } else { asked })
    }

    /// The label of a container that joins the processes of another one. If the other one has no label, this one gets
    /// its own, as in dockerd. Errors: the text is not a label.
    pub(crate) fn as_another(process: &str) -> Result<LabelRequest> {
        if process.is_empty() {
            return Ok(LabelRequest::NOTHING);
        }
        let Context { user, role, kind, level } = process.parse()?;
        let level = (!level.is_empty()).then_some(level);
        Ok(LabelRequest::Own { user: Some(user), role: Some(role), kind: Some(kind), level, file_kind: None })
    }
}
