/*
 * Coracle for C++: containers in process. C++17; with C++23 results are std::expected.
 *
 * Nothing here throws: a call answers a result, which has a value or an error. Handles are closed by their destructors, and may be
 * closed before; a closed handle answers code::misuse. Texts are std::string_view; one without data (std::string_view{}) is "not
 * given". Documents are JSON texts with the members of the Docker API, so any JSON library goes with this header.
 *
 * A call that may last takes a pointer to an op, or nullptr: the op has the deadline, is cancelled from any thread, and gets the
 * progress. Callbacks run on the calling thread. An exception that leaves a callback ends the call with code::callback.
 */
#ifndef CORACLE_HPP
#define CORACLE_HPP

#include <coracle.h>

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>
#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_expected)
#include <expected>
#endif

/* `coracle` is a type of C, so the namespace has another name. */
namespace coracle_cpp {

/* The coarse reason of an error: the codes of the C interface. */
enum class code : std::int32_t {
    invalid = CORACLE_EINVALID,
    unauthorized = CORACLE_EUNAUTHORIZED,
    forbidden = CORACLE_EFORBIDDEN,
    not_found = CORACLE_ENOT_FOUND,
    conflict = CORACLE_ECONFLICT,
    internal = CORACLE_EINTERNAL,
    unsupported = CORACLE_EUNSUPPORTED,
    unavailable = CORACLE_EUNAVAILABLE,
    io = CORACLE_EIO,
    no_memory = CORACLE_ENOMEM,
    timeout = CORACLE_ETIMEOUT,
    cancelled = CORACLE_ECANCELLED,
    callback = CORACLE_ECALLBACK,
    forked = CORACLE_EFORKED,
    panic = CORACLE_EPANIC,
    misuse = CORACLE_EMISUSE,
    corrupt = CORACLE_ECORRUPT,
};

/* The name of a code, such as "NOT_FOUND". */
inline std::string_view name(code c) { return coracle_status_name(static_cast<coracle_status>(c)); }
inline std::string_view status_name(std::int32_t status) { return coracle_status_name(status); }

/* An error of the engine. */
struct error {
    coracle_cpp::code code = coracle_cpp::code::internal;
    /* The HTTP status of such an error. */
    int http_status = 500;
    /* The kernel's number if the kernel refused, else 0. */
    int number = 0;
    /* The part of the engine that failed, or "". */
    std::string area;
    /* One line for people. */
    std::string message;
    /* A JSON object for programs: "field", "argument", "id", "exitCode", ... */
    std::string detail = "{}";

    /* A member of the detail that is a text, such as the path of the wrong member ("field"); "": there is none. */
    std::string text(std::string_view member) const {
        const std::string key = "\"" + std::string(member) + "\":\"";
        const auto at = detail.find(key);
        if (at == std::string::npos) return {};
        std::string out;
        for (auto i = at + key.size(); i < detail.size() && detail[i] != '"'; i++) {
            if (detail[i] == '\\' && i + 1 < detail.size()) i++;
            out += detail[i];
        }
        return out;
    }
    std::string field() const { return text("field"); }
};

#if defined(__cpp_lib_expected)
template <class T>
using result = std::expected<T, error>;
namespace detail {
inline std::unexpected<error> fails(error e) { return std::unexpected<error>(std::move(e)); }
}  // namespace detail
#else
namespace detail {
struct failed {
    error what;
};
inline failed fails(error e) { return failed{std::move(e)}; }
}  // namespace detail

/* A value or an error, with the part of std::expected that is needed. value() and operator* of an error end the program. */
template <class T>
class [[nodiscard]] result {
public:
    using value_type = T;
    result() : held_(std::in_place_index<0>) {}
    result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    result(detail::failed f) : held_(std::in_place_index<1>, std::move(f.what)) {}
    bool has_value() const noexcept { return held_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    T &value() & { return need(); }
    T &&value() && { return std::move(need()); }
    T &operator*() & { return need(); }
    T &&operator*() && { return std::move(need()); }
    T *operator->() { return &need(); }
    coracle_cpp::error &error() {
        auto *e = std::get_if<1>(&held_);
        if (!e) std::abort();
        return *e;
    }

private:
    T &need() {
        auto *v = std::get_if<0>(&held_);
        if (!v) std::abort();
        return *v;
    }
    std::variant<T, coracle_cpp::error> held_;
};
template <>
class [[nodiscard]] result<void> {
public:
    using value_type = void;
    result() = default;
    result(detail::failed f) : error_(std::move(f.what)) {}
    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    void value() const {
        if (error_) std::abort();
    }
    coracle_cpp::error &error() {
        if (!error_) std::abort();
        return *error_;
    }

private:
    std::optional<coracle_cpp::error> error_;
};
#endif

namespace detail {

/* The error of a call, whose error object is freed. */
inline error taken(std::int64_t status, coracle_error *e) {
    error made;
    made.code = static_cast<code>(status);
    made.message = status_name(static_cast<std::int32_t>(status));
    if (!e) return made;
    made.code = static_cast<code>(coracle_error_code(e));
    made.http_status = coracle_error_http_status(e);
    made.number = coracle_error_errno(e);
    made.area = coracle_error_area(e);
    made.message = coracle_error_message(e);
    made.detail = coracle_error_detail(e);
    coracle_error_free(e);
    return made;
}

inline error refused(code c, std::string message) {
    error made;
    made.code = c;
    made.http_status = c == code::invalid ? 400 : 500;
    made.message = std::move(message);
    return made;
}

/* A text for C: a copy with its NUL, or NULL. */
class text {
public:
    text(std::string_view from) : given_(from.data() != nullptr), copy_(from) {}
    bool whole() const { return copy_.find('\0') == std::string::npos; }
    const char *c() const { return given_ ? copy_.c_str() : nullptr; }

private:
    bool given_;
    std::string copy_;
};

/* A string that the library gave, which is freed. */
class owned {
public:
    owned() = default;
    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;
    ~owned() { coracle_free(given_); }
    char **out() { return &given_; }
    std::string take() const { return given_ ? std::string(given_) : std::string(); }

private:
    char *given_ = nullptr;
};

/* A handle with the function that ends it, once. The library knows handles that have ended. */
template <class T, void (*End)(T *)>
class handle {
public:
    handle() = default;
    explicit handle(T *raw) : raw_(raw), open_(raw != nullptr) {}
    handle(handle &&from) noexcept : raw_(from.raw_), open_(std::exchange(from.open_, false)) {}
    handle &operator=(handle &&from) noexcept {
        if (this != &from) {
            close();
            raw_ = from.raw_;
            open_ = std::exchange(from.open_, false);
        }
        return *this;
    }
    ~handle() { close(); }
    void close() noexcept {
        if (std::exchange(open_, false)) End(raw_);
    }
    T *get() const noexcept { return raw_; }

private:
    T *raw_ = nullptr;
    bool open_ = false;
};

/* A call with texts: call(const char *..., coracle_error **) gives a status. */
template <class F, class... Texts>
result<std::int64_t> status(F call, const Texts &...texts) {
    if (!(texts.whole() && ...)) return fails(refused(code::invalid, "a text has a NUL in it"));
    coracle_error *e = nullptr;
    const std::int64_t got = call(texts.c()..., &e);
    if (got < 0) return fails(taken(got, e));
    return got;
}

/* A call that gives nothing. */
template <class F, class... Texts>
result<void> done(F call, const Texts &...texts) {
    auto got = status(std::move(call), texts...);
    if (!got) return fails(std::move(got.error()));
    return {};
}

/* Calls with one more argument before the last one, the error. */
template <class F, class Out>
auto before_last(F &call, Out out, coracle_error **e) {
    return call(out, e);
}
template <class F, class Out, class A>
auto before_last(F &call, Out out, A a, coracle_error **e) {
    return call(a, out, e);
}
template <class F, class Out, class A, class B>
auto before_last(F &call, Out out, A a, B b, coracle_error **e) {
    return call(a, b, out, e);
}
template <class F, class Out, class A, class B, class C>
auto before_last(F &call, Out out, A a, B b, C c, coracle_error **e) {
    return call(a, b, c, out, e);
}

/* A call that gives a text: call(const char *..., char **, coracle_error **). */
template <class F, class... Texts>
result<std::string> json(F call, const Texts &...texts) {
    owned out;
    auto got = status([&](auto... args) { return before_last(call, out.out(), args...); }, texts...);
    if (!got) return fails(std::move(got.error()));
    return out.take();
}

/* A call that gives a handle: call(const char *..., Raw **, coracle_error **). */
template <class Made, class Raw, class F, class... Texts>
result<Made> made(F call, const Texts &...texts) {
    Raw *out = nullptr;
    auto got = status([&](auto... args) { return before_last(call, &out, args...); }, texts...);
    if (!got) return fails(std::move(got.error()));
    return Made(out);
}

/* A call that gives a number: call(const char *..., int32_t *, coracle_error **). */
template <class F, class... Texts>
result<int> number(F call, const Texts &...texts) {
    std::int32_t out = -1;
    auto got = status([&](auto... args) { return before_last(call, &out, args...); }, texts...);
    if (!got) return fails(std::move(got.error()));
    return static_cast<int>(out);
}

/* Runs a function of the caller's, whose exceptions stay here. */
template <class R, class F>
R guarded(R bad, F &&run) noexcept {
#if defined(__cpp_exceptions)
    try {
        return run();
    } catch (...) {
        return bad;
    }
#else
    static_cast<void>(bad);
    return run();
#endif
}

}  // namespace detail

/* Cancels, bounds and watches calls: pass an op to one call after another, not to two at once. */
class op {
public:
    /* Gets a progress record, JSON; false ends the call with code::callback. */
    using progress = std::function<bool(std::string_view record)>;

    static result<op> make() { return detail::made<op, coracle_op>([](auto out, auto e) { return coracle_op_new(0, out, e); }); }
    static result<op> within(std::chrono::milliseconds limit) {
        auto made = make();
        if (made) made->set_timeout(limit);
        return made;
    }
    explicit op(coracle_op *raw) : handle_(raw) {}
    /* Ends the call that uses the operation, and every later one; from any thread. */
    void cancel() noexcept { coracle_op_cancel(handle_.get()); }
    void set_timeout(std::chrono::milliseconds limit) noexcept { coracle_op_set_timeout(handle_.get(), limit.count()); }
    void on_progress(progress function) {
        auto *kept = new progress(std::move(function));
        coracle_op_set_progress(handle_.get(), told, kept, dropped, 0);
    }
    coracle_op *get() const noexcept { return handle_.get(); }
    void close() noexcept { handle_.close(); }

private:
    static std::int32_t told(void *user, const char *record) noexcept {
        if (!record) return 0;
        return detail::guarded<std::int32_t>(1, [&] { return (*static_cast<progress *>(user))(record) ? 0 : 1; });
    }
    static void dropped(void *user) noexcept { delete static_cast<progress *>(user); }
    detail::handle<coracle_op, coracle_op_free> handle_;
};

namespace detail {
inline coracle_op *raw(op *o) { return o ? o->get() : nullptr; }
}  // namespace detail

/* An archive that goes in: a descriptor, which the library reads itself, or a function. */
class source {
public:
    /* Fills the buffer: how many bytes, 0 at the end, below 0 ends the call with code::callback. */
    using function = std::function<std::int64_t(char *buffer, std::size_t length)>;
    explicit source(int descriptor) : descriptor_(descriptor) {}
    explicit source(function read) : read_(std::move(read)) {}
    coracle_read_fn c() const noexcept { return read_ ? called : coracle_read_fd; }
    void *user() noexcept { return read_ ? static_cast<void *>(this) : reinterpret_cast<void *>(static_cast<std::intptr_t>(descriptor_)); }

private:
    static std::int64_t called(void *user, void *buffer, std::size_t length) noexcept {
        return detail::guarded<std::int64_t>(
            -1, [&] { return static_cast<source *>(user)->read_(static_cast<char *>(buffer), length); });
    }
    int descriptor_ = -1;
    function read_;
};

/* A standard stream of a process. */
enum class channel : std::int32_t { in = CORACLE_STDIN, out = CORACLE_STDOUT, err = CORACLE_STDERR };

/* Bytes or records that come out of the engine. */
class stream {
public:
    /* A record; its data is valid until the next call on the stream. */
    struct frame {
        coracle_cpp::channel channel;
        std::chrono::nanoseconds time;
        std::string_view data;
    };
    explicit stream(coracle_stream *raw) : handle_(raw) {}
    /* How many bytes, 0 at the end. */
    result<std::size_t> read(char *buffer, std::size_t length, op *o = nullptr) {
        auto got = detail::status([&](auto e) { return coracle_stream_read(handle_.get(), buffer, length, detail::raw(o), e); });
        if (!got) return detail::fails(std::move(got.error()));
        return static_cast<std::size_t>(*got);
    }
    /* The bytes to the end. */
    result<std::string> read_all(op *o = nullptr) {
        std::string all;
        char piece[16384];
        for (;;) {
            auto count = read(piece, sizeof piece, o);
            if (!count) return detail::fails(std::move(count.error()));
            if (*count == 0) return all;
            all.append(piece, *count);
        }
    }
    /* The next record; none at the end. */
    result<std::optional<frame>> next(op *o = nullptr) {
        coracle_frame got = CORACLE_FRAME_INIT;
        auto status = detail::status([&](auto e) { return coracle_stream_next(handle_.get(), detail::raw(o), &got, e); });
        if (!status) return detail::fails(std::move(status.error()));
        if (*status == CORACLE_DONE) return std::optional<frame>();
        const char *data = reinterpret_cast<const char *>(got.data);
        return std::optional<frame>(frame{static_cast<coracle_cpp::channel>(got.channel), std::chrono::nanoseconds(got.time_ns),
                                          std::string_view(data ? data : "", got.len)});
    }
    /* A borrowed descriptor that is readable while there may be something. */
    result<int> fd() const {
        return detail::number([&](auto out, auto) { return *out = coracle_stream_fd(handle_.get()); });
    }
    /* Lines of a log that were deleted before they were read. */
    result<std::int64_t> lost() const {
        return detail::status([&](auto) { return coracle_stream_lost(handle_.get()); });
    }
    void close() noexcept { handle_.close(); }

private:
    detail::handle<coracle_stream, coracle_stream_free> handle_;
};

/* An attached process. Its end detaches: the process runs on. */
class session {
public:
    struct piece {
        coracle_cpp::channel channel;
        std::size_t count;
    };
    explicit session(coracle_session *raw) : handle_(raw) {}
    /* Output of either stream; count 0 when both have ended. */
    result<piece> read(char *buffer, std::size_t length, op *o = nullptr) {
        std::int32_t from = CORACLE_STDOUT;
        auto got = detail::status([&](auto e) { return coracle_session_read(handle_.get(), buffer, length, detail::raw(o), &from, e); });
        if (!got) return detail::fails(std::move(got.error()));
        return piece{static_cast<coracle_cpp::channel>(from), static_cast<std::size_t>(*got)};
    }
    /* How many bytes the process's stdin took. */
    result<std::size_t> write(std::string_view data, op *o = nullptr) {
        auto got = detail::status([&](auto e) { return coracle_session_write(handle_.get(), data.data(), data.size(), detail::raw(o), e); });
        if (!got) return detail::fails(std::move(got.error()));
        return static_cast<std::size_t>(*got);
    }
    result<void> close_stdin() {
        return detail::done([&](auto e) { return coracle_session_close_stdin(handle_.get(), e); });
    }
    /* A borrowed descriptor of a stream that was not taken. */
    result<int> fd(coracle_cpp::channel c) const {
        return detail::number([&](auto out, auto) { return *out = coracle_session_fd(handle_.get(), static_cast<std::int32_t>(c)); });
    }
    /* A stream's descriptor, the caller's to close. */
    result<int> take_fd(coracle_cpp::channel c) {
        return detail::number([&](auto out, auto) { return *out = coracle_session_take_fd(handle_.get(), static_cast<std::int32_t>(c)); });
    }
    result<void> resize(std::uint16_t rows, std::uint16_t cols) {
        return detail::done([&](auto e) { return coracle_session_resize(handle_.get(), rows, cols, e); });
    }
    /* The exit code, 128 + n if signal n ended the process. */
    result<int> wait(op *o = nullptr) {
        return detail::number([&](auto out, auto e) { return coracle_session_wait(handle_.get(), detail::raw(o), out, e); });
    }
    void close() noexcept { handle_.close(); }

private:
    detail::handle<coracle_session, coracle_session_free> handle_;
};

/* A wait that was begun, for a program with a poll loop. */
class pending {
public:
    explicit pending(coracle_op *raw) : handle_(raw) {}
    /* A borrowed descriptor: readable when result() has the answer at once. */
    result<int> fd() const {
        return detail::number([&](auto out, auto) { return *out = coracle_op_fd(handle_.get()); });
    }
    /* The exit code; none: there is none yet. */
    result<std::optional<int>> poll() {
        coracle_result got = CORACLE_RESULT_INIT;
        auto status = detail::status([&](auto e) { return coracle_op_result(handle_.get(), &got, e); });
        coracle_free(got.id);
        coracle_free(got.json);
        if (!status) return detail::fails(std::move(status.error()));
        if (*status == CORACLE_AGAIN) return std::optional<int>();
        return std::optional<int>(got.code);
    }
    /* Waits for the exit code. */
    result<int> wait() {
        for (;;) {
            auto code = poll();
            if (!code) return detail::fails(std::move(code.error()));
            if (code->has_value()) return **code;
            auto descriptor = fd();
            if (!descriptor) return detail::fails(std::move(descriptor.error()));
            struct pollfd set = {*descriptor, POLLIN, 0};
            if (::poll(&set, 1, -1) < 0 && errno != EINTR) return detail::fails(detail::refused(code::io, "poll failed"));
        }
    }
    void cancel() noexcept { coracle_op_cancel(handle_.get()); }
    coracle_op *get() const noexcept { return handle_.get(); }
    void close() noexcept { handle_.close(); }

private:
    detail::handle<coracle_op, coracle_op_free> handle_;
};

/* The events of a root. */
class events {
public:
    enum class state { event, again, done };
    struct answer {
        coracle_cpp::events::state state;
        /* The event, JSON. */
        std::string json;
    };
    explicit events(coracle_events *raw) : handle_(raw) {}
    /* The next event; 0 looks only, below 0 waits for ever. */
    result<answer> next(std::chrono::milliseconds timeout = std::chrono::milliseconds(-1)) {
        const char *json = nullptr;
        auto got = detail::status([&](auto e) { return coracle_events_next(handle_.get(), timeout.count(), &json, e); });
        if (!got) return detail::fails(std::move(got.error()));
        if (*got == CORACLE_AGAIN) return answer{state::again, {}};
        if (*got == CORACLE_DONE) return answer{state::done, {}};
        return answer{state::event, json ? json : ""};
    }
    result<int> fd() const {
        return detail::number([&](auto out, auto) { return *out = coracle_events_fd(handle_.get()); });
    }
    void close() noexcept { handle_.close(); }

private:
    detail::handle<coracle_events, coracle_events_free> handle_;
};

/* A server of the HTTP API. */
class server {
public:
    explicit server(coracle_http_server *raw) : handle_(raw) {}
    /* A JSON list of texts. */
    result<std::string> addresses() const {
        return detail::json([&](auto out, auto e) { return coracle_http_server_addresses(handle_.get(), out, e); });
    }
    result<void> shutdown(std::chrono::milliseconds grace, op *o = nullptr) {
        return detail::done([&](auto e) { return coracle_http_server_shutdown(handle_.get(), grace.count(), detail::raw(o), e); });
    }
    void close() noexcept { handle_.close(); }

private:
    detail::handle<coracle_http_server, coracle_http_server_free> handle_;
};

/* Where the standard streams of a process come from: descriptors of the caller's, or below 0. */
struct io {
    int in = -1, out = -1, err = -1;
    std::uint16_t rows = 0, cols = 0;
    /* The process itself gets the descriptors. */
    bool direct = false;
    coracle_io c() const noexcept {
        coracle_io made = CORACLE_IO_INIT;
        made.flags = direct ? CORACLE_IO_DIRECT : 0;
        made.fd_in = in;
        made.fd_out = out;
        made.fd_err = err;
        made.rows = rows;
        made.cols = cols;
        return made;
    }
};

/* A further process of a container, by its id. */
class exec {
public:
    exec(::coracle *engine, std::string id) : engine_(engine), id_(std::move(id)) {}
    const std::string &id() const noexcept { return id_; }
    /* Starts the process, detached. */
    result<void> start(op *o = nullptr) {
        return detail::done([&](auto id, auto e) { return coracle_exec_start(engine_, id, nullptr, detail::raw(o), nullptr, e); }, me());
    }
    result<session> start_attached(const io &streams = {}, op *o = nullptr) {
        const coracle_io c = streams.c();
        return detail::made<session, coracle_session>(
            [&](auto id, auto out, auto e) { return coracle_exec_start(engine_, id, &c, detail::raw(o), out, e); }, me());
    }
    result<int> wait(op *o = nullptr) {
        return detail::number([&](auto id, auto out, auto e) { return coracle_exec_wait(engine_, id, detail::raw(o), out, e); }, me());
    }
    result<std::string> inspect() const {
        return detail::json([&](auto id, auto out, auto e) { return coracle_exec_inspect(engine_, id, out, e); }, me());
    }

private:
    detail::text me() const { return detail::text(id_); }
    ::coracle *engine_;
    std::string id_;
};

/* How a container is removed: CORACLE_REMOVE_FORCE, CORACLE_REMOVE_VOLUMES, CORACLE_REMOVE_LINK. */
using remove_flags = std::uint64_t;

/* A container by its id or name, which outlives this object and the program. The engine must stay open for its calls. */
class container {
public:
    container(::coracle *engine, std::string id, std::string created = {}) : engine_(engine), id_(std::move(id)), created_(std::move(created)) {}
    const std::string &id() const noexcept { return id_; }
    /* Of a container that was created here: {"Id": ..., "Warnings": [...]}. */
    const std::string &created() const noexcept { return created_; }

    result<std::string> inspect(bool size = false) const {
        return detail::json([&](auto id, auto out, auto e) { return coracle_container_inspect(engine_, id, size, out, e); }, me());
    }
    result<std::string> explain() const {
        return detail::json([&](auto id, auto out, auto e) { return coracle_container_explain(engine_, id, out, e); }, me());
    }
    /* Starts the container, detached; false: it ran already. */
    result<bool> start(op *o = nullptr) {
        return changed([&](auto id, auto e) { return coracle_container_start(engine_, id, nullptr, detail::raw(o), nullptr, e); });
    }
    /* Starts the container with its streams in hand from the first byte on; one that runs already is attached. */
    result<session> start_attached(const io &streams = {}, op *o = nullptr) {
        const coracle_io c = streams.c();
        coracle_session *out = nullptr;
        auto got = detail::status([&](auto id, auto e) { return coracle_container_start(engine_, id, &c, detail::raw(o), &out, e); }, me());
        if (!got) return detail::fails(std::move(got.error()));
        if (*got == CORACLE_UNCHANGED) return attach({}, streams, o);
        return session(out);
    }
    /* query: {"stdin", "stdout", "stderr", "wait"}. */
    result<session> attach(std::string_view query = {}, const io &streams = {}, op *o = nullptr) {
        const coracle_io c = streams.c();
        return detail::made<session, coracle_session>(
            [&](auto id, auto q, auto out, auto e) { return coracle_container_attach(engine_, id, &c, q, detail::raw(o), out, e); }, me(),
            detail::text(query));
    }
    /* false: the container did not run. A grace below 0: SIGKILL is never sent. */
    result<bool> stop(std::chrono::milliseconds grace, op *o = nullptr) {
        return changed([&](auto id, auto e) { return coracle_container_stop(engine_, id, grace.count(), detail::raw(o), e); });
    }
    /* how: {"signal", "grace_ms"}. */
    result<bool> stop_with(std::string_view how, op *o = nullptr) {
        auto got = detail::status([&](auto id, auto h, auto e) { return coracle_container_stop_with(engine_, id, h, detail::raw(o), e); }, me(),
                                  detail::text(how));
        if (!got) return detail::fails(std::move(got.error()));
        return *got != CORACLE_UNCHANGED;
    }
    result<void> restart(std::chrono::milliseconds grace, op *o = nullptr) {
        return detail::done([&](auto id, auto e) { return coracle_container_restart(engine_, id, grace.count(), detail::raw(o), e); }, me());
    }
    result<void> restart_with(std::string_view how, op *o = nullptr) {
        return detail::done([&](auto id, auto h, auto e) { return coracle_container_restart_with(engine_, id, h, detail::raw(o), e); }, me(),
                            detail::text(how));
    }
    /* A name or a number; without one SIGKILL, whose effect the call waits for. */
    result<void> kill(std::string_view signal = {}, op *o = nullptr) {
        return detail::done([&](auto id, auto s, auto e) { return coracle_container_kill(engine_, id, s, detail::raw(o), e); }, me(),
                            detail::text(signal));
    }
    result<void> pause(op *o = nullptr) {
        return detail::done([&](auto id, auto e) { return coracle_container_pause(engine_, id, detail::raw(o), e); }, me());
    }
    result<void> unpause(op *o = nullptr) {
        return detail::done([&](auto id, auto e) { return coracle_container_unpause(engine_, id, detail::raw(o), e); }, me());
    }
    /* condition: "not-running" (also none), "next-exit", "removed". The exit code. */
    result<int> wait(op *o = nullptr, std::string_view condition = {}) {
        return detail::number(
            [&](auto id, auto c, auto out, auto e) { return coracle_container_wait(engine_, id, c, detail::raw(o), out, nullptr, e); }, me(),
            detail::text(condition));
    }
    /* Begins a wait, which misses no end after this call. */
    result<pending> begin_wait(std::string_view condition = {}) {
        auto made = detail::made<pending, coracle_op>([](auto out, auto e) { return coracle_op_new(CORACLE_OP_NONBLOCK, out, e); });
        if (!made) return made;
        auto got = detail::done(
            [&](auto id, auto c, auto e) { return coracle_container_wait(engine_, id, c, made->get(), nullptr, nullptr, e); }, me(),
            detail::text(condition));
        if (!got) return detail::fails(std::move(got.error()));
        return made;
    }
    /* A pidfd, the caller's to close: readable when the process ended. */
    result<int> pidfd() const {
        return detail::number([&](auto id, auto out, auto e) { return coracle_container_pidfd(engine_, id, out, e); }, me());
    }
    result<void> remove(remove_flags flags = 0, op *o = nullptr) {
        return detail::done([&](auto id, auto e) { return coracle_container_remove(engine_, id, flags, detail::raw(o), e); }, me());
    }
    result<void> rename(std::string_view name) {
        return detail::done([&](auto id, auto n, auto e) { return coracle_container_rename(engine_, id, n, e); }, me(), detail::text(name));
    }
    result<std::string> top(std::string_view arguments = {}) const {
        return detail::json([&](auto id, auto a, auto out, auto e) { return coracle_container_top(engine_, id, a, out, e); }, me(),
                            detail::text(arguments));
    }
    result<std::string> update(std::string_view body, op *o = nullptr) {
        return detail::json([&](auto id, auto b, auto out, auto e) { return coracle_container_update(engine_, id, b, detail::raw(o), out, e); },
                            me(), detail::text(body));
    }
    /* Samples for stream::next; query: {"stream", "one-shot"}. */
    result<stream> stats(std::string_view query = {}, op *o = nullptr) {
        return bytes([&](auto id, auto q, auto out, auto e) { return coracle_container_stats(engine_, id, q, detail::raw(o), out, e); }, query);
    }
    /* Lines for stream::next; query: {"stdout", "stderr", "since", "tail", "follow"}. */
    result<stream> logs(std::string_view query = {}, op *o = nullptr) {
        return bytes([&](auto id, auto q, auto out, auto e) { return coracle_container_logs(engine_, id, q, detail::raw(o), out, e); }, query);
    }
    result<std::string> stat_path(std::string_view path, op *o = nullptr) const {
        return detail::json([&](auto id, auto p, auto out, auto e) { return coracle_container_stat_path(engine_, id, p, detail::raw(o), out, e); },
                            me(), detail::text(path));
    }
    /* A tar of the files at a path. */
    result<stream> get_archive(std::string_view path, op *o = nullptr) {
        return bytes(
            [&](auto id, auto p, auto out, auto e) { return coracle_container_get_archive(engine_, id, p, detail::raw(o), out, nullptr, e); }, path);
    }
    /* Extracts a tar into a directory; query: {"noOverwriteDirNonDir", "copyUIDGID"}. */
    result<void> put_archive(std::string_view path, source &tar, std::string_view query = {}, op *o = nullptr) {
        return detail::done(
            [&](auto id, auto p, auto q, auto e) {
                return coracle_container_put_archive(engine_, id, p, q, tar.c(), tar.user(), detail::raw(o), e);
            },
            me(), detail::text(path), detail::text(query));
    }
    result<stream> export_tar(op *o = nullptr) {
        return detail::made<stream, coracle_stream>(
            [&](auto id, auto out, auto e) { return coracle_container_export(engine_, id, detail::raw(o), out, e); }, me());
    }
    result<std::string> changes(op *o = nullptr) const {
        return detail::json([&](auto id, auto out, auto e) { return coracle_container_changes(engine_, id, detail::raw(o), out, e); }, me());
    }
    /* The image's id; query: {"repo", "tag", "comment", "author", "pause", "changes"}. */
    result<std::string> commit(std::string_view query = {}, std::string_view config = {}, op *o = nullptr) {
        return detail::json(
            [&](auto id, auto q, auto c, auto out, auto e) { return coracle_container_commit(engine_, id, q, c, detail::raw(o), out, e); }, me(),
            detail::text(query), detail::text(config));
    }
    /* Prepares a process; body: that of POST /containers/{id}/exec. */
    result<exec> prepare(std::string_view body) {
        auto id = detail::json([&](auto me, auto b, auto out, auto e) { return coracle_exec_create(engine_, me, b, out, e); }, me(),
                               detail::text(body));
        if (!id) return detail::fails(std::move(id.error()));
        return exec(engine_, std::move(*id));
    }

private:
    detail::text me() const { return detail::text(id_); }
    template <class F>
    result<bool> changed(F call) {
        auto got = detail::status(call, me());
        if (!got) return detail::fails(std::move(got.error()));
        return *got != CORACLE_UNCHANGED;
    }
    template <class F>
    result<stream> bytes(F call, std::string_view argument) {
        return detail::made<stream, coracle_stream>(call, me(), detail::text(argument));
    }
    ::coracle *engine_;
    std::string id_, created_;
};

/* How a root is opened. */
struct open_options {
    /* A directory on tmpfs; none: one under /run/coracle. */
    std::string_view run_dir;
    /* An object with "durability", "log-driver", ...: coracle.h lists them. */
    std::string_view config;
    /* CORACLE_OPEN_EXISTING, CORACLE_OPEN_LENIENT, CORACLE_OPEN_EPHEMERAL. */
    std::uint64_t flags = 0;
};

namespace detail {
/* A call with the options in C's form. */
template <class F>
auto with_options(const open_options &options, F call) {
    return [&options, call](auto root, auto run, auto config, auto... rest) {
        coracle_open_options c = CORACLE_OPEN_OPTIONS_INIT;
        c.run_dir = run;
        c.config_json = config;
        c.flags = options.flags;
        return call(root, &c, rest...);
    };
}
}  // namespace detail

/* What an engine needs of the host: no root is opened. */
inline result<std::string> host_report(std::string_view root, const open_options &options = {}) {
    return detail::json(detail::with_options(options, coracle_host_report), detail::text(root), detail::text(options.run_dir),
                        detail::text(options.config));
}

/* An answer of the HTTP API. */
struct response {
    int status;
    stream body;
};

/* An opened root, for any number of threads. Its end leaves the containers running. */
class engine {
public:
    static result<engine> open(std::string_view root, const open_options &options = {}) {
        return detail::made<engine, ::coracle>(detail::with_options(options, coracle_open), detail::text(root), detail::text(options.run_dir),
                                               detail::text(options.config));
    }
    explicit engine(::coracle *raw) : handle_(raw) {}
    ::coracle *get() const noexcept { return handle_.get(); }
    void close() noexcept { handle_.close(); }
    /* Another handle of the same engine. */
    result<engine> again() const {
        ::coracle *made = coracle_ref(get());
        if (!made) return detail::fails(detail::refused(code::misuse, "the engine is closed, or this process is a fork"));
        return engine(made);
    }

    result<std::string> info(op *o = nullptr) const { return plain(coracle_engine_info, o); }
    result<std::string> version() const { return plain(coracle_engine_version); }
    result<std::string> metrics() const { return plain(coracle_engine_metrics); }
    result<std::string> disk_usage(std::string_view query = {}, op *o = nullptr) const { return about(coracle_engine_disk_usage, query, o); }
    result<void> reload(std::string_view labels, std::string_view settings = {}) {
        return detail::done([&](auto l, auto s, auto e) { return coracle_engine_reload(get(), l, s, e); }, detail::text(labels),
                            detail::text(settings));
    }
    /* A descriptor, the caller's to close, that ends the containers of the lease when no process has it open any more. */
    result<int> lease(std::string_view name) {
        return detail::number([&](auto n, auto out, auto e) { return coracle_lease_hold(get(), n, out, e); }, detail::text(name));
    }
    result<std::string> verify(std::string_view query = {}, op *o = nullptr) { return about(coracle_root_verify, query, o); }
    result<std::string> leftovers() const { return plain(coracle_root_leftovers); }
    result<std::string> sweep(op *o = nullptr) { return plain(coracle_root_sweep, o); }
    result<std::string> copy_root(std::string_view directory, std::string_view query = {}, op *o = nullptr) {
        return detail::json([&](auto d, auto q, auto out, auto e) { return coracle_root_copy(get(), d, q, detail::raw(o), out, e); },
                            detail::text(directory), detail::text(query));
    }
    result<std::string> import_docker(std::string_view query = {}, op *o = nullptr) { return about(coracle_root_import_docker, query, o); }

    /* Creates a container of a body of POST /containers/create; without a name the engine makes one up. */
    result<container> create(std::string_view body, std::string_view name = {}, op *o = nullptr) {
        detail::owned id, json;
        auto got = detail::done(
            [&](auto n, auto b, auto e) { return coracle_container_create(get(), n, b, detail::raw(o), id.out(), json.out(), e); },
            detail::text(name), detail::text(body));
        if (!got) return detail::fails(std::move(got.error()));
        return container(get(), id.take(), json.take());
    }
    /* The container of a name or an id; it asks nothing. */
    coracle_cpp::container container_of(std::string id) const { return coracle_cpp::container(get(), std::move(id)); }
    coracle_cpp::exec exec_of(std::string id) const { return coracle_cpp::exec(get(), std::move(id)); }
    result<std::string> containers(std::string_view query = {}) const { return look(coracle_container_list, query); }
    result<std::string> prune_containers(std::string_view filters = {}, op *o = nullptr) { return about(coracle_container_prune, filters, o); }
    result<coracle_cpp::events> events(std::string_view query = {}) const {
        return detail::made<coracle_cpp::events, coracle_events>([&](auto q, auto out, auto e) { return coracle_events_open(get(), q, out, e); },
                                                                 detail::text(query));
    }

    result<std::string> images(std::string_view query = {}) const { return look(coracle_image_list, query); }
    result<std::string> image(std::string_view ref) const { return look(coracle_image_inspect, ref); }
    result<std::string> history(std::string_view ref) const { return look(coracle_image_history, ref); }
    result<void> tag(std::string_view ref, std::string_view name) {
        return detail::done([&](auto r, auto n, auto e) { return coracle_image_tag(get(), r, n, e); }, detail::text(ref), detail::text(name));
    }
    /* flags: CORACLE_IMAGE_REMOVE_FORCE, CORACLE_IMAGE_REMOVE_NO_PRUNE. */
    result<std::string> remove_image(std::string_view ref, std::uint64_t flags = 0, op *o = nullptr) {
        return detail::json([&](auto r, auto out, auto e) { return coracle_image_remove(get(), r, flags, detail::raw(o), out, e); },
                            detail::text(ref));
    }
    result<std::string> prune_images(std::string_view filters = {}, op *o = nullptr) { return about(coracle_image_prune, filters, o); }
    result<std::string> prune_caches(std::string_view filters = {}, op *o = nullptr) { return about(coracle_build_prune, filters, o); }
    result<std::string> load(source &tar, op *o = nullptr) {
        return detail::json([&](auto out, auto e) { return coracle_image_load(get(), tar.c(), tar.user(), detail::raw(o), out, e); });
    }
    /* refs: a JSON list of names, or {"names", "layout"}. */
    result<stream> save(std::string_view refs, op *o = nullptr) {
        return detail::made<stream, coracle_stream>([&](auto r, auto out, auto e) { return coracle_image_save(get(), r, detail::raw(o), out, e); },
                                                    detail::text(refs));
    }
    /* The image's id. */
    result<std::string> import_rootfs(source &tar, std::string_view query = {}, op *o = nullptr) {
        return detail::json(
            [&](auto q, auto out, auto e) { return coracle_image_import(get(), q, tar.c(), tar.user(), detail::raw(o), out, e); },
            detail::text(query));
    }
    /* The image's id; query: the parameters of POST /build. */
    result<std::string> build(source &context, std::string_view query = {}, op *o = nullptr) {
        return detail::json(
            [&](auto q, auto out, auto e) { return coracle_image_build(get(), q, context.c(), context.user(), detail::raw(o), out, e); },
            detail::text(query));
    }
    result<std::string> build_dir(int directory, std::string_view query = {}, op *o = nullptr) {
        return detail::json([&](auto q, auto out, auto e) { return coracle_image_build_dir(get(), q, directory, detail::raw(o), out, e); },
                            detail::text(query));
    }
    /* The image's id; auth: {"username", "password"} or a token. */
    result<std::string> pull(std::string_view ref, std::string_view auth = {}, op *o = nullptr) { return remote(coracle_image_pull, ref, auth, o); }
    /* The id of the image of a platform, such as "linux/arm64"; empty: this machine's. */
    result<std::string> pull_platform(std::string_view ref, std::string_view platform, std::string_view auth = {}, op *o = nullptr) {
        if (platform.empty()) return pull(ref, auth, o);
        return detail::json([&](auto r, auto p, auto a, auto out, auto e) { return coracle_image_pull_platform(get(), r, p, a, detail::raw(o), out, e); },
                            detail::text(ref), detail::text(platform), detail::text(auth));
    }
    result<std::string> push(std::string_view ref, std::string_view auth = {}, op *o = nullptr) { return remote(coracle_image_push, ref, auth, o); }
    result<std::string> search(std::string_view query, std::string_view auth = {}, op *o = nullptr) {
        return remote(coracle_image_search, query, auth, o);
    }
    result<std::string> inspect_remote(std::string_view ref, std::string_view auth = {}, op *o = nullptr) const {
        return remote(coracle_registry_inspect, ref, auth, o);
    }
    result<std::string> check_login(std::string_view auth, op *o = nullptr) const { return about(coracle_registry_auth, auth, o); }

    /* The volume, JSON. */
    result<std::string> create_volume(std::string_view body = {}, op *o = nullptr) {
        detail::owned id;
        return detail::json([&](auto b, auto out, auto e) { return coracle_volume_create(get(), b, detail::raw(o), id.out(), out, e); },
                            detail::text(body));
    }
    result<std::string> volumes(std::string_view query = {}) const { return look(coracle_volume_list, query); }
    result<std::string> volume(std::string_view name) const { return look(coracle_volume_inspect, name); }
    result<void> remove_volume(std::string_view name, op *o = nullptr) {
        return detail::done([&](auto n, auto e) { return coracle_volume_remove(get(), n, detail::raw(o), e); }, detail::text(name));
    }
    result<std::string> prune_volumes(std::string_view filters = {}, op *o = nullptr) { return about(coracle_volume_prune, filters, o); }

    /* Managed plugins: installed from registries, and run by the engine. */
    result<std::string> plugins(std::string_view query = {}) const { return look(coracle_plugin_list, query); }
    result<std::string> plugin(std::string_view name) const { return look(coracle_plugin_inspect, name); }
    /* The rights on the host that a plugin of a registry needs: a list of {"Name", "Description", "Value"}. */
    result<std::string> plugin_privileges(std::string_view ref, std::string_view auth = {}, op *o = nullptr) const {
        return remote(coracle_plugin_privileges, ref, auth, o);
    }
    /* The plugin's id; it is disabled. body: {"Remote", "Name", "Privileges", "Auth"}; without "Privileges" all are granted. */
    result<std::string> pull_plugin(std::string_view body, op *o = nullptr) { return about(coracle_plugin_pull, body, o); }
    /* Puts another version in the place of a disabled plugin; body: as of pull_plugin, without "Remote" from where it came from. */
    result<void> upgrade_plugin(std::string_view name, std::string_view body = {}, op *o = nullptr) {
        return detail::done([&](auto n, auto b, auto e) { return coracle_plugin_upgrade(get(), n, b, detail::raw(o), e); }, detail::text(name),
                            detail::text(body));
    }
    /* Runs a plugin, and waits until it listens: for so long; 0: 30 s. */
    result<void> enable_plugin(std::string_view name, std::chrono::duration<std::uint32_t> wait = {}, op *o = nullptr) {
        return detail::done([&](auto n, auto e) { return coracle_plugin_enable(get(), n, wait.count(), detail::raw(o), e); }, detail::text(name));
    }
    /* flags: CORACLE_PLUGIN_FORCE. */
    result<void> disable_plugin(std::string_view name, std::uint64_t flags = 0, op *o = nullptr) {
        return detail::done([&](auto n, auto e) { return coracle_plugin_disable(get(), n, flags, detail::raw(o), e); }, detail::text(name));
    }
    result<void> remove_plugin(std::string_view name, std::uint64_t flags = 0, op *o = nullptr) {
        return detail::done([&](auto n, auto e) { return coracle_plugin_remove(get(), n, flags, detail::raw(o), e); }, detail::text(name));
    }
    /* changes: a JSON list of texts, each NAME[.FIELD]=VALUE, for a disabled plugin. */
    result<void> set_plugin(std::string_view name, std::string_view changes) {
        return detail::done([&](auto n, auto c, auto e) { return coracle_plugin_set(get(), n, c, e); }, detail::text(name), detail::text(changes));
    }

    /* The network's id. */
    result<std::string> create_network(std::string_view body, op *o = nullptr) {
        return detail::json([&](auto b, auto out, auto e) { return coracle_network_create(get(), b, detail::raw(o), out, nullptr, e); },
                            detail::text(body));
    }
    result<std::string> networks(std::string_view query = {}) const { return look(coracle_network_list, query); }
    result<std::string> network(std::string_view id) const { return look(coracle_network_inspect, id); }
    result<void> connect(std::string_view network, std::string_view body, op *o = nullptr) {
        return detail::done([&](auto n, auto b, auto e) { return coracle_network_connect(get(), n, b, detail::raw(o), e); },
                            detail::text(network), detail::text(body));
    }
    result<void> disconnect(std::string_view network, std::string_view body, op *o = nullptr) {
        return detail::done([&](auto n, auto b, auto e) { return coracle_network_disconnect(get(), n, b, detail::raw(o), e); },
                            detail::text(network), detail::text(body));
    }
    result<void> remove_network(std::string_view id, op *o = nullptr) {
        return detail::done([&](auto n, auto e) { return coracle_network_remove(get(), n, detail::raw(o), e); }, detail::text(id));
    }
    result<std::string> prune_networks(std::string_view filters = {}, op *o = nullptr) { return about(coracle_network_prune, filters, o); }
    result<void> release_networks(op *o = nullptr) {
        return detail::done([&](auto e) { return coracle_network_release(get(), detail::raw(o), e); });
    }
    result<void> repair_networks(op *o = nullptr) {
        return detail::done([&](auto e) { return coracle_network_repair(get(), detail::raw(o), e); });
    }

    /* Answers a request of the HTTP API in process; headers: an object of texts. */
    result<response> request(std::string_view method, std::string_view target, std::string_view body = {}, std::string_view headers = {},
                             op *o = nullptr) {
        std::int32_t status = 0;
        auto made = detail::made<stream, coracle_stream>(
            [&](auto m, auto t, auto h, auto out, auto e) {
                return coracle_http_request(get(), m, t, h, body.data(), body.size(), detail::raw(o), &status, out, e);
            },
            detail::text(method), detail::text(target), detail::text(headers));
        if (!made) return detail::fails(std::move(made.error()));
        return response{static_cast<int>(status), std::move(*made)};
    }
    /* A private connection that speaks the HTTP API: a socket, the caller's to close. */
    result<int> connect_http() {
        return detail::number([&](auto out, auto e) { return coracle_http_connect(get(), out, e); });
    }
    /* options: {"Addresses", "InsecureTcp", "HostNames"}; sockets that listen already are duplicated. */
    result<server> serve(std::string_view options, const std::vector<std::int32_t> &sockets = {}) {
        return detail::made<server, coracle_http_server>(
            [&](auto o, auto out, auto e) { return coracle_http_serve(get(), o, sockets.data(), sockets.size(), out, e); },
            detail::text(options));
    }

private:
    template <class F>
    result<std::string> plain(F function) const {
        return detail::json([&](auto out, auto e) { return function(get(), out, e); });
    }
    template <class F>
    result<std::string> plain(F function, op *o) const {
        return detail::json([&](auto out, auto e) { return function(get(), detail::raw(o), out, e); });
    }
    template <class F>
    result<std::string> look(F function, std::string_view argument) const {
        return detail::json([&](auto a, auto out, auto e) { return function(get(), a, out, e); }, detail::text(argument));
    }
    template <class F>
    result<std::string> about(F function, std::string_view argument, op *o) const {
        return detail::json([&](auto a, auto out, auto e) { return function(get(), a, detail::raw(o), out, e); }, detail::text(argument));
    }
    template <class F>
    result<std::string> remote(F function, std::string_view ref, std::string_view auth, op *o) const {
        return detail::json([&](auto r, auto a, auto out, auto e) { return function(get(), r, a, detail::raw(o), out, e); }, detail::text(ref),
                            detail::text(auth));
    }
    detail::handle<::coracle, coracle_close> handle_;
};

/* The library itself. */
inline std::string_view version() { return coracle_version_string(); }
inline std::uint32_t version_number() { return coracle_version(); }
inline std::string_view build_info() { return coracle_build_info(); }
inline bool has_feature(std::string_view feature) {
    const detail::text name(feature);
    return name.whole() && coracle_has_feature(name.c()) == 1;
}

/* Takes a message of the library, from any thread; it must not call the library. */
using log_function = std::function<void(int level, std::string_view target, std::string_view message)>;

/* Has a function called with messages of CORACLE_LOG_... and graver; an empty one: none is called any more. */
inline result<void> set_log(int level, log_function function) {
    if (!function) return detail::done([&](auto e) { return coracle_set_log(level, nullptr, nullptr, nullptr, e); });
    auto kept = std::make_unique<log_function>(std::move(function));
    auto got = detail::done([&](auto e) {
        return coracle_set_log(
            level,
            [](void *user, std::int32_t of, const char *target, const char *message) {
                detail::guarded<int>(0, [&] {
                    (*static_cast<log_function *>(user))(of, target, message);
                    return 0;
                });
            },
            kept.get(), [](void *user) { delete static_cast<log_function *>(user); }, e);
    });
    if (got) static_cast<void>(kept.release());
    return got;
}

}  // namespace coracle_cpp

#endif
