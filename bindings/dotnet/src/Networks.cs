using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>The networks of an engine.</summary>
    public sealed class Networks : Scoped<Networks>
    {
        private readonly EngineHandle engine;

        internal Networks(EngineHandle engine, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
        }

        internal override Networks With(Bounds other) => new Networks(engine, other);

        /// <summary>Makes a network of a body of POST /networks/create: its id.</summary>
        public string Create(object body) => IdOf(call => Raw.NetworkCreate(call, engine, Document.Write(body)));

        /// <summary>Lists networks by name; query: a document with "filters".</summary>
        public IReadOnlyList<Document> List(object query = null) =>
            DocumentsOf(call => Raw.NetworkList(call, engine, Document.Write(query)));

        /// <summary>Describes a network in full, by its name or id.</summary>
        public Document Inspect(string id) => DocumentOf(call => Raw.NetworkInspect(call, engine, id));

        /// <summary>Connects a container, running or not; endpoint: members of EndpointConfig.</summary>
        public void Connect(string id, string container, object endpoint = null) =>
            Do(call => Raw.NetworkConnect(call, engine, id, Document.Write(new { Container = container, EndpointConfig = endpoint })));

        /// <summary>Disconnects a container, running or not; force: also one whose network is broken.</summary>
        public void Disconnect(string id, string container, bool force = false) =>
            Do(call => Raw.NetworkDisconnect(call, engine, id, Document.Write(new { Container = container, Force = force })));

        /// <summary>Removes a network.</summary>
        public void Remove(string id) => Do(call => Raw.NetworkRemove(call, engine, id));

        /// <summary>Removes networks that no container is on, or those of them that the filters choose.</summary>
        public Document Prune(object filters = null) => DocumentOf(call => Raw.NetworkPrune(call, engine, Document.Write(filters)));

        /// <summary>Removes the kernel's parts of networks without running containers; the next start makes them again.</summary>
        public void Release() => Do(call => Raw.NetworkRelease(call, engine));

        /// <summary>Puts back the parts of networks that another program removed: rules of the firewall, bridges.</summary>
        public void Repair() => Do(call => Raw.NetworkRepair(call, engine));
    }

    /// <summary>The volumes of an engine: directories that outlive containers.</summary>
    public sealed class Volumes : Scoped<Volumes>
    {
        private readonly EngineHandle engine;

        internal Volumes(EngineHandle engine, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
        }

        internal override Volumes With(Bounds other) => new Volumes(engine, other);

        /// <summary>Makes a volume of a body of POST /volumes/create ("Name", "Driver", "DriverOpts", "Labels"): its document.</summary>
        public Document Create(object body) => DocumentOf(call => Raw.VolumeCreate(call, engine, Document.Write(body)));

        /// <summary>Lists volumes by name; query: a document with "filters".</summary>
        public IReadOnlyList<Document> List(object query = null) =>
            DocumentOf(call => Raw.VolumeList(call, engine, Document.Write(query))).Documents("Volumes");

        /// <summary>Describes a volume in full.</summary>
        public Document Inspect(string name) => DocumentOf(call => Raw.VolumeInspect(call, engine, name));

        /// <summary>Removes a volume and its content.</summary>
        public void Remove(string name) => Do(call => Raw.VolumeRemove(call, engine, name));

        /// <summary>
        /// Removes the volumes that nobody named and no container uses, or those that the filters choose; <c>{"all": ["true"]}</c>: also those
        /// with a name.
        /// </summary>
        public Document Prune(object filters = null) => DocumentOf(call => Raw.VolumePrune(call, engine, Document.Write(filters)));
    }

    /// <summary>The managed plugins of an engine: installed from registries, and run by the engine.</summary>
    public sealed class Plugins : Scoped<Plugins>
    {
        private readonly EngineHandle engine;

        internal Plugins(EngineHandle engine, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
        }

        internal override Plugins With(Bounds other) => new Plugins(engine, other);

        /// <summary>Lists the installed plugins by name; query: a document with "filters": "capability", "enabled".</summary>
        public IReadOnlyList<Document> List(object query = null) =>
            DocumentsOf(call => Raw.PluginList(call, engine, Document.Write(query)));

        /// <summary>Describes a plugin in full, by its name, its id or the beginning of its id.</summary>
        public Document Inspect(string name) => DocumentOf(call => Raw.PluginInspect(call, engine, name));

        /// <summary>Lists the rights on the host that a plugin of a registry needs: "Name", "Description", "Value".</summary>
        public IReadOnlyList<Document> Privileges(string remote, object auth = null) =>
            DocumentsOf(call => Raw.PluginPrivileges(call, engine, remote, Document.Write(auth)));

        /// <summary>
        /// Installs a plugin from a registry, disabled: its id; body: a document with "Remote" and any of "Name", "Privileges" (exactly those
        /// that the plugin needs; absent: all that the plugin needs), "Auth".
        /// </summary>
        public string Pull(object body) => Pulling(body).Now();

        /// <summary>Pull, for which no thread waits.</summary>
        public Task<string> PullAsync(object body, CancellationToken cancellation = default(CancellationToken)) => Pulling(body).Begin(cancellation);

        private Work<string> Pulling(object body) => Naming(call => Raw.PluginPull(call, engine, Document.Write(body)));

        /// <summary>Puts another version in the place of a disabled plugin; body: as of <see cref="Pull"/>; null: from where the plugin came before.</summary>
        public void Upgrade(string name, object body = null) => Upgrading(name, body).Now();

        /// <summary>Upgrade, for which no thread waits.</summary>
        public Task UpgradeAsync(string name, object body = null, CancellationToken cancellation = default(CancellationToken)) =>
            Upgrading(name, body).Begin(cancellation);

        private Work<long> Upgrading(string name, object body) =>
            Doing(call => Raw.PluginUpgrade(call, engine, name, Document.Write(body ?? new { })));

        /// <summary>Runs a plugin, and waits until the plugin listens: for so long, in whole seconds, rounded up; zero: 30 seconds.</summary>
        public void Enable(string name, TimeSpan wait = default(TimeSpan)) => Enabling(name, wait).Now();

        /// <summary>Enable, for which no thread waits.</summary>
        public Task EnableAsync(string name, TimeSpan wait = default(TimeSpan), CancellationToken cancellation = default(CancellationToken)) =>
            Enabling(name, wait).Begin(cancellation);

        private Work<long> Enabling(string name, TimeSpan wait) => Doing(call => Raw.PluginEnable(call, engine, name, Seconds(wait)));

        private static uint Seconds(TimeSpan wait)
        {
            double seconds = Math.Ceiling(wait.TotalSeconds);
            if (seconds < 0 || seconds > uint.MaxValue)
            {
                throw CoracleException.Of(Code.Invalid, "wait: " + wait + " is not from 0 to " + uint.MaxValue + " seconds");
            }
            return (uint)seconds;
        }

        /// <summary>Ends a plugin; force: also while volumes or networks use the plugin.</summary>
        public void Disable(string name, bool force = false) => Do(call => Raw.PluginDisable(call, engine, name, Force(force)));

        /// <summary>Removes a plugin with its files; force: also while the plugin is enabled, or volumes or networks use the plugin.</summary>
        public void Remove(string name, bool force = false) => Do(call => Raw.PluginRemove(call, engine, name, Force(force)));

        private static ulong Force(bool force) => force ? (ulong)Raw.PLUGIN_FORCE : 0;

        /// <summary>Changes settings of a disabled plugin, all of them or none: each is NAME[.FIELD]=VALUE.</summary>
        public void Set(string name, params string[] changes) => Do(call => Raw.PluginSet(call, engine, name, Document.Write(changes)));
    }
}
