-- Write what the holder of the lease has fetched, if it still has the lease. ARGV: token,
-- fresh_until as the reply of acquire had it (whoever has changed it since has purged softly),
-- source, etag, body (empty: the held one is renewed), ttl in ms, upstream etag, upstream
-- last-modified, changed_at of the same content as last known to the caller (or 0), suspicions.
-- What was held back, or is accepted, is over. Returns {'stored'|'soft', now, changed_at,
-- fresh_until, set, seq} or {'lost'}.
local h = read()
if h.lease ~= ARGV[1] then return {'lost'} end
if ARGV[5] == '' and h.etag ~= ARGV[4] then
  drop()
  return {'lost'}
end
local changed = now
if h.etag == ARGV[4] and h.changed > 0 then changed = h.changed elseif num(ARGV[9]) > 0 then changed = num(ARGV[9]) end
local soft = h.mark ~= ARGV[2]
local fresh = soft and 0 or now + ARGV[6]
local seq = h.seq + 1
write(seq, ARGV[4], ARGV[3], changed, fresh, ARGV[7], ARGV[8], ARGV[10], unpack(ARGV[5] ~= '' and {'body', ARGV[5]} or {}))
redis.call('HDEL', key, 'pinned_until', 'pinned_by', 'accept')
return {soft and 'soft' or 'stored', now, changed, fresh, h.set, seq}
