-- A JSON reader and writer of its own; stdin in, sorted and indented out.
local function reader(text)
  local at = 1
  local value
  local function fail(why) error(("%s at %d"):format(why, at), 0) end
  local function skip() at = text:find("%S", at) or #text + 1 end
  local function take(char)
    skip()
    if text:sub(at, at) == char then at = at + 1 return true end
  end
  local escapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f" }
  local function string()
    local parts = {}
    while true do
      local from, to, plain, stop = text:find('^([^"\\]*)(["\\])', at)
      if not from then fail("an open string") end
      parts[#parts + 1] = plain
      at = to + 1
      if stop == '"' then return table.concat(parts) end
      local code = text:match("^u(%x%x%x%x)", at)
      if code then
        parts[#parts + 1] = utf8.char(tonumber(code, 16))
        at = at + 5
      else
        local c = text:sub(at, at)
        parts[#parts + 1] = escapes[c] or c
        at = at + 1
      end
    end
  end
  local words = { ["true"] = true, ["false"] = false }
  function value()
    if take("{") then
      local object = {}
      if take("}") then return object end
      repeat
        if not take('"') then fail("a key is missing") end
        local key = string()
        if not take(":") then fail("a colon is missing") end
        object[key] = value()
      until not take(",")
      return take("}") and object or fail("an open object")
    elseif take("[") then
      local list = setmetatable({}, { list = true })
      if take("]") then return list end
      repeat list[#list + 1] = value() until not take(",")
      return take("]") and list or fail("an open list")
    elseif take('"') then
      return string()
    end
    local word = text:match("^%a+", at)
    if word == "null" then at = at + 4 return nil end
    if words[word] ~= nil then at = at + #word return words[word] end
    local number = text:match("^-?[%d.]+[eE]?[+-]?%d*", at)
    if not number then fail("no value") end
    at = at + #number
    return math.tointeger(tonumber(number)) or tonumber(number)
  end
  return value
end

local function write(value, indent)
  if type(value) == "string" then return '"' .. value:gsub('[%c"\\]', { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n" }) .. '"' end
  if type(value) ~= "table" then return tostring(value) end
  local parts, deeper, list = {}, indent .. "  ", getmetatable(value)
  if list then
    for _, item in ipairs(value) do parts[#parts + 1] = deeper .. write(item, deeper) end
  else
    for key, item in pairs(value) do parts[#parts + 1] = ('%s"%s": %s'):format(deeper, key, write(item, deeper)) end
    table.sort(parts)
  end
  local open, close = list and "[" or "{", list and "]" or "}"
  if #parts == 0 then return open .. close end
  return open .. "\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. close
end

print(write(reader(io.read("a"))(), ""))
for _, broken in ipairs { '{"a" 1}', "[1, 2", '"open', "?" } do print(select(2, pcall(reader(broken)))) end
