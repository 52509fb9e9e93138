-- Put back a document that Redis has lost, for the time that nothing newer can be had: never over one fetched later, nor
-- while somebody fetches. Its fresh_until of -1 says what it is.
-- ARGV: the longest lease in ms, layout, source, etag, body, fetched_at, changed_at, upstream etag, upstream last-modified,
-- how long to keep it in ms.
-- Returns {'restored'|'kept', now}.
local h = read(tonumber(ARGV[1]))
if h.etag ~= '' and h.fetched >= num(ARGV[6]) or h.left > 0 and not h.failed then return {'kept', now} end
if h.kind ~= 'hash' then redis.call('DEL', key) end
redis.call('HSET', key, 'etag', ARGV[4], 'body', ARGV[5], 'fetched_at', ARGV[6], 'changed_at', ARGV[7], 'fresh_until', '-1',
  'upstream_etag', ARGV[8], 'upstream_last_modified', ARGV[9], 'layout', ARGV[2], 'source', ARGV[3])
redis.call('HDEL', key, 'vacant')
redis.call('PEXPIRE', key, int(tonumber(ARGV[10])))
return {'restored', now}
