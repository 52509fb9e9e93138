-- Write what the holder of the lease has fetched, if it still has the lease.
-- ARGV: token, mark, layout, source, etag, body (empty: the held one is renewed), ttl in ms, stale window in ms,
-- upstream etag, upstream last-modified, changed_at of the same content as last known to the caller (or 0).
-- Returns {'stored'|'soft', now, changed_at, fresh_until} or {'lost'}.
local h = read(0)
if h.lease ~= ARGV[1] then return {'lost'} end
if ARGV[6] == '' and h.etag ~= ARGV[5] then
  drop('lease', 'lease_until')
  return {'lost'}
end
local changed = now
if h.etag == ARGV[5] and h.changed > 0 then changed = h.changed elseif num(ARGV[11]) > 0 then changed = num(ARGV[11]) end
local soft = h.mark ~= ARGV[2]
local fresh = soft and 0 or now + ARGV[7]
put('etag', ARGV[5], 'fetched_at', int(now), 'changed_at', int(changed), 'fresh_until', int(fresh),
  'upstream_etag', ARGV[9], 'upstream_last_modified', ARGV[10], 'layout', ARGV[3], 'source', ARGV[4])
if ARGV[6] ~= '' then put('body', ARGV[6]) end
drop('lease', 'lease_until', 'vacant')
redis.call('PEXPIRE', key, int(ARGV[7] + ARGV[8]))
return {soft and 'soft' or 'stored', now, changed, fresh}
