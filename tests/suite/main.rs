//! The tests that run real containers: they need root and the kernel, and leave nothing behind.

#[path = "../support/mod.rs"]
#[allow(dead_code)]
mod support;

mod api_versions;
mod apparmor;
mod archive;
mod auto_remove;
mod behaviours;
mod build;
mod cdi;
mod check;
mod churn;
mod cli;
mod cli_codes;
mod cli_demo;
mod cli_format;
mod cli_names;
mod cli_prune;
mod cli_registry;
mod clients;
mod config;
mod crowd;
mod damaged;
mod docker_cli;
mod docker_files;
mod exchange;
mod faults;
mod fields;
mod full;
mod git;
mod git_tls;
mod health;
mod http;
mod images;
mod import_docker;
mod isolation;
mod kills;
mod later_fields;
mod leases;
mod lifecycle;
mod limits;
mod log_delivery;
mod logs;
mod many;
mod memory;
mod misuse;
mod monitor;
mod monitor_faults;
mod network;
mod network_beside;
mod network_clients;
mod network_edges;
mod network_faults;
mod network_more;
mod network_names;
mod network_options;
mod network_plugin;
mod network_relay;
mod notes;
mod older;
mod oracle;
mod oracle_build;
mod oracle_events;
mod oracle_networks;
mod oracle_odd;
mod oracle_versions;
mod powercut;
mod powercut_peer;
mod races;
mod registry;
mod remote;
mod restart;
mod roots;
mod roots_copy;
mod selinux;
mod serve;
mod specification;
mod state_table;
mod store;
mod userns;
mod versions;
mod volume_parts;
mod volumes;

/// The attacks have a canary of the host beside each root (`tests/attacks/canary.rs`); these tests have none.
fn beside(_: &std::path::Path) {}
fn behind(_: &std::path::Path) {}
