package dev.coracle;

import java.util.List;

/** The networks of an engine. */
public final class Networks extends Scoped<Networks> {
    private final Handle engine;

    Networks(Handle engine, Bounds bounds) {
        super(bounds);
        this.engine = engine;
    }

    @Override
    Networks with(Bounds other) {
        return new Networks(engine, other);
    }

    /** Makes a network of a body of POST /networks/create: its id. */
    public String create(Object body) {
        return id(call -> Raw.networkCreate(call, engine, Document.write(body)));
    }

    /** Lists networks by name. */
    public List<Document> list() {
        return list(null);
    }

    /** Lists networks; query: a document with "filters". */
    public List<Document> list(Object query) {
        return documents(call -> Raw.networkList(call, engine, Document.write(query)));
    }

    /** Describes a network in full, by its name or id. */
    public Document inspect(String id) {
        return document(call -> Raw.networkInspect(call, engine, id));
    }

    /** Connects a container, running or not. */
    public void connect(String id, String container) {
        connect(id, container, null);
    }

    /** The same with members of EndpointConfig. */
    public void connect(String id, String container, Object endpoint) {
        String body = Document.of("Container", container, "EndpointConfig", endpoint).toString();
        does(call -> Raw.networkConnect(call, engine, id, body));
    }

    /** Disconnects a container, running or not; force: also one whose network is broken. */
    public void disconnect(String id, String container, boolean force) {
        String body = Document.of("Container", container, "Force", force).toString();
        does(call -> Raw.networkDisconnect(call, engine, id, body));
    }

    /** Removes a network. */
    public void remove(String id) {
        does(call -> Raw.networkRemove(call, engine, id));
    }

    /** Removes networks that no container is on. */
    public Document prune() {
        return prune(null);
    }

    /** Removes those of them that the filters choose. */
    public Document prune(Object filters) {
        return document(call -> Raw.networkPrune(call, engine, Document.write(filters)));
    }

    /** Removes the kernel's parts of networks without running containers; the next start makes them again. */
    public void release() {
        does(call -> Raw.networkRelease(call, engine));
    }

    /** Puts back the parts of networks that another program removed: rules of the firewall, bridges. */
    public void repair() {
        does(call -> Raw.networkRepair(call, engine));
    }
}
