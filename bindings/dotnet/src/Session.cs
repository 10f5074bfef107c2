using System;
using System.Collections.Concurrent;
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
        /// <summary>Outputs that have ended.</summary>
        private readonly ConcurrentDictionary<Channel, bool> ended;

        private Session(
            SessionHandle handle, Dictionary<Channel, Descriptor> taken, ConcurrentDictionary<Channel, bool> ended, Bounds bounds) : base(bounds)
        {
            this.handle = handle;
            this.taken = taken;
            this.ended = ended;
        }

        /// <summary>The session of an answer; null: there is none.</summary>
        internal static Session Of(Call answer, Bounds bounds) =>
            answer.OutHandle == IntPtr.Zero
                ? null
                : new Session(
                    new SessionHandle(answer.OutHandle), new Dictionary<Channel, Descriptor>(), new ConcurrentDictionary<Channel, bool>(), bounds);

        internal override Session With(Bounds other) => new Session(handle, taken, ended, other);

        /// <summary>Whether the session has a stream that was not asked for as a Stream.</summary>
        public bool Has(Channel channel) => NumberOf(channel) >= 0;

        /// <summary>The number of a stream that is the session's; below 0: it does not have it.</summary>
        private int NumberOf(Channel channel) => InCall(call => (int)Raw.SessionFd(call, handle, (int)channel));

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

        /// <summary>Read, for which no thread waits.</summary>
        public async Task<Piece> ReadAsync(CancellationToken cancellation = default(CancellationToken))
        {
            Bounds within = Bounds.CancelledBy(cancellation);
            using (var waiting = new Waiting(within, false))
            {
                for (;;)
                {
                    waiting.Check();
                    int stdout = OpenOutput(Channel.Stdout, out bool first), stderr = OpenOutput(Channel.Stderr, out bool second);
                    // With neither the end is told at once.
                    if (first || second || (stdout < 0 && stderr < 0))
                    {
                        if (Glance.Took(within, bounds => With(bounds).Read(), out Piece piece))
                        {
                            return piece;
                        }
                    }
                    else if (stdout >= 0 && stderr >= 0)
                    {
                        await waiting.UntilEither(handle, stdout, stderr, Libc.Readable).ConfigureAwait(false);
                    }
                    else
                    {
                        await waiting.Until(handle, Math.Max(stdout, stderr), Libc.Readable).ConfigureAwait(false);
                    }
                }
            }
        }

        /// <summary>The number of an output that has not ended, or one below 0; and whether it has something.</summary>
        private int OpenOutput(Channel channel, out bool hasSome)
        {
            hasSome = false;
            int fd = ended.ContainsKey(channel) ? -1 : NumberOf(channel);
            short found = fd < 0 ? (short)0 : Libc.Ready(fd, Libc.Readable);
            hasSome = (found & Libc.Readable) != 0;
            if (found == 0 || hasSome)
            {
                return fd;
            }
            // Ready without anything to read: it has ended.
            ended[channel] = true;
            return -1;
        }

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
            Given(data);
            // The deadline holds for the whole.
            Session within = With(Bounds.Together());
            int done = 0;
            do
            {
                done += within.WriteSome(data, done);
            }
            while (done < data.Length);
        }

        private static void Given(byte[] data)
        {
            if (data == null)
            {
                throw new ArgumentNullException(nameof(data));
            }
        }

        /// <summary>Writes some of it from a place on: how many bytes.</summary>
        private int WriteSome(byte[] data, int from)
        {
            byte[] piece = data;
            if (from != 0 || data.Length > Room)
            {
                piece = new byte[Math.Min(Room, data.Length - from)];
                Buffer.BlockCopy(data, from, piece, 0, piece.Length);
            }
            return (int)Do(call => Raw.SessionWrite(call, handle, piece));
        }

        /// <summary>Writes a text to the process's stdin.</summary>
        public void Write(string text) => Write(Encoding.UTF8.GetBytes(text));

        /// <summary>Write, for which no thread waits.</summary>
        public Task WriteAsync(byte[] data, CancellationToken cancellation = default(CancellationToken))
        {
            Given(data);
            return Sending(data, cancellation);
        }

        private async Task Sending(byte[] data, CancellationToken cancellation)
        {
            Bounds within = Bounds.CancelledBy(cancellation);
            using (var waiting = new Waiting(within, false))
            {
                int done = 0;
                do
                {
                    waiting.Check();
                    int fd = NumberOf(Channel.Stdin);
                    if (fd >= 0 && !Libc.IsReady(fd, Libc.Writable))
                    {
                        await waiting.Until(handle, fd, Libc.Writable).ConfigureAwait(false);
                    }
                    int from = done;
                    // Nothing was written where the moment passed.
                    Glance.Took(within, bounds => With(bounds).WriteSome(data, from), out int count);
                    done += count;
                }
                while (done < data.Length);
            }
        }

        /// <summary>Ends the process's stdin: the process reads the bytes that were written, then the end.</summary>
        public void CloseStdin() => Do(call => Raw.SessionCloseStdin(call, handle));

        /// <summary>Everything that the process gives for a text.</summary>
        public Output Communicate(string input = "") => Communicate(Bytes(input));

        /// <summary>The same for a stream.</summary>
        public Output Communicate(Stream input) => With(Bounds.Together()).Exchange(input, true).GetAwaiter().GetResult();

        private static Stream Bytes(string input) => new MemoryStream(Encoding.UTF8.GetBytes(input));

        /// <summary>Everything that the process gives for a text.</summary>
        public Task<Output> CommunicateAsync(string input = "", CancellationToken cancellation = default(CancellationToken)) =>
            CommunicateAsync(Bytes(input), cancellation);

        /// <summary>
        /// Copies input to the process's stdin and ends it, takes both outputs to their ends, and waits for the process, all within one
        /// deadline. An input that gives nothing more is not waited for once the process has ended: a read of it may outlast the call.
        /// </summary>
        public Task<Output> CommunicateAsync(Stream input, CancellationToken cancellation = default(CancellationToken)) =>
            With(Bounds.CancelledBy(cancellation).Together()).Exchange(input, false);

        private async Task<Output> Exchange(Stream input, bool blocking)
        {
            if (input == null)
            {
                throw new ArgumentNullException(nameof(input));
            }
            // Cancelled where the input fails: the process may wait for the rest of it for ever.
            var failed = new CancellationTokenSource();
            Session within = With(Bounds.CancelledBy(failed.Token));
            // A stream cannot be taken while another thread writes.
            Stream results = within.Stdout, errors = within.Stderr;
            Task fed = Has(Channel.Stdin) ? Aside(() => Feed(input, failed, blocking), blocking) : Task.CompletedTask;
            Task<byte[]> problems = blocking ? Aside(() => All(errors, true), true) : All(errors, false);
            try
            {
                byte[] stdout = await All(results, blocking).ConfigureAwait(false);
                byte[] stderr = await Joined(problems, blocking).ConfigureAwait(false);
                int code = await (blocking ? Task.FromResult(within.Wait()) : within.WaitAsync()).ConfigureAwait(false);
                // Nobody takes more input.
                if (fed.IsFaulted || fed.IsCanceled)
                {
                    await fed.ConfigureAwait(false);
                }
                return new Output(code, stdout, stderr);
            }
            catch (Exception) when (failed.IsCancellationRequested)
            {
                await Joined(fed, blocking).ConfigureAwait(false);
                throw;
            }
            finally
            {
                // A caller who gets another exception hears nothing of these.
                Observe(fed);
                Observe(problems);
            }
        }

        /// <summary>Work beside this: of a thread that waits, on another one of its own.</summary>
        private static Task<T> Aside<T>(Func<Task<T>> work, bool blocking) =>
            blocking ? Threads.Start(() => work().GetAwaiter().GetResult()) : Task.Run(work);

        private static T Joined<T>(T work, bool blocking) where T : Task
        {
            if (blocking)
            {
                ((IAsyncResult)work).AsyncWaitHandle.WaitOne();
            }
            return work;
        }

        private static void Observe(Task task) =>
            task.ContinueWith(ended => ended.Exception, CancellationToken.None, TaskContinuationOptions.OnlyOnFaulted, TaskScheduler.Default);

        private async Task<bool> Feed(Stream input, CancellationTokenSource failure, bool blocking)
        {
            var piece = new byte[Room];
            try
            {
                for (;;)
                {
                    int count = blocking ? input.Read(piece, 0, piece.Length) : await input.ReadAsync(piece, 0, piece.Length).ConfigureAwait(false);
                    if (count <= 0)
                    {
                        break;
                    }
                    var now = new byte[count];
                    Buffer.BlockCopy(piece, 0, now, 0, count);
                    if (blocking)
                    {
                        Write(now);
                    }
                    else
                    {
                        await WriteAsync(now).ConfigureAwait(false);
                    }
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
            return true;
        }

        private static async Task<byte[]> All(Stream from, bool blocking)
        {
            var made = new MemoryStream();
            try
            {
                if (blocking)
                {
                    from.CopyTo(made);
                }
                else
                {
                    await from.CopyToAsync(made).ConfigureAwait(false);
                }
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
        public int Wait() => Ending.Wait();

        /// <summary>The exit code, for which no thread waits.</summary>
        public Task<int> WaitAsync(CancellationToken cancellation = default(CancellationToken)) => Ending.BeginWait(cancellation);

        private Work<int> Ending => Exiting(call => Raw.SessionWait(call, handle));

        /// <summary>Detaches, and ends the calls of other threads with this session, waits too: the process runs on.</summary>
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

            internal override async Task Write(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking)
            {
                CheckRange(buffer, offset, count);
                var part = new byte[count];
                Buffer.BlockCopy(buffer, offset, part, 0, count);
                try
                {
                    if (blocking)
                    {
                        session.Write(part);
                    }
                    else
                    {
                        await session.WriteAsync(part, cancellation).ConfigureAwait(false);
                    }
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
                        // The session may have been disposed meanwhile.
                        if (!session.handle.IsEnded)
                        {
                            throw OfStream(failed);
                        }
                    }
                }
                base.Dispose(disposing);
            }
        }
    }
}
