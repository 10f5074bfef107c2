-- Runs the scenarios that all bindings share (bindings/scenarios) by the Lua binding. Environment: as of the runner of Python.

local ffi = require "ffi"
local coracle = require "coracle"
local json = coracle.json

ffi.cdef [[
ssize_t read(int fd, void *buf, size_t count);
ssize_t write(int fd, const void *buf, size_t count);
int socket(int domain, int type, int protocol);
struct coracle_lua_sockaddr { unsigned short family; char path[108]; };
int connect(int fd, const struct coracle_lua_sockaddr *address, unsigned int length);
char *mkdtemp(char *path);
]]

local function file(path)
    local opened = assert(io.open(path, "rb"))
    local text = opened:read("*a")
    opened:close()
    return text
end

local LIST = json.decode(file(os.getenv "CORACLE_SCENARIOS"))
local IMAGE, REGISTRY = os.getenv "CORACLE_TEST_IMAGE", os.getenv "CORACLE_TEST_REGISTRY"
local FEATURES = { dynamic = true }
local LONG = tonumber(os.getenv "CORACLE_TEST_SECONDS" or "300")
-- Scenarios that cannot be run in Lua, with the reasons; those with other threads are found by their steps.
local LEFT_OUT = {
    ["the log sink gets the library's messages and ends"] = "the library calls the sink on threads of its own, where no Lua may run",
    ["a level of the log that does not exist is refused"] = "the library calls the sink on threads of its own, where no Lua may run",
}
local THREADS = { spawn = true, parallel = true, scope = true }

local Wrong = {}
local CALLER = {}

local function wrong(message, ...)
    error(setmetatable({ message = message:format(...) }, Wrong), 0)
end

local function show(value)
    if type(value) ~= "table" then return tostring(value) end
    local good, text = pcall(json.encode, value)
    return (good and text or tostring(value)):sub(1, 500)
end

local function size(value)
    if value == nil or value == json.null then return 0 end
    local count = #value
    if type(value) == "table" and count == 0 then for _ in pairs(value) do count = count + 1 end end
    return count
end

local match
local MATCHERS = {
    ["$has"] = function(value, got) return type(got) == "string" and got:find(value, 1, true) ~= nil end,
    ["$above"] = function(value, got) return type(got) == "number" and got > value end,
    ["$len"] = function(value, got) return size(got) == value end,
    ["$len_above"] = function(value, got) return size(got) > value end,
    ["$not"] = function(value, got) return got ~= nil and got ~= json.null and got ~= value end,
    ["$one_of"] = function(value, got)
        for _, one in ipairs(value) do if one == got then return true end end
        return false
    end,
    ["$contains"] = function(value, got)
        for _, one in ipairs(type(got) == "table" and got or {}) do if pcall(match, value, one, "") then return true end end
        return false
    end,
}

local function match_object(expected, got, where)
    for key, value in pairs(expected) do
        if MATCHERS[key] then
            if not MATCHERS[key](value, got) then wrong("%s: wanted %s %s, got %s", where, key, show(value), show(got)) end
        else
            if type(got) ~= "table" then wrong("%s: wanted an object, got %s", where, show(got)) end
            match(value, got[key], where .. "." .. key)
        end
    end
end

function match(expected, got, where)
    if expected == json.null then expected = nil end
    if got == json.null then got = nil end
    if type(expected) ~= "table" then
        if expected ~= got then wrong("%s: wanted %s, got %s", where, show(expected), show(got)) end
    elseif #expected > 0 then
        if type(got) ~= "table" or #got ~= #expected then wrong("%s: wanted %s, got %s", where, show(expected), show(got)) end
        for at, one in ipairs(expected) do match(one, got[at], where .. "[" .. at .. "]") end
    else
        match_object(expected, got, where)
    end
end

-- ---- archives ----

local function padded(text) return text .. ("\0"):rep(-#text % 512) end

local function tar_of(files)
    local parts = {}
    for name, text in pairs(files) do
        local head = name .. ("\0"):rep(100 - #name) .. "0000644\0" .. "0000000\0" .. "0000000\0" .. ("%011o\0"):format(#text) .. "00000000000\0"
        local tail = "0" .. ("\0"):rep(100) .. "ustar\00000" .. ("\0"):rep(247)
        local sum = 8 * 32
        for at = 1, #head do sum = sum + head:byte(at) end
        for at = 1, #tail do sum = sum + tail:byte(at) end
        parts[#parts + 1] = padded(head .. ("%06o\0 "):format(sum) .. tail) .. padded(text)
    end
    return table.concat(parts) .. ("\0"):rep(1024)
end

-- The small files of a tar.
local function files_of(stream)
    local bytes, found, at = stream:read_all(), {}, 1
    stream:close()
    while at < #bytes and bytes:byte(at) ~= 0 do
        local name, length = bytes:sub(at, at + 99):match("^[^%z]*"), tonumber(bytes:sub(at + 124, at + 134), 8) or 0
        if bytes:sub(at + 156, at + 156):match("[0%z]") and length < 4096 then found[name] = bytes:sub(at + 512, at + 511 + length) end
        at = at + 512 + length + (-length % 512)
    end
    return found
end

-- A function that gives a text piece by piece.
local function giver(text)
    return function(length)
        local piece = text:sub(1, length)
        text = text:sub(length + 1)
        return piece
    end
end

local function repeated(value)
    return type(value) == "table" and value["repeat"]:rep(value.times) or value or ""
end

-- ---- HTTP ----

local function parsed(body)
    local good, value = pcall(json.decode, body)
    return good and value or (body:gsub("%s+$", ""))
end

local function asked(fd, target)
    local request = "GET " .. target .. " HTTP/1.0\r\nHost: localhost\r\n\r\n"
    ffi.C.write(fd, request, #request)
    local buffer, pieces = ffi.new("char[4096]"), {}
    while true do
        local count = tonumber(ffi.C.read(fd, buffer, 4096))
        if count <= 0 then break end
        pieces[#pieces + 1] = ffi.string(buffer, count)
    end
    ffi.C.close(fd)
    local answer = table.concat(pieces)
    local status, body = answer:match("^HTTP/1.%d (%d+).-\r\n\r\n(.*)$")
    return { status = tonumber(status), body = parsed(body) }
end

-- ---- a scenario ----

local Run = {}
Run.__index = Run

local function sleep(seconds) ffi.C.poll(nil, 0, math.floor(seconds * 1000)) end

local function new_run(directory)
    local run = setmetatable({ directory = directory, things = {}, seen = {} }, Run)
    run.values = { dir = directory, archive = IMAGE, registry = REGISTRY }
    for name, value in pairs(LIST.values) do run.values[name] = value end
    run.engine = coracle.open(directory .. "/root", { run_dir = directory .. "/run", durability = "off" })
    run.things.engine = run.engine
    run.values.image = run.engine:load(IMAGE)[1]
    return run
end

function Run:finish()
    local engine = self.engine
    for _, found in ipairs(engine:container_list({ query = { all = true } }).json) do
        pcall(engine.container_remove, engine, { id = found.Id, flags = 3 })
    end
    for _, plugin in ipairs(engine:plugin_list({}).json) do engine:plugin_remove { name = plugin.Id, flags = 1 } end
    engine:network_prune {}
    engine:network_release {}
    for _, thing in pairs(self.things) do
        if type(thing) == "table" then thing:close() else ffi.C.close(thing) end
    end
end

-- The value with the values of names such as $id; $$ is a dollar sign.
function Run:filled(value)
    if type(value) == "table" and value ~= json.null then
        local made = setmetatable({}, getmetatable(value))
        for key, one in pairs(value) do made[key] = self:filled(one) end
        return made
    end
    if type(value) ~= "string" or not value:find("$", 1, true) then return value end
    local found = self.values[value:sub(2)]
    if value:sub(1, 1) == "$" and found ~= nil then
        return LIST.values[value:sub(2)] and type(found) == "table" and self:filled(found) or found
    end
    return (value:gsub("%$(%$?)([%w_]*)", function(dollar, name)
        if dollar ~= "" then return "$" .. name end
        -- The longest name that the text begins with.
        for length = #name, 1, -1 do
            local known = self.values[name:sub(1, length)]
            if type(known) == "string" then return known .. name:sub(length + 1) end
        end
        return "$" .. name
    end))
end

function Run:steps(steps)
    for _, step in ipairs(steps) do
        local runs = true
        for _, feature in ipairs(step.needs or {}) do runs = runs and FEATURES[feature] end
        if runs and step.use then self:steps(LIST.fragments[step.use])
        elseif runs then self:step(step) end
    end
end

function Run:step(step)
    local deadline = os.time() + LONG
    while true do
        local good, problem = pcall(self.once, self, step)
        if good then return end
        if getmetatable(problem) ~= Wrong then error(problem, 0) end
        if not step["retry"] or os.time() > deadline then wrong("%s: %s", show(step):sub(1, 200), problem.message) end
        sleep(0.05)
    end
end

local function code_of(problem)
    if coracle.is_error(problem) then return problem.kind end
    if problem == CALLER then return "CALLER" end
    return type(problem) == "string" and problem:match("^TYPE") or tostring(problem)
end

local function failed(given, problem)
    local code = code_of(problem)
    if code ~= given.error then wrong("wanted %s, got %s: %s", given.error or "success", code, tostring(problem)) end
    if given.status then match(given.status, problem.status, "status") end
    if given.detail then match(given.detail, problem.detail, "detail") end
    if given.has and not tostring(problem):find(given.has, 1, true) then wrong("wanted %s in %s", given.has, tostring(problem)) end
end

function Run:once(step)
    local given = self:filled(step)
    local good, result = pcall(self.perform, self, given)
    if not good then
        if getmetatable(result) == Wrong then error(result, 0) end
        return failed(given, result)
    end
    if given.error then wrong("wanted %s, got %s", given.error, show(result)) end
    if given.expect ~= nil then match(given.expect, result, "result") end
    for name, path in pairs(given.save or {}) do
        local value = result
        for part in path:gmatch("[^.]+") do value = value[part] end
        self.values[name] = value
    end
end

function Run:on(given) return self.things[given.on or "engine"] end

function Run:how(given)
    local how = { timeout = given.timeout_ms and given.timeout_ms / 1000 }
    if given.refuse then how.progress = function() error(CALLER, 0) end end
    if given.progress then
        local records = json.list()
        self.values[given.progress] = records
        how.progress = function(record) records[#records + 1] = record end
    end
    return how
end

local function source(given)
    if given.broken then return function() error(CALLER, 0) end end
    if given.path and given["do"] == "image_load" then return given.path end
    return giver(given.bytes and repeated(given.bytes) or tar_of(given.files))
end

-- Members of a step that are no arguments.
local OWN = {}
for name in ("do on of as error status detail has expect save timeout_ms progress refuse retry needs"):gmatch("%S+") do OWN[name] = true end

local function arguments_of(given)
    local arguments = {}
    for name, value in pairs(given) do if not OWN[name] then arguments[name] = value end end
    return arguments
end

local steps = {}

-- A step without a function of its own calls the function of that name with the step's members.
function Run:perform(given)
    local name = given["do"]
    local own = steps[name]
    if own then return own(self, given) end
    local engine = self:on(given)
    return engine[name](engine, arguments_of(given), self:how(given)).json
end

local function of(run, given) return run.things[given.of] end
local function keep(run, given, thing) run.things[given.as] = thing end
local function flags(...)
    local sum = 0
    for bit, set in ipairs { ... } do if set == true then sum = sum + 2 ^ (bit - 1) end end
    return sum
end
-- A function whose answer's member the scenarios have under a name.
local function answering(name, member, as)
    steps[name] = function(run, given)
        local engine = run:on(given)
        return { [as or member] = engine[name](engine, arguments_of(given), run:how(given))[member] }
    end
end
answering("container_wait", "code")
answering("container_commit", "id")
answering("exec_wait", "code")
answering("exec_create", "id")
answering("network_create", "id")
answering("plugin_pull", "id")
for _, name in ipairs { "container_stop", "container_stop_with" } do
    steps[name] = function(run, given)
        local engine = run:on(given)
        return { changed = not engine[name](engine, arguments_of(given), run:how(given)).unchanged }
    end
end

function steps.sleep(_, given) sleep(given.ms / 1000) end
function steps.value(_, given) return given.value end
function steps.file_exists(_, given) return os.rename(given.path, given.path) and true or false end

function steps.version()
    local text, major, minor, patch = coracle.version()
    return { text = text, number = major * 65536 + minor * 256 + patch }
end
function steps.build_info() return coracle.build_info() end
function steps.has_feature(_, given) return coracle.has_feature(given.name) end
function steps.status_name(_, given) return coracle.status_name(given.code) end
function steps.host_report(_, given) return coracle.host_report(given.root) end

function steps.open(run, given)
    local options = { run_dir = given.run_dir, flags = given.flags }
    for key, value in pairs(given.config or {}) do options[key] = value end
    keep(run, given, coracle.open(given.root, options))
end
function steps.ref(run, given) keep(run, given, run:on(given):again()) end
function steps.close(run, given) run:on(given):close() end

function steps.container_create(run, given)
    local answer = run:on(given):container_create({ name = given.name, body = given.body }, run:how(given))
    return { id = answer.id, Warnings = answer.json.Warnings }
end
function steps.container_start(run, given)
    if not given.attach then return { changed = not run:on(given):container_start({ id = given.id }).unchanged } end
    local answer = run:on(given):container_start { id = given.id, io = { rows = given.rows, cols = given.cols } }
    keep(run, given, answer.session or run:on(given):container(given.id):attach())
    return { changed = true }
end
function steps.container_attach(run, given)
    local query = given.query or { stdin = true, stdout = true, stderr = true }
    keep(run, given, run:on(given):container_attach({ id = given.id, query = query }).session)
end
function steps.container_inspect(run, given) return run:on(given):container_inspect({ id = given.id, with_size = given.size }).json end
function steps.begin_wait(run, given) keep(run, given, run:on(given):begin("container_wait", { id = given.id, condition = given.condition })) end
function steps.pending_result(run, given) return { code = of(run, given):result(LONG).code } end
function steps.container_pidfd(run, given)
    local fd = run:on(given):container_pidfd({ id = given.id }).fd
    run.things[given.as or "pidfd"] = fd
    return { ended = coracle.readable(fd, 0) }
end
function steps.pidfd_wait(run, given)
    if not coracle.readable(of(run, given), LONG) then wrong("the descriptor does not become readable") end
end
function steps.container_remove(run, given)
    run:on(given):container_remove({ id = given.id, flags = flags(given.force, given.volumes) }, run:how(given))
end
function steps.container_update(run, given)
    return run:on(given):container_update({ id = given.id, body = given.body }).json.Warnings or json.list()
end
function steps.container_stats(run, given)
    local query = given.count and { stream = true } or { stream = false, ["one-shot"] = true }
    local stream, samples = run:on(given):container_stats({ id = given.id, query = query }).stream, json.list()
    assert(stream:fileno() >= 0)
    for at = 1, given.count or 1 do samples[at] = json.decode(stream:next().data) end
    stream:close()
    return samples
end
function steps.container_get_archive(run, given)
    local answer = run:on(given):container_get_archive { id = given.id, path = given.path }
    return { files = files_of(answer.stream), stat = answer.json }
end
function steps.container_put_archive(run, given)
    run:on(given):container_put_archive({ id = given.id, path = given.path, tar = source(given) }, run:how(given))
end
function steps.container_export(run, given) return { files = files_of(run:on(given):container_export({ id = given.id }).stream) } end
function steps.lease_hold(run, given) keep(run, given, run:on(given):lease_hold({ name = given.name }).fd) end
function steps.lease_free(run, given)
    ffi.C.close(of(run, given))
    run.things[given.of] = nil
end

function steps.session_read(run, given)
    local seen = run.seen[given.of] or { stdout = "", stderr = "" }
    run.seen[given.of] = seen
    local function there()
        for name, text in pairs(seen) do
            if given["until"] and (given.channel or name) == name and text:find(given["until"], 1, true) then return true end
        end
    end
    while not there() do
        local channel, piece = of(run, given):read(run:how(given))
        if not channel then break end
        seen[channel] = seen[channel] .. piece
    end
    if given["until"] and not there() then wrong("the output ended without %s", given["until"]) end
    return seen
end
function steps.session_write(run, given) return { count = of(run, given):write(given.data) } end
function steps.session_close_stdin(run, given) of(run, given):close_stdin() end
function steps.session_streams(run, given)
    local stdout, stderr = of(run, given):communicate(repeated(given.input), { timeout = LONG })
    return { stdout = stdout, stderr = stderr }
end
function steps.session_fd(run, given) return of(run, given):fileno(given.channel) ~= nil end
function steps.session_resize(run, given) of(run, given):resize(given.rows, given.cols) end
function steps.session_wait(run, given) return { code = of(run, given):wait(run:how(given)) } end
function steps.session_free(run, given) of(run, given):close() end
steps.stream_free, steps.events_free, steps.http_server_free = steps.session_free, steps.session_free, steps.session_free
function steps.exec_start(run, given)
    local answer = run:on(given):exec_start { id = given.id, io = given.attach and {} or nil }
    if given.attach then keep(run, given, answer.session) end
end

local function line_of(record) return { channel = record.channel, text = (record.data:gsub("\n$", "")) } end
function steps.container_logs(run, given)
    local query, lines = given.query or {}, json.list()
    if not (query.stdout or query.stderr) then query.stdout, query.stderr = true, true end
    for record in run:on(given):container_logs({ id = given.id, query = query }).stream:each() do lines[#lines + 1] = line_of(record) end
    return lines
end
function steps.logs_open(run, given)
    given.query.stdout, given.query.stderr = true, true
    keep(run, given, run:on(given):container_logs({ id = given.id, query = given.query }).stream)
end
function steps.logs_next(run, given) return line_of(of(run, given):next(run:how(given))) end
function steps.stream_fd(run, given) return of(run, given):fileno() >= 0 end
steps.events_fd = steps.stream_fd
function steps.stream_lost(run, given) return of(run, given):lost() end
function steps.events_open(run, given) keep(run, given, run:on(given):events(given.query)) end
function steps.events_next(run, given)
    local event, ended = of(run, given):next(given.timeout_ms and given.timeout_ms / 1000)
    return event or (ended and { done = true } or { again = true })
end
function steps.events_until(run, given)
    local actions = json.list()
    while actions[#actions] ~= given.action do
        local event = of(run, given):next(LONG)
        if not event then wrong("the events end at %s", show(actions)) end
        actions[#actions + 1] = event.Action
    end
    return actions
end

function steps.image_remove(run, given) return run:on(given):image_remove({ ref = given.ref, flags = flags(given.force, given.no_prune) }).json end
function steps.image_pull(run, given)
    local how = run:how(given)
    how.platform = given.platform
    return { id = run:on(given):pull(given.ref, how) }
end
function steps.image_load(run, given) return run:on(given):load(source(given), run:how(given)) end
function steps.image_save(run, given)
    local stream = run:on(given):image_save({ refs = { names = given.names, layout = given.layout } }).stream
    local bytes = stream:read_all()
    stream:close()
    if given.file then
        local opened = assert(io.open(given.file, "wb"))
        opened:write(bytes)
        opened:close()
    end
    return { bytes = #bytes }
end
for _, name in ipairs { "image_import", "image_build" } do
    steps[name] = function(run, given)
        local engine = run:on(given)
        return { id = engine[name](engine, { query = given.query, tar = source(given) }, run:how(given)).id }
    end
end
function steps.image_build_dir(run, given)
    local context = ffi.string(ffi.C.mkdtemp(ffi.cast("char *", run.directory .. "/context.XXXXXX")))
    for name, text in pairs(given.files) do
        local opened = assert(io.open(context .. "/" .. name, "wb"))
        opened:write(text)
        opened:close()
    end
    return { id = run:on(given):build(context, given.query, run:how(given)) }
end
function steps.image_search(run, given) return run:on(given):image_search({ query = given.query }, run:how(given)).json end
for _, name in ipairs { "plugin_disable", "plugin_remove" } do
    steps[name] = function(run, given)
        local engine = run:on(given)
        engine[name](engine, { name = given.name, flags = flags(given.force) }, run:how(given))
    end
end

function steps.http_request(run, given)
    local arguments = { method = given.method, target = given.target, headers = given.headers or {}, body = given.body and json.encode(given.body) }
    local answer = run:on(given):http_request(arguments, run:how(given))
    local body = answer.stream:read_all()
    answer.stream:close()
    return { status = answer.code, body = parsed(body) }
end
function steps.http_connect(run, given) return asked(run:on(given):http_connect({}).fd, given.target) end
function steps.http_get_unix(_, given)
    local fd, address = ffi.C.socket(1, 1, 0), ffi.new("struct coracle_lua_sockaddr", 1, given.path)
    assert(ffi.C.connect(fd, address, ffi.sizeof(address)) == 0, "connect")
    return asked(fd, given.target)
end
function steps.http_serve(run, given) keep(run, given, run:on(given):http_serve({ options = given.options, fds = {} }).server) end
function steps.http_server_addresses(run, given) return of(run, given):addresses() end
function steps.http_server_shutdown(run, given) of(run, given):shutdown(given.grace_ms / 1000) end

-- ---- all scenarios ----

local function reason_against(scenario)
    for _, feature in ipairs(scenario.needs or {}) do if not FEATURES[feature] then return feature end end
    for _, step in ipairs(scenario.steps) do if THREADS[step["do"]] then return "Lua has no threads" end end
    return LEFT_OUT[scenario.name]
end

local function run(scenario)
    local directory = ffi.string(ffi.C.mkdtemp(ffi.cast("char *", (os.getenv "TMPDIR" or "/tmp") .. "/scn-XXXXXX")))
    local one
    local good, problem = xpcall(function()
        one = new_run(directory)
        one:steps(scenario.steps)
    end, function(problem)
        if getmetatable(problem) == Wrong then return problem.message end
        return debug.traceback(tostring(problem))
    end)
    if one then
        local ended, why = pcall(one.finish, one)
        if not ended and good then good, problem = false, tostring(why) end
    end
    os.execute("rm -rf '" .. directory .. "'")
    return good, problem
end

local passed, failures, left_out = 0, 0, {}
for _, scenario in ipairs(LIST.scenarios) do
    if scenario.name:find(arg[1] or "", 1, true) then
        local reason = reason_against(scenario)
        if reason then
            left_out[#left_out + 1] = scenario.name .. " (" .. reason .. ")"
        else
            local good, problem = run(scenario)
            if good then passed = passed + 1 else failures = failures + 1 end
            if not good then io.stdout:write("failed: ", scenario.name, "\n    ", tostring(problem), "\n") end
        end
    end
end
for _, name in ipairs(left_out) do print("not for Lua: " .. name) end
print(("%d passed, %d failed"):format(passed, failures))
os.exit(failures == 0)
