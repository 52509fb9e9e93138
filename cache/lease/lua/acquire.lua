-- Look, and take the lease if a fetch is due and nobody else has it. ARGV: as for look; then token,
-- lease in ms, source, ttl in ms, grace for another source in ms, etag of a body known to be
-- damaged, what this process's tokens begin with (it fetches one at a time, so that a lease of its
-- own is one whose reply it never received), when the copy was fetched that the caller has and
-- Redis does not: an older document is due; the same if Redis has lost that copy, else 0: an older
-- pin has come back with a snapshot, and holds nobody; 1 if the caller has no copy to serve instead
-- of a document that is held back, else 0. Returns the outcome ('granted', 'fresh', 'held' or
-- 'failed'), the failure before, 1 if the hash was written, and then what look does after the writes.
local h = read()
local function reply(outcome, before, wrote) return {outcome, before, wrote, unpack(found(h, ARGV[1]))} end
local other = h.source ~= ARGV[4] and now >= h.fetched + ARGV[6]
local current = h.etag ~= '' and h.etag ~= ARGV[7] and h.at >= num(ARGV[9]) and not other
local accepted = h.accept and h.hold[1] > 0
if h.pinned > now and h.etag ~= ARGV[7] and h.at >= num(ARGV[10]) then return reply('fresh', '', 0) end
if current and not accepted and now < h.fresh and now < h.fetched + ARGV[5] then return reply('fresh', '', 0) end

local soft = h.fresh == 0 -- an operator's HSET fresh_until 0: the failure before does not count
local own = string.sub(h.lease, 1, #ARGV[8]) == ARGV[8]
local unserved = ARGV[11] == '1' and string.find(h.lease, '^failed:%d+:held$')
if h.left > 0 and not own and not (h.failed and soft) and not unserved then
  if h.failed then return reply('failed', '', 0) end
  clear(history)
  redis.call('HDEL', history, '') -- removes nothing; refused where a release would be: nobody waits then
  return reply('held', '', 0)
end

local set, seq, wrote = h.set ~= '' and h.set or ARGV[2], h.seq, 0
if h.doc == 0 then seq = seq + 1 end
clear(books)
redis.call('HSET', books, 'set', set, 'seq', int(seq), 'lease', ARGV[2], 'lease_until', int(now + ARGV[3]), 'lease_length', ARGV[3],
  'lease_seq', int(seq))
redis.call('HDEL', books, 'wanted_until')
if h.doc == 0 then -- a stub, so that a DEL has something to remove, and is announced
  redis.call('DEL', key)
  redis.call('HSET', key, 'set', set, 'seq', int(seq), unpack(h.restore ~= '' and {'restore', h.restore} or {}))
  wrote = 1
elseif soft then -- 0 becomes a number of its own, so that the next HSET to 0 is seen as well
  redis.call('HSET', key, 'fresh_until', int(-now))
  wrote = 1
end
local before = h.failed and not soft and h.lease or ''
h = read()
return reply('granted', before, wrote)
