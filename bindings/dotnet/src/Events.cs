using System;
using System.Collections;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>An event of a root.</summary>
    public sealed class Event
    {
        internal Event(Document document)
        {
            Document = document;
        }

        /// <summary>The kind of the object, such as container.</summary>
        public string Type => Document.Text("Type");

        /// <summary>Such as start or die.</summary>
        public string Action => Document.Text("Action");

        /// <summary>The object.</summary>
        public string Id => Document.Text("Actor.ID");

        /// <summary>Facts, such as exitCode.</summary>
        public IReadOnlyDictionary<string, string> Attributes => Document.Map("Actor.Attributes");

        /// <summary>When it happened.</summary>
        public DateTimeOffset Time => Times.Of(Nanos);

        /// <summary>The same in nanoseconds since 1970, of which <see cref="Time"/> keeps hundreds.</summary>
        public long Nanos => Document.Number("timeNano");

        /// <summary>A number that rises from event to event, for "after".</summary>
        public long Sequence => Document.Number("sequence");

        /// <summary>The whole event.</summary>
        public Document Document { get; }
    }

    /// <summary>The events of a root, of any program. To be disposed; a loop takes the next ones.</summary>
    public sealed class Events : Scoped<Events>, IEnumerable<Event>, IAsyncEnumerable<Event>, IDisposable
    {
        private readonly EventsHandle handle;

        internal Events(EventsHandle handle, Bounds bounds) : base(bounds)
        {
            this.handle = handle;
        }

        internal override Events With(Bounds other) => new Events(handle, other);

        /// <summary>
        /// Waits for the next event; null: "until" is reached. Events that are no longer kept are an error with the code Unavailable, once;
        /// then the next ones come.
        /// </summary>
        public Event Next() => Next(CancellationToken.None, true).GetAwaiter().GetResult();

        /// <summary>The same. No thread waits.</summary>
        public Task<Event> NextAsync(CancellationToken cancellation = default(CancellationToken)) => Next(cancellation, false);

        private async Task<Event> Next(CancellationToken cancellation, bool blocking)
        {
            using (var waiting = new Waiting(Bounds.CancelledBy(cancellation), blocking))
            {
                for (;;)
                {
                    waiting.Check();
                    if (Look(out Event found) != Raw.AGAIN)
                    {
                        return found;
                    }
                    await waiting.Until(handle, Fd(), Libc.Readable).ConfigureAwait(false);
                }
            }
        }

        /// <summary>The next event that is there already; null: there is none yet, or "until" is reached.</summary>
        public Event Poll()
        {
            Look(out Event found);
            return found;
        }

        private long Look(out Event found)
        {
            Event seen = null;
            long status = handle.Alone(() =>
            {
                using (var call = new Call(Bounds.None))
                {
                    long answered = Raw.EventsNext(call, handle, 0);
                    seen = answered == Raw.OK ? new Event(Document.Parse(call.BorrowedJson())) : null;
                    return answered;
                }
            });
            found = seen;
            return status;
        }

        /// <summary>A descriptor's number that is readable while an event may be waiting, valid until Dispose.</summary>
        public int Fd() => InCall(call => (int)Raw.EventsFd(call, handle));

        /// <summary>The events to come.</summary>
        public IEnumerator<Event> GetEnumerator()
        {
            for (Event next; (next = Next()) != null;)
            {
                yield return next;
            }
        }

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        /// <summary>The events to come, for <c>await foreach</c>.</summary>
        public IAsyncEnumerator<Event> GetAsyncEnumerator(CancellationToken cancellation = default(CancellationToken)) =>
            new Ahead<Event>(() => NextAsync(cancellation));

        /// <summary>Ends the events, and every call that waits for one.</summary>
        public void Dispose() => handle.Dispose();
    }
}
