using System;
using System.Collections.Generic;
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

        /// <summary>A copy whose calls each end after that time, with a DeadlineException.</summary>
        public S Within(TimeSpan time) => With(Bounds.Within(time));

        /// <summary>A copy whose calls end when the token is cancelled, with an OperationCanceledException.</summary>
        public S CancelledBy(CancellationToken cancellation) => With(Bounds.CancelledBy(cancellation));

        /// <summary>A copy whose calls tell their progress, on the thread of the call. An exception of the listener ends the call, and comes as it is.</summary>
        public S OnProgress(Action<Progress> listener) => With(Bounds.Telling(listener));

        /// <summary>
        /// Makes calls on another thread: for those without an Async form, or several. The token ends them.
        /// </summary>
        public Task<T> Async<T>(Func<S, T> calls, CancellationToken cancellation = default(CancellationToken))
        {
            S object_ = With(Bounds.CancelledBy(cancellation));
            // A thread of its own: calls that last would take those of the pool from others.
            return Task.Factory.StartNew(
                () => calls(object_), cancellation, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, TaskScheduler.Default);
        }

        /// <summary>The same of calls that give nothing.</summary>
        public Task Async(Action<S> calls, CancellationToken cancellation = default(CancellationToken)) =>
            Async(
                one =>
                {
                    calls(one);
                    return true;
                },
                cancellation);

        // ---- calls in the bounds of this object

        /// <summary>A call, and its frame.</summary>
        internal T InCall<T>(Func<Call, T> work)
        {
            using (var call = new Call(Bounds))
            {
                return work(call);
            }
        }

        /// <summary>A call that gives a status.</summary>
        internal long Do(Func<Call, long> work) => InCall(work);

        /// <summary>Whether the call changed anything.</summary>
        internal bool Changes(Func<Call, long> work) => Do(work) != Raw.UNCHANGED;

        /// <summary>A call that gives a text in JSON.</summary>
        internal string JsonOf(Func<Call, long> work) =>
            InCall(call =>
            {
                work(call);
                return call.Json();
            });

        internal Document DocumentOf(Func<Call, long> work) => Document.Parse(JsonOf(work));

        internal IReadOnlyList<Document> DocumentsOf(Func<Call, long> work) => Document.List(JsonOf(work));

        internal IReadOnlyList<string> TextsOf(Func<Call, long> work) => Document.TextList(JsonOf(work));

        /// <summary>A call that gives an id.</summary>
        internal string IdOf(Func<Call, long> work) =>
            InCall(call =>
            {
                work(call);
                return call.Id();
            });

        /// <summary>A call that gives a handle; zero: none.</summary>
        internal IntPtr HandleOf(Func<Call, long> work) =>
            InCall(call =>
            {
                work(call);
                return call.OutHandle;
            });

        /// <summary>A wait that is begun, and takes no thread: its exit code.</summary>
        internal Task<int> Begin(Func<Call, long> work, CancellationToken cancellation) =>
            Exit.Begin(Bounds.CancelledBy(cancellation), work);
    }
}
