//! The table of routes: what is answered, and by whom.

use crate::api::{
    Handler, archive, build, containers, disk_usage, exec, images, networks, plugins, prune, registry, swarm, system,
    unbuilt, volumes,
};

/// One row: a method, a path with at most one `{name}`, and the function that answers. The name takes everything
/// between the fixed parts of the path, slashes too (image names have them); so a row without a name stands above the
/// rows whose name would match its path. An `{id}` is one word.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) handler: Handler,
}

const fn route(method: &'static str, path: &'static str, handler: Handler) -> Route {
    Route { method, path, handler }
}

static ROUTES: &[Route] = &[
    // The engine.
    route("GET", "/_ping", system::ping),
    route("HEAD", "/_ping", system::ping),
    route("GET", "/healthz", system::health),
    route("GET", "/metrics", system::metrics),
    route("GET", "/version", system::version),
    route("GET", "/info", system::info),
    route("GET", "/events", system::events),
    route("GET", "/system/df", disk_usage::disk_usage),
    route("POST", "/auth", registry::login),
    // Containers.
    route("GET", "/containers/json", containers::list),
    route("POST", "/containers/create", containers::create),
    route("POST", "/containers/prune", prune::containers),
    route("GET", "/containers/{name}/json", containers::inspect),
    route("GET", "/containers/{name}/top", containers::top),
    route("GET", "/containers/{name}/logs", containers::logs),
    route("POST", "/containers/{name}/start", containers::start),
    route("POST", "/containers/{name}/stop", containers::stop),
    route("POST", "/containers/{name}/restart", containers::restart),
    route("POST", "/containers/{name}/kill", containers::kill),
    route("POST", "/containers/{name}/pause", containers::pause),
    route("POST", "/containers/{name}/unpause", containers::unpause),
    route("POST", "/containers/{name}/wait", containers::wait),
    route("POST", "/containers/{name}/rename", containers::rename),
    route("POST", "/containers/{name}/resize", containers::resize),
    route("POST", "/containers/{name}/attach", containers::attach),
    route("GET", "/containers/{name}/attach/ws", containers::attach_ws),
    route("GET", "/containers/{name}/changes", archive::changes),
    route("GET", "/containers/{name}/export", archive::export),
    route("GET", "/containers/{name}/stats", containers::stats),
    route("POST", "/containers/{name}/update", containers::update),
    route("POST", "/containers/{name}/copy", archive::copy),
    route("HEAD", "/containers/{name}/archive", archive::stat),
    route("GET", "/containers/{name}/archive", archive::get),
    route("PUT", "/containers/{name}/archive", archive::put),
    route("POST", "/containers/{name}/exec", exec::create),
    route("GET", "/containers/{name}/checkpoints", unbuilt::checkpoints),
    route("POST", "/containers/{name}/checkpoints", unbuilt::checkpoints),
    route("DELETE", "/containers/{name}", containers::remove),
    // Exec instances.
    route("POST", "/exec/{name}/start", exec::start),
    route("POST", "/exec/{name}/resize", exec::resize),
    route("GET", "/exec/{name}/json", exec::inspect),
    // Images.
    route("GET", "/images/json", images::list),
    route("GET", "/images/search", registry::search),
    route("GET", "/images/get", images::save_many),
    route("GET", "/images/{name}/get", images::save_one),
    route("GET", "/images/{name}/history", images::history),
    route("GET", "/images/{name}/json", images::inspect),
    route("POST", "/images/create", images::create),
    route("POST", "/images/load", images::load),
    route("POST", "/images/prune", prune::images),
    route("POST", "/images/{name}/push", registry::push),
    route("POST", "/images/{name}/tag", images::tag),
    route("DELETE", "/images/{name}", images::remove),
    route("POST", "/commit", archive::commit),
    route("POST", "/build", build::build),
    route("POST", "/build/prune", prune::build_cache),
    route("POST", "/session", unbuilt::buildkit),
    route("POST", "/grpc", unbuilt::buildkit),
    route("GET", "/distribution/{name}/json", registry::distribution),
    // Volumes.
    route("GET", "/volumes", volumes::list),
    route("POST", "/volumes/create", volumes::create),
    route("POST", "/volumes/prune", prune::volumes),
    route("GET", "/volumes/{name}", volumes::inspect),
    route("DELETE", "/volumes/{name}", volumes::remove),
    route("PUT", "/volumes/{name}", swarm::update_volume),
    // Networks.
    route("GET", "/networks", networks::list),
    route("GET", "/networks/", networks::list),
    route("POST", "/networks/create", networks::create),
    route("POST", "/networks/prune", prune::networks),
    route("POST", "/networks/{name}/connect", networks::connect),
    route("POST", "/networks/{name}/disconnect", networks::disconnect),
    route("GET", "/networks/{name}", networks::inspect),
    route("DELETE", "/networks/{name}", networks::remove),
    // Plugins.
    route("GET", "/plugins", plugins::list),
    route("GET", "/plugins/privileges", plugins::privileges),
    route("POST", "/plugins/pull", plugins::pull),
    route("POST", "/plugins/create", plugins::create),
    route("POST", "/plugins/{name}/enable", plugins::enable),
    route("POST", "/plugins/{name}/disable", plugins::disable),
    route("POST", "/plugins/{name}/set", plugins::set),
    route("POST", "/plugins/{name}/upgrade", plugins::upgrade),
    route("POST", "/plugins/{name}/push", plugins::push),
    route("GET", "/plugins/{name}/json", plugins::inspect),
    route("GET", "/plugins/{name}", plugins::inspect_first),
    route("DELETE", "/plugins/{name}", plugins::remove),
    // Swarm.
    route("GET", "/swarm", swarm::members),
    route("POST", "/swarm/init", swarm::enter),
    route("POST", "/swarm/join", swarm::enter),
    route("POST", "/swarm/leave", swarm::leave),
    route("POST", "/swarm/update", swarm::members),
    route("GET", "/services", swarm::members),
    route("POST", "/services/create", swarm::members),
    route("POST", "/services/{id}/update", swarm::members),
    route("GET", "/services/{id}", swarm::members),
    route("DELETE", "/services/{id}", swarm::members),
    route("GET", "/nodes", swarm::members),
    route("POST", "/nodes/{id}/update", swarm::members),
    route("GET", "/nodes/{id}", swarm::members),
    route("DELETE", "/nodes/{id}", swarm::members),
    route("GET", "/tasks", swarm::members),
    route("GET", "/tasks/{id}", swarm::members),
    route("GET", "/secrets", swarm::members),
    route("POST", "/secrets/create", swarm::members),
    route("GET", "/secrets/{id}", swarm::members),
    route("DELETE", "/secrets/{id}", swarm::members),
    route("GET", "/configs", swarm::members),
    route("POST", "/configs/create", swarm::members),
    route("GET", "/configs/{id}", swarm::members),
    route("DELETE", "/configs/{id}", swarm::members),
];

/// The first row that answers `method` on `path` (cleaned, decoded, without version), and the name in the path.
pub(crate) fn find<'p>(method: &str, path: &'p str) -> Option<(&'static Route, &'p str)> {
    ROUTES.iter().find_map(|route| {
        if route.method != method {
            return None;
        }
        matched(route.path, path).map(|name| (route, name))
    })
}

fn matched<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    if let Some((before, behind)) = pattern.split_once("{name}") {
        return path.strip_prefix(before)?.strip_suffix(behind);
    }
    match pattern.split_once("{id}") {
        None => (pattern == path).then_some(""),
        Some((before, behind)) => {
            path.strip_prefix(before)?.strip_suffix(behind).filter(|id| !id.is_empty() && !id.contains('/'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(method: &str, path: &str) -> Option<(&'static str, String)> {
        find(method, path).map(|(route, name)| (route.path, name.to_owned()))
    }

    #[test]
    fn names_are_greedy() {
        let name = "host:5000/a/b:tag";
        let path = format!("/images/{name}/json");
        assert_eq!(row("GET", &path), Some(("/images/{name}/json", name.into())));
        assert_eq!(row("GET", "/images/json/json"), Some(("/images/{name}/json", "json".into())));
        assert_eq!(row("DELETE", "/images/a/b"), Some(("/images/{name}", "a/b".into())));
        assert_eq!(row("GET", "/containers/x/attach/ws"), Some(("/containers/{name}/attach/ws", "x".into())));
        assert_eq!(row("DELETE", "/containers/"), Some(("/containers/{name}", String::new())));
    }

    #[test]
    fn fixed_paths_come_first() {
        for path in ["/images/json", "/images/get", "/images/search", "/containers/json"] {
            assert_eq!(
                row("GET", path),
                Some((path, String::new())).map(|(p, n)| (ROUTES.iter().find(|r| r.path == p).unwrap().path, n))
            );
        }
        assert_eq!(row("POST", "/networks/create").unwrap().0, "/networks/create");
        assert_eq!(row("GET", "/networks/").unwrap().0, "/networks/");
    }

    #[test]
    fn others_are_unknown() {
        for (method, path) in [
            ("PUT", "/_ping"),
            ("HEAD", "/version"),
            ("GET", "/_ping/"),
            ("GET", "/containers"),
            ("GET", "/containers/a/b/nope"),
            ("GET", "/images/json/"),
            ("GET", "/services/"),
            ("GET", "/nodes/a/b"),
            ("POST", "/services//update"),
            ("GET", "/"),
            ("get", "/_ping"),
        ] {
            assert_eq!(row(method, path), None, "{method} {path}");
        }
    }
}
