//! `info` and `version` for people: docker's lines, and this engine's own behind them.

use crate::format::binary;
use serde_json::Value;

/// Lines of names and values; an indent of one column for each level.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, level: usize, text: &str) {
        self.0.push_str(&format!("{:level$}{text}\n", ""));
    }

    /// `name: value`; nothing for an empty value.
    fn pair(&mut self, level: usize, name: &str, value: &str) {
        if !value.is_empty() {
            self.line(level, &format!("{name}: {value}"));
        }
    }

    /// A heading with a line for each of its entries; nothing without entries.
    fn list(&mut self, heading: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(0, &format!("{heading}:"));
            entries.iter().for_each(|entry| self.line(1, entry));
        }
    }
}

/// A value in a line: text as it is, nothing for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// The document of `info`, without its warnings.
pub fn info(info: &Value) -> String {
    let mut lines = Lines::default();
    let plain = |lines: &mut Lines, level, pairs: &[(&str, &str)]| {
        pairs.iter().for_each(|(name, member)| lines.pair(level, name, &text(&info[*member])));
    };
    plain(&mut lines, 0, &[("Containers", "Containers")]);
    let states = [("Running", "ContainersRunning"), ("Paused", "ContainersPaused"), ("Stopped", "ContainersStopped")];
    plain(&mut lines, 1, &states);
    plain(&mut lines, 0, &[("Images", "Images"), ("Server Version", "ServerVersion"), ("Storage Driver", "Driver")]);
    for pair in info["DriverStatus"].as_array().into_iter().flatten() {
        lines.pair(1, &text(&pair[0]), &text(&pair[1]));
    }
    let drivers =
        [("Logging Driver", "LoggingDriver"), ("Cgroup Driver", "CgroupDriver"), ("Cgroup Version", "CgroupVersion")];
    plain(&mut lines, 0, &drivers);
    lines.line(0, "Plugins:");
    for kind in ["Volume", "Network", "Log"] {
        lines.pair(1, kind, &texts(&info["Plugins"][kind]).join(" "));
    }
    lines.list("CDI spec directories", &texts(&info["CDISpecDirs"]));
    lines.pair(0, "Swarm", &text(&info["Swarm"]["LocalNodeState"]));
    security(&mut lines, &texts(&info["SecurityOptions"]));
    let host = [("Kernel Version", "KernelVersion"), ("Operating System", "OperatingSystem"), ("OSType", "OSType")];
    plain(&mut lines, 0, &host);
    plain(&mut lines, 0, &[("Architecture", "Architecture"), ("CPUs", "NCPU")]);
    lines.pair(0, "Total Memory", &binary(info["MemTotal"].as_u64().unwrap_or(0)));
    plain(&mut lines, 0, &[("Name", "Name"), ("ID", "ID"), ("Docker Root Dir", "DockerRootDir")]);
    plain(&mut lines, 0, &[("HTTP Proxy", "HttpProxy"), ("HTTPS Proxy", "HttpsProxy"), ("No Proxy", "NoProxy")]);
    lines.list("Labels", &texts(&info["Labels"]));
    let registries = &info["RegistryConfig"];
    let indexes = registries["IndexConfigs"].as_object().into_iter().flatten();
    let open = indexes.filter(|(_, index)| index["Secure"] == false).map(|(name, _)| name.clone());
    lines.list("Insecure Registries", &open.chain(texts(&registries["InsecureRegistryCIDRs"])).collect::<Vec<_>>());
    lines.list("Registry Mirrors", &texts(&registries["Mirrors"]));
    plain(&mut lines, 0, &[("Live Restore Enabled", "LiveRestoreEnabled")]);
    // Docker has no such line.
    let changed = info["HostSettings"].as_array().into_iter().flatten();
    let shown = |setting: &Value| {
        let [name, before, now] = ["Name", "Before", "Now"].map(|member| text(&setting[member]));
        format!("{name}: {before} before, {now} now")
    };
    lines.list("Host Settings Changed", &changed.map(shown).collect::<Vec<_>>());
    lines.0
}

/// `name=seccomp,profile=builtin`: the name, and the rest in lines of their own.
fn security(lines: &mut Lines, options: &[String]) {
    if options.is_empty() {
        return;
    }
    lines.line(0, "Security Options:");
    for option in options {
        let mut members = option.split(',').filter_map(|member| member.split_once('='));
        if let Some((_, name)) = members.next() {
            lines.line(1, name);
        }
        for (key, value) in members {
            let (first, rest) = key.split_at(key.chars().next().map_or(0, char::len_utf8));
            lines.pair(2, &format!("{}{rest}", first.to_uppercase()), value);
        }
    }
}

/// The document of `version`. The library is client and server.
pub fn version(version: &Value) -> String {
    let of = |member: &str| text(&version[member]);
    let api = format!("{} (minimum version {})", of("ApiVersion"), of("MinAPIVersion"));
    let rows = [
        ("Version:", of("Version")),
        ("API version:", api),
        ("Compiler:", of("GoVersion")),
        ("Git commit:", of("GitCommit")),
        ("Built:", of("BuildTime")),
        ("OS/Arch:", format!("{}/{}", of("Os"), of("Arch"))),
        ("Kernel:", of("KernelVersion")),
    ];
    let shown = rows.iter().filter(|(_, value)| !value.is_empty());
    shown.fold("Coracle:\n".to_owned(), |all, (name, value)| format!("{all} {name:<17} {value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn security_options_are_divided() {
        let mut lines = Lines::default();
        security(&mut lines, &["name=seccomp,profile=builtin".into(), "name=cgroupns".into()]);
        assert_eq!(lines.0, "Security Options:\n seccomp\n  Profile: builtin\n cgroupns\n");
    }

    #[test]
    fn parts_without_values_have_no_lines() {
        let text = info(&json!({ "Containers": 1, "Labels": [], "HttpProxy": "", "MemTotal": 1 << 30 }));
        assert!(text.starts_with("Containers: 1\nPlugins:\n"), "{text}");
        assert!(!text.contains("Labels") && !text.contains("Proxy") && text.contains("Total Memory: 1GiB\n"), "{text}");
    }
}
