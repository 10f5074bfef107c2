using System;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Win32.SafeHandles;

namespace Coracle
{
    /// <summary>A descriptor that the library gave. It ends by Dispose or, unless it is a lease, when it is forgotten.</summary>
    public sealed class Descriptor : SafeHandleMinusOneIsInvalid, IEnds
    {
        private volatile bool ended;

        /// <summary>One call reads at a time, by whichever stream, and one writes.</summary>
        internal readonly SemaphoreSlim Reading = new SemaphoreSlim(1), Writing = new SemaphoreSlim(1);

        internal Descriptor(int fd) : base(true)
        {
            SetHandle((IntPtr)fd);
        }

        bool IEnds.IsEnded => ended;

        /// <summary>The same descriptor, which does not end when it is forgotten.</summary>
        internal Descriptor UntilDisposed()
        {
            GC.SuppressFinalize(this);
            return this;
        }

        /// <summary>The number, valid until Dispose: for other code of C in this program.</summary>
        public int Number
        {
            get
            {
                if (ended)
                {
                    throw CoracleException.Of(Code.Misuse, "the descriptor is closed");
                }
                return (int)handle;
            }
        }

        /// <summary>Whether it is readable now: of a process's descriptor, whether the process has ended.</summary>
        public bool IsReadable => With(fd => Libc.IsReady(fd, Libc.Readable));

        /// <summary>Waits until it is readable.</summary>
        public void WaitReadable() => WaitReadable(CancellationToken.None, true).GetAwaiter().GetResult();

        /// <summary>Waits until it is readable. No thread waits.</summary>
        public Task WaitReadableAsync(CancellationToken cancellation = default(CancellationToken)) => WaitReadable(cancellation, false);

        private async Task WaitReadable(CancellationToken cancellation, bool blocking)
        {
            using (var waiting = new Waiting(Bounds.None.CancelledBy(cancellation), blocking))
            {
                while (!IsReadable)
                {
                    await waiting.Until(this, Number, Libc.Readable).ConfigureAwait(false);
                }
            }
        }

        /// <summary>Reads from it and, if it is a socket, writes to it. The end of the stream ends the descriptor.</summary>
        public Stream OpenStream() => new DescriptorStream(this, Bounds.None);

        internal static Descriptor Open(string path)
        {
            int fd = Libc.Open(path);
            int errno = Libc.Errno;
            if (fd >= 0)
            {
                return new Descriptor(fd);
            }
            if (!File.Exists(path) && !Directory.Exists(path))
            {
                throw new FileNotFoundException("no file " + path, path);
            }
            throw CoracleException.Of(Code.Io, path + ": cannot be opened: errno " + errno, null, errno);
        }

        /// <summary>Uses the number, which goes to no other file meanwhile.</summary>
        internal T With<T>(Func<int, T> use)
        {
            bool kept = false;
            try
            {
                try
                {
                    if (!ended)
                    {
                        DangerousAddRef(ref kept);
                    }
                }
                catch (ObjectDisposedException)
                {
                    // Ended meanwhile.
                }
                if (!kept)
                {
                    throw CoracleException.Of(Code.Misuse, "the descriptor is closed");
                }
                return use((int)handle);
            }
            finally
            {
                if (kept)
                {
                    DangerousRelease();
                }
            }
        }

        protected override void Dispose(bool disposing)
        {
            ended |= disposing;
            base.Dispose(disposing);
            if (disposing)
            {
                Poller.Forget(this);
            }
        }

        protected override bool ReleaseHandle() => Libc.Close((int)handle) == 0;
    }
}
