using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// A private connection that speaks the HTTP API: for clients with protocol code of their own by <see cref="Stream"/>, such as
    /// SocketsHttpHandler.ConnectCallback of .NET 5 and later; or for one request.
    /// </summary>
    public sealed class Connection : IDisposable
    {
        private const int Piece = 32 << 10;
        private const string End = "\r\n";

        private readonly DescriptorStream socket;
        private readonly Incoming incoming;

        internal Connection(Descriptor descriptor, Bounds bounds)
        {
            socket = new DescriptorStream(descriptor, bounds);
            incoming = new Incoming(socket);
        }

        /// <summary>Bytes from the engine, and to it.</summary>
        public Stream Stream => socket;

        /// <summary>Ends the bytes to the engine; those from the engine still come.</summary>
        public void EndWrites() => socket.EndWrites();

        /// <summary>Makes the one request of this connection.</summary>
        public Response Request(string method, string target, IDictionary<string, string> headers = null, Stream body = null) =>
            Request(method, target, headers, body, CancellationToken.None, true).GetAwaiter().GetResult();

        /// <summary>
        /// Makes the one request of this connection. The body of an answer with status 101 is the bytes of the stream that was asked for, in
        /// both directions. The end of the answer ends the connection. body: is sent in pieces, as it comes; null: none.
        /// </summary>
        public Task<Response> RequestAsync(
            string method, string target, IDictionary<string, string> headers = null, Stream body = null,
            CancellationToken cancellation = default(CancellationToken)) =>
            Request(method, target, headers, body, cancellation, false);

        private async Task<Response> Request(
            string method, string target, IDictionary<string, string> headers, Stream body, CancellationToken cancellation, bool blocking)
        {
            byte[] head = Head(method, target, headers ?? new Dictionary<string, string>(), body != null);
            await socket.Write(head, 0, head.Length, cancellation, blocking).ConfigureAwait(false);
            if (body != null)
            {
                await Send(body, cancellation, blocking).ConfigureAwait(false);
            }
            return await Answer(method, cancellation, blocking).ConfigureAwait(false);
        }

        private static byte[] Head(string method, string target, IDictionary<string, string> headers, bool body)
        {
            var lines = new List<string> { method + " " + target + " HTTP/1.1", "Host: coracle" };
            bool connection = false;
            foreach (KeyValuePair<string, string> one in headers)
            {
                connection |= string.Equals(one.Key, "Connection", StringComparison.OrdinalIgnoreCase);
                lines.Add(one.Key + ": " + one.Value);
            }
            if (body)
            {
                lines.Add("Transfer-Encoding: chunked");
            }
            if (!connection)
            {
                lines.Add("Connection: close");
            }
            if (lines.Exists(line => line.IndexOfAny(new[] { '\r', '\n', '\0' }) >= 0))
            {
                throw new IOException("a line of the request has the end of a line in it");
            }
            return Encoding.UTF8.GetBytes(string.Join(End, lines) + End + End);
        }

        private async Task Send(Stream body, CancellationToken cancellation, bool blocking)
        {
            var piece = new byte[Piece];
            for (;;)
            {
                int count = blocking
                    ? body.Read(piece, 0, piece.Length)
                    : await body.ReadAsync(piece, 0, piece.Length, cancellation).ConfigureAwait(false);
                byte[] size = Encoding.ASCII.GetBytes(count.ToString("x", CultureInfo.InvariantCulture) + End);
                await socket.Write(size, 0, size.Length, cancellation, blocking).ConfigureAwait(false);
                await socket.Write(piece, 0, count, cancellation, blocking).ConfigureAwait(false);
                await socket.Write(Encoding.ASCII.GetBytes(End), 0, End.Length, cancellation, blocking).ConfigureAwait(false);
                if (count == 0)
                {
                    return;
                }
            }
        }

        private async Task<Response> Answer(string method, CancellationToken cancellation, bool blocking)
        {
            for (;;)
            {
                string[] first = (await incoming.Line(cancellation, blocking).ConfigureAwait(false)).Split(new[] { ' ' }, 3);
                if (first.Length < 2 || !first[0].StartsWith("HTTP/1.", StringComparison.Ordinal) ||
                    !int.TryParse(first[1], NumberStyles.None, CultureInfo.InvariantCulture, out int status))
                {
                    throw new IOException("the answer is no HTTP");
                }
                Dictionary<string, IReadOnlyList<string>> headers = await incoming.Headers(cancellation, blocking).ConfigureAwait(false);
                // A remark in between, such as 100.
                if (status >= 200 || status == 101)
                {
                    bool bare = method == "HEAD" || status == 204 || status == 304;
                    long left = 0;
                    Incoming.Form form = bare ? Incoming.Form.None : FormOf(status, headers, out left);
                    return new Response(status, headers, new AnswerBody(socket, incoming, form, left));
                }
            }
        }

        private static Incoming.Form FormOf(int status, Dictionary<string, IReadOnlyList<string>> headers, out long length)
        {
            length = 0;
            if (status == 101)
            {
                return Incoming.Form.Open;
            }
            if (headers.TryGetValue("transfer-encoding", out IReadOnlyList<string> coding) && coding[0] == "chunked")
            {
                return Incoming.Form.Chunks;
            }
            if (!headers.TryGetValue("content-length", out IReadOnlyList<string> told))
            {
                return Incoming.Form.Open;
            }
            if (!long.TryParse(told[0], NumberStyles.None, CultureInfo.InvariantCulture, out length))
            {
                throw new IOException("the length of the answer is no number");
            }
            return Incoming.Form.Counted;
        }

        /// <summary>Ends the connection.</summary>
        public void Dispose() => socket.Dispose();
    }

    /// <summary>The bytes of an answer, of which lines are read first.</summary>
    internal sealed class Incoming
    {
        private const int LongestLine = 64 << 10;

        private readonly PlainStream from;
        private readonly byte[] buffer = new byte[16 << 10];
        private int at;
        private int end;

        internal Incoming(PlainStream from)
        {
            this.from = from;
        }

        /// <summary>How the end of a body is told.</summary>
        internal enum Form
        {
            None,
            Open,
            Counted,
            Chunks,
        }

        internal async Task<int> Read(byte[] to, int offset, int count, CancellationToken cancellation, bool blocking)
        {
            if (at == end)
            {
                return await from.Read(to, offset, count, cancellation, blocking).ConfigureAwait(false);
            }
            int now = Math.Min(count, end - at);
            Buffer.BlockCopy(buffer, at, to, offset, now);
            at += now;
            return now;
        }

        /// <summary>A line, without its end.</summary>
        internal async Task<string> Line(CancellationToken cancellation, bool blocking)
        {
            var made = new StringBuilder();
            for (;;)
            {
                if (at == end)
                {
                    at = 0;
                    end = 0;
                    end = await from.Read(buffer, 0, buffer.Length, cancellation, blocking).ConfigureAwait(false);
                    if (end == 0)
                    {
                        throw new EndOfStreamException("the connection ended within an answer");
                    }
                }
                char one = (char)buffer[at++];
                if (one == '\n')
                {
                    return made.ToString().TrimEnd('\r');
                }
                if (made.Length == LongestLine)
                {
                    throw new IOException("a line of the answer is longer than " + LongestLine + " bytes");
                }
                made.Append(one);
            }
        }

        internal async Task<Dictionary<string, IReadOnlyList<string>>> Headers(CancellationToken cancellation, bool blocking)
        {
            var made = new Dictionary<string, IReadOnlyList<string>>();
            for (string line; (line = await Line(cancellation, blocking).ConfigureAwait(false)).Length != 0;)
            {
                int colon = line.IndexOf(':');
                if (colon > 0)
                {
                    string name = line.Substring(0, colon).Trim().ToLowerInvariant();
                    var values = made.TryGetValue(name, out IReadOnlyList<string> before) ? new List<string>(before) : new List<string>();
                    values.Add(line.Substring(colon + 1).Trim());
                    made[name] = values;
                }
            }
            return made;
        }
    }

    /// <summary>The body of an answer, whose end ends the connection.</summary>
    internal sealed class AnswerBody : PlainStream
    {
        private readonly DescriptorStream socket;
        private readonly Incoming incoming;
        private Incoming.Form form;
        private long left;
        private bool begun;

        internal AnswerBody(DescriptorStream socket, Incoming incoming, Incoming.Form form, long left)
        {
            this.socket = socket;
            this.incoming = incoming;
            this.form = form;
            this.left = left;
        }

        public override bool CanRead => true;

        public override bool CanWrite => form == Incoming.Form.Open;

        internal override async Task<int> Read(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking)
        {
            CheckRange(buffer, offset, count);
            if (count == 0 || form == Incoming.Form.None)
            {
                return 0;
            }
            if (form == Incoming.Form.Open)
            {
                return await incoming.Read(buffer, offset, count, cancellation, blocking).ConfigureAwait(false);
            }
            if (left == 0 && form == Incoming.Form.Chunks)
            {
                await NextChunk(cancellation, blocking).ConfigureAwait(false);
            }
            if (left == 0)
            {
                return 0;
            }
            int got = await incoming.Read(buffer, offset, (int)Math.Min(count, left), cancellation, blocking).ConfigureAwait(false);
            if (got == 0)
            {
                throw new EndOfStreamException("the connection ended within a body");
            }
            left -= got;
            return got;
        }

        private async Task NextChunk(CancellationToken cancellation, bool blocking)
        {
            if (begun)
            {
                await incoming.Line(cancellation, blocking).ConfigureAwait(false);
            }
            begun = true;
            string size = (await incoming.Line(cancellation, blocking).ConfigureAwait(false)).Split(';')[0].Trim();
            if (!long.TryParse(size, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out left) || left < 0)
            {
                throw new IOException("the length of a piece is no number");
            }
            if (left == 0)
            {
                form = Incoming.Form.None;
                await incoming.Headers(cancellation, blocking).ConfigureAwait(false);
            }
        }

        internal override Task Write(byte[] buffer, int offset, int count, CancellationToken cancellation, bool blocking) =>
            CanWrite ? socket.Write(buffer, offset, count, cancellation, blocking) : throw new NotSupportedException();

        protected override void Dispose(bool disposing)
        {
            if (disposing)
            {
                socket.Dispose();
            }
            base.Dispose(disposing);
        }
    }
}
