-- A sieve, a sort of two hundred thousand numbers, a matrix product and numbers without bound.
local limit = 1000000
local composite, primes = {}, {}
for n = 2, limit do
  if not composite[n] then
    primes[#primes + 1] = n
    for m = n * n, limit, n do composite[m] = true end
  end
end
print(#primes, primes[#primes])

local state, numbers = 12345, {}
for i = 1, 200000 do
  state = (state * 1664525 + 1013904223) & 0xffffffff
  numbers[i] = state
end
table.sort(numbers)
local sorted = true
for i = 2, #numbers do sorted = sorted and numbers[i - 1] <= numbers[i] end
print(sorted, numbers[1], numbers[100000], numbers[#numbers])
local people = { { "Bob", 30 }, { "Ann", 30 }, { "Cyd", 25 } }
table.sort(people, function(a, b) return a[2] ~= b[2] and a[2] < b[2] or a[2] == b[2] and a[1] < b[1] end)
for _, person in ipairs(people) do io.write(person[1], " ") end
print()

local function matrix(n, f)
  local m = {}
  for i = 1, n do
    m[i] = {}
    for j = 1, n do m[i][j] = f(i, j) end
  end
  return m
end
local n = 120
local a, b = matrix(n, function(i, j) return i - j end), matrix(n, function(i, j) return (i * j) % 7 end)
local c = matrix(n, function(i, j)
  local sum = 0
  for k = 1, n do sum = sum + a[i][k] * b[k][j] end
  return sum
end)
print(c[1][1], c[n][n], c[60][61])

local function factorial(of)
  local digits = { 1 }
  for factor = 2, of do
    local carry = 0
    for i = 1, #digits do
      carry = carry + digits[i] * factor
      digits[i] = carry % 10000000
      carry = carry // 10000000
    end
    if carry > 0 then digits[#digits + 1] = carry end
  end
  local parts = { tostring(digits[#digits]) }
  for i = #digits - 1, 1, -1 do parts[#parts + 1] = ("%07d"):format(digits[i]) end
  return table.concat(parts)
end
print(factorial(tonumber(arg[1])))
