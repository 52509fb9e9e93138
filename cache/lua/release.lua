-- Give the lease back after a failed fetch, and leave word until when nobody should try again.
-- ARGV: token, mark, what to leave (failed:N:code), how long in ms (0: leave nothing).
-- Returns {'released'|'soft'|'lost', now}: after soft and lost a purge came meanwhile, and the fetch is due again.
if kind() ~= 'hash' then return {'lost', now} end
local h = redis.call('HMGET', key, 'lease', 'fresh_until', 'etag')
if h[1] ~= ARGV[1] then return {'lost', now} end
local soft = (h[2] or '') ~= ARGV[2]
local wait = tonumber(ARGV[4])
if soft or wait <= 0 then
  redis.call('HDEL', key, 'lease', 'lease_until')
  return {soft and 'soft' or 'released', now}
end
redis.call('HSET', key, 'lease', ARGV[3], 'lease_until', int(now + wait))
-- Without content the key lives for the sake of this word alone: long enough that the next failure can count on.
if not h[3] then redis.call('PEXPIRE', key, int(2 * wait + 60000)) end
return {'released', now}
