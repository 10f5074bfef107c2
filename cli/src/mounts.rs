//! `--mount type=bind,source=/a,target=/b,readonly`: a mount in its long form.

use crate::format::bytes;
use coracle::model::{MountRequest, StringMap};

/// One value of `--mount`. Errors: a sentence that names the flag and the mistake.
pub fn mount(entry: &str) -> Result<MountRequest, String> {
    let wrong = |why: String| format!("invalid argument {entry:?} for --mount: {why}");
    let mut asked = MountRequest { kind: "volume".into(), ..MountRequest::default() };
    for field in fields(entry) {
        let (key, value) = match field.split_once('=') {
            Some((key, value)) => (key.to_lowercase(), Some(value)),
            None => (field.to_lowercase(), None),
        };
        match switch(&mut asked, &key, value) {
            Some(Ok(())) => continue,
            Some(Err(why)) => return Err(wrong(why)),
            None => {}
        }
        let value = value.ok_or_else(|| wrong(format!("invalid field '{field}' must be a key=value pair")))?;
        take(&mut asked, &key, value).map_err(wrong)?;
    }
    if asked.target.is_empty() {
        return Err(wrong("target is required".into()));
    }
    Ok(asked)
}

/// Fields separated by commas; a field in double quotes may hold commas, and two quotes mean one.
fn fields(entry: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    let mut chars = entry.chars().peekable();
    while let Some(c) = chars.next() {
        let last = all.len() - 1;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                all[last].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all[last].push(c),
        }
    }
    all
}

/// Reads a field that may stand without a value; `None`: the field needs a value.
fn switch(asked: &mut MountRequest, key: &str, value: Option<&str>) -> Option<Result<(), String>> {
    let place = match key {
        "readonly" | "ro" => &mut asked.read_only,
        "volume-nocopy" => &mut asked.volume_options.get_or_insert_default().no_copy,
        "bind-nonrecursive" => &mut asked.bind_options.get_or_insert_default().non_recursive,
        _ => return None,
    };
    Some(match value {
        None | Some("true" | "1") => {
            *place = true;
            Ok(())
        }
        Some("false" | "0") => {
            *place = false;
            Ok(())
        }
        Some(value) => Err(format!("invalid value for {key}: {value}")),
    })
}

fn take(asked: &mut MountRequest, key: &str, value: &str) -> Result<(), String> {
    let pair = |map: &mut StringMap| {
        let (name, value) = value.split_once('=').unwrap_or((value, ""));
        map.insert(name.to_owned(), value.to_owned());
    };
    match key {
        "type" => asked.kind = value.to_lowercase(),
        "source" | "src" => asked.source = value.to_owned(),
        "target" | "dst" | "destination" => asked.target = value.to_owned(),
        "consistency" => asked.consistency = value.to_lowercase(),
        "bind-propagation" => asked.bind_options.get_or_insert_default().propagation = value.to_lowercase(),
        "image-subpath" => asked.image_options.get_or_insert_default().subpath = value.to_owned(),
        "volume-subpath" => asked.volume_options.get_or_insert_default().subpath = value.to_owned(),
        "volume-label" => pair(&mut asked.volume_options.get_or_insert_default().labels),
        "volume-driver" => driver(asked).name = value.to_owned(),
        "volume-opt" => pair(&mut driver(asked).options),
        "tmpfs-size" => {
            let size = bytes(value).ok_or(format!("invalid value for {key}: {value}"))?;
            asked.tmpfs_options.get_or_insert_default().size_bytes = size;
        }
        "tmpfs-mode" => {
            let mode = u32::from_str_radix(value, 8).map_err(|_| format!("invalid value for {key}: {value}"))?;
            asked.tmpfs_options.get_or_insert_default().mode = mode;
        }
        _ => return Err(format!("unexpected key '{key}' in '{key}={value}'")),
    }
    Ok(())
}

fn driver(asked: &mut MountRequest) -> &mut coracle::model::DriverConfig {
    asked.volume_options.get_or_insert_default().driver_config.get_or_insert_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_a_mount() {
        let bind = mount("type=bind,src=/a,\"dst=/b,c\",readonly,bind-propagation=rslave").expect("parses");
        assert_eq!((bind.kind.as_str(), bind.source.as_str(), bind.target.as_str()), ("bind", "/a", "/b,c"));
        assert!(bind.read_only && bind.bind_options.is_some_and(|options| options.propagation == "rslave"));
        let volume =
            mount("source=v,target=/v,volume-label=a=b,volume-opt=type=tmpfs,volume-nocopy,volume-subpath=x/y")
                .expect("parses");
        let options = volume.volume_options.expect("options");
        assert!(volume.kind == "volume" && options.no_copy && options.labels["a"] == "b" && options.subpath == "x/y");
        assert_eq!(options.driver_config.expect("a driver").options["type"], "tmpfs");
        let image = mount("type=image,src=tools:1,dst=/t,image-subpath=bin").expect("parses");
        assert_eq!((image.kind.as_str(), image.image_options.expect("options").subpath.as_str()), ("image", "bin"));
        let tmpfs = mount("type=tmpfs,target=/t,tmpfs-size=1m,tmpfs-mode=700").expect("parses").tmpfs_options;
        assert_eq!(tmpfs.map(|options| (options.size_bytes, options.mode)), Some((1 << 20, 0o700)));
    }

    #[test]
    fn mistakes_are_named() {
        for (entry, text) in [
            ("type=bind,source=/a", "target is required"),
            ("type=bind,target", "invalid field 'target' must be a key=value pair"),
            ("target=/t,size=5", "unexpected key 'size' in 'size=5'"),
            ("target=/t,readonly=maybe", "invalid value for readonly: maybe"),
            ("target=/t,tmpfs-mode=9", "invalid value for tmpfs-mode: 9"),
        ] {
            let error = mount(entry).expect_err("a mistake");
            assert!(error.contains(text) && error.contains("--mount"), "{error}");
        }
    }
}
