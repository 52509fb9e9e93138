-- Give the lease back.
-- ARGV: token, mark, what to leave for the others (failed:N:code), how long in ms (0: leave nothing), how long to keep the
-- key for a document that Redis refused to hold (0: not): a purge has then something to remove, and so is announced.
-- Returns {'released'|'soft'|'lost', now}: after soft and lost a purge came meanwhile, and the fetch is due again.
local h = read(0)
if h.lease ~= ARGV[1] then return {'lost', now} end
local soft, wait, keep = h.mark ~= ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
if soft or wait <= 0 then
  if h.etag == '' and keep <= 0 and not soft then
    redis.call('DEL', key)
  else
    redis.call('HDEL', key, 'lease', 'lease_until')
    if h.etag == '' and keep > 0 then redis.call('PEXPIRE', key, int(keep)) end
  end
  return {soft and 'soft' or 'released', now}
end
redis.call('HSET', key, 'lease', ARGV[3], 'lease_until', int(now + wait))
-- Without content the key lives for the sake of this word alone: long enough that the next failure can count on.
if h.etag == '' then redis.call('PEXPIRE', key, int(2 * wait + 60000)) end
return {'released', now}
