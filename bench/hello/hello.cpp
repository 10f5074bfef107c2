// hello ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
#include <coracle.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace cc = coracle_cpp;

template <class T>
T must(cc::result<T> made) {
    if (!made) std::fprintf(stderr, "%s\n", made.error().message.c_str()), std::exit(1);
    if constexpr (!std::is_void_v<T>) return std::move(*made);
}

static void hello(cc::engine &engine) {
    auto box = must(engine.create(R"({"Image": "busybox", "Cmd": ["echo", "hello"], "HostConfig": {"NetworkMode": "none"}})"));
    auto session = must(box.start_attached());
    char piece[4096];
    for (auto got = must(session.read(piece, sizeof piece)); got.count; got = must(session.read(piece, sizeof piece)))
        std::fwrite(piece, 1, got.count, stdout);
    std::fflush(stdout);
    must(session.wait());
    must(box.remove());
    while (std::getchar() != EOF) {}
}

static void calls(cc::engine &engine, long count) {
    auto begun = std::chrono::steady_clock::now();
    for (long done = 0; done < count; done++) must(engine.containers(R"({"all":false})"));
    std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begun;
    std::printf("%lld\n", static_cast<long long>(took.count()) / count);
}

int main(int count, char **arguments) {
    auto engine = must(cc::engine::open(arguments[1]));
    if (count > 2) calls(engine, std::atol(arguments[2]));
    else hello(engine);
}
