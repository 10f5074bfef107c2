package dev.coracle;

import java.io.InputStream;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The images of an engine. Credentials are a document with any of "username", "password", "identitytoken", "registrytoken",
 * "serveraddress"; null: none.
 */
public final class Images extends Scoped<Images> {
    private final Handle engine;

    Images(Handle engine, Bounds bounds) {
        super(bounds);
        this.engine = engine;
    }

    @Override
    Images with(Bounds other) {
        return new Images(engine, other);
    }

    /** Lists images, newest first: the documents of GET /images/json. */
    public List<Document> list() {
        return list(null);
    }

    /** Lists images; query: a document with any of "all", "filters". */
    public List<Document> list(Object query) {
        return documents(call -> Raw.imageList(call, engine, Document.write(query)));
    }

    /** Describes an image in full: the document of GET /images/{name}/json. */
    public Document inspect(String ref) {
        return document(call -> Raw.imageInspect(call, engine, ref));
    }

    /** Lists the steps by which an image was made, newest first. */
    public List<Document> history(String ref) {
        return documents(call -> Raw.imageHistory(call, engine, ref));
    }

    /** Gives an image another name. */
    public void tag(String ref, String name) {
        does(call -> Raw.imageTag(call, engine, ref, name));
    }

    /** How an image is removed. */
    public enum How {
        /** It is untagged, whatever stopped container uses the image. */
        FORCE(Raw.IMAGE_REMOVE_FORCE),
        /** Untagged parents are kept. */
        NO_PRUNE(Raw.IMAGE_REMOVE_NO_PRUNE);

        private final int flag;

        How(int flag) {
            this.flag = flag;
        }
    }

    /** Removes a name of an image and, if nothing else holds the image, deletes it: "Untagged" and "Deleted". */
    public List<Document> remove(String ref, How... how) {
        long flags = 0;
        for (How one : how) {
            flags |= one.flag;
        }
        long all = flags;
        return documents(call -> Raw.imageRemove(call, engine, ref, all));
    }

    /** Removes images without a name that nothing uses. */
    public Document prune() {
        return prune(null);
    }

    /** Removes images that nothing uses; filters: {"dangling": ["false"]} chooses all of them. */
    public Document prune(Object filters) {
        return document(call -> Raw.imagePrune(call, engine, Document.write(filters)));
    }

    /** Removes the caches of builds that no step uses; null: no filters. */
    public Document pruneCaches(Object filters) {
        return document(call -> Raw.buildPrune(call, engine, Document.write(filters)));
    }

    /** Loads every image of an archive (docker save, OCI layout; plain or compressed): their names. */
    public List<String> load(InputStream archive) {
        try (Source source = Source.of(archive)) {
            return load(source);
        }
    }

    /** The same of a file, which the library reads itself. */
    public List<String> load(Path archive) throws NoSuchFileException {
        try (Source source = Source.of(archive)) {
            return load(source);
        }
    }

    private List<String> load(Source source) {
        return texts(call -> Raw.imageLoad(call, engine, source));
    }

    /** Writes images as an archive; layout: "docker" or "oci". */
    public Body save(String layout, String... names) {
        String which = Document.write(Map.of("names", names, "layout", layout));
        return new Body(handle(call -> Raw.imageSave(call, engine, which)), bounds);
    }

    /** Makes an image of a tar of a root file system: its id; query: any of "repo", "tag", "message", "changes", "url" (then null). */
    public String importImage(InputStream archive, Object query) {
        try (Source source = Source.of(archive)) {
            return id(call -> Raw.imageImport(call, engine, Document.write(query), source));
        }
    }

    /** Builds an image of a context, a tar: its id; query has the parameters of POST /build: "t" (names), "dockerfile", "buildargs", ... */
    public String build(InputStream context, Object query) {
        try (Source source = Source.of(context)) {
            return id(call -> Raw.imageBuild(call, engine, Document.write(query), source));
        }
    }

    /** Builds an image of a directory, without a tar of it. */
    public String buildDir(Path directory, Object query) throws NoSuchFileException {
        // O_DIRECTORY has another number on aarch64: the library refuses another kind of file.
        try (Descriptor opened = new Descriptor(Source.open(directory, Descriptor.O_RDONLY | Descriptor.O_NONBLOCK))) {
            return id(call -> Raw.imageBuildDir(call, engine, Document.write(query), opened.number()));
        }
    }

    /** Pulls an image from its registry: its id. */
    public String pull(String ref) {
        return pull(ref, null);
    }

    /** The same with credentials. */
    public String pull(String ref, Object auth) {
        return pull(ref, null, auth);
    }

    /** The same of a platform, such as "linux/arm64", where the name is that of a list of images; null: this machine's. */
    public String pull(String ref, String platform, Object auth) {
        if (platform == null) {
            return id(call -> Raw.imagePull(call, engine, ref, Document.write(auth)));
        }
        return id(call -> Raw.imagePullPlatform(call, engine, ref, platform, Document.write(auth)));
    }

    /** Pushes an image to the registry that its name says: "Tag", "Digest", "Size". */
    public Document push(String ref) {
        return push(ref, null);
    }

    /** The same with credentials. */
    public Document push(String ref, Object auth) {
        return document(call -> Raw.imagePush(call, engine, ref, Document.write(auth)));
    }

    /** Searches a registry for images: "name", "description", "is_official", "star_count". */
    public List<Document> search(String term) {
        return search(term, Map.of(), null);
    }

    /** The same; more: any of "limit", "filters". */
    public List<Document> search(String term, Map<String, ?> more, Object auth) {
        Map<String, Object> query = new LinkedHashMap<>(more);
        query.put("term", term);
        return documents(call -> Raw.imageSearch(call, engine, Document.write(query), Document.write(auth)));
    }

    /** Asks a registry for an image's manifest, without a pull. */
    public Document inspectRemote(String ref, Object auth) {
        return document(call -> Raw.registryInspect(call, engine, ref, Document.write(auth)));
    }

    /** Asks a registry whether credentials with their "serveraddress" are good. */
    public Document checkLogin(Object auth) {
        return document(call -> Raw.registryAuth(call, engine, Document.write(auth)));
    }
}
