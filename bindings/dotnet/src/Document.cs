using System;
using System.Collections.Generic;

namespace Coracle
{
    /// <summary>
    /// A document of the engine: members with typed readers. A name with dots leads into documents within:
    /// <c>document.Text("State.Status")</c>.
    /// </summary>
    /// <remarks>
    /// A reader of a member that is absent gives null (or 0, false, an empty list); of one with another type it throws InvalidCastException.
    /// A document that goes in is an object of an anonymous or other type, whose public properties are its members; a dictionary; a
    /// Document; or a string in JSON. Within it a DateTimeOffset, and a DateTime with a Kind, is a time with its zone; a TimeSpan is a number of
    /// nanoseconds, and an array of bytes is base64, as the API has them. ToString gives JSON, for a serializer of the caller's.
    /// </remarks>
    public sealed class Document
    {
        internal static readonly Document Empty = new Document(new Dictionary<string, object>());

        private Document(IReadOnlyDictionary<string, object> members)
        {
            Members = members;
        }

        /// <summary>The members: string, long, ulong (whole numbers that a long does not hold), double, bool, lists, dictionaries.</summary>
        public IReadOnlyDictionary<string, object> Members { get; }

        /// <summary>The value of that name or path. A member whose own name has dots comes first.</summary>
        public object this[string path]
        {
            get
            {
                if (Members.TryGetValue(path, out object found))
                {
                    return found;
                }
                int dot = path.IndexOf('.');
                object within = null;
                if (dot >= 0)
                {
                    Members.TryGetValue(path.Substring(0, dot), out within);
                }
                return within is IReadOnlyDictionary<string, object> map ? new Document(map)[path.Substring(dot + 1)] : null;
            }
        }

        /// <summary>Reads a text in JSON.</summary>
        public static Document Parse(string json) =>
            json == null || !(Json.Read(json) is Dictionary<string, object> members) ? Empty : new Document(members);

        /// <summary>A document that goes in, in JSON; null for null.</summary>
        internal static string Write(object value) => value == null ? null : value as string ?? Json.Write(value);

        /// <summary>A query with any of "since" and "until", which may be times of .NET: the library has seconds there.</summary>
        internal static string Query(object value)
        {
            string json = Write(value);
            if (json == null || value is string || !(Json.Read(json) is Dictionary<string, object> members))
            {
                return json;
            }
            foreach (string name in new[] { "since", "until" })
            {
                if (members.TryGetValue(name, out object found) && found is string text)
                {
                    members[name] = Times.Seconds(text);
                }
            }
            return Json.Write(members);
        }

        /// <summary>A list of documents.</summary>
        internal static List<Document> List(string json) => Listed(json == null ? null : Json.Read(json));

        internal static List<string> TextList(string json) => TextsOf(json == null ? null : Json.Read(json));

        private static List<Document> Listed(object list)
        {
            var made = new List<Document>();
            foreach (object one in (List<object>)list ?? new List<object>())
            {
                made.Add(new Document((IReadOnlyDictionary<string, object>)one));
            }
            return made;
        }

        private static List<string> TextsOf(object list)
        {
            var made = new List<string>();
            foreach (object one in (List<object>)list ?? new List<object>())
            {
                made.Add((string)one);
            }
            return made;
        }

        /// <summary>A text, or null.</summary>
        public string Text(string path) => (string)this[path];

        /// <summary>A whole number, or 0. One that a long does not hold is an OverflowException: Members has it as a ulong or a double.</summary>
        public long Number(string path)
        {
            object found = this[path];
            return found is double number ? checked((long)number) : found is ulong big ? checked((long)big) : (long)(found ?? 0L);
        }

        /// <summary>
        /// A time such as "2026-11-28T10:02:03.123456789Z", or null. .NET keeps seven digits of a second: <see cref="Text"/> has all of them.
        /// </summary>
        public DateTimeOffset? Time(string path) => Text(path) is string found ? Times.Read(found) : (DateTimeOffset?)null;

        /// <summary>Whether the member is there and true.</summary>
        public bool Is(string path) => (bool)(this[path] ?? false);

        /// <summary>A document within, or an empty one.</summary>
        public Document Within(string path) =>
            this[path] is object found ? new Document((IReadOnlyDictionary<string, object>)found) : Empty;

        /// <summary>A list of documents.</summary>
        public IReadOnlyList<Document> Documents(string path) => Listed(this[path]);

        /// <summary>A list of texts.</summary>
        public IReadOnlyList<string> Texts(string path) => TextsOf(this[path]);

        /// <summary>Texts by their names.</summary>
        public IReadOnlyDictionary<string, string> Map(string path)
        {
            var made = new Dictionary<string, string>();
            foreach (KeyValuePair<string, object> one in Within(path).Members)
            {
                made[one.Key] = (string)one.Value;
            }
            return made;
        }

        /// <summary>The document in JSON.</summary>
        public override string ToString() => Json.Write(Members);
    }
}
