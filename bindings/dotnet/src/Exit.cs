using System;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>A wait for the end of a process, begun with CORACLE_OP_NONBLOCK.</summary>
    internal static class Exit
    {
        /// <summary>A call that refuses its arguments gives a task that has failed. The call is begun when this returns.</summary>
        internal static Task<int> Begin(Bounds bounds, Func<Call, long> work)
        {
            try
            {
                using (var call = new Call(bounds, true))
                {
                    work(call);
                    return Ended(call.TakeOp(), bounds);
                }
            }
            catch (OperationCanceledException cancelled)
            {
                return Task.FromCanceled<int>(cancelled.CancellationToken);
            }
            catch (Exception refused)
            {
                return Task.FromException<int>(refused);
            }
        }

        private static async Task<int> Ended(Op op, Bounds bounds)
        {
            try
            {
                int fd = Native.coracle_op_fd(op.Handle);
                for (;;)
                {
                    using (var call = new Call(bounds))
                    {
                        if (Raw.OpResult(call, op.Handle) != Raw.AGAIN)
                        {
                            return call.ResultCode();
                        }
                    }
                    Poller.Watch watch = Poller.Begin(op.Handle, fd, Libc.Readable);
                    await watch.Ready.ConfigureAwait(false);
                }
            }
            finally
            {
                op.End();
            }
        }
    }
}
