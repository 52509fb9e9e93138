-- Take the lease if a fetch is due and nobody else has it. ARGV: token (OWNER/COUNTER, sent once
-- only); lease in ms; source; ttl in ms; for how long in ms the fleet's source may be silent; etag of a
-- body known to be damaged; when the copy was fetched that the replica has and Redis does not, or 0: an earlier
-- document is due; 1 if the replica has no copy to serve instead of a document that is held back. A
-- lease of the same owner with a lower counter is one whose poll it never received; with a higher
-- one, this acquire has arrived late. A restored document is due at its fresh_until alone.
local h = read()
local owner, counter = string.match(ARGV[1], '^(.*/)(%d+)$')
if foreign(ARGV[3], num(ARGV[5])) then return 'foreign' end
local other = not h.restored and h.source ~= ARGV[3]
local current = h.etag ~= '' and h.etag ~= ARGV[6] and h.at >= num(ARGV[7]) and not other and not h.accepted
if current and now < h.fresh and (h.restored or now < h.fetched + ARGV[4]) then return 'fresh' end
local soft = h.fresh == 0 -- an operator's HSET fresh_until 0: the failure before does not count
local own = string.sub(h.lease, 1, #owner) == owner
if h.left > 0 and own and num(string.sub(h.lease, #owner + 1)) > num(counter) then return 'late' end
local unserved = ARGV[8] == '1' and string.find(h.lease, '^failed:%d+:held$')
if h.left > 0 and not own and not (h.failed and (soft or h.accepted or unserved)) then return h.failed and 'failed' or 'held' end

-- A set's name is made where it is used: an acquire that arrives late makes none that was there.
local set, seq, mark = h.set ~= '' and h.set or ARGV[1] .. '@' .. int(now), h.seq, h.mark
if h.doc == 0 then seq, mark = seq + 1, '' end
if soft then mark = int(-now) end -- 0 becomes a number of its own, so that the next HSET to 0 is seen as well
clear(lock)
redis.call('HSET', lock, 'set', set, 'seq', int(seq), 'lease', ARGV[1], 'lease_until', int(now + ARGV[2]), 'lease_length', ARGV[2],
  'lease_seq', int(seq), 'lease_mark', mark, 'source', ARGV[3], 'source_seen', int(now), 'sources', known(ARGV[3]))
redis.call('HDEL', lock, 'wanted_until')
redis.call('PEXPIRE', lock, month)
if h.doc == 0 then -- a placeholder, so that a DEL has something to remove
  redis.call('DEL', key)
  redis.call('HSET', key, 'set', set, 'seq', int(seq))
  redis.call('PEXPIRE', key, month)
  return 'granted'
end
if soft then redis.call('HSET', key, 'fresh_until', mark) end
prolong(h, ARGV[2])
return 'granted'
