//! The tests that run real containers: they need root and the kernel, and leave nothing behind.

#[path = "../support/mod.rs"]
#[allow(dead_code)]
mod support;

mod api_versions;
mod apparmor;
mod archive;
mod auto_remove;
mod build;
mod cdi;
mod check;
mod cli;
mod cli_codes;
mod cli_demo;
mod cli_format;
mod cli_names;
mod cli_prune;
mod cli_registry;
mod clients;
mod config;
mod container_behaviours;
mod container_churn;
mod container_crowd;
mod container_later_fields;
mod docker_cli;
mod docker_files;
mod engine_misuse;
mod exchange;
mod faults;
mod fields;
mod git;
mod git_tls;
mod health;
mod http;
mod images;
mod import_docker;
mod isolation;
mod kills;
mod leases;
mod lifecycle;
mod limits;
mod log_delivery;
mod logs;
mod memory;
mod monitor;
mod monitor_faults;
mod monitor_older;
mod network;
mod network_addresses;
mod network_clients;
mod network_drivers;
mod network_faults;
mod network_firewalls;
mod network_names;
mod network_options;
mod network_plugin;
mod network_relay;
mod notes;
mod oracle;
mod oracle_build;
mod oracle_events;
mod oracle_networks;
mod oracle_refusals;
mod oracle_versions;
mod powercut;
mod powercut_peer;
mod races;
mod registry;
mod remote;
mod restart;
mod roots;
mod roots_copy;
mod roots_engines;
mod selinux;
mod serve;
mod specification;
mod state_table;
mod store;
mod store_damaged;
mod store_disk_full;
mod userns;
mod versions;
mod volume_parts;
mod volumes;

/// The attacks have a canary of the host beside each root (`tests/attacks/canary.rs`); these tests have none.
fn beside(_: &std::path::Path) {}
fn behind(_: &std::path::Path) {}
