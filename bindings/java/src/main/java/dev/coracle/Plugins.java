package dev.coracle;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/** The managed plugins of an engine: installed from registries, and run by the engine. */
public final class Plugins extends Scoped<Plugins> {
    private final Handle engine;

    Plugins(Handle engine, Bounds bounds) {
        super(bounds);
        this.engine = engine;
    }

    @Override
    Plugins with(Bounds other) {
        return new Plugins(engine, other);
    }

    /** Lists the installed plugins by name. */
    public List<Document> list() {
        return list(null);
    }

    /** Lists plugins; query: a document with "filters": "capability", "enabled". */
    public List<Document> list(Object query) {
        return documents(call -> Raw.pluginList(call, engine, Document.write(query)));
    }

    /** Describes a plugin in full, by its name, its id or the beginning of its id. */
    public Document inspect(String name) {
        return document(call -> Raw.pluginInspect(call, engine, name));
    }

    /** Lists the rights on the host that a plugin of a registry needs: "Name", "Description", "Value". */
    public List<Document> privileges(String remote, Object auth) {
        return documents(call -> Raw.pluginPrivileges(call, engine, remote, Document.write(auth)));
    }

    /**
     * Installs a plugin from a registry, disabled: its id; body: a document with "Remote" and any of "Name", "Privileges" (exactly those
     * that the plugin needs; absent: all that the plugin needs), "Auth".
     */
    public String pull(Object body) {
        return id(call -> Raw.pluginPull(call, engine, Document.write(body)));
    }

    /** Puts another version in the place of a disabled plugin; body: as of {@link #pull}; null: from where the plugin came before. */
    public void upgrade(String name, Object body) {
        does(call -> Raw.pluginUpgrade(call, engine, name, Document.write(body == null ? Map.of() : body)));
    }

    /** Runs a plugin, and waits until the plugin listens, for 30 seconds. */
    public void enable(String name) {
        enable(name, Duration.ZERO);
    }

    /** The same for so long, in whole seconds, rounded up; zero: 30 seconds. */
    public void enable(String name, Duration wait) {
        long seconds = wait.plusNanos(999_999_999).toSeconds();
        if (wait.isNegative() || seconds > 0xffff_ffffL) {
            throw CoracleException.of(Code.INVALID, "wait: " + wait + " is not from 0 to 4294967295 seconds");
        }
        does(call -> Raw.pluginEnable(call, engine, name, (int) seconds));
    }

    /** Ends a plugin; force: also while volumes or networks use the plugin. */
    public void disable(String name, boolean force) {
        does(call -> Raw.pluginDisable(call, engine, name, force ? Raw.PLUGIN_FORCE : 0));
    }

    /** Removes a plugin with its files; force: also while the plugin is enabled, or volumes or networks use the plugin. */
    public void remove(String name, boolean force) {
        does(call -> Raw.pluginRemove(call, engine, name, force ? Raw.PLUGIN_FORCE : 0));
    }

    /** Changes settings of a disabled plugin, all of them or none: each is NAME[.FIELD]=VALUE. */
    public void set(String name, String... changes) {
        does(call -> Raw.pluginSet(call, engine, name, Document.write(changes)));
    }
}
