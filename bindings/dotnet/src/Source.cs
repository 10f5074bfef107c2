using System;
using System.IO;
using System.Runtime.InteropServices;

namespace Coracle
{
    /// <summary>The archive that a call reads: a stream of the caller's, or a file, which the library reads itself.</summary>
    internal sealed class Source : IDisposable
    {
        private const int Most = 256 << 10;

        private readonly Stream stream;
        private readonly Descriptor file;
        private byte[] piece;
        private IntPtr user;

        private Source(Stream stream, Descriptor file)
        {
            this.stream = stream;
            this.file = file;
        }

        /// <summary>The exception of the stream.</summary>
        internal Exception Thrown { get; private set; }

        internal IntPtr Function => file != null ? Loader.ReadFd : Callbacks.Read;

        /// <summary>What the function gets. The file stays open during the call.</summary>
        internal IntPtr UserOf(Call call)
        {
            if (file != null)
            {
                return (IntPtr)call.Kept(file);
            }
            if (user == IntPtr.Zero)
            {
                user = Callbacks.Keep(this);
            }
            return user;
        }

        /// <summary>A stream of the caller's; null gives none.</summary>
        internal static Func<Source> From(Stream stream) => () => stream == null ? null : new Source(stream, null);

        /// <summary>A file, which is opened when the call begins.</summary>
        internal static Func<Source> From(string path) => () =>
        {
            Loader.Ensure();
            return new Source(null, Descriptor.Open(path));
        };

        /// <summary>A call with an archive, which ends with the call. The library keeps a duplicate of a file for a call that is begun.</summary>
        internal static Func<Call, long> Using(Func<Source> archive, Func<Call, Source, long> work) => call =>
        {
            using (Source source = archive())
            {
                return work(call, source);
            }
        };

        /// <summary>Fills memory of C.</summary>
        internal long Read(IntPtr room, long count)
        {
            try
            {
                piece = piece ?? new byte[Most];
                int wanted = (int)Math.Min(count, Most);
                int got = stream.Read(piece, 0, wanted);
                if (got > wanted)
                {
                    throw new IOException("a stream gave " + got + " bytes where " + wanted + " were asked for");
                }
                if (got > 0)
                {
                    Marshal.Copy(piece, 0, room, got);
                }
                return Math.Max(got, 0);
            }
            catch (Exception own)
            {
                Thrown = own;
                return -1;
            }
        }

        public void Dispose()
        {
            file?.Dispose();
            Callbacks.Forget(user);
        }
    }
}
