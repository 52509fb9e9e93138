-- Give the lease back. ARGV: token, fresh_until as for fill, what to leave for the others (failed:N:code), for how long in ms
-- (0: leave nothing).
-- Returns {'released'|'soft'|'lost'}: after soft and lost a purge came meanwhile, and the fetch is due again.
local h = read()
if h.lease ~= ARGV[1] then return {'lost'} end
local soft, wait = h.mark ~= ARGV[2], num(ARGV[4])
if soft or wait <= 0 then
  drop()
else
  redis.call('HSET', books, 'lease', ARGV[3], 'lease_until', int(now + wait), 'lease_length', int(wait))
end
return {soft and 'soft' or 'released'}
