-- Give the lease back.
-- ARGV: token, mark, what to leave for the others (failed:N:code), how long in ms (0: leave nothing), how long to keep the
-- key without a document in ms (0: as it is): a purge has then something to remove, and so is announced; and, if its etag
-- is not empty, the last good document, which Redis had lost when the lease was taken: layout, source, etag, body,
-- fetched_at, changed_at, upstream etag, upstream last-modified. It is put back unless a later one is held, for the time
-- that nothing newer can be had. Its fresh_until of -1 says what it is, and the hash keeps its name.
-- Returns {'released'|'soft'|'lost', 1 if the document was put back}: after soft and lost a purge came meanwhile, and the
-- fetch is due again.
local h = read(0)
if h.lease ~= ARGV[1] then return {'lost', 0} end
local soft, wait, keep, back = h.mark ~= ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), 0
if ARGV[8] ~= '' and not soft and (h.etag == '' or h.fetched < num(ARGV[10])) then
  put('etag', ARGV[8], 'body', ARGV[9], 'fetched_at', ARGV[10], 'changed_at', ARGV[11], 'fresh_until', '-1',
    'upstream_etag', ARGV[12], 'upstream_last_modified', ARGV[13], 'layout', ARGV[6], 'source', ARGV[7])
  back = 1
end
if soft or wait <= 0 then
  drop('lease', 'lease_until')
else
  put('lease', ARGV[3], 'lease_until', int(now + wait))
  -- Without content the key lives for the sake of this word alone: long enough that the next failure can count on.
  if h.etag == '' and back == 0 then keep = math.max(keep, 2 * wait + 60000) end
end
if (h.etag == '' or back == 1) and keep > math.max(0, redis.call('PTTL', key)) then redis.call('PEXPIRE', key, int(keep)) end
return {soft and 'soft' or 'released', back}
