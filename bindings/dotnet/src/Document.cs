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
    /// Document; or a string in JSON. ToString gives JSON, for a serializer of the caller's.
    /// </remarks>
    public sealed class Document
    {
        internal static readonly Document Empty = new Document(new Dictionary<string, object>());

        private Document(IReadOnlyDictionary<string, object> members)
        {
            Members = members;
        }

        /// <summary>The members: string, long, double, bool, lists, dictionaries.</summary>
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

        /// <summary>A whole number, or 0.</summary>
        public long Number(string path) => this[path] is double found ? (long)found : (long)(this[path] ?? 0L);

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
