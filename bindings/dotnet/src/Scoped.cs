using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// An object whose calls may be bounded, cancelled and watched: each method here gives a copy for such calls.
    /// </summary>
    /// <example><c>int code = box.Within(TimeSpan.FromSeconds(3)).Wait();</c></example>
    public abstract class Scoped<S> where S : Scoped<S>
    {
        internal Scoped(Bounds bounds)
        {
            Bounds = bounds;
        }

        internal Bounds Bounds { get; }

        /// <summary>The same object with other bounds.</summary>
        internal abstract S With(Bounds other);

        /// <summary>A copy whose calls each end after that time, with a DeadlineException. Timeout.InfiniteTimeSpan: without a bound.</summary>
        public S Within(TimeSpan time) => With(Bounds.Within(time));

        /// <summary>A copy whose calls end when the token is cancelled, with an OperationCanceledException.</summary>
        public S CancelledBy(CancellationToken cancellation) => With(Bounds.CancelledBy(cancellation));

        /// <summary>A copy whose calls tell their progress, on the thread of the call. An exception of the listener ends the call, and comes as it is.</summary>
        public S OnProgress(Action<Progress> listener) => With(Bounds.Telling(listener));

        /// <summary>
        /// Makes calls on a thread of their own: for those without an Async form, or several. The token ends them.
        /// </summary>
        public Task<T> Async<T>(Func<S, T> calls, CancellationToken cancellation = default(CancellationToken))
        {
            if (calls == null)
            {
                throw new ArgumentNullException(nameof(calls));
            }
            if (cancellation.IsCancellationRequested)
            {
                return Task.FromCanceled<T>(cancellation);
            }
            S bounded = With(Bounds.CancelledBy(cancellation));
            return Threads.Run(() => calls(bounded));
        }

        /// <summary>The same of calls that give nothing.</summary>
        public Task Async(Action<S> calls, CancellationToken cancellation = default(CancellationToken))
        {
            if (calls == null)
            {
                throw new ArgumentNullException(nameof(calls));
            }
            return Async(
                one =>
                {
                    calls(one);
                    return true;
                },
                cancellation);
        }

        // ---- calls in the bounds of this object

        /// <summary>A call, and its frame.</summary>
        internal T InCall<T>(Func<Call, T> work)
        {
            using (var call = new Call(Bounds))
            {
                return work(call);
            }
        }

        /// <summary>A call whose answer is made of its frame.</summary>
        internal Work<T> Working<T>(Func<Call, long> call, Func<Call, T> answer) => new Work<T>(Bounds, call, (frame, status) => answer(frame));

        /// <summary>A call that gives a status alone.</summary>
        internal Work<long> Doing(Func<Call, long> call) => new Work<long>(Bounds, call, (frame, status) => status);

        /// <summary>Whether the call changed anything.</summary>
        internal Work<bool> Changing(Func<Call, long> call) => new Work<bool>(Bounds, call, (frame, status) => status != Raw.UNCHANGED);

        /// <summary>A call that gives an id.</summary>
        internal Work<string> Naming(Func<Call, long> call) => Working(call, frame => frame.Id());

        /// <summary>A call that gives a document.</summary>
        internal Work<Document> Describing(Func<Call, long> call) => Working(call, frame => Document.Parse(frame.Json()));

        /// <summary>A call that gives documents.</summary>
        internal Work<IReadOnlyList<Document>> Listing(Func<Call, long> call) =>
            Working(call, frame => (IReadOnlyList<Document>)Document.List(frame.Json()));

        /// <summary>A call that gives texts.</summary>
        internal Work<IReadOnlyList<string>> Texts(Func<Call, long> call) =>
            Working(call, frame => (IReadOnlyList<string>)Document.TextList(frame.Json()));

        /// <summary>A call that gives bytes.</summary>
        internal Work<Stream> Streaming(Func<Call, long> call) =>
            Working(call, frame => (Stream)new BodyStream(new StreamHandle(frame.OutHandle), Bounds));

        /// <summary>A wait for the end of a process: its exit code.</summary>
        internal Work<int> Exiting(Func<Call, long> call) => Working(call, frame => frame.OutNumber);

        internal long Do(Func<Call, long> call) => Doing(call).Now();

        internal Document DocumentOf(Func<Call, long> call) => Describing(call).Now();

        internal IReadOnlyList<Document> DocumentsOf(Func<Call, long> call) => Listing(call).Now();

        internal IReadOnlyList<string> TextsOf(Func<Call, long> call) => Texts(call).Now();

        internal string IdOf(Func<Call, long> call) => Naming(call).Now();

        /// <summary>A call that gives a handle; zero: none.</summary>
        internal IntPtr HandleOf(Func<Call, long> call) => Working(call, frame => frame.OutHandle).Now();
    }
}
