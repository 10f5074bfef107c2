//! The target of a request: its path and its query.

/// The path of a target, clean and without its version: what routes are found by.
pub(crate) fn path_of(target: &str) -> String {
    let path = clean_path(split(target).0);
    split_version(&path).1.to_owned()
}

/// Path and query of a target; `http://host/path` counts as `/path`.
pub(crate) fn split(target: &str) -> (&str, &str) {
    let mut rest = target;
    for scheme in ["http://", "https://"] {
        if let Some(after) = target.strip_prefix(scheme) {
            // The host ends where the path, the query or the fragment begins.
            let end = after.find(['/', '?', '#']).unwrap_or(after.len());
            rest = if after[end..].starts_with('/') { &after[end..] } else { "/" };
        }
    }
    rest.split_once('?').unwrap_or((rest, ""))
}

/// The version of a path that begins with `/v` and digits or dots, and the path behind it.
pub(crate) fn split_version(path: &str) -> (Option<&str>, &str) {
    let split = || {
        let after = path.strip_prefix("/v")?;
        let slash = after.find('/')?;
        let version = &after[..slash];
        let dotted = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        dotted.then_some((version, &after[slash..]))
    };
    split().map_or((None, path), |(version, rest)| (Some(version), rest))
}

/// The path without empty, `.` and `..` segments; a slash at the end stays.
pub(crate) fn clean_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// The path with its odd bytes as a URL has them.
pub(crate) fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            _ if b"/-_.~$&+,:;=@".contains(&byte) => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(split("/a?b=1?c"), ("/a", "b=1?c"));
        assert_eq!(split("http://h:1/a?b"), ("/a", "b"));
        assert_eq!(split("http://h"), ("/", ""));
        assert_eq!(split_version("/v1.24/info"), (Some("1.24"), "/info"));
        for path in ["/info", "/vx/info", "/v/info", "/v1.24", "/volumes/x"] {
            assert_eq!(split_version(path), (None, path));
        }
        assert_eq!(clean_path("//v1.24//../a/./b/"), "/a/b/");
        assert_eq!(clean_path("/../.."), "/");
        assert_eq!(clean_path("/a/"), "/a/");
        assert_eq!(encode_path("/a b/é:1"), "/a%20b/%C3%A9:1");
    }
}
