using System.Collections.Generic;
using System.Linq;

namespace Coracle.Tests
{
    /// <summary>The members of a step, filled.</summary>
    internal sealed class Given
    {
        private readonly Dictionary<string, object> members;

        internal Given(Dictionary<string, object> members)
        {
            this.members = members;
        }

        internal object this[string name] => members.TryGetValue(name, out object found) ? found : null;

        internal bool Has(string name) => members.ContainsKey(name);

        internal string Text(string name) => (string)this[name];

        internal long Number(string name) => (long)members[name];

        internal bool Is(string name) => true.Equals(this[name]);

        internal Dictionary<string, object> Map(string name) => (Dictionary<string, object>)this[name];

        internal List<object> List(string name) => (List<object>)this[name];

        internal string[] Texts(string name) => Has(name) ? List(name).Cast<string>().ToArray() : new string[0];
    }
}
