-- A text adventure from stdin with patterns as grammar; saves and loads itself to a file as Lua source.
local world = { room = "attic", bag = {}, turns = 0 }
local rooms = {
  attic = { text = "an attic", down = "hall" },
  hall = { text = "a hall", up = "attic", out = "street" },
  street = { text = "the street" },
}
local function serialise(value)
  if type(value) ~= "table" then return ("%q"):format(value) end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do parts[#parts + 1] = ("[%q]=%s"):format(key, serialise(value[key])) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local grammar = {
  { "^go (%a+)$", function(where)
    local next = rooms[world.room][where]
    if not next then return "no way " .. where end
    if next == "street" and not world.bag.coat then return "too cold without a coat" end
    world.room = next
    return "you are in " .. rooms[next].text
  end },
  { "^take the? ?(%a+)$", function(thing) world.bag[thing] = true return "you have the " .. thing end },
  { "^take (%a+)$", function(thing) world.bag[thing] = true return "you have the " .. thing end },
  { "^save$", function()
    local file = assert(io.open("saved.lua", "w"))
    file:write("return ", serialise(world))
    file:close()
    return "saved"
  end },
  { "^load$", function()
    local chunk = loadfile("saved.lua", "t", {})
    if not chunk then return "nothing saved" end
    local turns = world.turns
    world = chunk()
    return ("back to turn %d from %d, in the %s"):format(world.turns, turns, world.room)
  end },
}
for line in io.lines() do
  world.turns = world.turns + 1
  local answer = "what?"
  for _, rule in ipairs(grammar) do
    local captured = line:lower():match(rule[1])
    if captured then answer = rule[2](captured) break end
  end
  print(answer)
  if world.room == "street" then print("free after " .. world.turns .. " turns") break end
end
print(serialise(world))
