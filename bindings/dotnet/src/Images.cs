using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// The images of an engine. Credentials are a document with any of "username", "password", "identitytoken", "registrytoken",
    /// "serveraddress"; null: none.
    /// </summary>
    public sealed class Images : Scoped<Images>
    {
        private readonly EngineHandle engine;

        internal Images(EngineHandle engine, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
        }

        internal override Images With(Bounds other) => new Images(engine, other);

        /// <summary>Lists images, newest first: the documents of GET /images/json. query: a document with any of "all", "filters".</summary>
        public IReadOnlyList<Document> List(object query = null) =>
            DocumentsOf(call => Raw.ImageList(call, engine, Document.Write(query)));

        /// <summary>Describes an image in full: the document of GET /images/{name}/json.</summary>
        public Document Inspect(string reference) => DocumentOf(call => Raw.ImageInspect(call, engine, reference));

        /// <summary>Lists the steps by which an image was made, newest first.</summary>
        public IReadOnlyList<Document> History(string reference) => DocumentsOf(call => Raw.ImageHistory(call, engine, reference));

        /// <summary>Gives an image another name.</summary>
        public void Tag(string reference, string name) => Do(call => Raw.ImageTag(call, engine, reference, name));

        /// <summary>Removes a name of an image and, if nothing else holds the image, deletes it: "Untagged" and "Deleted".</summary>
        public IReadOnlyList<Document> Remove(string reference, ImageRemove how = ImageRemove.None) => Removing(reference, how).Now();

        /// <summary>Remove, for which no thread waits.</summary>
        public Task<IReadOnlyList<Document>> RemoveAsync(
            string reference, ImageRemove how = ImageRemove.None, CancellationToken cancellation = default(CancellationToken)) =>
            Removing(reference, how).Begin(cancellation);

        private Work<IReadOnlyList<Document>> Removing(string reference, ImageRemove how) =>
            Listing(call => Raw.ImageRemove(call, engine, reference, (ulong)how));

        /// <summary>Removes images without a name that nothing uses; filters: <c>{"dangling": ["false"]}</c> chooses all that nothing uses.</summary>
        public Document Prune(object filters = null) => Pruning(filters).Now();

        /// <summary>Prune, for which no thread waits.</summary>
        public Task<Document> PruneAsync(object filters = null, CancellationToken cancellation = default(CancellationToken)) =>
            Pruning(filters).Begin(cancellation);

        private Work<Document> Pruning(object filters) => Describing(call => Raw.ImagePrune(call, engine, Document.Write(filters)));

        /// <summary>Removes the caches of builds that no step uses.</summary>
        public Document PruneCaches(object filters = null) => PruningCaches(filters).Now();

        /// <summary>PruneCaches, for which no thread waits.</summary>
        public Task<Document> PruneCachesAsync(object filters = null, CancellationToken cancellation = default(CancellationToken)) =>
            PruningCaches(filters).Begin(cancellation);

        private Work<Document> PruningCaches(object filters) => Describing(call => Raw.BuildPrune(call, engine, Document.Write(filters)));

        /// <summary>Loads every image of an archive (docker save, OCI layout; plain or compressed): their names.</summary>
        public IReadOnlyList<string> Load(Stream archive) => Loading(Source.From(archive)).Now();

        /// <summary>The same of a file, which the library reads itself.</summary>
        public IReadOnlyList<string> Load(string archive) => Loading(Source.From(archive)).Now();

        /// <summary>Load on a thread of its own, which reads the stream.</summary>
        public Task<IReadOnlyList<string>> LoadAsync(Stream archive, CancellationToken cancellation = default(CancellationToken)) =>
            Loading(Source.From(archive)).OnThread(cancellation);

        /// <summary>Load of a file, for which no thread waits.</summary>
        public Task<IReadOnlyList<string>> LoadAsync(string archive, CancellationToken cancellation = default(CancellationToken)) =>
            Loading(Source.From(archive)).Begin(cancellation);

        private Work<IReadOnlyList<string>> Loading(Func<Source> archive) =>
            Texts(Source.Using(archive, (call, source) => Raw.ImageLoad(call, engine, source)));

        /// <summary>Writes images as an archive; layout: "docker" or "oci".</summary>
        public Stream Save(string layout, params string[] names) => Saving(layout, names).Now();

        /// <summary>Save, for which no thread waits.</summary>
        public Task<Stream> SaveAsync(string layout, string[] names, CancellationToken cancellation = default(CancellationToken)) =>
            Saving(layout, names).Begin(cancellation);

        private Work<Stream> Saving(string layout, string[] names) =>
            Streaming(call => Raw.ImageSave(call, engine, Document.Write(new { names, layout })));

        /// <summary>Makes an image of a tar of a root file system: its id; query: any of "repo", "tag", "message", "changes", "url" (then null).</summary>
        public string Import(Stream archive, object query) => Importing(archive, query).Now();

        /// <summary>Import on a thread of its own, which reads the stream.</summary>
        public Task<string> ImportAsync(Stream archive, object query, CancellationToken cancellation = default(CancellationToken)) =>
            Importing(archive, query).OnThread(cancellation);

        private Work<string> Importing(Stream archive, object query) =>
            Naming(Source.Using(Source.From(archive), (call, source) => Raw.ImageImport(call, engine, Document.Write(query), source)));

        /// <summary>Builds an image of a context, a tar: its id; query has the parameters of POST /build: "t" (names), "dockerfile", "buildargs", ...</summary>
        public string Build(Stream context, object query) => Building(context, query).Now();

        /// <summary>Build on a thread of its own, which reads the stream.</summary>
        public Task<string> BuildAsync(Stream context, object query, CancellationToken cancellation = default(CancellationToken)) =>
            Building(context, query).OnThread(cancellation);

        private Work<string> Building(Stream context, object query) =>
            Naming(Source.Using(Source.From(context), (call, source) => Raw.ImageBuild(call, engine, Document.Write(query), source)));

        /// <summary>Builds an image of a directory, without a tar of it.</summary>
        public string BuildDirectory(string directory, object query) => BuildingDirectory(directory, query).Now();

        /// <summary>BuildDirectory, for which no thread waits.</summary>
        public Task<string> BuildDirectoryAsync(string directory, object query, CancellationToken cancellation = default(CancellationToken)) =>
            BuildingDirectory(directory, query).Begin(cancellation);

        private Work<string> BuildingDirectory(string directory, object query) =>
            Naming(call =>
            {
                using (Descriptor opened = Descriptor.Open(directory))
                {
                    return Raw.ImageBuildDir(call, engine, Document.Write(query), call.Kept(opened));
                }
            });

        /// <summary>
        /// Pulls an image from its registry: its id. platform: such as "linux/arm64", where the name is that of a list of images; null: this machine's.
        /// </summary>
        public string Pull(string reference, object auth = null, string platform = null) =>
            Pulling(reference, auth, platform).Now();

        /// <summary>Pull, for which no thread waits.</summary>
        public Task<string> PullAsync(
            string reference, object auth = null, string platform = null, CancellationToken cancellation = default(CancellationToken)) =>
            Pulling(reference, auth, platform).Begin(cancellation);

        private Work<string> Pulling(string reference, object auth, string platform) =>
            Naming(call => platform == null
                ? Raw.ImagePull(call, engine, reference, Document.Write(auth))
                : Raw.ImagePullPlatform(call, engine, reference, platform, Document.Write(auth)));

        /// <summary>Pushes an image to the registry that its name says: "Tag", "Digest", "Size".</summary>
        public Document Push(string reference, object auth = null) => Pushing(reference, auth).Now();

        /// <summary>Push, for which no thread waits.</summary>
        public Task<Document> PushAsync(string reference, object auth = null, CancellationToken cancellation = default(CancellationToken)) =>
            Pushing(reference, auth).Begin(cancellation);

        private Work<Document> Pushing(string reference, object auth) =>
            Describing(call => Raw.ImagePush(call, engine, reference, Document.Write(auth)));

        /// <summary>
        /// Searches a registry for images: "name", "description", "is_official", "star_count". query: a document with "term" and any of
        /// "limit", "filters".
        /// </summary>
        public IReadOnlyList<Document> Search(object query, object auth = null) => Searching(query, auth).Now();

        /// <summary>Search, for which no thread waits.</summary>
        public Task<IReadOnlyList<Document>> SearchAsync(object query, object auth = null, CancellationToken cancellation = default(CancellationToken)) =>
            Searching(query, auth).Begin(cancellation);

        private Work<IReadOnlyList<Document>> Searching(object query, object auth) =>
            Listing(call => Raw.ImageSearch(call, engine, Document.Write(query), Document.Write(auth)));

        /// <summary>Asks a registry for an image's manifest, without a pull.</summary>
        public Document InspectRemote(string reference, object auth = null) => InspectingRemote(reference, auth).Now();

        /// <summary>InspectRemote, for which no thread waits.</summary>
        public Task<Document> InspectRemoteAsync(string reference, object auth = null, CancellationToken cancellation = default(CancellationToken)) =>
            InspectingRemote(reference, auth).Begin(cancellation);

        private Work<Document> InspectingRemote(string reference, object auth) =>
            Describing(call => Raw.RegistryInspect(call, engine, reference, Document.Write(auth)));

        /// <summary>Asks a registry whether credentials with their "serveraddress" are good.</summary>
        public Document CheckLogin(object auth) => CheckingLogin(auth).Now();

        /// <summary>CheckLogin, for which no thread waits.</summary>
        public Task<Document> CheckLoginAsync(object auth, CancellationToken cancellation = default(CancellationToken)) =>
            CheckingLogin(auth).Begin(cancellation);

        private Work<Document> CheckingLogin(object auth) =>
            Describing(call => Raw.RegistryAuth(call, engine, Document.Write(auth)));
    }
}
