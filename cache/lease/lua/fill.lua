-- Write what the lock owner has fetched, if its lease is still there and has not lapsed. ARGV: token,
-- source, etag, body (empty: the present one is renewed), ttl in ms, the longer stale window in ms,
-- upstream etag, upstream last-modified, changed_at of the same content as last known to the owner or
-- 0, content warnings, why a hold ends with it (or ''), the age of the response in ms. A document whose
-- fresh_until has changed since acquire was purged softly: what replaces it is stale. What was held
-- back or restored is over. After a purge, and a loss that is taken, older versions count no more. Returns 'stored', 'soft' or 'lost'.
local h = read()
if h.lease ~= ARGV[1] or h.left == 0 or ARGV[4] == '' and h.etag ~= ARGV[3] then return 'lost' end
local changed = now
if h.etag == ARGV[3] and h.changed > 0 then changed = math.min(h.changed, now)
elseif num(ARGV[9]) > 0 then changed = math.min(num(ARGV[9]), now) end
local soft = h.mark ~= h.leasemark
local seq = h.seq + 1
redis.call('HSET', key, 'seq', int(seq), 'etag', ARGV[3], 'source', ARGV[2], 'fetched_at', int(now), 'changed_at', int(changed),
  'fresh_until', soft and '0' or int(now + ARGV[5]), 'upstream_etag', ARGV[7], 'upstream_last_modified', ARGV[8], 'suspicions', ARGV[10], 'age', ARGV[12],
  unpack(ARGV[4] ~= '' and {'body', ARGV[4]} or {}))
redis.call('HDEL', key, 'restored_by')
redis.call('HSET', lock, 'seq', int(seq))
redis.call('PEXPIRE', lock, month)
expire(seq, now + ARGV[5] + ARGV[6])
clearhold()
if ARGV[11] ~= '' then redis.call('HSET', lock, 'released', int(seq) .. ' ' .. ARGV[11]) end
if h.etag == '' or ARGV[11] == 'accepted' or ARGV[11] == 'expired' then redis.call('HSET', lock, 'baseline_since', int(now)) end
drop()
return soft and 'soft' or 'stored'
