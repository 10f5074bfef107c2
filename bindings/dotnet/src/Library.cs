using System;

namespace Coracle
{
    /// <summary>The library: its version, its log, and the needs of an engine on this host.</summary>
    public static class Library
    {
        /// <summary>No message may come into a program that ends.</summary>
        private static readonly Lazy<bool> EndsWithProgram = new Lazy<bool>(() =>
        {
            AppDomain.CurrentDomain.ProcessExit += (sender, ended) => SetLog(LogLevel.Error, null);
            return true;
        });

        /// <summary>The library's version, such as "0.1.0".</summary>
        public static string Version => With(call => Raw.VersionString(call));

        /// <summary>The library's version: major * 65536 + minor * 256 + patch.</summary>
        public static int VersionNumber => With(call => (int)Raw.Version(call));

        /// <summary>How the library was built.</summary>
        public static Document BuildInfo => With(call => Document.Parse(Raw.BuildInfo(call)));

        /// <summary>Whether the library has a feature, such as "registry" or "leases".</summary>
        public static bool HasFeature(string name) => With(call => Raw.HasFeature(call, name) == 1);

        /// <summary>The name of a status of the C interface, such as "NOT_FOUND".</summary>
        public static string StatusName(int status) => With(call => Raw.StatusName(call, status));

        /// <summary>Describes everything that an engine needs of the host; it opens nothing.</summary>
        public static Document HostReport(string root, OpenOptions options = null) =>
            With(call =>
            {
                Raw.HostReport(call, root, options);
                return Document.Parse(call.Json());
            });

        /// <summary>Has a sink called with the messages of that level and graver; null: none is called any more.</summary>
        public static void SetLog(LogLevel level, LogSink sink)
        {
            if (sink == null)
            {
                With(call => Raw.SetLog(call, (int)level, IntPtr.Zero, IntPtr.Zero, IntPtr.Zero));
                return;
            }
            GC.KeepAlive(EndsWithProgram.Value);
            IntPtr user = Callbacks.Keep(sink);
            try
            {
                With(call => Raw.SetLog(call, (int)level, Callbacks.Log, user, Callbacks.Drop));
            }
            catch (CoracleException)
            {
                Callbacks.Forget(user);
                throw;
            }
        }

        private static T With<T>(Func<Call, T> work)
        {
            using (var call = new Call(Bounds.None))
            {
                return work(call);
            }
        }
    }
}
