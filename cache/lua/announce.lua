-- Say that a process lives, and list those that do. ARGV: its name, its report, how long it counts in ms.
-- The key is a hash of its own: one field for each process, its report after the time at which it was left.
-- Returns {now, name, when, report, ...}.
local most = tonumber(ARGV[3])
if kind() ~= 'hash' then redis.call('DEL', key) end
redis.call('HSET', key, ARGV[1], int(now) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', key, int(most))
local all, reply = redis.call('HGETALL', key), {now}
for i = 1, #all, 2 do
  local at, report = string.match(all[i + 1], '^(%d+) (.*)$')
  if at and now - at < most then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = tonumber(at)
    reply[#reply + 1] = report
  else
    redis.call('HDEL', key, all[i])
  end
end
return reply
