-- List the processes that live, in a hash with a field for each. ARGV: how long a report counts in
-- ms; name and report of one that lives, if there is news of one: then the others are forgotten, and
-- otherwise nothing is written. Returns {now, name, when, report, ...}.
if kind(key) ~= 'hash' then
  if not ARGV[2] then return {now} end
  redis.call('DEL', key)
end
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
  elseif ARGV[2] then
    redis.call('HDEL', key, all[i])
  end
end
return reply
