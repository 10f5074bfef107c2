// The scenarios that all bindings share, by this one: bindings/scenarios has the list and says what each step means.
//
//     scenarios [WORDS]       only those whose names have WORDS in them

#include <coracle.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include <any>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

namespace cc = coracle_cpp;
using json = nlohmann::json;
using namespace std::chrono_literals;
using std::string;

namespace {

json list;
const std::set<string> features = {"fork"};
const std::chrono::seconds long_wait(std::getenv("CORACLE_TEST_SECONDS") ? std::atoi(std::getenv("CORACLE_TEST_SECONDS")) : 300);

// A result that is not the expected one.
struct wrong {
    string text;
};

string brief(const json &value) { return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 600); }

std::size_t length(const json &got) {
    if (got.is_string()) return got.get_ref<const string &>().size();
    return got.is_array() || got.is_object() ? got.size() : 0;
}

void match(const json &expected, const json &got, const string &where);

bool matches(const json &expected, const json &got) {
    try {
        match(expected, got, "");
        return true;
    } catch (const wrong &) {
        return false;
    }
}

bool matcher(const string &key, const json &value, const json &got) {
    if (key == "$has") return got.is_string() && got.get<string>().find(value.get<string>()) != string::npos;
    if (key == "$above") return got.is_number() && got.get<double>() > value.get<double>();
    if (key == "$len") return length(got) == value.get<std::size_t>();
    if (key == "$len_above") return length(got) > value.get<std::size_t>();
    if (key == "$not") return !got.is_null() && got != value;
    if (key == "$one_of") return std::any_of(value.begin(), value.end(), [&](const json &one) { return one == got; });
    if (key == "$contains") return got.is_array() && std::any_of(got.begin(), got.end(), [&](const json &one) { return matches(value, one); });
    throw wrong{"no matcher " + key};
}

void match(const json &expected, const json &got, const string &where) {
    const wrong bad{where + ": wanted " + brief(expected) + ", got " + brief(got)};
    if (expected.is_object()) {
        for (const auto &[key, value] : expected.items()) {
            if (key[0] == '$') {
                if (!matcher(key, value, got)) throw bad;
                continue;
            }
            if (!got.is_object()) throw bad;
            match(value, got.value(key, json()), where + "." + key);
        }
    } else if (expected.is_array()) {
        if (!got.is_array() || got.size() != expected.size()) throw bad;
        for (std::size_t i = 0; i < got.size(); i++) match(expected[i], got[i], where + "[]");
    } else if (expected != got) {
        throw bad;
    }
}

string repeated(const json &value) {
    if (value.is_string()) return value;
    string out;
    if (value.is_object())
        for (int i = 0; i < value["times"].get<int>(); i++) out += value["repeat"].get<string>();
    return out;
}

// A tar of small files.
string tar_of(const json &files) {
    string out;
    for (const auto &[name, content] : files.items()) {
        const string text = content;
        string head(512, '\0');
        head.replace(0, name.size(), name);
        std::snprintf(&head[100], 8, "%07o", 0644);
        std::snprintf(&head[108], 8, "%07o", 0);
        std::snprintf(&head[116], 8, "%07o", 0);
        std::snprintf(&head[124], 12, "%011o", static_cast<unsigned>(text.size()));
        std::snprintf(&head[136], 12, "%011o", 0);
        head.replace(148, 8, "        ");
        head[156] = '0';
        head.replace(257, 8, string("ustar\00000", 8));
        unsigned sum = 0;
        for (const unsigned char c : head) sum += c;
        std::snprintf(&head[148], 8, "%06o", sum);
        out += head + text + string((512 - text.size() % 512) % 512, '\0');
    }
    return out + string(1024, '\0');
}

// The small files of a tar.
json files_of(const string &tar) {
    json found = json::object();
    for (std::size_t at = 0; at + 512 <= tar.size() && tar[at];) {
        const string name(tar.c_str() + at), prefix(tar.c_str() + at + 345);
        const std::size_t size = std::strtoul(tar.substr(at + 124, 12).c_str(), nullptr, 8);
        if ((tar[at + 156] == '0' || !tar[at + 156]) && size < 4096)
            found[string(name.c_str(), strnlen(name.c_str(), 100))] = tar.substr(at + 512, size);
        at += 512 + (size + 511) / 512 * 512;
    }
    return found;
}

// A thing of a scenario by its name.
struct scope_of_calls {
    std::mutex lock;
    bool cancelled = false;
    std::set<cc::op *> ops;
    void cancel() {
        const std::lock_guard<std::mutex> held(lock);
        cancelled = true;
        for (auto *one : ops) one->cancel();
    }
};
struct descriptor {
    int fd;
    explicit descriptor(int from) : fd(from) {}
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    ~descriptor() { close(); }
    void close() {
        if (fd >= 0) ::close(std::exchange(fd, -1));
    }
};
struct records {
    std::mutex lock;
    json all = json::array();
};
struct thread_of_steps {
    std::thread thread;
    string problem;
    ~thread_of_steps() {
        if (thread.joinable()) thread.join();
    }
};

json document(const string &text) { return json::parse(text, nullptr, false); }

json body_of(const string &text) {
    json made = document(text);
    if (!made.is_discarded()) return made;
    return text.substr(0, text.find_last_not_of("\r\n") + 1);
}

// A request over a connection, which ends with its answer.
json asked(int fd, const string &target) {
    const descriptor held(fd);
    const string head = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if (::send(fd, head.data(), head.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(head.size())) throw wrong{"the connection takes no request"};
    string answer;
    char piece[4096];
    for (ssize_t count; (count = ::read(fd, piece, sizeof piece)) > 0;) answer.append(piece, static_cast<std::size_t>(count));
    const auto end = answer.find("\r\n\r\n");
    if (end == string::npos) throw wrong{"no answer: " + answer};
    string body = answer.substr(end + 4);
    if (answer.find("chunked") < end) {
        const auto size = std::strtoul(body.c_str(), nullptr, 16);
        body = body.substr(body.find("\r\n") + 2, size);
    }
    return {{"status", std::atoi(answer.c_str() + 9)}, {"body", body_of(body)}};
}

class run {
public:
    std::shared_ptr<std::recursive_mutex> lock = std::make_shared<std::recursive_mutex>();
    string dir;
    json values = list["values"];
    std::shared_ptr<std::map<string, std::any>> things = std::make_shared<std::map<string, std::any>>();
    std::shared_ptr<std::map<string, json>> seen = std::make_shared<std::map<string, json>>();

    explicit run(string directory) : dir(std::move(directory)) {
        values.update({{"dir", dir}, {"archive", std::getenv("CORACLE_TEST_IMAGE")}, {"registry", std::getenv("CORACLE_TEST_REGISTRY")}});
        const string run_dir = dir + "/run";
        keep("engine", std::make_shared<cc::engine>(need(cc::engine::open(dir + "/root", {run_dir, R"({"durability":"off"})", 0}))));
        const descriptor file(::open(std::getenv("CORACLE_TEST_IMAGE"), O_RDONLY | O_CLOEXEC));
        cc::source tar(file.fd);
        values["image"] = document(need(thing<cc::engine>("engine").load(tar)))[0];
    }

    void end() {
        auto &engine = thing<cc::engine>("engine");
        for (const json &one : document(need(engine.containers(R"({"all":true})")))) {
            auto gone = engine.container_of(one["Id"]).remove(CORACLE_REMOVE_FORCE | CORACLE_REMOVE_VOLUMES);
            if (!gone && gone.error().code != cc::code::not_found) throw wrong{gone.error().message};
        }
        for (const json &one : document(need(engine.plugins()))) done(engine.remove_plugin(one["Id"].get<string>(), CORACLE_PLUGIN_FORCE));
        need(engine.prune_networks());
        if (!engine.release_networks()) throw wrong{"the networks stay"};
        things->clear();
        std::filesystem::remove_all(dir);
    }

    void steps(const json &all) {
        for (const json &one : all) {
            if (one.contains("needs") && !features.count(one["needs"][0])) continue;
            if (one.contains("use")) {
                steps(list["fragments"][one["use"].get<string>()]);
                continue;
            }
            const auto end = std::chrono::steady_clock::now() + long_wait;
            for (;;) {
                try {
                    once(one);
                    break;
                } catch (const wrong &problem) {
                    if (!one.value("retry", false) || std::chrono::steady_clock::now() > end) throw wrong{brief(one).substr(0, 300) + ": " + problem.text};
                    std::this_thread::sleep_for(50ms);
                }
            }
        }
    }

private:
    // What a step failed with.
    struct failed {
        cc::error error;
    };

    template <class T>
    static T need(cc::result<T> made) {
        if (!made) throw failed{std::move(made.error())};
        return std::move(*made);
    }
    static json done(cc::result<void> made) {
        if (!made) throw failed{std::move(made.error())};
        return nullptr;
    }
    static json text(cc::result<string> made) { return document(need(std::move(made))); }
    static json id(cc::result<string> made) { return {{"id", need(std::move(made))}}; }
    static json code(cc::result<int> made) { return {{"code", need(std::move(made))}}; }
    static json changed(cc::result<bool> made) { return {{"changed", need(std::move(made))}}; }

    void keep(const string &name, std::any one) {
        const std::lock_guard<std::recursive_mutex> held(*lock);
        (*things)[name] = std::move(one);
    }
    template <class T>
    void keep(const json &given, cc::result<T> made) {
        keep(given["as"].get<string>(), std::make_shared<T>(need(std::move(made))));
    }
    template <class T>
    T &thing(const string &name) {
        const std::lock_guard<std::recursive_mutex> held(*lock);
        auto *found = std::any_cast<std::shared_ptr<T>>(&(*things)[name]);
        if (!found) throw wrong{"no " + name};
        return **found;
    }

    json filled(const json &value) const {
        if (value.is_object()) {
            json made = json::object();
            for (const auto &[key, one] : value.items()) made[key] = key == "steps" ? one : filled(one);
            return made;
        }
        if (value.is_array()) {
            json made = json::array();
            for (const json &one : value) made.push_back(filled(one));
            return made;
        }
        if (!value.is_string()) return value;
        string text = value;
        if (!text.empty() && text[0] == '$' && values.contains(text.substr(1))) return values[text.substr(1)];
        replace(text, "$$", "\1");
        std::vector<string> names;
        for (const auto &[name, one] : values.items())
            if (one.is_string()) names.push_back(name);
        std::sort(names.begin(), names.end(), [](const string &a, const string &b) { return a.size() > b.size(); });
        for (const string &name : names) replace(text, "$" + name, values[name]);
        replace(text, "\1", "$");
        return text;
    }
    static void replace(string &text, const string &from, const string &to) {
        for (std::size_t at = 0; (at = text.find(from, at)) != string::npos; at += to.size()) text.replace(at, from.size(), to);
    }

    void once(const json &one) {
        json given;
        {
            const std::lock_guard<std::recursive_mutex> held(*lock);
            given = filled(one);
        }
        cc::op op = need(cc::op::make());
        std::shared_ptr<scope_of_calls> scope;
        if (given.contains("timeout_ms") && given["do"] != "events_next") op.set_timeout(std::chrono::milliseconds(given["timeout_ms"].get<int>()));
        if (given.contains("scope")) {
            const std::lock_guard<std::recursive_mutex> held(*lock);
            scope = std::any_cast<std::shared_ptr<scope_of_calls>>((*things)[given["scope"]]);
        }
        if (scope) {
            const std::lock_guard<std::mutex> held(scope->lock);
            scope->ops.insert(&op);
            if (scope->cancelled) op.cancel();
        }
        json told = json::array();
        if (given.value("refuse", false)) op.on_progress([](std::string_view) { return false; });
        if (given.contains("progress"))
            op.on_progress([&told](std::string_view record) {
                told.push_back(document(string(record)));
                return true;
            });
        json result;
        std::optional<cc::error> error;
        try {
            result = act(given, &op);
        } catch (failed &problem) {
            error = std::move(problem.error);
        }
        if (scope) {
            const std::lock_guard<std::mutex> held(scope->lock);
            scope->ops.erase(&op);
        }
        if (error || given.contains("error")) {
            compare(given, error, result);
            return;
        }
        const std::lock_guard<std::recursive_mutex> held(*lock);
        if (given.contains("progress")) values[given["progress"].get<string>()] = told;
        if (given.contains("expect")) match(given["expect"], result, "result");
        if (!given.contains("save")) return;
        for (const auto &[name, path] : given["save"].items()) {
            json value = result;
            std::istringstream parts(path.get<string>());
            for (string part; std::getline(parts, part, '.');) value = json(value[part]);
            values[name] = value;
        }
    }

    static void compare(const json &given, std::optional<cc::error> &error, const json &result) {
        const string wanted = given.value("error", "success");
        if (!error) throw wrong{"wanted " + wanted + ", got " + brief(result)};
        string got(cc::name(error->code));
        if (got == "CALLBACK" && (given.contains("refuse") || given.contains("broken"))) got = "CALLER";
        if (got != wanted) throw wrong{"wanted " + wanted + ", got " + got + ": " + error->message};
        if (given.contains("status") && given["status"] != error->http_status) throw wrong{"status " + std::to_string(error->http_status)};
        if (given.contains("detail")) {
            match(given["detail"], document(error->detail), "detail");
            if (given["detail"].contains("field") && given["detail"]["field"] != error->field()) throw wrong{"field: " + error->field()};
        }
        if (error->message.find(given.value("has", "")) == string::npos) throw wrong{"wanted " + given.value("has", "") + " in " + error->message};
    }

    json act(const json &given, cc::op *op) {
        const string name = given["do"];
        for (const auto group : {&run::own, &run::library, &run::root, &run::containers, &run::life, &run::sessions, &run::streams, &run::images,
                                 &run::nets, &run::plugins, &run::http})
            if (auto made = (this->*group)(name, given, op)) return *made;
        throw wrong{"no step " + name};
    }
    using answer = std::optional<json>;

    cc::engine &engine(const json &given) { return thing<cc::engine>(given.value("on", "engine")); }
    cc::container container(const json &given) { return engine(given).container_of(given.value("id", "")); }
    static string dump(const json &given, const char *member) { return given.contains(member) ? given[member].dump() : string(); }
    // Not given where the step has no such member.
    static std::string_view view(const string &text) { return text.empty() ? std::string_view() : std::string_view(text); }

    answer own(const string &name, const json &given, cc::op *) {
        if (name == "scope") {
            keep(given["as"].get<string>(), std::make_shared<scope_of_calls>());
        } else if (name == "cancel") {
            thing<scope_of_calls>(given["of"]).cancel();
        } else if (name == "sleep") {
            std::this_thread::sleep_for(std::chrono::milliseconds(given["ms"].get<int>()));
        } else if (name == "value") {
            return given["value"];
        } else if (name == "file_exists") {
            return json(std::filesystem::exists(given["path"].get<string>()));
        } else if (name == "spawn") {
            keep(given["as"].get<string>(), spawned(*this, given["steps"]));
        } else if (name == "join") {
            join(thing<thread_of_steps>(given["of"]));
        } else if (name == "parallel") {
            std::vector<std::unique_ptr<run>> runs;
            std::vector<std::shared_ptr<thread_of_steps>> threads;
            for (int i = 0; i < given["times"].get<int>(); i++) {
                runs.push_back(std::make_unique<run>(*this));
                threads.push_back(spawned(*runs.back(), given["steps"]));
            }
            for (auto &one : threads) join(*one);
        } else if (name == "fork") {
            forked(given["steps"]);
        } else {
            return {};
        }
        return json();
    }

    static std::shared_ptr<thread_of_steps> spawned(run &of, json all) {
        auto made = std::make_shared<thread_of_steps>();
        made->thread = std::thread([&of, all = std::move(all), to = made.get()] {
            try {
                of.steps(all);
            } catch (const wrong &problem) {
                to->problem = problem.text;
            } catch (const std::exception &problem) {
                to->problem = problem.what();
            }
        });
        return made;
    }
    static void join(thread_of_steps &one) {
        one.thread.join();
        if (!one.problem.empty()) throw wrong{one.problem};
    }

    void forked(const json &all) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC)) throw wrong{"no pipe"};
        std::fflush(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            string told = "good";
            try {
                steps(all);
            } catch (const wrong &problem) {
                told = problem.text;
            }
            _exit(write(ends[1], told.data(), told.size()) < 0);
        }
        ::close(ends[1]);
        const descriptor reader(ends[0]);
        char told[4096];
        const ssize_t count = read(reader.fd, told, sizeof told);
        waitpid(child, nullptr, 0);
        const string text(told, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (text != "good") throw wrong{"the child: " + text};
    }

    answer library(const string &name, const json &given, cc::op *) {
        if (name == "version") return json{{"text", cc::version()}, {"number", cc::version_number()}};
        if (name == "build_info") return document(string(cc::build_info()));
        if (name == "has_feature") return json(cc::has_feature(given["name"].get<string>()));
        if (name == "status_name") return json(cc::status_name(given["code"].get<int>()));
        if (name == "set_log") {
            auto kept = std::make_shared<records>();
            keep(given["as"].get<string>(), kept);
            return done(cc::set_log(given["level"].get<int>(), [kept](int level, std::string_view target, std::string_view message) {
                const std::lock_guard<std::mutex> held(kept->lock);
                kept->all.push_back({level, target, message});
            }));
        }
        if (name == "unset_log") return done(cc::set_log(CORACLE_LOG_INFO, {}));
        if (name == "log_records") {
            auto &kept = thing<records>(given["of"]);
            const std::lock_guard<std::mutex> held(kept.lock);
            return kept.all;
        }
        if (name == "host_report") return text(cc::host_report(given["root"].get<string>()));
        if (name == "open") {
            const string run_dir = given["run_dir"], config = dump(given, "config");
            const std::map<string, std::uint64_t> flags = {
                {"existing", CORACLE_OPEN_EXISTING}, {"lenient", CORACLE_OPEN_LENIENT}, {"ephemeral", CORACLE_OPEN_EPHEMERAL}};
            cc::open_options options{run_dir, view(config), 0};
            for (const json &flag : given.value("flags", json::array())) options.flags |= flags.at(flag);
            keep(given, cc::engine::open(given["root"].get<string>(), options));
            return json();
        }
        if (name == "ref") return keep(given, engine(given).again()), json();
        if (name == "close") return engine(given).close(), json();
        return {};
    }

    answer root(const string &name, const json &given, cc::op *op) {
        const string query = dump(given, "query");
        if (name == "engine_info") return text(engine(given).info(op));
        if (name == "engine_version") return text(engine(given).version());
        if (name == "engine_metrics") return text(engine(given).metrics());
        if (name == "engine_disk_usage") return text(engine(given).disk_usage(view(query), op));
        if (name == "engine_reload") return done(engine(given).reload(given["labels"].dump(), given["settings"].dump()));
        if (name == "root_verify") return text(engine(given).verify(view(query), op));
        if (name == "root_leftovers") return text(engine(given).leftovers());
        if (name == "root_sweep") return text(engine(given).sweep(op));
        if (name == "root_copy") return text(engine(given).copy_root(given["dir"].get<string>(), view(query), op));
        if (name == "root_import_docker") return text(engine(given).import_docker(view(query), op));
        if (name == "lease_hold")
            return keep(given["as"].get<string>(), std::make_shared<descriptor>(need(engine(given).lease(given["name"].get<string>())))), json();
        if (name == "lease_free") return thing<descriptor>(given["of"]).close(), json();
        return {};
    }

    answer containers(const string &name, const json &given, cc::op *op) {
        const string query = dump(given, "query"), filters = dump(given, "filters"), body = dump(given, "body"), path = given.value("path", "");
        if (name == "container_create") {
            const string called = given.value("name", "");
            auto made = need(engine(given).create(body, view(called), op));
            json told = document(made.created());
            told["id"] = made.id();
            return told;
        }
        if (name == "container_list") return text(engine(given).containers(view(query)));
        if (name == "container_prune") return text(engine(given).prune_containers(view(filters), op));
        if (name == "container_inspect") return text(container(given).inspect(given.value("size", false)));
        if (name == "container_explain") return text(container(given).explain());
        if (name == "container_top") {
            const string arguments = given.value("ps_args", "");
            return text(container(given).top(view(arguments)));
        }
        if (name == "container_stats") {
            auto samples = need(container(given).stats(view(query), op));
            json all = json::array();
            while (static_cast<int>(all.size()) < given.value("count", 1)) {
                auto frame = need(samples.next(op));
                if (!frame) break;
                all.push_back(document(string(frame->data)));
            }
            return all;
        }
        if (name == "container_rename") return done(container(given).rename(given["name"].get<string>()));
        if (name == "container_update") return text(container(given).update(body, op))["Warnings"];
        if (name == "container_stat_path") return text(container(given).stat_path(path, op));
        if (name == "container_get_archive") {
            auto stream = need(container(given).get_archive(path, op));
            return json{{"files", files_of(need(stream.read_all(op)))}, {"stat", text(container(given).stat_path(path))}};
        }
        if (name == "container_put_archive")
            return with_source(given, [&](cc::source &tar) { return done(container(given).put_archive(path, tar, {}, op)); });
        if (name == "container_export") return json{{"files", files_of(need(need(container(given).export_tar(op)).read_all(op)))}};
        if (name == "container_changes") return text(container(given).changes(op));
        if (name == "container_commit") return id(container(given).commit(query, {}, op));
        return {};
    }

    template <class F>
    json with_source(const json &given, F call) {
        if (given.value("broken", false)) {
            cc::source tar([](char *, std::size_t) -> std::int64_t { throw std::runtime_error("the source is broken"); });
            return call(tar);
        }
        if (given.contains("path") && given["do"] == "image_load") {
            const descriptor file(::open(given["path"].get<string>().c_str(), O_RDONLY | O_CLOEXEC));
            cc::source tar(file.fd);
            return call(tar);
        }
        const string whole = given.contains("bytes") ? repeated(given["bytes"]) : tar_of(given["files"]);
        std::size_t at = 0;
        cc::source tar([&](char *buffer, std::size_t length) {
            const std::size_t count = std::min(length, whole.size() - at);
            std::memcpy(buffer, whole.data() + at, count);
            at += count;
            return static_cast<std::int64_t>(count);
        });
        return call(tar);
    }

    answer life(const string &name, const json &given, cc::op *op) {
        auto c = name.rfind("container_", 0) == 0 || name == "begin_wait" ? container(given) : cc::container(nullptr, "");
        const auto grace = std::chrono::milliseconds(given.value("grace_ms", 0));
        if (name == "container_start") {
            if (!given.value("attach", false)) return changed(c.start(op));
            cc::io streams;
            streams.rows = given.value<std::uint16_t>("rows", 0);
            streams.cols = given.value<std::uint16_t>("cols", 0);
            return keep(given, c.start_attached(streams, op)), json{{"changed", true}};
        }
        const string query = dump(given, "query"), how = dump(given, "how"), signal = given.value("signal", "");
        if (name == "container_attach") return keep(given, c.attach(view(query), {}, op)), json();
        if (name == "container_stop") return changed(c.stop(grace, op));
        if (name == "container_stop_with") return changed(c.stop_with(how, op));
        if (name == "container_restart") return done(c.restart(grace, op));
        if (name == "container_restart_with") return done(c.restart_with(how, op));
        if (name == "container_kill") return done(c.kill(view(signal), op));
        if (name == "container_pause") return done(c.pause(op));
        if (name == "container_unpause") return done(c.unpause(op));
        const string condition = given.value("condition", "");
        if (name == "container_wait") return code(c.wait(op, view(condition)));
        if (name == "begin_wait") return keep(given, c.begin_wait(view(condition))), json();
        if (name == "pending_result") return code(thing<cc::pending>(given["of"]).wait());
        if (name == "container_pidfd") {
            auto fd = std::make_shared<descriptor>(need(c.pidfd()));
            struct pollfd set = {fd->fd, POLLIN, 0};
            const bool ended = ::poll(&set, 1, 0) == 1;
            if (given.contains("as")) keep(given["as"].get<string>(), fd);
            return json{{"ended", ended}};
        }
        if (name == "pidfd_wait") {
            struct pollfd set = {thing<descriptor>(given["of"]).fd, POLLIN, 0};
            if (::poll(&set, 1, static_cast<int>(long_wait.count()) * 1000) != 1) throw wrong{"the descriptor does not become readable"};
            return json();
        }
        if (name == "container_remove")
            return done(c.remove((given.value("force", false) ? CORACLE_REMOVE_FORCE : 0) | (given.value("volumes", false) ? CORACLE_REMOVE_VOLUMES : 0), op));
        return {};
    }

    static cc::channel channel_of(const string &name) {
        return name == "stdin" ? cc::channel::in : name == "stdout" ? cc::channel::out : cc::channel::err;
    }

    answer sessions(const string &name, const json &given, cc::op *op) {
        const string of = given.value("of", ""), body = dump(given, "body");
        if (name == "session_read") return read_until(thing<cc::session>(of), given, op);
        if (name == "session_write") return json{{"count", need(thing<cc::session>(of).write(given["data"].get<string>(), op))}};
        if (name == "session_close_stdin") return done(thing<cc::session>(of).close_stdin());
        if (name == "session_streams") return communicate(thing<cc::session>(of), repeated(given["input"]));
        if (name == "session_fd") {
            auto fd = thing<cc::session>(of).fd(channel_of(given["channel"]));
            if (!fd && fd.error().code != cc::code::not_found) throw failed{fd.error()};
            return json(static_cast<bool>(fd));
        }
        if (name == "session_resize") return done(thing<cc::session>(of).resize(given["rows"].get<std::uint16_t>(), given["cols"].get<std::uint16_t>()));
        if (name == "session_wait") return code(thing<cc::session>(of).wait(op));
        if (name == "session_free") return thing<cc::session>(of).close(), json();
        if (name == "exec_create") return json{{"id", need(container(given).prepare(body)).id()}};
        if (name == "exec_start") {
            auto x = engine(given).exec_of(given["id"]);
            if (!given.value("attach", false)) return done(x.start(op));
            return keep(given, x.start_attached({}, op)), json();
        }
        if (name == "exec_wait") return code(engine(given).exec_of(given["id"]).wait(op));
        if (name == "exec_inspect") return text(engine(given).exec_of(given["id"]).inspect());
        return {};
    }

    json read_until(cc::session &s, const json &given, cc::op *op) {
        json &read = [&]() -> json & {
            const std::lock_guard<std::recursive_mutex> held(*lock);
            json &found = (*seen)[given["of"]];
            if (found.is_null()) found = {{"stdout", ""}, {"stderr", ""}};
            return found;
        }();
        const string until = given.value("until", ""), only = given.value("channel", "");
        const auto there = [&] {
            for (const auto &[name, text] : read.items())
                if (!until.empty() && (only.empty() || only == name) && text.get<string>().find(until) != string::npos) return true;
            return false;
        };
        char room[4096];
        while (!there()) {
            const auto piece = need(s.read(room, sizeof room, op));
            if (piece.count == 0) break;
            json &to = read[piece.channel == cc::channel::out ? "stdout" : "stderr"];
            to = to.get<string>() + string(room, piece.count);
        }
        if (!until.empty() && !there()) throw wrong{"the output ended without " + until + ": " + brief(read)};
        return read;
    }

    json communicate(cc::session &s, const string &input) {
        const descriptor in(need(s.take_fd(cc::channel::in))), out(need(s.take_fd(cc::channel::out))), err(need(s.take_fd(cc::channel::err)));
        string told[2];
        std::thread writer([&] {
            for (std::size_t at = 0; at < input.size();) {
                const ssize_t count = ::send(in.fd, input.data() + at, input.size() - at, MSG_NOSIGNAL);
                if (count < 0) break;
                at += static_cast<std::size_t>(count);
            }
            static_cast<void>(s.close_stdin());
            ::shutdown(in.fd, SHUT_WR);
        });
        std::thread reader([&] { drain(err.fd, told[1]); });
        drain(out.fd, told[0]);
        reader.join();
        writer.join();
        return {{"stdout", told[0]}, {"stderr", told[1]}};
    }
    static void drain(int fd, string &to) {
        char piece[65536];
        for (ssize_t count; (count = ::read(fd, piece, sizeof piece)) > 0;) to.append(piece, static_cast<std::size_t>(count));
    }

    static json line(const cc::stream::frame &frame) {
        string text(frame.data);
        while (!text.empty() && text.back() == '\n') text.pop_back();
        return {{"channel", frame.channel == cc::channel::out ? "stdout" : "stderr"}, {"text", text}};
    }

    answer streams(const string &name, const json &given, cc::op *op) {
        const string of = given.value("of", ""), query = dump(given, "query");
        if (name == "container_logs") {
            auto logs = need(container(given).logs(view(query), op));
            json all = json::array();
            while (auto frame = need(logs.next(op))) all.push_back(line(*frame));
            return all;
        }
        if (name == "logs_open") return keep(given, container(given).logs(view(query), op)), json();
        if (name == "logs_next") {
            auto frame = need(thing<cc::stream>(of).next(op));
            return frame ? line(*frame) : json();
        }
        if (name == "stream_fd") return json(need(thing<cc::stream>(of).fd()) >= 0);
        if (name == "stream_lost") return json(need(thing<cc::stream>(of).lost()));
        if (name == "stream_free") return thing<cc::stream>(of).close(), json();
        if (name == "events_open") return keep(given, engine(given).events(view(query))), json();
        if (name == "events_fd") return json(need(thing<cc::events>(of).fd()) >= 0);
        if (name == "events_free") return thing<cc::events>(of).close(), json();
        if (name == "events_next") {
            auto got = need(thing<cc::events>(of).next(std::chrono::milliseconds(given.value("timeout_ms", static_cast<int>(long_wait.count()) * 1000))));
            if (got.state == cc::events::state::again) return json{{"again", true}};
            return got.state == cc::events::state::done ? json{{"done", true}} : document(got.json);
        }
        if (name == "events_until") {
            json actions = json::array();
            while (actions.empty() || actions.back() != given["action"]) {
                auto got = need(thing<cc::events>(of).next(long_wait));
                if (got.state != cc::events::state::event) throw wrong{"the events end at " + brief(actions)};
                actions.push_back(document(got.json)["Action"]);
            }
            return actions;
        }
        return {};
    }

    answer images(const string &name, const json &given, cc::op *op) {
        const string ref = given.value("ref", ""), query = dump(given, "query"), filters = dump(given, "filters"), auth = dump(given, "auth");
        auto &e = engine(given);
        if (name == "image_list") return text(e.images(view(query)));
        if (name == "image_inspect") return text(e.image(ref));
        if (name == "image_history") return text(e.history(ref));
        if (name == "image_tag") return done(e.tag(ref, given["new_ref"].get<string>()));
        if (name == "image_remove")
            return text(e.remove_image(
                ref, (given.value("force", false) ? CORACLE_IMAGE_REMOVE_FORCE : 0) | (given.value("no_prune", false) ? CORACLE_IMAGE_REMOVE_NO_PRUNE : 0), op));
        if (name == "image_prune") return text(e.prune_images(view(filters), op));
        if (name == "build_prune") return text(e.prune_caches(view(filters), op));
        if (name == "image_load") return with_source(given, [&](cc::source &tar) { return text(e.load(tar, op)); });
        if (name == "image_import") return with_source(given, [&](cc::source &tar) { return id(e.import_rootfs(tar, query, op)); });
        if (name == "image_build") return with_source(given, [&](cc::source &tar) { return id(e.build(tar, query, op)); });
        if (name == "image_save") {
            const string all = need(need(e.save(json{{"names", given["names"]}, {"layout", given["layout"]}}.dump(), op)).read_all(op));
            std::ofstream(given["file"].get<string>(), std::ios::binary) << all;
            return json{{"bytes", all.size()}};
        }
        if (name == "image_build_dir") {
            string made = dir + "/context-XXXXXX";
            if (!mkdtemp(made.data())) throw wrong{"no directory"};
            for (const auto &[file, content] : given["files"].items()) std::ofstream(made + "/" + file) << content.get<string>();
            const descriptor directory(::open(made.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            return id(e.build_dir(directory.fd, query, op));
        }
        if (name == "image_pull") return id(e.pull_platform(ref, given.value("platform", ""), {}, op));
        if (name == "image_push") return text(e.push(ref, {}, op));
        if (name == "image_search") return text(e.search(query, {}, op));
        if (name == "registry_inspect") return text(e.inspect_remote(ref, {}, op));
        if (name == "registry_auth") return text(e.check_login(auth, op));
        return {};
    }

    answer nets(const string &name, const json &given, cc::op *op) {
        const string query = dump(given, "query"), filters = dump(given, "filters"), body = dump(given, "body"), which = given.value("id", ""),
                     called = given.value("name", "");
        auto &e = engine(given);
        if (name == "volume_create") return text(e.create_volume(body, op));
        if (name == "volume_list") return text(e.volumes(view(query)));
        if (name == "volume_inspect") return text(e.volume(called));
        if (name == "volume_remove") return done(e.remove_volume(called, op));
        if (name == "volume_prune") return text(e.prune_volumes(view(filters), op));
        if (name == "network_create") return id(e.create_network(body, op));
        if (name == "network_list") return text(e.networks(view(query)));
        if (name == "network_inspect") return text(e.network(which));
        if (name == "network_connect") return done(e.connect(which, body, op));
        if (name == "network_disconnect") return done(e.disconnect(which, body, op));
        if (name == "network_remove") return done(e.remove_network(which, op));
        if (name == "network_prune") return text(e.prune_networks(view(filters), op));
        if (name == "network_repair") return done(e.repair_networks(op));
        if (name == "network_release") return done(e.release_networks(op));
        return {};
    }

    answer plugins(const string &name, const json &given, cc::op *op) {
        const string which = given.value("name", ""), body = dump(given, "body"), auth = dump(given, "auth"), query = dump(given, "query");
        const std::uint64_t flags = given.value("force", false) ? CORACLE_PLUGIN_FORCE : 0;
        auto &e = engine(given);
        if (name == "plugin_list") return text(e.plugins(view(query)));
        if (name == "plugin_inspect") return text(e.plugin(which));
        if (name == "plugin_privileges") return text(e.plugin_privileges(given["remote"].get<string>(), view(auth), op));
        if (name == "plugin_pull") return id(e.pull_plugin(body, op));
        if (name == "plugin_upgrade") return done(e.upgrade_plugin(which, view(body), op));
        if (name == "plugin_enable") return done(e.enable_plugin(which, std::chrono::duration<std::uint32_t>(given.value("seconds", 0U)), op));
        if (name == "plugin_disable") return done(e.disable_plugin(which, flags, op));
        if (name == "plugin_remove") return done(e.remove_plugin(which, flags, op));
        if (name == "plugin_set") return done(e.set_plugin(which, given["changes"].dump()));
        return {};
    }

    answer http(const string &name, const json &given, cc::op *op) {
        const string body = dump(given, "body"), headers = dump(given, "headers");
        if (name == "http_request") {
            auto got = need(engine(given).request(given["method"].get<string>(), given["target"].get<string>(), body, view(headers), op));
            return json{{"status", got.status}, {"body", body_of(need(got.body.read_all(op)))}};
        }
        if (name == "http_connect") return asked(need(engine(given).connect_http()), given["target"]);
        if (name == "http_get_unix") {
            struct sockaddr_un address = {};
            address.sun_family = AF_UNIX;
            const string path = given["path"];
            path.copy(address.sun_path, sizeof address.sun_path - 1);
            const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (::connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address)) throw wrong{"no server"};
            return asked(fd, given["target"]);
        }
        if (name == "http_serve") return keep(given, engine(given).serve(given["options"].dump())), json();
        const string of = given.value("of", "");
        if (name == "http_server_addresses") return text(thing<cc::server>(of).addresses());
        if (name == "http_server_shutdown") return done(thing<cc::server>(of).shutdown(std::chrono::milliseconds(given["grace_ms"].get<int>()), op));
        if (name == "http_server_free") return thing<cc::server>(of).close(), json();
        return {};
    }

    friend string why(const json &scenario);
};

// Why a scenario failed, or "".
string why(const json &scenario) {
    string dir = string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/scn-XXXXXX";
    if (!mkdtemp(dir.data())) return "no directory";
    string problem;
    try {
        run one(dir);
        try {
            one.steps(scenario["steps"]);
        } catch (const wrong &found) {
            problem = found.text;
        }
        one.end();
    } catch (const wrong &found) {
        problem += " at the end: " + found.text;
    } catch (const run::failed &found) {
        problem += " at the end: " + found.error.message;
    } catch (const std::exception &found) {
        problem += found.what();
    }
    return problem;
}

}  // namespace

int main(int argc, char **argv) {
    std::ifstream file(std::getenv("CORACLE_SCENARIOS"));
    list = json::parse(file);
    int passed = 0, bad = 0;
    for (const json &scenario : list["scenarios"]) {
        const string name = scenario["name"];
        if (argc > 1 && name.find(argv[1]) == string::npos) continue;
        if (scenario.contains("needs") && !features.count(scenario["needs"][0])) {
            std::cout << "not for C++: " << name << " (" << scenario["needs"][0].get<string>() << ")\n";
            continue;
        }
        const string problem = why(scenario);
        problem.empty() ? passed++ : bad++;
        if (!problem.empty()) std::cout << "failed: " << name << "\n    " << problem << std::endl;
    }
    std::cout << passed << " passed, " << bad << " failed\n";
    return bad != 0;
}
