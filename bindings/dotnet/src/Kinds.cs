using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;

namespace Coracle
{
    /// <summary>A standard stream of a process.</summary>
    public enum Channel
    {
        Stdin = Raw.STDIN,
        Stdout = Raw.STDOUT,
        Stderr = Raw.STDERR,
    }

    /// <summary>The state that a wait waits for.</summary>
    public enum Condition
    {
        NotRunning,
        NextExit,
        Removed,
    }

    /// <summary>The gravity of a message of the library.</summary>
    public enum LogLevel
    {
        Error = Raw.LOG_ERROR,
        Warn = Raw.LOG_WARN,
        Info = Raw.LOG_INFO,
        Debug = Raw.LOG_DEBUG,
    }

    /// <summary>Takes a message of the library about a part of the engine: from any thread. It must not call the library.</summary>
    public delegate void LogSink(LogLevel level, string target, string message);

    /// <summary>How a container is removed.</summary>
    [Flags]
    public enum Remove
    {
        None = 0,
        /// <summary>It is killed first if it runs.</summary>
        Force = Raw.REMOVE_FORCE,
        /// <summary>Its anonymous volumes are removed, too.</summary>
        Volumes = Raw.REMOVE_VOLUMES,
        /// <summary>The id is a link, which is removed.</summary>
        Link = Raw.REMOVE_LINK,
    }

    /// <summary>How an image is removed.</summary>
    [Flags]
    public enum ImageRemove
    {
        None = 0,
        /// <summary>It is untagged, whatever stopped container uses the image.</summary>
        Force = Raw.IMAGE_REMOVE_FORCE,
        /// <summary>Untagged parents are kept.</summary>
        NoPrune = Raw.IMAGE_REMOVE_NO_PRUNE,
    }

    /// <summary>How a root is opened.</summary>
    public sealed class OpenOptions
    {
        /// <summary>A directory on tmpfs for data that a reboot ends; null: a directory under /run/coracle.</summary>
        public string RunDirectory { get; set; }

        /// <summary>A document with members such as "durability", "log-driver", "labels", "insecure-registries"; or null.</summary>
        public object Configuration { get; set; }

        /// <summary>No new root is made.</summary>
        public bool Existing { get; set; }

        /// <summary>Unknown members of documents are passed over, and named by the warnings of answers.</summary>
        public bool Lenient { get; set; }

        /// <summary>Containers that are created by this engine end when it is closed or the program ends.</summary>
        public bool Ephemeral { get; set; }

        internal ulong Flags =>
            (Existing ? (ulong)Raw.OPEN_EXISTING : 0) | (Lenient ? (ulong)Raw.OPEN_LENIENT : 0) | (Ephemeral ? (ulong)Raw.OPEN_EPHEMERAL : 0);
    }

    /// <summary>Where the standard streams of a process come from; null: the library makes the stream.</summary>
    public sealed class ProcessIo
    {
        /// <summary>
        /// A descriptor of the caller's in place of the session's own: FileStream.SafeFileHandle, the handle of a pipe, a <see cref="Descriptor"/>.
        /// The process gets a duplicate; the caller's stays open during the call, and is the caller's to dispose afterwards.
        /// </summary>
        public SafeHandle Stdin { get; set; }

        /// <summary>The same for stdout.</summary>
        public SafeHandle Stdout { get; set; }

        /// <summary>The same for stderr.</summary>
        public SafeHandle Stderr { get; set; }

        /// <summary>The size of a terminal; 0: not set.</summary>
        public ushort Rows { get; set; }

        /// <summary>The size of a terminal; 0: not set.</summary>
        public ushort Cols { get; set; }

        /// <summary>The process itself gets the descriptors, without a copy of any byte.</summary>
        public bool Direct { get; set; }
    }

    /// <summary>A line of a log.</summary>
    public sealed class LogLine
    {
        internal LogLine(Call call)
        {
            Channel = (Channel)call.Frame.Channel;
            Nanos = call.Frame.Nanos;
            Data = call.FrameBytes();
        }

        /// <summary>stdout or stderr.</summary>
        public Channel Channel { get; }

        /// <summary>When it came.</summary>
        public DateTimeOffset Time => Times.Of(Nanos);

        /// <summary>When it came, in nanoseconds since 1970, of which <see cref="Time"/> keeps hundreds.</summary>
        public long Nanos { get; }

        /// <summary>Its bytes, with the newline.</summary>
        public byte[] Data { get; }

        /// <summary>The line as text, without the newline.</summary>
        public string Text
        {
            get
            {
                string text = Encoding.UTF8.GetString(Data);
                return text.EndsWith("\n", StringComparison.Ordinal) ? text.Substring(0, text.Length - 1) : text;
            }
        }

        /// <summary>The text.</summary>
        public override string ToString() => Text;
    }

    internal static class Times
    {
        private static readonly DateTimeOffset Epoch = new DateTimeOffset(1970, 1, 1, 0, 0, 0, TimeSpan.Zero);

        private const int Digits = 7;

        /// <summary>A time of nanoseconds, of which .NET keeps hundreds.</summary>
        internal static DateTimeOffset Of(long nanos) => Epoch.AddTicks(nanos / 100 - (nanos % 100 < 0 ? 1 : 0));

        /// <summary>A time as documents have it, with every digit and the zone.</summary>
        internal static string Text(DateTimeOffset time) => time.ToString("yyyy-MM-dd'T'HH:mm:ss.fffffffzzz", CultureInfo.InvariantCulture);

        /// <summary>The same; the zone of a time without one is nobody's to guess.</summary>
        internal static string Text(DateTime time)
        {
            if (time.Kind == DateTimeKind.Unspecified)
            {
                throw CoracleException.Of(
                    Code.Invalid, "a document has a DateTime without a time zone: give it a Kind, or take a DateTimeOffset");
            }
            return time.ToString("yyyy-MM-dd'T'HH:mm:ss.fffffffK", CultureInfo.InvariantCulture);
        }

        /// <summary>A length of time as documents have it: nanoseconds.</summary>
        internal static long Nanos(TimeSpan time)
        {
            try
            {
                return checked(time.Ticks * 100);
            }
            catch (OverflowException)
            {
                throw CoracleException.Of(Code.Invalid, "a document cannot have the length of time " + time + ": in nanoseconds it is too big");
            }
        }

        /// <summary>Reads a time of a document; digits that .NET does not keep are cut off.</summary>
        internal static DateTimeOffset Read(string text) =>
            TryRead(text, out DateTimeOffset read) ? read : throw new FormatException("\"" + text + "\" is no time");

        private static bool TryRead(string text, out DateTimeOffset read)
        {
            string kept = text;
            int point = text.IndexOf('.');
            int end = point + 1;
            while (point >= 0 && end < text.Length && text[end] >= '0' && text[end] <= '9')
            {
                end++;
            }
            if (end - point - 1 > Digits)
            {
                kept = text.Substring(0, point + 1 + Digits) + text.Substring(end);
            }
            return DateTimeOffset.TryParseExact(
                kept, "yyyy-MM-dd'T'HH:mm:ss.FFFFFFFK", CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out read);
        }

        /// <summary>The time of a text in seconds since 1970, as queries have them; another text is as it was.</summary>
        internal static string Seconds(string text)
        {
            if (!TryRead(text, out DateTimeOffset time) || time < Epoch)
            {
                return text;
            }
            long ticks = (time - Epoch).Ticks;
            return (ticks / TimeSpan.TicksPerSecond).ToString(CultureInfo.InvariantCulture) + "." +
                (ticks % TimeSpan.TicksPerSecond).ToString("d7", CultureInfo.InvariantCulture);
        }
    }

    /// <summary>Everything that a process gave.</summary>
    public sealed class Output
    {
        internal Output(int code, byte[] stdout, byte[] stderr)
        {
            Code = code;
            Stdout = stdout;
            Stderr = stderr;
        }

        /// <summary>Its exit code, 128 + n if signal n ended it.</summary>
        public int Code { get; }

        /// <summary>Its output.</summary>
        public byte[] Stdout { get; }

        /// <summary>Its error output.</summary>
        public byte[] Stderr { get; }

        /// <summary>The output as text.</summary>
        public string Text => Encoding.UTF8.GetString(Stdout);

        /// <summary>The error output as text.</summary>
        public string ErrorText => Encoding.UTF8.GetString(Stderr);
    }

    /// <summary>A piece of a process's output.</summary>
    public sealed class Piece
    {
        internal Piece(Channel channel, byte[] data)
        {
            Channel = channel;
            Data = data;
        }

        /// <summary>stdout or stderr.</summary>
        public Channel Channel { get; }

        /// <summary>The bytes.</summary>
        public byte[] Data { get; }

        /// <summary>The bytes as text.</summary>
        public string Text => Encoding.UTF8.GetString(Data);
    }

    /// <summary>A record of a call that lasts.</summary>
    public sealed class Progress
    {
        internal Progress(Document document)
        {
            Document = document;
        }

        /// <summary>Text of a build or a load, or null.</summary>
        public string Stream => Document["stream"] as string;

        /// <summary>The step that a part is at, or null.</summary>
        public string Status => Document["status"] as string;

        /// <summary>The part, such as a layer's short id, or null.</summary>
        public string Id => Document["id"] as string;

        /// <summary>Bytes so far.</summary>
        public long Current => Document.Number("progressDetail.current");

        /// <summary>Bytes in all; 0: they are not known.</summary>
        public long Total => Document.Number("progressDetail.total");

        /// <summary>The whole record.</summary>
        public Document Document { get; }
    }

    /// <summary>Files out of a container.</summary>
    public sealed class Archive : IDisposable
    {
        internal Archive(Stream body, Document stat)
        {
            Body = body;
            Stat = stat;
        }

        /// <summary>A tar, to be read to its end.</summary>
        public Stream Body { get; }

        /// <summary>The description of the file at the path.</summary>
        public Document Stat { get; }

        /// <summary>Ends the tar, read to its end or not.</summary>
        public void Dispose() => Body.Dispose();
    }

    /// <summary>An answer of the HTTP API. To be disposed.</summary>
    public sealed class Response : IDisposable
    {
        internal Response(int status, IReadOnlyDictionary<string, IReadOnlyList<string>> headers, Stream body)
        {
            Status = status;
            Headers = headers;
            Body = body;
        }

        /// <summary>Such as 200.</summary>
        public int Status { get; }

        /// <summary>By their names in small letters; empty of <see cref="Engine.Request"/>.</summary>
        public IReadOnlyDictionary<string, IReadOnlyList<string>> Headers { get; }

        /// <summary>The body. The body of an answer with status 101 is written to, as well.</summary>
        public Stream Body { get; }

        /// <summary>The whole body as text.</summary>
        public string Text()
        {
            using (var reader = new StreamReader(Body, Encoding.UTF8))
            {
                return reader.ReadToEnd();
            }
        }

        /// <summary>Ends the body, read to its end or not.</summary>
        public void Dispose() => Body.Dispose();
    }
}
