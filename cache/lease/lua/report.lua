-- Note in a hash, one field for each process, that a process lives. ARGV: its name, its report, how
-- long it counts in ms.
if kind(key) ~= 'hash' then redis.call('DEL', key) end
redis.call('HSET', key, ARGV[1], int(now) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', key, int(tonumber(ARGV[3])))
return {now}
