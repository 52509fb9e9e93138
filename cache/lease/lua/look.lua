-- What is held. ARGV: the longest lease in ms, the etag of the copy that the caller has: another one's body is sent.
-- Returns {now, data set, kind, body or false, etag, layout, source, fetched, changed, fresh, lease, ms left, upstream
-- etag, upstream last-modified, vacant}.
local h = read(tonumber(ARGV[1]))
local body = false
if h.etag ~= '' and h.etag ~= ARGV[2] then body = redis.call('HGET', key, 'body') end
return {now, set(), h.kind, body, h.etag, h.layout, h.source, h.fetched, h.changed, h.fresh, h.lease, h.left, h.upstream, h.modified, h.vacant}
