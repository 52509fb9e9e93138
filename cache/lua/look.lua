-- What is held. ARGV: the etag of the copy that the caller has: the body is sent only if another one is held.
if kind() ~= 'hash' then return {now} end
local h = redis.call('HMGET', key, 'etag', 'fetched_at', 'changed_at', 'fresh_until',
  'upstream_etag', 'upstream_last_modified', 'layout', 'source', 'lease', 'lease_until')
local body = false
if h[1] and h[1] ~= ARGV[1] then body = redis.call('HGET', key, 'body') end
return {now, body, h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10]}
