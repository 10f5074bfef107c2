//! The header's sections, in a reader's order: one block a noun, each with its types, constants and functions.
//!
//! A new item needs a line in one section here. An item that no section names, or that two name, is an error, and so is
//! a name that no item has. C wants a type before its use, so a section stands behind those whose types it uses.

use crate::items::{Header, Item};
use std::collections::HashMap;
use std::error::Error;

/// The line of the comment at the top that the table of contents replaces.
const CONTENTS: &str = " * CONTENTS\n";
/// How wide a section's head is.
const WIDTH: usize = 110;

/// A block of the header: a noun with its types, constants and functions.
pub struct Section {
    /// The title in the section's head.
    pub title: &'static str,
    /// One or two sentences below the head.
    pub about: &'static str,
    /// The names of its items, in their order.
    pub items: &'static [&'static str],
}

/// All sections, in the header's order.
pub const SECTIONS: &[Section] = &[
    Section {
        title: "Status codes and errors",
        about: "A function answers with a status code. Its error object, if the caller asked for one, says more.",
        items: &[
            "coracle_status",
            "CORACLE_OK",
            "CORACLE_DONE",
            "CORACLE_AGAIN",
            "CORACLE_UNCHANGED",
            "CORACLE_EINVALID",
            "CORACLE_EUNAUTHORIZED",
            "CORACLE_EFORBIDDEN",
            "CORACLE_ENOT_FOUND",
            "CORACLE_ECONFLICT",
            "CORACLE_EINTERNAL",
            "CORACLE_EUNSUPPORTED",
            "CORACLE_EUNAVAILABLE",
            "CORACLE_EIO",
            "CORACLE_ENOMEM",
            "CORACLE_ETIMEOUT",
            "CORACLE_ECANCELLED",
            "CORACLE_ECALLBACK",
            "CORACLE_EFORKED",
            "CORACLE_EPANIC",
            "CORACLE_EMISUSE",
            "CORACLE_ECORRUPT",
            "CORACLE_ENOT_ACCEPTABLE",
            "coracle_status_name",
            "coracle_error",
            "coracle_error_code",
            "coracle_error_http_status",
            "coracle_error_errno",
            "coracle_error_area",
            "coracle_error_message",
            "coracle_error_detail",
            "coracle_error_free",
        ],
    },
    Section {
        title: "The library",
        about: "The version and the features of the library, its log, and the end of texts that it gave. No function here needs a root.",
        items: &[
            "CORACLE_VERSION_MAJOR",
            "CORACLE_VERSION_MINOR",
            "CORACLE_VERSION_PATCH",
            "CORACLE_VERSION_NUMBER",
            "CORACLE_VERSION_STRING",
            "CORACLE_VERSION_AT_LEAST",
            "coracle_version",
            "coracle_version_string",
            "coracle_build_info",
            "coracle_has_feature",
            "coracle_free",
            "coracle_drop_fn",
            "coracle_log_fn",
            "CORACLE_LOG_ERROR",
            "CORACLE_LOG_WARN",
            "CORACLE_LOG_INFO",
            "CORACLE_LOG_DEBUG",
            "coracle_set_log",
        ],
    },
    Section {
        title: "Opening a root",
        about: "A root is a directory with everything that an engine keeps. Nearly every function takes an opened root.",
        items: &[
            "coracle",
            "CORACLE_OPEN_EXISTING",
            "CORACLE_OPEN_LENIENT",
            "CORACLE_OPEN_EPHEMERAL",
            "coracle_open_options",
            "CORACLE_OPEN_OPTIONS_INIT",
            "coracle_open",
            "coracle_host_report",
            "coracle_ref",
            "coracle_close",
        ],
    },
    Section {
        title: "Other handles",
        about: "The handles that functions below give out, and the functions that read archives from the caller.",
        items: &[
            "coracle_session",
            "coracle_stream",
            "coracle_events",
            "coracle_http_server",
            "coracle_read_fn",
            "coracle_read_fd",
        ],
    },
    Section {
        title: "Operations",
        about: "A call that may last takes an operation, or NULL. From another thread, or in advance, the operation\n\
                cancels the call, sets its deadline, and reports its progress. An operation with CORACLE_OP_NONBLOCK lets\n\
                a program with a poll loop make any number of such calls at once.",
        items: &[
            "coracle_op",
            "coracle_progress_fn",
            "CORACLE_OP_NONBLOCK",
            "coracle_op_new",
            "coracle_op_cancel",
            "coracle_op_set_timeout",
            "coracle_op_set_progress",
            "coracle_op_fd",
            "coracle_result",
            "CORACLE_RESULT_INIT",
            "coracle_op_result",
            "coracle_op_free",
        ],
    },
    Section {
        title: "Containers",
        about: "First a container's life from its creation to its removal, then questions about a container, then its\n\
                files. Logs have a section of their own.",
        items: &[
            "coracle_container_create",
            "coracle_lease_hold",
            "coracle_io",
            "CORACLE_IO_INIT",
            "CORACLE_IO_DIRECT",
            "coracle_container_start",
            "coracle_container_attach",
            "coracle_container_stop",
            "coracle_container_stop_with",
            "coracle_container_restart",
            "coracle_container_restart_with",
            "coracle_container_kill",
            "coracle_container_pause",
            "coracle_container_unpause",
            "coracle_container_wait",
            "coracle_container_pidfd",
            "CORACLE_REMOVE_FORCE",
            "CORACLE_REMOVE_VOLUMES",
            "CORACLE_REMOVE_LINK",
            "coracle_container_remove",
            "coracle_container_prune",
            "coracle_container_list",
            "coracle_container_inspect",
            "coracle_container_explain",
            "coracle_container_top",
            "coracle_container_stats",
            "coracle_container_rename",
            "coracle_container_update",
            "coracle_container_stat_path",
            "coracle_container_get_archive",
            "coracle_container_put_archive",
            "coracle_container_export",
            "coracle_container_changes",
            "coracle_container_commit",
        ],
    },
    Section {
        title: "Sessions",
        about: "A session is an attached process: of coracle_container_start, coracle_container_attach or\n\
                coracle_exec_start. Its streams are descriptors.",
        items: &[
            "CORACLE_STDIN",
            "CORACLE_STDOUT",
            "CORACLE_STDERR",
            "coracle_session_read",
            "coracle_session_write",
            "coracle_session_close_stdin",
            "coracle_session_fd",
            "coracle_session_take_fd",
            "coracle_session_resize",
            "coracle_session_wait",
            "coracle_session_free",
        ],
    },
    Section {
        title: "Streams",
        about: "A stream gives bytes or records out of the engine: a log, samples, an archive, the body of an answer.",
        items: &[
            "coracle_frame",
            "CORACLE_FRAME_INIT",
            "coracle_stream_read",
            "coracle_stream_next",
            "coracle_stream_fd",
            "coracle_stream_free",
        ],
    },
    Section {
        title: "Exec",
        about: "An exec instance is a further process in a running container.",
        items: &["coracle_exec_create", "coracle_exec_start", "coracle_exec_wait", "coracle_exec_inspect"],
    },
    Section {
        title: "Logs",
        about: "The output that the engine kept of a container, also while the container runs.",
        items: &["coracle_container_logs", "coracle_stream_lost"],
    },
    Section {
        title: "Events",
        about: "Everything that any program does on the root, in one order.",
        items: &["coracle_events_open", "coracle_events_fd", "coracle_events_next", "coracle_events_free"],
    },
    Section {
        title: "Images",
        about: "The images of the root: looking at them, naming and removing them, archives.",
        items: &[
            "coracle_image_list",
            "coracle_image_inspect",
            "coracle_image_history",
            "coracle_image_tag",
            "CORACLE_IMAGE_REMOVE_FORCE",
            "CORACLE_IMAGE_REMOVE_NO_PRUNE",
            "coracle_image_remove",
            "coracle_image_prune",
            "coracle_build_prune",
            "coracle_image_load",
            "coracle_image_save",
            "coracle_image_import",
        ],
    },
    Section {
        title: "Builds",
        about: "An image made from a build file. The context is a tar or a directory.",
        items: &["coracle_image_build", "coracle_image_build_dir"],
    },
    Section {
        title: "Registries",
        about: "Images from and to a registry. A library without TLS answers CORACLE_EUNSUPPORTED here.",
        items: &[
            "coracle_image_pull",
            "coracle_image_pull_platform",
            "coracle_image_push",
            "coracle_image_search",
            "coracle_registry_inspect",
            "coracle_registry_auth",
        ],
    },
    Section {
        title: "Volumes",
        about: "Directories that outlive the containers that use them.",
        items: &[
            "coracle_volume_create",
            "coracle_volume_list",
            "coracle_volume_inspect",
            "coracle_volume_remove",
            "coracle_volume_prune",
        ],
    },
    Section {
        title: "Plugins",
        about: "Plugins that the engine installs from registries, and runs as containers that lists do not show.",
        items: &[
            "CORACLE_PLUGIN_FORCE",
            "coracle_plugin_list",
            "coracle_plugin_inspect",
            "coracle_plugin_privileges",
            "coracle_plugin_pull",
            "coracle_plugin_enable",
            "coracle_plugin_disable",
            "coracle_plugin_remove",
            "coracle_plugin_set",
            "coracle_plugin_upgrade",
        ],
    },
    Section {
        title: "Networks",
        about: "Networks of containers, and the parts of them that the kernel has: bridges, the firewall's rules.",
        items: &[
            "coracle_network_create",
            "coracle_network_list",
            "coracle_network_inspect",
            "coracle_network_connect",
            "coracle_network_disconnect",
            "coracle_network_remove",
            "coracle_network_prune",
            "coracle_network_release",
            "coracle_network_repair",
        ],
    },
    Section {
        title: "System and disk",
        about: "The engine and its host, the root's health, copies of a root, a dockerd's content.",
        items: &[
            "coracle_engine_info",
            "coracle_engine_disk_usage",
            "coracle_engine_metrics",
            "coracle_engine_version",
            "coracle_engine_reload",
            "coracle_root_verify",
            "coracle_root_leftovers",
            "coracle_root_sweep",
            "coracle_root_copy",
            "coracle_root_import_docker",
        ],
    },
    Section {
        title: "HTTP",
        about: "The HTTP API without and with a socket: one request, a connection, a server.",
        items: &[
            "coracle_http_request",
            "coracle_http_connect",
            "coracle_http_serve",
            "coracle_http_server_addresses",
            "coracle_http_server_shutdown",
            "coracle_http_server_free",
        ],
    },
];

/// The whole header: each item in its section, and a table of contents at the top.
pub fn arrange(header: &Header) -> Result<String, Box<dyn Error>> {
    let mut left: HashMap<&str, &Item> = HashMap::new();
    for item in &header.items {
        if let Some(first) = left.insert(&item.name, item) {
            return Err(format!("two items have one name:\n{}\n{}", first.text, item.text).into());
        }
    }
    let mut body = String::new();
    for (number, section) in (1..).zip(SECTIONS) {
        body += &head(number, section);
        for name in section.items {
            let item =
                left.remove(name).ok_or_else(|| format!("sections.rs: no item {name}, or a second line for it"))?;
            body += &format!("\n{}\n", item.text);
        }
    }
    if !left.is_empty() {
        let mut names: Vec<&str> = left.into_keys().collect();
        names.sort_unstable();
        return Err(format!("ffi/header/src/sections.rs: no section has {}", names.join(", ")).into());
    }
    let (top, rest) = header.before.split_once(CONTENTS).ok_or("cbindgen.toml: no line for the contents")?;
    Ok(format!("{top}{}{rest}{body}\n{}", contents(), header.after))
}

/// The items of a section.
pub fn items<'h>(section: &Section, header: &'h Header) -> Vec<&'h Item> {
    section.items.iter().filter_map(|name| header.items.iter().find(|item| item.name == *name)).collect()
}

/// A section's head: its number and title in a rule, and the sentences about the section.
fn head(number: usize, section: &Section) -> String {
    let title = format!("/* == {number}. {} ", section.title);
    let about: String = section.about.lines().map(|line| format!(" * {line}\n")).collect();
    format!("\n{title:=<WIDTH$}\n *\n{about} */\n")
}

/// The table of contents: a line for each section.
fn contents() -> String {
    (1..).zip(SECTIONS).map(|(number, section)| format!(" *   {number:2}. {}\n", section.title)).collect()
}
