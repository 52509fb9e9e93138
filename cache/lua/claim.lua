-- Take a name for a while, unless somebody has it; or say how much longer one's own is kept.
-- ARGV: token, how long in ms, 'claim' or 'keep' (0: give it back).
-- Returns {'granted'|'held'|'released'|'lost', now}.
if ARGV[3] == 'keep' then
  if kind() ~= 'hash' or redis.call('HGET', key, 'token') ~= ARGV[1] then return {'lost', now} end
  if tonumber(ARGV[2]) > 0 then redis.call('PEXPIRE', key, ARGV[2]) else redis.call('DEL', key) end
  return {'released', now}
end
if kind() ~= 'none' then return {'held', now} end
redis.call('HSET', key, 'token', ARGV[1])
redis.call('PEXPIRE', key, ARGV[2])
return {'granted', now}
