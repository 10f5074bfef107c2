//! The state of a stage.

use super::args::Args;
use crate::buildfile::shell;
use crate::container::spec::clean;
use crate::model::ContainerConfig;

/// A stage as far as its steps are done.
pub(super) struct State<'a> {
    /// The image so far; absent: nothing yet on `scratch`.
    pub(super) image: Option<String>,
    /// The image that the stage began with.
    pub(super) base: Option<String>,
    pub(super) config: ContainerConfig,
    pub(super) author: String,
    /// CMD stood in this stage: ENTRYPOINT leaves it.
    pub(super) cmd_set: bool,
    pub(super) args: Args<'a>,
    /// A step was made anew: so are those after it.
    pub(super) anew: bool,
}

/// A stage that is done.
#[derive(Clone)]
pub(super) struct Finished {
    /// Else the build does not need it, and has nothing of it.
    pub(super) is_built: bool,
    pub(super) name: String,
    pub(super) image: Option<String>,
    /// The image that the stage began with.
    pub(super) base: Option<String>,
    pub(super) config: ContainerConfig,
}

impl Finished {
    /// A stage that the build does not need.
    pub(super) fn not_built(name: &str) -> Finished {
        let config = ContainerConfig::default();
        Finished { is_built: false, name: name.to_owned(), image: None, base: None, config }
    }
}

impl<'a> State<'a> {
    /// The state of a stage that is done, and the arguments that it used.
    pub(super) fn finished(self, name: &str) -> (Finished, Args<'a>) {
        let State { image, base, config, args, .. } = self;
        (Finished { is_built: true, name: name.to_owned(), image, base, config }, args)
    }

    pub(super) fn new(args: Args<'a>) -> State<'a> {
        State {
            image: None,
            base: None,
            config: ContainerConfig::default(),
            author: String::new(),
            cmd_set: false,
            args,
            anew: false,
        }
    }

    /// The configuration that stands for a step which runs nothing: two words say what it does.
    pub(super) fn nop(&self, comment: &str) -> ContainerConfig {
        self.with_cmd([shell(&self.config), vec!["#(nop) ".into(), comment.into()]].concat())
    }

    /// The command of an instruction that runs nothing, in one word, as some instructions have it.
    pub(super) fn nop_in_one(&self, comment: &str) -> ContainerConfig {
        self.with_cmd([shell(&self.config), vec![format!("#(nop) {comment}")]].concat())
    }

    fn with_cmd(&self, cmd: Vec<String>) -> ContainerConfig {
        let mut config = ContainerConfig { cmd: Some(cmd), ..self.config.clone() };
        if !config.working_dir.is_empty() {
            config.working_dir = clean(&config.working_dir);
        }
        config
    }
}
