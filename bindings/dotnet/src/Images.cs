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
        public IReadOnlyList<Document> Remove(string reference, ImageRemove how = ImageRemove.None) =>
            DocumentsOf(call => Raw.ImageRemove(call, engine, reference, (ulong)how));

        /// <summary>Removes images without a name that nothing uses; filters: <c>{"dangling": ["false"]}</c> chooses all that nothing uses.</summary>
        public Document Prune(object filters = null) => DocumentOf(call => Raw.ImagePrune(call, engine, Document.Write(filters)));

        /// <summary>Removes the caches of builds that no step uses.</summary>
        public Document PruneCaches(object filters = null) => DocumentOf(call => Raw.BuildPrune(call, engine, Document.Write(filters)));

        /// <summary>Loads every image of an archive (docker save, OCI layout; plain or compressed): their names.</summary>
        public IReadOnlyList<string> Load(Stream archive) => Load(Source.Of(archive));

        /// <summary>The same of a file, which the library reads itself.</summary>
        public IReadOnlyList<string> Load(string archive) => Load(Source.Of(archive));

        private IReadOnlyList<string> Load(Source archive)
        {
            using (archive)
            {
                return TextsOf(call => Raw.ImageLoad(call, engine, archive));
            }
        }

        /// <summary>Load on another thread.</summary>
        public Task<IReadOnlyList<string>> LoadAsync(Stream archive, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Load(archive), cancellation);

        /// <summary>Load on another thread.</summary>
        public Task<IReadOnlyList<string>> LoadAsync(string archive, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Load(archive), cancellation);

        /// <summary>Writes images as an archive; layout: "docker" or "oci".</summary>
        public Stream Save(string layout, params string[] names) =>
            new BodyStream(new StreamHandle(HandleOf(call => Raw.ImageSave(call, engine, Document.Write(new { names, layout })))), Bounds);

        /// <summary>Makes an image of a tar of a root file system: its id; query: any of "repo", "tag", "message", "changes", "url" (then null).</summary>
        public string Import(Stream archive, object query)
        {
            using (Source source = Source.Of(archive))
            {
                return IdOf(call => Raw.ImageImport(call, engine, Document.Write(query), source));
            }
        }

        /// <summary>Import on another thread.</summary>
        public Task<string> ImportAsync(Stream archive, object query, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Import(archive, query), cancellation);

        /// <summary>Builds an image of a context, a tar: its id; query has the parameters of POST /build: "t" (names), "dockerfile", "buildargs", ...</summary>
        public string Build(Stream context, object query)
        {
            using (Source source = Source.Of(context))
            {
                return IdOf(call => Raw.ImageBuild(call, engine, Document.Write(query), source));
            }
        }

        /// <summary>Build on another thread.</summary>
        public Task<string> BuildAsync(Stream context, object query, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Build(context, query), cancellation);

        /// <summary>Builds an image of a directory, without a tar of it.</summary>
        public string BuildDirectory(string directory, object query)
        {
            using (Descriptor opened = Descriptor.Open(directory))
            {
                return IdOf(call => Raw.ImageBuildDir(call, engine, Document.Write(query), call.Kept(opened)));
            }
        }

        /// <summary>BuildDirectory on another thread.</summary>
        public Task<string> BuildDirectoryAsync(string directory, object query, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.BuildDirectory(directory, query), cancellation);

        /// <summary>
        /// Pulls an image from its registry: its id. platform: such as "linux/arm64", where the name is that of a list of images; null: this machine's.
        /// </summary>
        public string Pull(string reference, object auth = null, string platform = null) =>
            IdOf(call => platform == null
                ? Raw.ImagePull(call, engine, reference, Document.Write(auth))
                : Raw.ImagePullPlatform(call, engine, reference, platform, Document.Write(auth)));

        /// <summary>Pull on another thread.</summary>
        public Task<string> PullAsync(
            string reference, object auth = null, string platform = null, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Pull(reference, auth, platform), cancellation);

        /// <summary>Pushes an image to the registry that its name says: "Tag", "Digest", "Size".</summary>
        public Document Push(string reference, object auth = null) =>
            DocumentOf(call => Raw.ImagePush(call, engine, reference, Document.Write(auth)));

        /// <summary>Push on another thread.</summary>
        public Task<Document> PushAsync(string reference, object auth = null, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Push(reference, auth), cancellation);

        /// <summary>
        /// Searches a registry for images: "name", "description", "is_official", "star_count". query: a document with "term" and any of
        /// "limit", "filters".
        /// </summary>
        public IReadOnlyList<Document> Search(object query, object auth = null) =>
            DocumentsOf(call => Raw.ImageSearch(call, engine, Document.Write(query), Document.Write(auth)));

        /// <summary>Search on another thread.</summary>
        public Task<IReadOnlyList<Document>> SearchAsync(object query, object auth = null, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Search(query, auth), cancellation);

        /// <summary>Asks a registry for an image's manifest, without a pull.</summary>
        public Document InspectRemote(string reference, object auth = null) =>
            DocumentOf(call => Raw.RegistryInspect(call, engine, reference, Document.Write(auth)));

        /// <summary>InspectRemote on another thread.</summary>
        public Task<Document> InspectRemoteAsync(string reference, object auth = null, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.InspectRemote(reference, auth), cancellation);

        /// <summary>Asks a registry whether credentials with their "serveraddress" are good.</summary>
        public Document CheckLogin(object auth) => DocumentOf(call => Raw.RegistryAuth(call, engine, Document.Write(auth)));

        /// <summary>CheckLogin on another thread.</summary>
        public Task<Document> CheckLoginAsync(object auth, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.CheckLogin(auth), cancellation);
    }
}
