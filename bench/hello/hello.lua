-- hello.lua ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
local coracle = require "coracle"
local engine = coracle.open(arg[1])

local function hello()
    local box = engine:create { Image = "busybox", Cmd = { "echo", "hello" }, HostConfig = { NetworkMode = "none" } }
    local session = box:start_attached()
    io.write((session:communicate("")))
    io.flush()
    session:wait()
    session:close()
    box:remove()
    io.read("*a")
end

-- The processor's time is what LuaJIT tells; a call does not wait.
local function calls(count)
    local begun = os.clock()
    for _ = 1, count do engine:container_list { query = { all = false } } end
    print(math.floor((os.clock() - begun) / count * 1e9))
end

if arg[2] then calls(tonumber(arg[2])) else hello() end
engine:close()
