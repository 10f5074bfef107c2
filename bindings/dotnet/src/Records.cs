using System;
using System.Collections;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>Records that come out of the engine: lines of a log, samples. To be disposed; a loop takes the next ones.</summary>
    public sealed class Records<T> : Scoped<Records<T>>, IEnumerable<T>, IAsyncEnumerable<T>, IDisposable where T : class
    {
        private readonly StreamHandle handle;
        private readonly Func<Call, T> reader;

        internal Records(StreamHandle handle, Bounds bounds, Func<Call, T> reader) : base(bounds)
        {
            this.handle = handle;
            this.reader = reader;
        }

        internal override Records<T> With(Bounds other) => new Records<T>(handle, other, reader);

        /// <summary>The next record; null: there is none any more.</summary>
        public T Next() => handle.Alone(() => InCall(call => Raw.StreamNext(call, handle) == Raw.DONE ? null : reader(call)));

        /// <summary>The next record; null: there is none any more. No thread waits for it.</summary>
        public Task<T> NextAsync(CancellationToken cancellation = default(CancellationToken)) =>
            Glance.When(handle, Bounds.CancelledBy(cancellation), within => With(within).Next());

        /// <summary>How many lines this reader missed: the log's bounds deleted them before they were read.</summary>
        public long Lost() => InCall(call => Raw.StreamLost(call, handle));

        /// <summary>A descriptor's number that is readable while a record may be waiting, valid until Dispose.</summary>
        public int Fd() => InCall(call => (int)Raw.StreamFd(call, handle));

        /// <summary>The records to come.</summary>
        public IEnumerator<T> GetEnumerator()
        {
            for (T next; (next = Next()) != null;)
            {
                yield return next;
            }
        }

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        /// <summary>The records to come, for <c>await foreach</c>.</summary>
        public IAsyncEnumerator<T> GetAsyncEnumerator(CancellationToken cancellation = default(CancellationToken)) =>
            new Ahead<T>(() => NextAsync(cancellation));

        /// <summary>Ends the records, and every call that waits for one.</summary>
        public void Dispose() => handle.Dispose();
    }

    internal static class Records
    {
        internal static Document Sample(Call call) => Document.Parse(Encoding.UTF8.GetString(call.FrameBytes()));
    }

    /// <summary>Calls that take whatever is there: they last for a moment, so that no thread waits in them.</summary>
    internal static class Glance
    {
        /// <summary>How long a call may take whose descriptor was ready: another cause than data is possible, but rare.</summary>
        private static readonly TimeSpan Moment = TimeSpan.FromMilliseconds(20);

        /// <summary>Makes a call whenever a stream may have something, until there is something.</summary>
        internal static async Task<T> When<T>(StreamHandle stream, Bounds bounds, Func<Bounds, T> take)
        {
            using (var waiting = new Waiting(bounds, false))
            using (var call = new Call(Bounds.None))
            {
                int fd = (int)Raw.StreamFd(call, stream);
                for (;;)
                {
                    waiting.Check();
                    if (fd >= 0 && !Libc.IsReady(fd, Libc.Readable))
                    {
                        await waiting.Until(stream, fd, Libc.Readable).ConfigureAwait(false);
                    }
                    if (Took(bounds, take, out T taken))
                    {
                        return taken;
                    }
                }
            }
        }

        /// <summary>Makes a call for a moment; false: nothing was there.</summary>
        internal static bool Took<T>(Bounds bounds, Func<Bounds, T> take, out T taken)
        {
            try
            {
                taken = take(bounds.Within(Moment));
                return true;
            }
            catch (DeadlineException)
            {
                taken = default(T);
                return false;
            }
        }
    }

    /// <summary>Iterates over whatever a reader gives, until it gives null.</summary>
    internal sealed class Ahead<T> : IAsyncEnumerator<T> where T : class
    {
        private readonly Func<Task<T>> reader;

        internal Ahead(Func<Task<T>> reader)
        {
            this.reader = reader;
        }

        public T Current { get; private set; }

        public async ValueTask<bool> MoveNextAsync()
        {
            Current = await reader().ConfigureAwait(false);
            return Current != null;
        }

        public ValueTask DisposeAsync() => default(ValueTask);
    }
}
