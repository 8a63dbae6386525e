-- Coroutines: generators, a scheduler with mailboxes, permutations.
local function permutations(items, n)
  n = n or #items
  return coroutine.wrap(function()
    if n <= 1 then coroutine.yield(items) return end
    for i = 1, n do
      items[n], items[i] = items[i], items[n]
      for result in permutations(items, n - 1) do coroutine.yield(result) end
      items[n], items[i] = items[i], items[n]
    end
  end)
end
local count = 0
for p in permutations { "a", "b", "c", "d" } do
  count = count + 1
  if count % 8 == 1 then io.write(table.concat(p), " ") end
end
print(count)

local ready, boxes, log = {}, {}, {}
local function spawn(name, body)
  boxes[name] = {}
  ready[#ready + 1] = { name = name, thread = coroutine.create(body) }
end
local function receive(name)
  while #boxes[name] == 0 do coroutine.yield() end
  return table.unpack(table.remove(boxes[name], 1))
end
local function send(name, ...) table.insert(boxes[name], { ... }) end

spawn("adder", function()
  local sum = 0
  while true do
    local n, from = receive("adder")
    if n == "end" then log[#log + 1] = "adder had " .. sum return end
    sum = sum + n
    send(from, sum)
  end
end)
for _, step in ipairs { 1, 10 } do
  local name = "client" .. step
  spawn(name, function()
    for i = 1, 3 do
      send("adder", step * i, name)
      local sum = receive(name) -- before #log is asked for: others write there meanwhile
      log[#log + 1] = ("%s got %d"):format(name, sum)
    end
    if step == 10 then error("client fails", 0) end
  end)
end
local turns = 0
while #ready > 0 do
  turns = turns + 1
  if #ready == 1 then send("adder", "end") end
  for i = #ready, 1, -1 do
    local task = ready[i]
    local ok, problem = coroutine.resume(task.thread)
    if not ok then log[#log + 1] = task.name .. ": " .. problem end
    if coroutine.status(task.thread) == "dead" then table.remove(ready, i) end
  end
end
print(table.concat(log, "\n"))
print(turns < 20)
