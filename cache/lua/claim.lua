-- Take a name for a while, unless somebody has it.
-- ARGV: token, how long in ms (0: give it back).
-- Returns {'granted'|'held'|'released'|'lost', now}.
local mine = kind() == 'hash' and redis.call('HGET', key, 'token') == ARGV[1]
if tonumber(ARGV[2]) <= 0 then
  if not mine then return {'lost', now} end
  redis.call('DEL', key)
  return {'released', now}
end
if redis.call('EXISTS', key) == 1 then return {'held', now} end
redis.call('HSET', key, 'token', ARGV[1])
redis.call('PEXPIRE', key, ARGV[2])
return {'granted', now}
