-- Each script works on KEYS[1] alone, so that it runs in a Cluster, and reads the time from the server,
-- so that no two processes need to agree on it. Times are Unix milliseconds.
local key = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function num(s) return tonumber(s or '') or 0 end
local function int(n) return string.format('%.0f', n) end
local function kind()
  local t = redis.call('TYPE', key)
  return type(t) == 'table' and t.ok or t
end
