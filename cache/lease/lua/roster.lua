-- List the processes that live, and forget the others. ARGV: how long a report counts in ms.
-- Returns {now, name, when, report, ...}.
local reply = {now}
if kind(key) ~= 'hash' then return reply end
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
  local at, report = string.match(all[i + 1], '^(%d+) (.*)$')
  if at and num(at) > now - ARGV[1] then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = num(at)
    reply[#reply + 1] = report
  else
    redis.call('HDEL', key, all[i])
  end
end
return reply
