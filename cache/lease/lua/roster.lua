-- List the processes that live, and forget the others, in a hash with a field for each. ARGV: how
-- long a report counts in ms; name and report of one that lives, if there is news of one. Returns
-- {now, name, when, report, ...}.
if kind(key) ~= 'hash' then redis.call('DEL', key) end
if ARGV[2] then
  redis.call('HSET', key, ARGV[2], int(now) .. ' ' .. ARGV[3])
  redis.call('PEXPIRE', key, int(tonumber(ARGV[1])))
end
local reply, all = {now}, redis.call('HGETALL', key)
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
