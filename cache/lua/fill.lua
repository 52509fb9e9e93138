-- Write what the holder of the lease has fetched, if it still has the lease.
-- ARGV: token, mark, layout, source, etag, body (empty: the held one is renewed), ttl in ms, stale window in ms,
-- upstream etag, upstream last-modified, changed_at of the same content as last known to the caller (or empty).
-- Returns {'stored'|'soft', now, changed_at, fresh_until} or {'lost', now}.
if kind() ~= 'hash' then return {'lost', now} end
local h = redis.call('HMGET', key, 'lease', 'fresh_until', 'etag', 'changed_at')
if h[1] ~= ARGV[1] then return {'lost', now} end
if ARGV[6] == '' and h[3] ~= ARGV[5] then
  redis.call('HDEL', key, 'lease', 'lease_until')
  return {'lost', now}
end
local changed = int(now)
if h[3] == ARGV[5] and h[4] then changed = h[4] elseif ARGV[11] ~= '' then changed = ARGV[11] end
local soft = (h[2] or '') ~= ARGV[2]
local fresh = soft and '0' or int(now + ARGV[7])
redis.call('HSET', key, 'etag', ARGV[5], 'fetched_at', int(now), 'changed_at', changed, 'fresh_until', fresh,
  'upstream_etag', ARGV[9], 'upstream_last_modified', ARGV[10], 'layout', ARGV[3], 'source', ARGV[4])
if ARGV[6] ~= '' then redis.call('HSET', key, 'body', ARGV[6]) end
redis.call('HDEL', key, 'lease', 'lease_until')
redis.call('PEXPIRE', key, int(ARGV[7] + ARGV[8]))
return {soft and 'soft' or 'stored', now, changed, fresh}
