-- JSON documents as tables. An empty list is told from an empty object by its metatable, and null is json.null.

local json = {}

-- What stands for null in lists and objects.
json.null = setmetatable({}, { __tostring = function() return "null" end })

local List = {}

-- Marks a table as a list, for an empty one.
function json.list(values)
    return setmetatable(values or {}, List)
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quoted(text)
    return '"' .. text:gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local encode

local function members(value)
    local parts = {}
    for name, member in pairs(value) do
        assert(type(name) == "string", "a member's name is a text")
        parts[#parts + 1] = quoted(name) .. ":" .. encode(member)
    end
    return "{" .. table.concat(parts, ",") .. "}"
end

function encode(value)
    local kind = type(value)
    if value == json.null or kind == "nil" then return "null" end
    if kind == "boolean" then return tostring(value) end
    if kind == "string" then return quoted(value) end
    if kind == "number" then return value % 1 == 0 and ("%.0f"):format(value) or ("%.17g"):format(value) end
    assert(kind == "table", "a document has no " .. kind)
    if getmetatable(value) ~= List and #value == 0 then return members(value) end
    local parts = {}
    for at = 1, #value do parts[at] = encode(value[at]) end
    return "[" .. table.concat(parts, ",") .. "]"
end

json.encode = encode

local UNESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- The bytes of a code point.
local function utf8(code)
    if code < 0x80 then return string.char(code) end
    if code < 0x800 then return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64) end
    if code < 0x10000 then
        return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    return string.char(
        0xF0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64, 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local function unescaped(text)
    if not text:find("\\", 1, true) then return text end
    text = text:gsub("\\u([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", function(high, low)
        return utf8(0x10000 + (tonumber(high, 16) - 0xD800) * 1024 + tonumber(low, 16) - 0xDC00)
    end)
    return (text:gsub("\\(.)(%x?%x?%x?%x?)", function(c, digits)
        if c == "u" then return utf8(tonumber(digits, 16)) end
        return (UNESCAPES[c] or c) .. digits
    end))
end

local decode

local function text_at(source, at)
    local from, stop = at + 1, at + 1
    while true do
        stop = assert(source:find('["\\]', stop), "a text without an end")
        if source:byte(stop) == 34 then return unescaped(source:sub(from, stop - 1)), stop + 1 end
        stop = stop + 2
    end
end

local function list_at(source, at)
    local values = json.list()
    at = source:match("^%s*()", at + 1)
    if source:sub(at, at) == "]" then return values, at + 1 end
    while true do
        values[#values + 1], at = decode(source, at)
        local sign, after = source:match("^%s*([,%]])%s*()", at)
        if sign == "]" then return values, after end
        at = assert(sign and after, "a list without an end")
    end
end

local function object_at(source, at)
    local values = {}
    at = source:match("^%s*()", at + 1)
    if source:sub(at, at) == "}" then return values, at + 1 end
    while true do
        local name
        name, at = text_at(source, at)
        values[name], at = decode(source, assert(source:match("^%s*:()", at), "a member without a value"))
        local sign, after = source:match("^%s*([,}])%s*()", at)
        if sign == "}" then return values, after end
        at = assert(sign and after, "an object without an end")
    end
end

local WORDS = { ["true"] = true, ["false"] = false, null = json.null }

function decode(source, at)
    at = source:match("^%s*()", at or 1)
    local c = source:sub(at, at)
    if c == "{" then return object_at(source, at) end
    if c == "[" then return list_at(source, at) end
    if c == '"' then return text_at(source, at) end
    local word, after = source:match("^(%a+)()", at)
    if word and WORDS[word] ~= nil then return WORDS[word], after end
    local number, stop = source:match("^(-?%d[%d.eE+-]*)()", at)
    return assert(tonumber(number), "no document at " .. at), stop
end

-- The value of a document.
function json.decode(source)
    return (decode(source, 1))
end

return json
