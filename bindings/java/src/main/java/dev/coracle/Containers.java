package dev.coracle;

import java.util.List;

/** The containers of an engine. */
public final class Containers extends Scoped<Containers> {
    private final Handle engine;

    Containers(Handle engine, Bounds bounds) {
        super(bounds);
        this.engine = engine;
    }

    @Override
    Containers with(Bounds other) {
        return new Containers(engine, other);
    }

    /** Creates a container of a body of POST /containers/create; the engine makes a name up. */
    public Container create(Object body) {
        return create(null, body);
    }

    /** Creates a container with a name. */
    public Container create(String name, Object body) {
        return call(call -> {
            Raw.containerCreate(call, engine, name, Document.write(body));
            return new Container(engine, call.id(), Document.parse(call.json()).texts("Warnings"), bounds);
        });
    }

    /** The container of an id, a name, or the beginning of an id; it asks nothing. */
    public Container get(String id) {
        return new Container(engine, id, List.of(), bounds);
    }

    /** The further process of an id; it asks nothing. */
    public Exec exec(String id) {
        return new Exec(engine, id, bounds);
    }

    /** Lists the containers that run, newest first: the documents of GET /containers/json. */
    public List<Document> list() {
        return list(null);
    }

    /** Lists containers; query: a document with any of "all", "limit", "size", "since", "before", "filters". */
    public List<Document> list(Object query) {
        return documents(call -> Raw.containerList(call, engine, Document.write(query)));
    }

    /** Removes the containers that do not run. */
    public Document prune() {
        return prune(null);
    }

    /** Removes those of them that the filters of a list choose. */
    public Document prune(Object filters) {
        return document(call -> Raw.containerPrune(call, engine, Document.write(filters)));
    }
}
