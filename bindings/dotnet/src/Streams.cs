using System;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// The parts that the streams of this binding share: none of them seeks, and each direction has one form that does the work. With "blocking"
    /// it waits on the calling thread, and its task has ended when it is given.
    /// </summary>
    internal abstract class PlainStream : Stream
    {
        internal PlainStream() { }

        public override bool CanSeek => false;

        public override long Length => throw new NotSupportedException();

        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }

        public override void Flush() { }

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override int Read(byte[] buffer, int offset, int count) =>
            Read(buffer, offset, count, CancellationToken.None, true).GetAwaiter().GetResult();

        public override void Write(byte[] buffer, int offset, int count) =>
            Write(buffer, offset, count, CancellationToken.None, true).GetAwaiter().GetResult();

        public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellation) =>
            Read(buffer, offset, count, cancellation, false);

        public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellation) =>
            Write(buffer, offset, count, cancellation, false);

        // Nothing is buffered, and the form of the base class takes a thread for it.
        public override Task FlushAsync(CancellationToken cancellation) =>
            cancellation.IsCancellationRequested ? Task.FromCanceled(cancellation) : Task.CompletedTask;

        internal virtual Task<int> Read(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking) =>
            throw new NotSupportedException();

        internal virtual Task Write(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking) =>
            throw new NotSupportedException();

        public override IAsyncResult BeginRead(byte[] buffer, int offset, int count, AsyncCallback callback, object state) =>
            Begun(ReadAsync(buffer, offset, count, CancellationToken.None), callback, state);

        public override int EndRead(IAsyncResult begun) => ((Task<int>)begun).GetAwaiter().GetResult();

        public override IAsyncResult BeginWrite(byte[] buffer, int offset, int count, AsyncCallback callback, object state) =>
            Begun(Written(buffer, offset, count), callback, state);

        public override void EndWrite(IAsyncResult begun) => ((Task<int>)begun).GetAwaiter().GetResult();

        private async Task<int> Written(byte[] buffer, int offset, int count)
        {
            await WriteAsync(buffer, offset, count, CancellationToken.None).ConfigureAwait(false);
            return count;
        }

        private static IAsyncResult Begun(Task<int> task, AsyncCallback callback, object state)
        {
            var made = new TaskCompletionSource<int>(state);
            task.ContinueWith(
                ended =>
                {
                    if (ended.IsFaulted)
                    {
                        made.TrySetException(ended.Exception.InnerExceptions);
                    }
                    else if (ended.IsCanceled)
                    {
                        made.TrySetCanceled();
                    }
                    else
                    {
                        made.TrySetResult(ended.Result);
                    }
                    callback?.Invoke(made.Task);
                },
                TaskScheduler.Default);
            return made.Task;
        }

        internal static void CheckRange(byte[] buffer, int offset, int count)
        {
            if (buffer == null)
            {
                throw new ArgumentNullException(nameof(buffer));
            }
            if (offset < 0 || count < 0 || count > buffer.Length - offset)
            {
                throw new ArgumentOutOfRangeException(nameof(count), "the range is not within the buffer");
            }
        }

        /// <summary>An error of the engine in the form of streams. A cancellation stays one.</summary>
        internal static IOException OfStream(CoracleException error) => new IOException(error.Message, error);
    }

    /// <summary>A descriptor as a stream.</summary>
    internal sealed class DescriptorStream : PlainStream
    {
        private const int Most = 64 << 10;

        private readonly Descriptor descriptor;
        private readonly Bounds bounds;

        internal DescriptorStream(Descriptor descriptor, Bounds bounds)
        {
            this.descriptor = descriptor;
            this.bounds = bounds;
        }

        public override bool CanRead => true;

        public override bool CanWrite => true;

        internal override Task<int> Read(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking)
        {
            CheckRange(buffer, offset, count);
            return count == 0 ? Task.FromResult(0) : InTurn(descriptor.Reading, cancellation, blocking, async waiting =>
            {
                for (;;)
                {
                    waiting.Check();
                    int got = descriptor.With(fd => Got(fd, buffer, offset, count));
                    if (got >= 0)
                    {
                        return got;
                    }
                    await waiting.Until(descriptor, descriptor.Number, Libc.Readable).ConfigureAwait(false);
                }
            });
        }

        /// <summary>Work that one call at a time does, within the bounds.</summary>
        private async Task<int> InTurn(SemaphoreSlim gate, CancellationToken cancellation, bool blocking, Func<Waiting, Task<int>> work)
        {
            try
            {
                using (var waiting = new Waiting(bounds.CancelledBy(cancellation), blocking))
                {
                    await waiting.Enter(gate).ConfigureAwait(false);
                    try
                    {
                        return await work(waiting).ConfigureAwait(false);
                    }
                    finally
                    {
                        gate.Release();
                    }
                }
            }
            catch (CoracleException failed)
            {
                throw OfStream(failed);
            }
        }

        /// <summary>Reads whatever is there; below 0: nothing is there yet.</summary>
        private static int Got(int fd, byte[] buffer, int offset, int count)
        {
            while (Libc.IsReady(fd, Libc.Readable))
            {
                byte[] room = offset == 0 ? buffer : new byte[Math.Min(count, Most)];
                long got = Native.coracle_read_fd((IntPtr)fd, room, (UIntPtr)Math.Min(count, Most));
                if (got >= 0)
                {
                    if (offset != 0)
                    {
                        Buffer.BlockCopy(room, 0, buffer, offset, (int)got);
                    }
                    return (int)got;
                }
                if (got != -Libc.Interrupted && got != -Libc.Again)
                {
                    throw new IOException("a read failed: errno " + -got);
                }
            }
            return -1;
        }

        internal override Task Write(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking)
        {
            CheckRange(buffer, offset, count);
            return InTurn(descriptor.Writing, cancellation, blocking, async waiting =>
            {
                for (int done = 0; done < count;)
                {
                    waiting.Check();
                    int now = done;
                    int sent = descriptor.With(fd => Sent(fd, buffer, offset + now, count - now));
                    done += sent;
                    if (sent == 0)
                    {
                        await waiting.Until(descriptor, descriptor.Number, Libc.Writable).ConfigureAwait(false);
                    }
                }
                return count;
            });
        }

        /// <summary>Sends as much as there is room for.</summary>
        private static int Sent(int fd, byte[] buffer, int offset, int count)
        {
            int sent = Libc.Send(fd, buffer, offset, count);
            if (sent >= 0)
            {
                return sent;
            }
            int errno = Libc.Errno;
            if (errno == Libc.Again || errno == Libc.Interrupted)
            {
                return 0;
            }
            throw new IOException("a write failed: errno " + errno);
        }

        /// <summary>Ends the bytes to the other side, which may still send its own.</summary>
        internal void EndWrites()
        {
            if (descriptor.With(Libc.EndWrites) < 0)
            {
                throw new IOException("the end cannot be sent: errno " + Libc.Errno);
            }
        }

        protected override void Dispose(bool disposing)
        {
            if (disposing)
            {
                descriptor.Dispose();
            }
            base.Dispose(disposing);
        }
    }

    /// <summary>Bytes that come out of the engine: an archive, the body of an answer.</summary>
    internal sealed class BodyStream : PlainStream
    {
        private const int Most = 64 << 10;

        private readonly StreamHandle stream;
        private readonly Bounds bounds;

        internal BodyStream(StreamHandle stream, Bounds bounds)
        {
            this.stream = stream;
            this.bounds = bounds;
        }

        public override bool CanRead => true;

        public override bool CanWrite => false;

        internal override async Task<int> Read(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking)
        {
            CheckRange(buffer, offset, count);
            if (count == 0)
            {
                return 0;
            }
            try
            {
                return blocking
                    ? Got(buffer, offset, count, bounds)
                    : await Glance.When(stream, bounds.CancelledBy(cancellation), within => Got(buffer, offset, count, within)).ConfigureAwait(false);
            }
            catch (CoracleException failed)
            {
                throw OfStream(failed);
            }
        }

        private int Got(byte[] buffer, int offset, int count, Bounds within)
        {
            int most = Math.Min(count, Most);
            byte[] room = offset == 0 ? buffer : new byte[most];
            using (var call = new Call(within))
            {
                int got = (int)Raw.StreamRead(call, stream, room, most);
                if (offset != 0)
                {
                    Buffer.BlockCopy(room, 0, buffer, offset, got);
                }
                return got;
            }
        }

        protected override void Dispose(bool disposing)
        {
            if (disposing)
            {
                stream.Dispose();
            }
            base.Dispose(disposing);
        }
    }
}
