-- Ask the other replicas to fetch what this one cannot. ARGV: for how long, in ms.
clear(lock)
redis.call('HSET', lock, 'wanted_until', int(now + ARGV[1]))
redis.call('PEXPIRE', lock, month)
return 'wanted'
