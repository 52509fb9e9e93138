-- Give the lease back. ARGV: token, fresh_until as for fill, what to leave for the others
-- (failed:N:code), for how long in ms (0: leave nothing); and if what was fetched is held back: when
-- nothing is any more, since when, until when (0: until an operator accepts it), why, and how many
-- items there were and are. Returns {'released'|'soft'|'lost'}: after soft and lost a purge came
-- meanwhile, and the fetch is due again; or {'accepted'}, with the lease as it was: an operator has
-- accepted what is fetched next, or nothing is held back any more.
local h, wait = read(), num(ARGV[4])
if h.lease ~= ARGV[1] then return {'lost'} end
if ARGV[5] then
  wait = math.min(wait, num(ARGV[5]) - now)
  if h.accept or wait <= 0 then return {'accepted'} end
  redis.call('HSET', books, 'held_since', ARGV[6], 'held_until', ARGV[7], 'held_seq', int(h.doc), 'held_reason', ARGV[8],
    'held_before', ARGV[9], 'held_now', ARGV[10])
end
local soft = h.mark ~= ARGV[2]
if soft or wait <= 0 then
  drop()
else
  redis.call('HSET', books, 'lease', ARGV[3], 'lease_until', int(now + wait), 'lease_length', int(wait))
end
return {soft and 'soft' or 'released'}
