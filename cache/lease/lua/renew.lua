-- Say that a replica of a source lives. ARGV: the source, which counts if it is the fleet's.
if fields(lock, 'source')[1] == ARGV[1] then redis.call('HSET', lock, 'source_seen', int(now)) end
return 'renewed'
