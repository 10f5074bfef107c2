using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// An attached process. Disposing it detaches: the process runs on. Either the streams Stdout and Stderr are read, or Output(): a stream
    /// that was asked for is no longer the session's.
    /// </summary>
    public sealed class Session : Scoped<Session>, IDisposable
    {
        private const int Room = 64 << 10;

        private readonly SessionHandle handle;
        private readonly Dictionary<Channel, Descriptor> taken;

        internal Session(SessionHandle handle, Bounds bounds) : this(handle, new Dictionary<Channel, Descriptor>(), bounds) { }

        private Session(SessionHandle handle, Dictionary<Channel, Descriptor> taken, Bounds bounds) : base(bounds)
        {
            this.handle = handle;
            this.taken = taken;
        }

        internal override Session With(Bounds other) => new Session(handle, taken, other);

        /// <summary>Whether the session has a stream that was not asked for as a Stream.</summary>
        public bool Has(Channel channel) => InCall(call => Raw.SessionFd(call, handle, (int)channel) >= 0);

        /// <summary>The process's stdin. Disposing it ends the process's input; nothing is buffered.</summary>
        public Stream Stdin => new Input(this);

        /// <summary>The process's stdout, of a terminal all output; without one: a stream that is at its end.</summary>
        public Stream Stdout => StreamOf(Channel.Stdout);

        /// <summary>The process's stderr; without one: a stream that is at its end.</summary>
        public Stream Stderr => StreamOf(Channel.Stderr);

        private Stream StreamOf(Channel channel)
        {
            Descriptor found = DescriptorOf(channel);
            return found == null ? Stream.Null : new DescriptorStream(found, Bounds);
        }

        /// <summary>The descriptor of a stream, which the caller then has, and disposes; null: the session does not have it any more.</summary>
        public Descriptor Take(Channel channel)
        {
            lock (taken)
            {
                Descriptor found = DescriptorOf(channel);
                taken[channel] = null;
                return found;
            }
        }

        private Descriptor DescriptorOf(Channel channel)
        {
            lock (taken)
            {
                if (!taken.TryGetValue(channel, out Descriptor found))
                {
                    int fd = InCall(call => (int)Raw.SessionTakeFd(call, handle, (int)channel));
                    if (fd < 0 && fd != Raw.ENOT_FOUND)
                    {
                        throw CoracleException.Of((Code)fd, "the stream cannot be taken: " + Library.StatusName(fd));
                    }
                    found = fd < 0 ? null : new Descriptor(fd);
                    taken[channel] = found;
                }
                return found;
            }
        }

        /// <summary>The next output of the process, whichever stream has some; null: both have ended.</summary>
        public Piece Read()
        {
            var room = new byte[Room];
            return InCall(call =>
            {
                int count = (int)Raw.SessionRead(call, handle, room, room.Length);
                Array.Resize(ref room, count);
                return count == 0 ? null : new Piece((Channel)call.OutNumber, room);
            });
        }

        /// <summary>Read on another thread. The streams Stdout and Stderr take none.</summary>
        public Task<Piece> ReadAsync(CancellationToken cancellation = default(CancellationToken)) => Async(one => one.Read(), cancellation);

        /// <summary>Pieces of either output as they come, until both have ended.</summary>
        public IEnumerable<Piece> Output()
        {
            for (Piece next; (next = Read()) != null;)
            {
                yield return next;
            }
        }

        /// <summary>Writes to the process's stdin, all of it.</summary>
        public void Write(byte[] data)
        {
            byte[] left = data;
            do
            {
                byte[] now = left;
                int count = (int)Do(call => Raw.SessionWrite(call, handle, now));
                left = new byte[now.Length - count];
                Buffer.BlockCopy(now, count, left, 0, left.Length);
            }
            while (left.Length != 0);
        }

        /// <summary>Writes a text to the process's stdin.</summary>
        public void Write(string text) => Write(Encoding.UTF8.GetBytes(text));

        /// <summary>Write on another thread.</summary>
        public Task WriteAsync(byte[] data, CancellationToken cancellation = default(CancellationToken)) =>
            Async(one => one.Write(data), cancellation);

        /// <summary>Ends the process's stdin: the process reads the bytes that were written, then the end.</summary>
        public void CloseStdin() => Do(call => Raw.SessionCloseStdin(call, handle));

        /// <summary>Everything that the process gives for a text.</summary>
        public Output Communicate(string input = "") => CommunicateAsync(input).GetAwaiter().GetResult();

        /// <summary>The same for a stream.</summary>
        public Output Communicate(Stream input) => CommunicateAsync(input).GetAwaiter().GetResult();

        /// <summary>Everything that the process gives for a text.</summary>
        public Task<Output> CommunicateAsync(string input = "", CancellationToken cancellation = default(CancellationToken)) =>
            CommunicateAsync(new MemoryStream(Encoding.UTF8.GetBytes(input)), cancellation);

        /// <summary>
        /// Copies input to the process's stdin and ends it, takes both outputs to their ends, and waits for the process, all within one
        /// deadline. An input that gives nothing more is not waited for once the process has ended: a read of it may outlast the call.
        /// </summary>
        public Task<Output> CommunicateAsync(Stream input, CancellationToken cancellation = default(CancellationToken)) =>
            With(Bounds.CancelledBy(cancellation).Together()).Exchange(input);

        private async Task<Output> Exchange(Stream input)
        {
            // Cancelled where the input fails: the process may wait for the rest of it for ever.
            var failed = new CancellationTokenSource();
            Session within = With(Bounds.CancelledBy(failed.Token));
            // A stream cannot be taken while another thread writes.
            Stream results = within.Stdout, errors = within.Stderr;
            Task fed = Has(Channel.Stdin) ? Task.Run(() => Feed(input, failed)) : Task.CompletedTask;
            try
            {
                Task<byte[]> problems = All(errors);
                byte[] stdout = await All(results).ConfigureAwait(false);
                byte[] stderr = await problems.ConfigureAwait(false);
                int code = await within.WaitAsync().ConfigureAwait(false);
                // Nobody takes more input.
                if (fed.IsFaulted || fed.IsCanceled)
                {
                    await fed.ConfigureAwait(false);
                }
                return new Output(code, stdout, stderr);
            }
            catch (Exception) when (failed.IsCancellationRequested)
            {
                await fed.ConfigureAwait(false);
                throw;
            }
        }

        private async Task Feed(Stream input, CancellationTokenSource failure)
        {
            var piece = new byte[Room];
            try
            {
                for (int count; (count = await input.ReadAsync(piece, 0, piece.Length).ConfigureAwait(false)) > 0;)
                {
                    var now = new byte[count];
                    Buffer.BlockCopy(piece, 0, now, 0, count);
                    await WriteAsync(now).ConfigureAwait(false);
                }
                CloseStdin();
            }
            catch (CoracleException failed) when (failed.Errno == Libc.BrokenPipe || handle.IsEnded)
            {
                // A process may end without reading all of it, and its session may be disposed then.
            }
            catch (Exception)
            {
                failure.Cancel();
                throw;
            }
        }

        private static async Task<byte[]> All(Stream from)
        {
            var made = new MemoryStream();
            try
            {
                await from.CopyToAsync(made).ConfigureAwait(false);
            }
            catch (IOException failed) when (failed.InnerException is CoracleException)
            {
                System.Runtime.ExceptionServices.ExceptionDispatchInfo.Capture(failed.InnerException).Throw();
            }
            return made.ToArray();
        }

        /// <summary>Sets the size of the process's terminal.</summary>
        public void Resize(ushort rows, ushort cols) => Do(call => Raw.SessionResize(call, handle, rows, cols));

        /// <summary>Waits for the process's end: its exit code, 128 + n if signal n ended it.</summary>
        public int Wait() => WaitAsync().GetAwaiter().GetResult();

        /// <summary>The exit code, for which no thread waits.</summary>
        public Task<int> WaitAsync(CancellationToken cancellation = default(CancellationToken)) =>
            Begin(call => Raw.SessionWait(call, handle), cancellation);

        /// <summary>Detaches: the process runs on.</summary>
        public void Dispose()
        {
            handle.Dispose();
            lock (taken)
            {
                foreach (Descriptor one in taken.Values)
                {
                    one?.Dispose();
                }
            }
        }

        /// <summary>Writes to the process, all of it.</summary>
        private sealed class Input : PlainStream
        {
            private readonly Session session;

            internal Input(Session session)
            {
                this.session = session;
            }

            public override bool CanRead => false;

            public override bool CanWrite => true;

            public override void Write(byte[] buffer, int offset, int count)
            {
                CheckRange(buffer, offset, count);
                Sent(session, Part(buffer, offset, count));
            }

            public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellation)
            {
                CheckRange(buffer, offset, count);
                byte[] part = Part(buffer, offset, count);
                return session.Async(one => Sent(one, part), cancellation);
            }

            private static byte[] Part(byte[] buffer, int offset, int count)
            {
                var part = new byte[count];
                Buffer.BlockCopy(buffer, offset, part, 0, count);
                return part;
            }

            private static void Sent(Session to, byte[] part)
            {
                try
                {
                    to.Write(part);
                }
                catch (CoracleException failed)
                {
                    throw OfStream(failed);
                }
            }

            protected override void Dispose(bool disposing)
            {
                if (disposing && !session.handle.IsEnded)
                {
                    try
                    {
                        session.CloseStdin();
                    }
                    catch (CoracleException failed)
                    {
                        throw OfStream(failed);
                    }
                }
                base.Dispose(disposing);
            }
        }
    }
}
