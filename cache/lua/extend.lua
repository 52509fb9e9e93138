-- Keep the document for at least as long as a stale window that was made wider. It is never kept for less: that would
-- be a purge by another name.
-- ARGV: ttl in ms, stale window in ms.
-- Returns {'extended'|'kept', now}.
if kind() ~= 'hash' then return {'kept', now} end
local h = redis.call('HMGET', key, 'etag', 'fetched_at', 'fresh_until')
if not h[1] then return {'kept', now} end
local left = math.max(num(h[3]), num(h[2]) + ARGV[1]) + ARGV[2] - now
local has = redis.call('PTTL', key)
if has < 0 or has >= left then return {'kept', now} end
redis.call('PEXPIRE', key, int(left))
return {'extended', now}
