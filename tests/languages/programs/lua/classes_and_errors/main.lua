-- Classes by metatables, operators, varargs, closures that close, errors as values, an exit status.
local Vector = {}
Vector.__index = Vector
setmetatable(Vector, { __call = function(class, ...) return setmetatable({ ... }, class) end })
function Vector.__add(a, b)
  if #a ~= #b then error({ code = 2, text = "sizes differ" }) end
  local sum = Vector()
  for i = 1, #a do sum[i] = a[i] + b[i] end
  return sum
end
function Vector.__mul(a, b)
  if type(a) == "number" then a, b = b, a end
  local result, dot = Vector(), 0
  for i = 1, #a do
    if type(b) == "number" then result[i] = a[i] * b else dot = dot + a[i] * b[i] end
  end
  return type(b) == "number" and result or dot
end
Vector.__eq = function(a, b) return tostring(a) == tostring(b) end
Vector.__tostring = function(v) return "<" .. table.concat(v, ", ") .. ">" end
Vector.__concat = function(a, b) return tostring(a) .. tostring(b) end
function Vector:map(f)
  local result = Vector()
  for i, x in ipairs(self) do result[i] = f(x) end
  return result
end

local a, b = Vector(1, 2, 3), Vector(4, 5, 6)
print(a + b, a * b, 2 * a, a .. " and " .. b, a == Vector(1, 2, 3))
print(a:map(function(x) return x ^ 2 // 1 | 0 end))
local ok, problem = pcall(function() return a + Vector(1) end)
print(ok, problem.code, problem.text)
print(select("#", table.unpack({ 1, nil, 3 }, 1, 3)), select(-1, "x", "y"))
local trace = xpcall(function() local t = nil; return t.field end, function(message)
  print((message:gsub("^.-:", "line ")))
  return debug.traceback(message, 1)
end)
do
  local file <close> = setmetatable({}, { __close = function(_, e) print("closed", e) end })
  local limit <const> = 3
  print("inside", limit)
end
print(string.format("%5.2f|%-6s|%q", math.pi, "left", "a\nb"), 7 // 2, -7 // 2, -7 % 3, 7 / 2, 1 << 40, math.maxinteger + 1 == math.mininteger)
print(#"größe", utf8.len("größe"), ("x"):rep(3, "-"), ("key = value"):match("^(%w+)%s*=%s*(%w+)$"))
os.exit(problem.code + 3)
