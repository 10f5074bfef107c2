using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>Requests of HttpClient over private connections of an engine.</summary>
    internal sealed class EngineHttpHandler : HttpMessageHandler
    {
        private readonly Engine engine;

        internal EngineHttpHandler(Engine engine)
        {
            // The handle of the caller's may be disposed before its clients. Clients are seldom disposed: a forgotten one keeps no engine open.
            this.engine = engine.Again(false);
        }

        protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellation)
        {
            var headers = new Dictionary<string, string>();
            Add(headers, request.Headers);
            Stream body = null;
            if (request.Content != null)
            {
                Add(headers, request.Content.Headers);
                // The body goes in pieces.
                headers.Remove("Content-Length");
                body = await request.Content.ReadAsStreamAsync().ConfigureAwait(false);
            }
            headers.Remove("Host");
            headers.Remove("Transfer-Encoding");
            Connection connection = engine.Connect();
            try
            {
                Response answer = await connection
                    .RequestAsync(request.Method.Method, request.RequestUri.PathAndQuery, headers, body, cancellation).ConfigureAwait(false);
                return Message(request, answer);
            }
            catch (IOException failed)
            {
                connection.Dispose();
                throw new HttpRequestException(failed.Message, failed);
            }
            catch (Exception)
            {
                connection.Dispose();
                throw;
            }
        }

        private static void Add(Dictionary<string, string> to, HttpHeaders headers)
        {
            foreach (KeyValuePair<string, IEnumerable<string>> one in headers)
            {
                to[one.Key] = string.Join(", ", one.Value);
            }
        }

        private static HttpResponseMessage Message(HttpRequestMessage request, Response answer)
        {
            var made = new HttpResponseMessage((HttpStatusCode)answer.Status) { RequestMessage = request, Content = new StreamContent(answer.Body) };
            foreach (KeyValuePair<string, IReadOnlyList<string>> one in answer.Headers)
            {
                if (!made.Headers.TryAddWithoutValidation(one.Key, one.Value))
                {
                    made.Content.Headers.TryAddWithoutValidation(one.Key, one.Value);
                }
            }
            return made;
        }

        protected override void Dispose(bool disposing)
        {
            if (disposing)
            {
                engine.Dispose();
            }
            base.Dispose(disposing);
        }
    }
}
