-- Release the lease since the document that was fetched is held back. ARGV: token, what to leave for
-- the others (failed:N:held), for how long in ms; when nothing is held back any more, since when it is,
-- what is lost, the clock, and 1 if it is no worse than what was held back before, else 0; and, where
-- Redis has an earlier document or none, the baseline, which goes back with its original times: etag,
-- body, source, fetched_at, changed_at, fresh_until, upstream etag, upstream last-modified, content
-- warnings, for how long it stays in ms, age. Returns 'held', 'soft' (after a soft purge the fetch is due
-- again), 'lost', or, with the lease as it was: 'accepted', or 'expired'.
local h = read()
if h.lease ~= ARGV[1] or h.left == 0 then return 'lost' end
if h.accepted and ARGV[8] == '1' then return 'accepted' end
local wait = math.min(num(ARGV[3]), num(ARGV[4]) - now)
if wait <= 0 then return 'expired' end
local soft = h.mark ~= h.leasemark
if ARGV[9] and (h.etag == '' or h.at < num(ARGV[12])) then
  h.doc = h.seq + 1
  redis.call('HSET', key, 'set', h.set, 'seq', int(h.doc), 'etag', ARGV[9], 'body', ARGV[10], 'source', ARGV[11], 'fetched_at', ARGV[12],
    'changed_at', ARGV[13], 'fresh_until', ARGV[14], 'upstream_etag', ARGV[15], 'upstream_last_modified', ARGV[16], 'suspicions', ARGV[17], 'age', ARGV[19])
  redis.call('HSET', lock, 'seq', int(h.doc), 'lease_seq', int(h.doc), 'lease_mark', ARGV[14])
  expire(h.doc, now + ARGV[18])
end
redis.call('HSET', lock, 'held_since', int(math.min(num(ARGV[5]), now)), 'held_seq', int(h.doc), 'held_findings', ARGV[6], 'held_clock', ARGV[7])
redis.call('HDEL', lock, 'accepted')
if soft then
  drop()
  return 'soft'
end
redis.call('HSET', lock, 'lease', ARGV[2], 'lease_until', int(now + wait), 'lease_length', int(wait))
prolong(h, wait)
return 'held'
