-- Give the lease back. ARGV: token, fresh_until as for fill, what to leave for the others
-- (failed:N:code), for how long in ms (0: leave nothing); and if what was fetched is to be held
-- back: for how long in ms (0: until an operator accepts it), why, how many items there were and
-- are, and when nothing is held back any more. Returns {'released'|'soft'|'lost'}: after soft and
-- lost a purge came meanwhile, and the fetch is due again; or {'accepted'}, with the lease as it
-- was: an operator has accepted what is fetched next, or that time is over.
local h, wait = read(), num(ARGV[4])
if h.lease ~= ARGV[1] then return {'lost'} end
if ARGV[5] then
  local length, since = num(ARGV[5]), h.hold[1]
  if since == 0 or (h.hold[2] == 0) ~= (length == 0) then since = now end
  wait = math.min(wait, num(ARGV[9]) - now)
  if h.accept or wait <= 0 or length > 0 and now >= since + length then return {'accepted'} end
  redis.call('HSET', books, 'held_since', int(since), 'held_until', int(length > 0 and since + length or 0), 'held_seq', int(h.doc),
    'held_reason', ARGV[6], 'held_before', ARGV[7], 'held_now', ARGV[8])
end
local soft = h.mark ~= ARGV[2]
if soft or wait <= 0 then
  drop()
else
  redis.call('HSET', books, 'lease', ARGV[3], 'lease_until', int(now + wait), 'lease_length', int(wait))
end
return {soft and 'soft' or 'released', unpack(ARGV[5] and read().hold or {})}
