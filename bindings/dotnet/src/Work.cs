using System;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>A call that may last, in the bounds of an object, and what is made of its answer: for one caller who waits, or for a task.</summary>
    internal struct Work<T>
    {
        /// <summary>
        /// Milliseconds between looks at a call that was to end: one that the library had begun by then, and that then waits, makes its descriptor
        /// readable no more.
        /// </summary>
        private const int LookAgain = 20;

        private readonly Bounds bounds;
        private readonly Func<Call, long> call;
        private readonly Func<Call, long, T> answer;

        /// <param name="bounds">the bounds of the call</param>
        /// <param name="call">the call, which gives a status</param>
        /// <param name="answer">makes the result of the frame and the status</param>
        internal Work(Bounds bounds, Func<Call, long> call, Func<Call, long, T> answer)
        {
            this.bounds = bounds;
            this.call = call;
            this.answer = answer;
        }

        /// <summary>Makes the call on this thread.</summary>
        internal T Now()
        {
            using (var frame = new Call(bounds))
            {
                return answer(frame, call(frame));
            }
        }

        /// <summary>
        /// Begins the call, which no thread of .NET waits for. A call whose arguments are refused gives a task that has failed. The call is
        /// begun when this returns.
        /// </summary>
        internal Task<T> Begin(CancellationToken cancellation)
        {
            Bounds within = bounds.CancelledBy(cancellation).Together();
            // Progress comes on the thread of a call.
            return within.Listener != null ? OnThread(within) : Begun(within);
        }

        /// <summary>Makes the call on a thread of its own.</summary>
        internal Task<T> OnThread(CancellationToken cancellation) => OnThread(bounds.CancelledBy(cancellation));

        private Task<T> OnThread(Bounds within) => Threads.Run(new Work<T>(within, call, answer).Now);

        /// <summary>Begins a wait for the end of a process: one that tells no progress.</summary>
        internal Task<T> BeginWait(CancellationToken cancellation) => Begun(bounds.CancelledBy(cancellation).Together());

        /// <summary>
        /// Waits on this thread for the end of a process. The call is begun, because one that waits within the library would keep a session from
        /// other threads.
        /// The thread of the poller wakes this one: no thread of the pool takes part.
        /// </summary>
        internal T Wait()
        {
            Bounds within = bounds.Together();
            Op op = Started(within);
            try
            {
                int fd = Native.coracle_op_fd(op.Handle);
                T made;
                while (!Look(op, within, out made))
                {
                    Poller.Watch watch = Poller.Begin(op.Handle, fd, Libc.Readable);
                    // Thread.Interrupt ends it, as it ends every wait of .NET.
                    watch.Ready.Wait(IsToEnd(op, within) ? LookAgain : Timeout.Infinite);
                    watch.End();
                }
                return made;
            }
            finally
            {
                op.End();
            }
        }

        // Up to its first await it runs on the caller's thread, and its exceptions are those of the task.
        private async Task<T> Begun(Bounds within)
        {
            Op op = Started(within);
            try
            {
                int fd = Native.coracle_op_fd(op.Handle);
                T made;
                while (!Look(op, within, out made))
                {
                    Poller.Watch watch = Poller.Begin(op.Handle, fd, Libc.Readable);
                    await (IsToEnd(op, within) ? Task.WhenAny(watch.Ready, Task.Delay(LookAgain)) : watch.Ready).ConfigureAwait(false);
                    watch.End();
                }
                return made;
            }
            finally
            {
                op.End();
            }
        }

        private Op Started(Bounds within)
        {
            using (var frame = new Call(within, true))
            {
                call(frame);
                return frame.TakeOp();
            }
        }

        private static bool IsToEnd(Op op, Bounds within) => op.IsCancelled || within.Left == TimeSpan.Zero;

        /// <summary>Takes the answer, if there is one.</summary>
        private bool Look(Op op, Bounds within, out T made)
        {
            using (var frame = new Call(within))
            {
                long status = Raw.OpResult(frame, op.Handle);
                if (status == Raw.AGAIN)
                {
                    made = default(T);
                    return false;
                }
                frame.TakeResult();
                made = answer(frame, status);
                return true;
            }
        }
    }

    /// <summary>Threads of their own: work that lasts would take those of the pool from others.</summary>
    internal static class Threads
    {
        /// <summary>The result of work, for a program that awaits it. A cancellation is one.</summary>
        internal static async Task<T> Run<T>(Func<T> work) => await Start(work).ConfigureAwait(false);

        /// <summary>The result of work, for a thread that waits for it.</summary>
        internal static Task<T> Start<T>(Func<T> work)
        {
            var made = new TaskCompletionSource<T>(TaskCreationOptions.RunContinuationsAsynchronously);
            var thread = new Thread(() =>
            {
                try
                {
                    made.TrySetResult(work());
                }
                catch (Exception thrown)
                {
                    made.TrySetException(thrown);
                }
            });
            thread.IsBackground = true;
            thread.Name = "coracle-call";
            thread.Start();
            return made.Task;
        }
    }
}
