-- Containers in process, by LuaJIT's ffi.
--
--     local coracle = require "coracle"
--     local engine = coracle.open("/var/lib/app/containers")
--     local image = engine:load("busybox.tar")[1]
--     local box = engine:create { Image = image, Cmd = { "echo", "hello" } }
--     local session = box:start_attached()
--     print(session:communicate())
--     print(box:wait { timeout = 60 })
--
-- A call that fails raises an error: a table with `kind`, `code`, `status`, `errno`, `message`, `detail`; pcall gets it.

local ffi = require "ffi"
local json = require "coracle.json"

local coracle = { json = json, null = json.null, list = json.list }

local HERE = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local OK, DONE, AGAIN, UNCHANGED = 0, 1, 2, 3
local TIMEOUT, MISUSE, INVALID, EIO = -7011, -7016, -7001, -7009
local PIECE = 65536

-- The declarations: beside this file where the rock has them, else those of the source or of the system.
local function header()
    for _, path in ipairs { HERE .. "/coracle.ffi.h", HERE .. "/../../../include/coracle.ffi.h", "/usr/local/include/coracle.ffi.h", "/usr/include/coracle.ffi.h" } do
        local file = io.open(path)
        if file then
            local text = file:read("*a")
            file:close()
            return text
        end
    end
    error("there is no coracle.ffi.h")
end

local DECLARED = header()
ffi.cdef(DECLARED)
ffi.cdef [[
int open(const char *path, int flags, ...);
int close(int fd);
int coracle_lua_clock(int clock, long *now) __asm__("clock_gettime");
]]
local C = ffi.load(os.getenv("CORACLE_LIBRARY") or "libcoracle.so.1")

-- Name, without coracle_, to a list of {name, type}.
local FUNCTIONS = {}
for name, list in DECLARED:gmatch("\n[%w_][%w_ ]-[ *]coracle_([%w_]+)%(([^\n]*)%);") do
    local arguments = {}
    for one in (list .. ","):gmatch("([^,]+),") do
        local kind, argument = one:match("^%s*(.-)%s*([%w_]+)$")
        arguments[#arguments + 1] = { name = argument, type = kind }
    end
    FUNCTIONS[name] = arguments
end

-- An error of the engine.
local Error = {}
Error.__index = Error
Error.__tostring = function(self) return self.kind .. ": " .. self.message end

local function failure(code, message, of)
    local kind = ffi.string(C.coracle_status_name(code))
    return setmetatable(of or { code = code, kind = kind, message = message, status = 500, errno = 0, area = "", detail = {} }, Error)
end

-- Whether a value is an error of the engine.
function coracle.is_error(value)
    return getmetatable(value) == Error
end

local function error_of(code, object)
    if object == nil then return failure(code, "no details") end
    local made = failure(code, nil, {
        code = tonumber(C.coracle_error_code(object)),
        kind = ffi.string(C.coracle_status_name(code)),
        message = ffi.string(C.coracle_error_message(object)),
        status = C.coracle_error_http_status(object),
        errno = C.coracle_error_errno(object),
        area = ffi.string(C.coracle_error_area(object)),
        detail = json.decode(ffi.string(C.coracle_error_detail(object))),
    })
    C.coracle_error_free(object)
    return made
end

local function checked(result, err)
    result = tonumber(result)
    if result < 0 then error(error_of(result, err[0]), 0) end
    return result
end

-- Calls a function whose last argument is the error; its status or count.
local function call(name, ...)
    local err = ffi.new("coracle_error *[1]")
    local arguments, count = { ... }, select("#", ...)
    arguments[count + 1] = err
    return checked(C["coracle_" .. name](unpack(arguments, 1, count + 1)), err)
end
-- A callback of Lua must not come while a compiled call is under way.
jit.off(call)

local function take_text(pointer)
    if pointer == nil then return nil end
    local text = ffi.string(pointer)
    C.coracle_free(pointer)
    return text
end

-- A text for the library; a NUL in it would cut it.
local function text(value)
    if value == nil or value == json.null then return nil end
    if type(value) ~= "string" then error("TYPE: a text is needed here, and not " .. type(value), 0) end
    if value:find("\0", 1, true) then
        local refused = failure(INVALID, "a text has a NUL in it")
        refused.status = 400
        error(refused, 0)
    end
    return value
end

-- ---- handles ----

local Handle = {}
Handle.__index = Handle

local function handle(class, pointer, free)
    return setmetatable({ held = ffi.gc(pointer, C["coracle_" .. free]), free = C["coracle_" .. free] }, class)
end

-- The pointer; MISUSE after close.
function Handle:pointer()
    if self.held == nil then error(failure(MISUSE, "it was closed before"), 0) end
    return self.held
end

-- Ends the handle; a second time does nothing.
function Handle:close()
    local held = self.held
    self.held = nil
    if held ~= nil then self.free(ffi.gc(held, nil)) end
end

local function class()
    local made = setmetatable({}, { __index = Handle })
    made.__index = made
    return made
end

local Op = class()

local function new_op(flags, timeout)
    local out = ffi.new("coracle_op *[1]")
    call("op_new", flags, out)
    local op = handle(Op, out[0], "op_free")
    if timeout then C.coracle_op_set_timeout(op.held, math.floor(timeout * 1000)) end
    return op
end

-- ---- calls ----

local Session, Stream, Events, Server, Engine, Container, Pending = class(), class(), class(), class(), class(), {}, class()
Container.__index = Container

local OUTS = {
    out_id = { "id", "char *[1]", take_text },
    out_json = { "json", "char *[1]", function(pointer) return pointer ~= nil and json.decode(take_text(pointer)) or nil end },
    out_code = { "code", "int32_t[1]", tonumber },
    out_status = { "code", "int32_t[1]", tonumber },
    out_fd = { "fd", "int32_t[1]", tonumber },
}
local function given_handle(member, ctype, kind, free)
    return { member, ctype .. " *[1]", function(pointer) return pointer ~= nil and handle(kind, pointer, free) or nil end }
end
local HANDLES = {
    ["coracle_session **"] = given_handle("session", "coracle_session", Session, "session_free"),
    ["coracle_stream **"] = given_handle("stream", "coracle_stream", Stream, "stream_free"),
    ["coracle_events **"] = given_handle("events", "coracle_events", Events, "events_free"),
    ["coracle_http_server **"] = given_handle("server", "coracle_http_server", Server, "http_server_free"),
}

local function session_io(value)
    local io = ffi.new("coracle_io")
    io.size = ffi.sizeof(io)
    io.fd_in, io.fd_out, io.fd_err = value.stdin or -1, value.stdout or -1, value.stderr or -1
    io.rows, io.cols = value.rows or 0, value.cols or 0
    return io
end

-- A call under way: what it keeps, and what its callbacks raised.
local function context()
    return { kept = {}, callbacks = {}, fds = {}, outs = {}, raised = nil }
end

local function ended(call_)
    if call_.op then call_.op:close() end
    for _, callback in ipairs(call_.callbacks) do callback:free() end
    for _, fd in ipairs(call_.fds) do ffi.C.close(fd) end
end

-- A function of Lua as a callback; an error of it is kept, and comes out of the call.
local function callback(call_, ctype, failed, work)
    local made = ffi.cast(ctype, function(...)
        local good, answer = pcall(work, ...)
        if good then return answer or 0 end
        call_.raised = answer
        return failed
    end)
    call_.callbacks[#call_.callbacks + 1] = made
    return made
end

-- An archive: a path, or a function that gives up to so many bytes, and nil at the end. Answers the read function and its `user`.
local function source(call_, value)
    if type(value) == "string" then
        local fd = ffi.C.open(text(value), 524288) -- O_RDONLY | O_CLOEXEC
        if fd < 0 then error("there is no archive " .. value, 0) end
        call_.fds[#call_.fds + 1] = fd
        return C.coracle_read_fd, ffi.cast("void *", ffi.cast("intptr_t", fd))
    end
    if type(value) ~= "function" then error("TYPE: an archive is a path or a function, and not " .. type(value), 0) end
    return callback(call_, "coracle_read_fn", -1, function(_, buffer, length)
        local piece = value(tonumber(length)) or ""
        if #piece > length then error("TYPE: the function of an archive gave more than it was asked for", 0) end
        ffi.copy(buffer, piece, #piece)
        return #piece
    end), nil
end

local function argument(call_, given, at, op)
    local name, kind = at.name, at.type
    if kind == "coracle_op *" then return op end
    local out = OUTS[name] or HANDLES[kind]
    if out then
        local place = ffi.new(out[2])
        call_.outs[#call_.outs + 1] = { out[1], place, out[3] }
        return place
    end
    local value = given[(name:gsub("_json$", ""))]
    if kind == "coracle_read_fn" then
        local reader, user = source(call_, given.tar)
        call_.user = user
        return reader
    end
    if kind == "void *" then return call_.user end
    if kind == "const coracle_io *" then return value and session_io(value) or nil end
    if kind == "const int32_t *" then
        call_.count = #value
        return ffi.new("int32_t[?]", #value, value)
    end
    if kind == "const void *" then
        call_.count = #(value or "")
        return value or ""
    end
    if kind == "size_t" then return call_.count end
    if kind == "const char *" then
        if not name:find("_json$") then return text(value) end
        return value ~= nil and json.encode(value) or nil
    end
    if value == true then return 1 end
    if value ~= nil and value ~= false and type(value) ~= "number" then error("TYPE: " .. name .. " is a number", 0) end
    return value or 0
end

local function check_names(name, given)
    local known = { tar = true }
    for _, at in ipairs(FUNCTIONS[name]) do known[(at.name:gsub("_json$", ""))] = true end
    for key in pairs(given) do
        if not known[key] then error("TYPE: " .. name .. " has no argument " .. tostring(key), 0) end
    end
end

local function passed(call_, name, first, given, op)
    check_names(name, given)
    local arguments, count = { first }, 1
    for at = 2, #FUNCTIONS[name] - 1 do
        count = count + 1
        arguments[count] = argument(call_, given, FUNCTIONS[name][at], op)
        call_.kept[count] = arguments[count]
    end
    return arguments, count
end

local function run(call_, name, first, given, how)
    local op
    if how.timeout or how.progress then
        op = new_op(0, how.timeout)
        call_.op = op
        if how.progress then
            local told = callback(call_, "coracle_progress_fn", 1, function(_, record)
                if record ~= nil then how.progress(json.decode(ffi.string(record))) end
                return 0
            end)
            C.coracle_op_set_progress(op.held, told, nil, nil, 0)
        end
    end
    local arguments, count = passed(call_, name, first, given, op and op.held)
    local status = call(name, unpack(arguments, 1, count))
    local answer = { status = status, unchanged = status == UNCHANGED }
    for _, out in ipairs(call_.outs) do answer[out[1]] = out[3](out[2][0]) end
    return answer
end

-- Calls a function of the library with its arguments by name. how: `timeout` in seconds, `progress` a function that gets records.
local function invoke(name, first, given, how)
    local call_ = context()
    local good, answer = pcall(run, call_, name, first, given or {}, how or {})
    ended(call_)
    if good then return answer end
    error(call_.raised or answer, 0)
end

-- ---- an engine ----

-- engine:container_inspect { id = "box" } calls the function of that name, with its arguments by their names in the header, without
-- `_json`. The answer has `id`, `json`, `code`, `session`, `stream`, `fd`, where the function gives them, and `unchanged`.
Engine.__index = function(self, name)
    if Engine[name] ~= nil then return Engine[name] end
    if Handle[name] ~= nil then return Handle[name] end
    if FUNCTIONS[name] and FUNCTIONS[name][1].type == "coracle *" then
        return function(engine, given, how) return invoke(name, engine:pointer(), given, how) end
    end
end

-- Begins a call that takes an operation: pending:result() waits for its answer, pending:fileno() is for an event loop.
function Engine:begin(name, given)
    local op = new_op(1)
    local call_ = context()
    local arguments, count = passed(call_, name, self:pointer(), given or {}, op.held)
    local good, problem = pcall(call, name, unpack(arguments, 1, count))
    ended(call_)
    if not good then error(problem, 0) end
    return setmetatable({ held = op.held, free = op.free, op = op }, Pending)
end

ffi.cdef [[
struct coracle_lua_pollfd { int fd; short events; short revents; };
int poll(struct coracle_lua_pollfd *fds, unsigned long count, int timeout);
]]

local EINTR = 4

-- Whether a descriptor becomes readable within so many seconds; nil: for ever.
function coracle.readable(fd, timeout)
    local one = ffi.new("struct coracle_lua_pollfd[1]", { { fd = fd, events = 1 } })
    local ready
    -- A signal of the host program ends the wait early: it begins anew, so a time may become longer, never shorter.
    repeat ready = ffi.C.poll(one, 1, timeout and math.ceil(timeout * 1000) or -1) until ready >= 0 or ffi.errno() ~= EINTR
    if ready < 0 then error(failure(EIO, "poll: error " .. ffi.errno()), 0) end
    return ready > 0
end

function Pending:fileno()
    return C.coracle_op_fd(self:pointer())
end

-- The answer; an error of kind TIMEOUT when so many seconds passed, and the call goes on.
function Pending:result(timeout)
    local result = ffi.new("coracle_result")
    result.size = ffi.sizeof(result)
    while call("op_result", self:pointer(), result) == AGAIN do
        if not coracle.readable(self:fileno(), timeout) then error(failure(TIMEOUT, "the call did not end in time"), 0) end
    end
    local id, document = take_text(result.id), take_text(result.json)
    return {
        code = result.code, id = id, json = document and json.decode(document),
        session = result.session ~= nil and handle(Session, result.session, "session_free") or nil,
        stream = result.stream ~= nil and handle(Stream, result.stream, "stream_free") or nil,
    }
end

function Pending:cancel()
    C.coracle_op_cancel(self:pointer())
end

-- Another handle of the same engine, which stays open when this one is closed.
function Engine:again()
    local pointer = C.coracle_ref(self:pointer())
    if pointer == nil then error(failure(MISUSE, "the engine is closed, or this process is a fork"), 0) end
    return handle(Engine, pointer, "close")
end

-- Creates a container of a body of the HTTP API, with no network where the body names none. how: `name`.
function Engine:create(body, how)
    local whole = {}
    for key, value in pairs(body) do whole[key] = value end
    whole.HostConfig = { NetworkMode = "none" }
    for key, value in pairs(body.HostConfig or {}) do whole.HostConfig[key] = value end
    local answer = self:container_create({ name = how and how.name, body = whole }, how)
    return setmetatable({ engine = self, id = answer.id, warnings = answer.json.Warnings }, Container)
end

-- The container of that name, id or beginning of an id.
function Engine:container(id)
    return setmetatable({ engine = self, id = self:container_inspect({ id = id }).json.Id }, Container)
end

-- Loads every image of an archive: their names.
function Engine:load(archive, how)
    return self:image_load({ tar = archive }, how).json
end

-- Pulls an image from its registry: its id. how: `platform`, such as "linux/arm64", chooses of a list of images (this machine's); `auth`.
function Engine:pull(ref, how)
    local platform, auth = how and how.platform, how and how.auth
    if platform == nil then return self:image_pull({ ref = ref, auth = auth }, how).id end
    return self:image_pull_platform({ ref = ref, platform = platform, auth = auth }, how).id
end

-- Builds an image of a directory; query: the parameters of POST /build. Its id.
function Engine:build(directory, query, how)
    -- O_RDONLY | O_NONBLOCK | O_CLOEXEC, the same on each processor as O_DIRECTORY is not; the library refuses another kind of file.
    local fd = ffi.C.open(text(directory), 526336)
    if fd < 0 then error("there is no directory " .. directory, 0) end
    local good, answer = pcall(self.image_build_dir, self, { query = query or {}, dirfd = fd }, how)
    ffi.C.close(fd)
    if not good then error(answer, 0) end
    return answer.id
end

-- Follows events; query as of GET /events.
function Engine:events(query)
    return self:events_open({ query = query }).events
end

-- ---- a container ----

function Container:inspect() return self.engine:container_inspect({ id = self.id }).json end

-- Starts it, detached; false where it ran already.
function Container:start() return not self.engine:container_start({ id = self.id }).unchanged end

-- Starts it with its streams in hand; streams: descriptors `stdin`, `stdout`, `stderr`, and `rows`, `cols`.
function Container:start_attached(streams)
    return self.engine:container_start({ id = self.id, io = streams or {} }).session or self:attach()
end

function Container:attach(query)
    return self.engine:container_attach({ id = self.id, query = query or { stdin = true, stdout = true, stderr = true } }).session
end

-- Its stop signal and, so many seconds later (10), SIGKILL; false where it did not run.
function Container:stop(grace, how)
    return not self.engine:container_stop({ id = self.id, grace_ms = math.floor((grace or 10) * 1000) }, how).unchanged
end

function Container:kill(signal) self.engine:container_kill { id = self.id, signal = signal } end

-- Its exit code, 128 + n where signal n ended it. how: `timeout`.
function Container:wait(how) return self.engine:container_wait({ id = self.id }, how).code end

-- The lines of its log: `for line in box:logs():each() do print(line.channel, line.data) end`.
function Container:logs(query)
    local whole = { stdout = true, stderr = true }
    for key, value in pairs(query or {}) do whole[key] = value end
    return self.engine:container_logs({ id = self.id, query = whole }).stream
end

-- Runs another process in it to its end: exit code, stdout, stderr.
function Container:exec(command, input)
    local body = { Cmd = command, AttachStdin = input ~= nil, AttachStdout = true, AttachStderr = true }
    local id = self.engine:exec_create({ id = self.id, body = body }).id
    local session = self.engine:exec_start({ id = id, io = {} }).session
    local stdout, stderr = session:communicate(input)
    local code = session:wait()
    session:close()
    return code, stdout, stderr
end

function Container:remove(how)
    how = how or {}
    self.engine:container_remove { id = self.id, flags = (how.force and 1 or 0) + (how.volumes and 2 or 0) }
end

-- ---- streams ----

-- Calls with an operation for a deadline, if there is one.
local function bounded(how, work)
    if not (how and how.timeout) then return work(nil) end
    local op = new_op(0, how.timeout)
    local good, answer, more = pcall(work, op.held)
    op:close()
    if not good then error(answer, 0) end
    return answer, more
end

local buffer = ffi.new("uint8_t[?]", PIECE)

-- The next piece of output: "stdout" or "stderr", and the bytes; nil when both have ended. how: `timeout`.
function Session:read(how)
    return bounded(how, function(op)
        local channel = ffi.new("int32_t[1]")
        local count = call("session_read", self:pointer(), buffer, PIECE, op, channel)
        if count == 0 then return nil end
        return channel[0] == 1 and "stdout" or "stderr", ffi.string(buffer, count)
    end)
end

-- Writes to stdin: how many bytes went, which may be fewer than all.
function Session:write(data, how)
    return bounded(how, function(op) return call("session_write", self:pointer(), data, #data, op) end)
end

function Session:close_stdin() call("session_close_stdin", self:pointer()) end

-- Whether "stdin", "stdout" or "stderr" is attached; the descriptor, for an event loop.
function Session:fileno(channel)
    local fd = C.coracle_session_fd(self:pointer(), ({ stdin = 0, stdout = 1, stderr = 2 })[channel])
    return fd >= 0 and fd or nil
end

-- Takes the descriptor of a stream, which the caller closes; nil where the session does not have it.
function Session:take(channel)
    local fd = C.coracle_session_take_fd(self:pointer(), ({ stdin = 0, stdout = 1, stderr = 2 })[channel])
    return fd >= 0 and fd or nil
end

-- Seconds of the clock that nobody sets.
local function now()
    local time = ffi.new("long[2]")
    ffi.C.coracle_lua_clock(1, time) -- CLOCK_MONOTONIC
    return tonumber(time[0]) + tonumber(time[1]) / 1e9
end

-- Bounds the steps of something that lasts `timeout` seconds in all, or for ever: a function that gives `how` for a step, which waits `most`
-- seconds at most where it is given, and that raises TIMEOUT when the time is over.
local function steps_within(timeout)
    local late = timeout and now() + timeout
    return function(most)
        local rest = late and late - now()
        if rest and rest <= 0 then error(failure(TIMEOUT, "the process did not end its output in time"), 0) end
        local wait = rest and most and math.min(rest, most) or rest or most
        return wait and { timeout = wait }
    end
end

local function timed_out(problem) return coracle.is_error(problem) and problem.kind == "TIMEOUT" end

-- Writes input and ends it, and reads both outputs to their ends: stdout, stderr. Input goes whenever no output is waiting.
-- how: `timeout`, for all of it.
function Session:communicate(input, how)
    local outputs, left = { stdout = {}, stderr = {} }, input or ""
    local writes, step = self:fileno("stdin") ~= nil, steps_within(how and how.timeout)
    local function keep(channel, piece)
        if channel then table.insert(outputs[channel], piece) end
        return channel ~= nil
    end
    while writes and #left > 0 do
        local good, count = pcall(self.write, self, left:sub(1, PIECE), step(0.02))
        if good then
            left = left:sub(count + 1)
        elseif not timed_out(count) then
            break -- The process ended before it read everything.
        end
        local read, channel, piece = pcall(self.read, self, step(0.02))
        if read then keep(channel, piece) elseif not timed_out(channel) then error(channel, 0) end
    end
    if writes then self:close_stdin() end
    while keep(self:read(step())) do end
    return table.concat(outputs.stdout), table.concat(outputs.stderr)
end

-- The exit code of the process, 128 + n where signal n ended it. how: `timeout`.
function Session:wait(how)
    return bounded(how, function(op)
        local code = ffi.new("int32_t[1]")
        call("session_wait", self:pointer(), op, code)
        return code[0]
    end)
end

function Session:resize(rows, cols) call("session_resize", self:pointer(), rows, cols) end

-- The next record, such as a line of a log: `channel`, `time_ns`, `data`; nil at the end. how: `timeout`.
function Stream:next(how)
    return bounded(how, function(op)
        local frame = ffi.new("coracle_frame")
        frame.size = ffi.sizeof(frame)
        if call("stream_next", self:pointer(), op, frame) == DONE then return nil end
        return { channel = ({ "stdout", "stderr" })[frame.channel], time_ns = frame.time_ns, data = ffi.string(frame.data, frame.len) }
    end)
end

-- The records one after the other; the stream ends with the last one.
function Stream:each()
    return function()
        local record = self:next()
        if not record then self:close() end
        return record
    end
end

-- All bytes to the end.
function Stream:read_all()
    local pieces = {}
    while true do
        local count = call("stream_read", self:pointer(), buffer, PIECE, nil)
        if count == 0 then return table.concat(pieces) end
        pieces[#pieces + 1] = ffi.string(buffer, count)
    end
end

-- The descriptor, readable while there may be something.
function Stream:fileno() return checked(C.coracle_stream_fd(self:pointer()), { [0] = nil }) end

-- How many lines of a log were deleted before they were read.
function Stream:lost() return tonumber(C.coracle_stream_lost(self:pointer())) end

-- The next event; nil when so many seconds passed, and nil and true at the end (`until`).
function Events:next(timeout)
    local out = ffi.new("const char *[1]")
    local status = call("events_next", self:pointer(), timeout and math.floor(timeout * 1000) or -1, out)
    if status ~= OK then return nil, status == DONE end
    return json.decode(ffi.string(out[0]))
end

function Events:fileno() return checked(C.coracle_events_fd(self:pointer()), { [0] = nil }) end

function Server:addresses() return invoke("http_server_addresses", self:pointer()).json end

-- Accepts nothing any more; answers under way have so many seconds (2).
function Server:shutdown(grace) invoke("http_server_shutdown", self:pointer(), { grace_ms = math.floor((grace or 2) * 1000) }) end

-- ---- the library ----

local FLAGS = { existing = 1, lenient = 2, ephemeral = 4 }

-- Opens an engine root. options: `run_dir`, `flags` (a list of "existing", "lenient", "ephemeral"), and the members of the header's
-- `config_json`, such as durability = "off".
function coracle.open(root, options)
    local config, run_dir, flags = {}, nil, 0
    for key, value in pairs(options or {}) do
        if key == "run_dir" then run_dir = text(value)
        elseif key == "flags" then for _, flag in ipairs(value) do flags = flags + assert(FLAGS[flag], flag) end
        else config[key:gsub("_", "-")] = value end
    end
    local document, given = json.encode(config), ffi.new("coracle_open_options")
    given.size, given.run_dir, given.config_json, given.flags = ffi.sizeof(given), run_dir, document, flags
    local out = ffi.new("coracle *[1]")
    call("open", text(root), given, out)
    return handle(Engine, out[0], "close")
end

function coracle.host_report(root)
    local out = ffi.new("char *[1]")
    call("host_report", text(root), nil, out)
    return json.decode(take_text(out[0]))
end

-- The library's version: text, major, minor, patch.
function coracle.version()
    local number = tonumber(C.coracle_version())
    return ffi.string(C.coracle_version_string()), math.floor(number / 65536), math.floor(number / 256) % 256, number % 256
end

function coracle.build_info() return json.decode(ffi.string(C.coracle_build_info())) end

function coracle.has_feature(name) return C.coracle_has_feature(text(name)) == 1 end

function coracle.status_name(code) return ffi.string(C.coracle_status_name(code)) end

return coracle
