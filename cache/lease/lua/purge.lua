-- Do what an operator's redis-cli would. ARGV: 1 if it is a soft one, else 0; 1 if its history goes
-- too, else 0; who purges. A hard purge removes the document, the placeholder of one that is being
-- fetched, or whatever stands there instead. A soft one declares stale what is there or being
-- fetched, and makes nothing where there is neither. Returns {1 if there was a document, else 0}.
local h = read()
if ARGV[1] == '0' then redis.call('DEL', key) elseif kind(key) == 'hash' then redis.call('HSET', key, 'fresh_until', 0) end
if ARGV[2] == '1' then redis.call('DEL', history) end
if ARGV[3] ~= '' and h.doc > 0 and kind(lock) == 'hash' then
  redis.call('HSET', lock, 'purged_by', int(h.doc) .. ' ' .. string.sub(ARGV[3], 1, 300))
end
return {h.etag ~= '' and 1 or 0}
