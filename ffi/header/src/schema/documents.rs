//! The list of all documents.

use super::Way::{self, In, Out};
use Source::{Body, Fixed, Query, Type};

/// A document with a schema of its own.
pub struct Document {
    /// The name of the schema's file, without `.json`.
    pub name: &'static str,
    pub way: Way,
    /// A sentence about the document.
    pub about: &'static str,
    pub source: Source,
}

/// Where the members of a document stand in the source.
pub enum Source {
    /// A type that serde reads or writes.
    Type(&'static str),
    /// A request's body: its table of members, and its type.
    Body(&'static str, &'static str),
    /// A function of C that reads a query.
    Query(&'static str),
    /// A schema as it is, of documents that have no type.
    Fixed(&'static str),
}

macro_rules! documents {
    ($($name:literal $way:ident $source:expr, $about:literal;)*) => {
        /// All documents, by name.
        pub const DOCUMENTS: &[Document] =
            &[$(Document { name: $name, way: $way, about: $about, source: $source }),*];
    };
}

documents! {
    "auth-status" Out Type("AuthStatus"), "A registry's answer to credentials.";
    "build" In Type("BuildImage"), "The parameters of a build.";
    "build-info" Out Fixed(BUILD_INFO), "How the library was built.";
    "container" Out Type("ContainerDetail"), "Everything about a container.";
    "container-attach-query" In Query("coracle_container_attach"), "Which streams to attach.";
    "container-changes" Out Type("Vec<FileChange>"), "The files that a container changed.";
    "container-commit-query" In Query("coracle_container_commit"), "How to make an image of a container.";
    "container-config" In Body("COMMIT", "ContainerConfig"), "A container's configuration.";
    "container-create" In Body("NEWEST_CREATE", "CreateBody"), "A container that is to be created.";
    "container-created" Out Type("Created"), "A container that was created.";
    "container-list" Out Type("Vec<ContainerSummary>"), "Containers.";
    "container-list-query" In Query("coracle_container_list"), "Which containers to list.";
    "container-logs-query" In Query("coracle_container_logs"), "Which lines of a log to read, and their form.";
    "container-prune" Out Type("PrunedContainers"), "The containers that a prune removed.";
    "container-put-archive-query" In Query("coracle_container_put_archive"), "How to extract an archive.";
    "container-stats" Out Type("ContainerStats"), "A sample of the resources that a container uses.";
    "container-stats-query" In Query("coracle_container_stats"), "How many samples to take.";
    "container-stop" In Query("how_to_stop"), "How to stop a container.";
    "container-top" Out Type("Top"), "The processes of a container.";
    "container-update" In Body("UPDATE", "UpdateContainer"), "The limits of a container that are to change.";
    "container-updated" Out Type("Updated"), "A container whose limits were changed.";
    "container-wait" Out Type("ContainerWaited"), "The end of a container.";
    "credentials" In Type("RegistryAuth"), "Credentials for a registry.";
    "disk-usage" Out Type("DiskUsage"), "The bytes that objects take.";
    "disk-usage-query" In Query("coracle_engine_disk_usage"), "Which objects to count.";
    "distribution" Out Type("Distribution"), "An image as a registry has it.";
    "docker-import" Out Type("DockerImport"), "The objects that were taken from a dockerd.";
    "docker-import-query" In Type("ImportDocker"), "Where a dockerd's objects are, and which to take.";
    "error-detail" Out Fixed(ERROR_DETAIL), "Facts about an error, for programs.";
    "event" Out Type("SequencedEvent"), "An event of the root.";
    "events-query" In Query("coracle_events_open"), "Which events to follow.";
    "exec" Out Type("ExecDetail"), "Everything about an exec instance.";
    "exec-create" In Body("EXEC_CONFIG", "ExecConfig"), "A process that is to run in a container.";
    "filters" In Fixed(super::queries::FILTERS), "Filters: the values of each name.";
    "host-report" Out Type("HostReport"), "The needs of an engine, and whether the host meets them.";
    "http-serve-options" In Query("coracle_http_serve"), "Where and how to serve the HTTP API.";
    "image" Out Type("ImageDetail"), "Everything about an image.";
    "image-history" Out Type("Vec<HistoryItem>"), "The steps by which an image was made.";
    "image-import-query" In Query("coracle_image_import"), "How to make an image of a root file system.";
    "image-list" Out Type("Vec<ImageSummary>"), "Images.";
    "image-list-query" In Query("coracle_image_list"), "Which images to list.";
    "image-prune" Out Type("PrunedImages"), "The images that a prune removed.";
    "build-prune" Out Type("PrunedBuilds"), "The caches of builds that a prune removed.";
    "image-pushed" Out Fixed(PUSHED), "The manifest of an image that was pushed.";
    "image-removed" Out Type("Vec<RemovedImage>"), "The names that were removed, and the images that were deleted.";
    "image-save" In Type("Names"), "The images that are to be saved.";
    "image-search" Out Type("Vec<SearchResult>"), "Images that a registry found.";
    "image-search-query" In Query("coracle_image_search"), "Words to look for in a registry.";
    "info" Out Type("Info"), "The engine and its host, as `docker info` describes them.";
    "launch-plan" Out Type("LaunchPlan"), "A container's launch in words.";
    "leftovers" Out Type("Vec<Leftover>"), "Files that a removal could not remove.";
    "metrics" Out Type("Metrics"), "Numbers about an engine and its root.";
    "network" Out Type("NetworkDetail"), "Everything about a network.";
    "network-connect" In Body("NETWORK_CONNECT", "ConnectNetwork"), "A container that is to be connected, and how.";
    "network-create" In Body("NETWORK_CREATE", "CreateNetwork"), "A network that is to be created.";
    "network-created" Out Type("NetworkCreated"), "A network that was created.";
    "network-disconnect" In Body("NETWORK_DISCONNECT", "DisconnectNetwork"), "A container that is to be disconnected.";
    "network-list" Out Type("Vec<NetworkDetail>"), "Networks.";
    "network-list-query" In Query("coracle_network_list"), "Which networks to list.";
    "network-prune" Out Type("PrunedNetworks"), "The networks that a prune removed.";
    "open-config" In Type("Config"), "The settings with which a root is opened.";
    "path-stat" Out Type("PathStat"), "A file of a container.";
    "plugin" Out Type("Plugin"), "An installed plugin.";
    "plugin-list" Out Type("Vec<Plugin>"), "Installed plugins.";
    "plugin-list-query" In Query("coracle_plugin_list"), "Which plugins to list.";
    "plugin-privileges" Out Type("Vec<PluginPrivilege>"), "The rights on the host that a plugin needs.";
    "plugin-pull" In Type("PullPlugin"), "A plugin that is to be installed.";
    "progress" Out Type("Progress"), "A step of a call that lasts.";
    "root-copy" Out Type("RootCopy"), "The content of a copy of a root.";
    "root-copy-query" In Type("CopyRoot"), "How to copy a root.";
    "root-verify" Out Type("VerifyReport"), "The damage of a root.";
    "root-verify-query" In Type("VerifyImages"), "How to verify a root.";
    "string-map" In Type("StringMap"), "Names, each with a text.";
    "strings" In Type("Vec<String>"), "Texts.";
    "string-list" Out Type("Vec<String>"), "Texts.";
    "version" Out Type("Version"), "The versions of the library, the API and the kernel.";
    "volume" Out Type("Volume"), "Everything about a volume.";
    "volume-create" In Body("CREATE_VOLUME", "CreateVolume"), "A volume that is to be created.";
    "volume-list" Out Type("VolumeList"), "Volumes.";
    "volume-list-query" In Query("coracle_volume_list"), "Which volumes to list.";
    "volume-prune" Out Type("PrunedVolumes"), "The volumes that a prune removed.";
}

const BUILD_INFO: &str = r#"{"type": "object", "required": ["version", "os", "arch", "debug"], "properties": {
    "version": {"type": "string", "description": "The library's version."},
    "os": {"type": "string", "description": "The operating system."},
    "arch": {"type": "string", "description": "The processor's architecture."},
    "debug": {"type": "boolean", "description": "Whether this is a development build."}}}"#;

const ERROR_DETAIL: &str = r#"{"type": "object", "properties": {
    "argument": {"type": "string", "description": "The name of the argument that is wrong."},
    "field": {"type": "string", "description": "The path of the member of that document, such as HostConfig.Binds[1]."},
    "limit": {"type": "integer", "description": "The bound that a value is beyond."},
    "id": {"type": "string", "description": "The id or the name of the object that is in the way."},
    "callback": {"type": "integer", "description": "The number that a callback returned."},
    "exitCode": {"type": "integer", "description": "The exit code of a command of a build."},
    "place": {"type": ["string", "null"], "description": "Where the library has a defect."}}}"#;

const PUSHED: &str = r#"{"type": "object", "properties": {
    "Tag": {"type": "string", "description": "The tag."},
    "Digest": {"type": "string", "description": "The manifest's digest, sha256: and 64 hex digits."},
    "Size": {"type": "integer", "description": "The manifest's bytes."}}}"#;
