-- What is particular to Lua: errors as tables, callbacks, documents, the garbage collector, calls that were begun.
--
-- Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE. Needs root.

local ffi = require "ffi"
local coracle = require "coracle"
local json = coracle.json

ffi.cdef [[
char *mkdtemp(char *path);
ssize_t read(int fd, void *buf, size_t count);
]]

local IMAGE, LONG = os.getenv "CORACLE_TEST_IMAGE", 300
local SLEEP = { "sh", "-c", "echo ready; exec sleep 1000" }

local function same(expected, got)
    if expected ~= got then error(("wanted %s, got %s"):format(tostring(expected), tostring(got)), 2) end
end

local function raises(kind, ...)
    local good, problem = pcall(...)
    if good then error("no " .. kind, 2) end
    if kind ~= (coracle.is_error(problem) and problem.kind or problem) then error(tostring(problem), 2) end
    return problem
end

local function running(engine)
    local box = engine:create { Image = "busybox", Cmd = SLEEP }
    local session = box:start_attached()
    local _, piece = session:read { timeout = LONG }
    same("ready\n", piece)
    session:close()
    return box
end

local function descriptors()
    local pipe = io.popen "ls /proc/$PPID/fd | wc -l"
    local count = tonumber(pipe:read "*a")
    pipe:close()
    return count
end

local tests = {}

tests["errors have a kind, a status and the field"] = function(engine)
    local problem = raises("NOT_FOUND", engine.container, engine, "nobody")
    same(404, problem.status)
    same(-7004, problem.code)
    same("NOT_FOUND: No such container: nobody", tostring(problem))
    problem = raises("INVALID", engine.create, engine, { Image = "busybox", HostConfig = { Memory = "lots" } })
    same("HostConfig.Memory", problem.detail.field)
    raises("TYPE: a text is needed here, and not number", engine.container_inspect, engine, { id = 5 })
    raises("TYPE: container_inspect has no argument di", engine.container_inspect, engine, { di = "x" })
end

tests["a deadline ends a wait, and the container runs on"] = function(engine)
    local box = running(engine)
    raises("TIMEOUT", box.wait, box, { timeout = 0.05 })
    same(true, box:inspect().State.Running)
    box:kill()
    same(137, box:wait { timeout = LONG })
end

tests["a call that was begun has a descriptor, and can be cancelled"] = function(engine)
    local box = engine:create { Image = "busybox", Cmd = { "sh", "-c", "exit 7" } }
    local pending = engine:begin("container_wait", { id = box.id, condition = "next-exit" })
    raises("TIMEOUT", pending.result, pending, 0.05)
    box:start()
    same(true, coracle.readable(pending:fileno(), LONG))
    same(7, pending:result().code)
    pending:close()
    local other = engine:begin("container_wait", { id = running(engine).id })
    other:cancel()
    raises("CANCELLED", other.result, other, LONG)
    other:close()
    raises("MISUSE", other.result, other)
end

tests["progress comes to a function, and its error ends the call"] = function(engine)
    local records = 0
    engine:load(IMAGE, { progress = function() records = records + 1 end })
    same(true, records > 0)
    raises("stop", engine.load, engine, IMAGE, { progress = function() error("stop", 0) end })
    raises("stop", engine.load, engine, function() error("stop", 0) end)
end

tests["an archive's function that gives more than was asked for is an error"] = function(engine)
    local generous = function() return ("x"):rep(4 * 1024 * 1024) end
    raises("TYPE: the function of an archive gave more than it was asked for", engine.load, engine, generous)
end

tests["a bound of communicate holds for the whole: while input waits, and however often something comes"] = function(engine)
    for _, script in ipairs { "sleep " .. LONG, "while :; do echo .; sleep 0.05; done & sleep " .. LONG .. "; kill %1" } do
        local session = engine:create({ Image = "busybox", Cmd = { "sh", "-c", script }, OpenStdin = true }):start_attached()
        raises("TIMEOUT", session.communicate, session, ("x"):rep(4 * 1024 * 1024), { timeout = 0.5 })
        raises("TIMEOUT", session.communicate, session, "", { timeout = 0.5 })
        session:close()
    end
end

tests["a stream's descriptor can be taken"] = function(engine)
    local box = engine:create { Image = "busybox", Cmd = { "echo", "mine" } }
    local session, buffer = box:start_attached(), ffi.new("char[16]")
    local fd = session:take("stdout")
    same(true, coracle.readable(fd, LONG))
    same("mine\n", ffi.string(buffer, ffi.C.read(fd, buffer, 16)))
    ffi.C.close(fd)
    session:close()
end

tests["an exec, samples, events, a terminal"] = function(engine)
    local events = engine:events { filters = { type = { "container" }, event = { "start" } } }
    local box = running(engine)
    same(box.id, events:next(LONG).Actor.ID)
    same(nil, events:next(0))
    local code, stdout, stderr = box:exec({ "sh", "-c", "cat; echo e >&2; exit 3" }, "x")
    same("3 x e\n", table.concat({ code, stdout, stderr }, " "))
    local samples = engine:container_stats({ id = box.id, query = { stream = true } }).stream
    for _ = 1, 2 do same(true, json.decode(samples:next().data).pids_stats.current > 0) end
    samples:close()
    local terminal = engine:create({ Image = "busybox", Cmd = { "stty", "size" }, Tty = true }):start_attached { rows = 11, cols = 22 }
    same("11 22\r\n", (terminal:communicate(nil, { timeout = LONG })))
    terminal:close()
    events:close()
    events:close()
    raises("MISUSE", events.next, events, 0)
end

tests["documents come out as they went in"] = function()
    local text = [[{"a":[1,2.5,-3e2,true,null,[],{"b":"\u00e9\ud83d\ude00\n\"\\"}]}]]
    local value = json.decode(text)
    same("é😀\n\"\\", value.a[7].b)
    same(json.null, value.a[5])
    same([[{"a":[1,2.5,-300,true,null,[],{"b":"é😀\n\"\\"}]}]], json.encode(value))
    for _, broken in ipairs { "", "{", "[1", '"x', '{"a" 1}', "nul" } do same(false, (pcall(json.decode, broken))) end
end

tests["the garbage collector ends handles that nobody closed"] = function(engine)
    local box = running(engine)
    collectgarbage() -- Handles that other tests left.
    collectgarbage()
    local before = descriptors()
    for _ = 1, 20 do
        box:logs { follow = true }
        engine:events()
        pcall(engine.load, engine, "/dev/null")
    end
    collectgarbage()
    collectgarbage()
    local deadline = os.time() + LONG
    while descriptors() > before and os.time() < deadline do ffi.C.poll(nil, 0, 50) end
    same(true, descriptors() <= before) -- A descriptor of the start may have gone meanwhile.
end

local passed, failures = 0, 0
for name, test in pairs(tests) do
    local directory = ffi.string(ffi.C.mkdtemp(ffi.cast("char *", (os.getenv "TMPDIR" or "/tmp") .. "/coracle-lua-XXXXXX")))
    local engine = coracle.open(directory .. "/root", { run_dir = directory .. "/run", durability = "off" })
    local good, problem = xpcall(function()
        engine:load(IMAGE)
        test(engine)
    end, function(problem) return debug.traceback(tostring(problem)) end)
    for _, found in ipairs(engine:container_list({ query = { all = true } }).json) do engine:container_remove { id = found.Id, flags = 1 } end
    engine:close()
    os.execute("rm -rf '" .. directory .. "'")
    if good then passed = passed + 1 else failures = failures + 1 end
    if not good then io.stderr:write("failed: ", name, "\n", problem, "\n") end
end
print(("%d passed, %d failed"):format(passed, failures))
os.exit(failures == 0)
