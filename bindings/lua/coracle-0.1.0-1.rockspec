rockspec_format = "3.0"
package = "libcoracle"
version = "0.1.0-1"
-- The archive of a release, unpacked: `luarocks make` in this directory.
source = { url = "file://." }
description = {
    summary = "Containers in process: no daemon, no helper programs",
    license = "Apache-2.0 OR MIT",
}
supported_platforms = { "linux" }
-- LuaJIT alone has the ffi that this needs.
dependencies = { "lua == 5.1" }
build = {
    type = "builtin",
    modules = {
        ["coracle"] = "coracle/init.lua",
        ["coracle.json"] = "coracle/json.lua",
    },
}
