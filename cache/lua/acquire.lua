-- Take the lease, if a fetch is due and nobody else has it.
-- ARGV: token, lease in ms, layout, source, ttl in ms, grace for another source in ms, etag of a body known to be damaged,
-- what this process's tokens begin with: it fetches one at a time, so that a lease of its own is one it never heard it got.
-- Returns {'granted', now, mark, failures, etag, source}, or one of {'fresh'|'held'|'failed', now, ms left, lease}.
local k = kind()
if k ~= 'hash' and k ~= 'none' then redis.call('DEL', key) end
local h = redis.call('HMGET', key, 'etag', 'layout', 'source', 'fetched_at', 'fresh_until', 'lease', 'lease_until')
local etag, fetched, fresh, lease = h[1], num(h[4]), num(h[5]), h[6] or ''
local held = etag and etag ~= '' and h[2] == ARGV[3] and etag ~= ARGV[7]
local other = h[3] ~= ARGV[4] and now >= fetched + ARGV[6]
if held and now < fresh and now < fetched + ARGV[5] and not other then return {'fresh', now, 0, ''} end

local soft = h[5] and fresh <= 0   -- an operator's HSET fresh_until 0: whoever failed before is asked again
local left = num(h[7]) - now
local failed = string.sub(lease, 1, 7) == 'failed:'
local orphan = string.sub(lease, 1, #ARGV[8]) == ARGV[8]
if lease ~= '' and left > 0 and not orphan and not (failed and soft) then
  return {failed and 'failed' or 'held', now, left, lease}
end

-- What fresh_until is now: whoever changes it while the lease lasts has purged softly. 0 becomes 1, still long ago,
-- so that a second HSET to 0 is seen as well.
local mark = h[5] or ''
if soft then mark = '1' end
local ttl = redis.call('PTTL', key)
redis.call('HSET', key, 'lease', ARGV[1], 'lease_until', int(now + ARGV[2]))
if soft then redis.call('HSET', key, 'fresh_until', mark) end
local need = ARGV[2] + 1000
if ttl == -2 or (ttl >= 0 and ttl < need) then redis.call('PEXPIRE', key, int(need)) end
return {'granted', now, mark, (failed and not soft) and lease or '', held and etag or '', h[3] or ''}
