package dev.coracle;

import java.util.List;

/** The volumes of an engine: directories that outlive containers. */
public final class Volumes extends Scoped<Volumes> {
    private final Handle engine;

    Volumes(Handle engine, Bounds bounds) {
        super(bounds);
        this.engine = engine;
    }

    @Override
    Volumes with(Bounds other) {
        return new Volumes(engine, other);
    }

    /** Makes a volume of a body of POST /volumes/create ("Name", "Driver", "DriverOpts", "Labels"): its document. */
    public Document create(Object body) {
        return document(call -> Raw.volumeCreate(call, engine, Document.write(body)));
    }

    /** Lists volumes by name. */
    public List<Document> list() {
        return list(null);
    }

    /** Lists volumes; query: a document with "filters". */
    public List<Document> list(Object query) {
        return document(call -> Raw.volumeList(call, engine, Document.write(query))).documents("Volumes");
    }

    /** Describes a volume in full. */
    public Document inspect(String name) {
        return document(call -> Raw.volumeInspect(call, engine, name));
    }

    /** Removes a volume and its content. */
    public void remove(String name) {
        does(call -> Raw.volumeRemove(call, engine, name));
    }

    /** Removes the volumes that nobody named and no container uses. */
    public Document prune() {
        return prune(null);
    }

    /** The same for those that the filters choose; {"all": ["true"]}: also those with a name. */
    public Document prune(Object filters) {
        return document(call -> Raw.volumePrune(call, engine, Document.write(filters)));
    }
}
