-- Take the lease, if a fetch is due and nobody else has it.
-- ARGV: the longest lease in ms, token, lease in ms, layout, source, ttl in ms, grace for another source in ms, etag of a
-- body known to be damaged, what this process's tokens begin with: it fetches one at a time, so that a lease of its own is
-- one whose reply it never received.
-- Returns {'granted', now, mark, failures, etag, source, data set, vacant}, or one of {'fresh'|'held'|'failed', now, ms left, lease}.
local h = read(tonumber(ARGV[1]))
if h.kind ~= 'hash' and h.kind ~= 'none' then
  redis.call('DEL', key)
  h.vacant = 'overwritten:' .. ARGV[2]
end
local held = h.etag ~= '' and h.layout == ARGV[4] and h.etag ~= ARGV[8]
local other = h.source ~= ARGV[5] and now >= h.fetched + ARGV[7]
if held and now < h.fresh and now < h.fetched + ARGV[6] and not other then return {'fresh', now, 0, ''} end

local soft = h.mark ~= '' and h.fresh == 0   -- an operator's HSET fresh_until 0: whoever failed before is asked again
local own = string.sub(h.lease, 1, #ARGV[9]) == ARGV[9]
if h.left > 0 and not own and not (h.failed and soft) then
  return {h.failed and 'failed' or 'held', now, h.left, h.lease}
end

-- What fresh_until is now: whoever changes it while the lease lasts has purged softly. 0 becomes 1, still long ago,
-- so that a second HSET to 0 is seen as well.
if soft then h.mark = '1' end
local ttl = redis.call('PTTL', key)
redis.call('HSET', key, 'lease', ARGV[2], 'lease_until', int(now + ARGV[3]))
if h.etag == '' then -- both stay when the lease is given back: see release
  if h.vacant == '' then h.vacant = ARGV[2] end -- names this hash without a document: after a purge it is another
  redis.call('HSET', key, 'source', ARGV[5], 'vacant', h.vacant)
end
if soft then redis.call('HSET', key, 'fresh_until', h.mark) end
local need = ARGV[3] + 1000
if ttl == -2 or (ttl >= 0 and ttl < need) then redis.call('PEXPIRE', key, int(need)) end
if set() == '' then redis.pcall('SET', dataset, ARGV[2]) end
return {'granted', now, h.mark, (h.failed and not soft) and h.lease or '', held and h.etag or '', h.source, set(), h.vacant}
