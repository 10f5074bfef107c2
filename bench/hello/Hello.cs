// Hello ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
using System;
using System.Diagnostics;
using Coracle;

internal static class Hello
{
    private static void Say(Engine engine)
    {
        Container box = engine.Containers.Create(new { Image = "busybox", Cmd = new[] { "echo", "hello" }, HostConfig = new { NetworkMode = "none" } });
        using (Session session = box.StartAttached())
        {
            Console.Write(session.Communicate().Text);
        }
        box.Remove();
        Console.In.ReadToEnd();
    }

    private static void Calls(Engine engine, int count)
    {
        Stopwatch passed = Stopwatch.StartNew();
        for (int done = 0; done < count; done++)
        {
            engine.Containers.List();
        }
        Console.WriteLine((long)(passed.Elapsed.TotalMilliseconds * 1e6 / count));
    }

    private static void Main(string[] arguments)
    {
        using (Engine engine = Engine.Open(arguments[0]))
        {
            if (arguments.Length > 1)
            {
                Calls(engine, int.Parse(arguments[1]));
            }
            else
            {
                Say(engine);
            }
        }
    }
}
