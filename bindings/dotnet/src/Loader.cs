using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;

namespace Coracle
{
    /// <summary>
    /// Loads the library: the one that the variable CORACLE_LIBRARY names, the one of the package, or the system's. The runtime then finds
    /// it by its own name, which a library that is loaded already answers to.
    /// </summary>
    internal static class Loader
    {
        internal const string Name = "libcoracle.so.1";

        private const int Now = 2;

        private static readonly object Lock = new object();
        private static volatile bool loaded;

        /// <summary>The address of coracle_read_fd, which the library knows, and reads a file itself.</summary>
        internal static IntPtr ReadFd { get; private set; }

        internal static void Ensure()
        {
            if (loaded)
            {
                return;
            }
            lock (Lock)
            {
                if (!loaded)
                {
                    IntPtr library = Open();
                    ReadFd = dlsym(library, Encoding.ASCII.GetBytes("coracle_read_fd\0"));
                    loaded = true;
                }
            }
        }

        private static IntPtr Open()
        {
            string named = Environment.GetEnvironmentVariable("CORACLE_LIBRARY");
            if (!string.IsNullOrEmpty(named))
            {
                return Opened(named);
            }
            foreach (string path in Inside())
            {
                if (File.Exists(path))
                {
                    return Opened(path);
                }
            }
            return Opened(Name);
        }

        /// <summary>The places of the package's library: beside the program's assemblies, and where the runtime looks for such files.</summary>
        private static IEnumerable<string> Inside()
        {
            var directories = new List<string>();
            string kind = RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? "linux-arm64" : "linux-x64";
            foreach (string one in new[] { Path.GetDirectoryName(Assembly.GetExecutingAssembly().Location), AppContext.BaseDirectory })
            {
                if (!string.IsNullOrEmpty(one))
                {
                    directories.Add(Path.Combine(one, "runtimes", kind, "native"));
                    directories.Add(one);
                }
            }
            string native = AppContext.GetData("NATIVE_DLL_SEARCH_DIRECTORIES") as string ?? "";
            directories.AddRange(native.Split(new[] { ':' }, StringSplitOptions.RemoveEmptyEntries));
            foreach (string directory in directories)
            {
                yield return Path.Combine(directory, "libcoracle.so");
            }
        }

        private static IntPtr Opened(string path)
        {
            IntPtr library = dlopen(Encoding.UTF8.GetBytes(path + "\0"), Now);
            if (library == IntPtr.Zero)
            {
                throw new DllNotFoundException("coracle: the library cannot be loaded: " + Call.Borrowed(dlerror()));
            }
            return library;
        }

        [DllImport("libdl.so.2")]
        private static extern IntPtr dlopen(byte[] path, int flags);

        [DllImport("libdl.so.2")]
        private static extern IntPtr dlsym(IntPtr library, byte[] name);

        [DllImport("libdl.so.2")]
        private static extern IntPtr dlerror();
    }
}
