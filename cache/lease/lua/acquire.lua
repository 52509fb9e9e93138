-- Look, and take the lease if a fetch is due and nobody else has it.
-- ARGV: as for look; then token, lease in ms, layout, source, ttl in ms, grace for another source in ms, etag of a body known
-- to be damaged, what this process's tokens begin with: it fetches one at a time, so that a lease of its own is one whose
-- reply it never received; 1 if it holds a document that Redis has lost, which no failure elsewhere keeps it from putting back.
-- Returns what look does, as of now, and 'granted', 'fresh', 'held' or 'failed'.
local h = read(tonumber(ARGV[1]))
local function reply(outcome)
  local r = found(h, ARGV[2])
  r[#r + 1] = outcome
  return r
end
local held = h.etag ~= '' and h.layout == ARGV[5] and h.etag ~= ARGV[9]
local other = h.source ~= ARGV[6] and now >= h.fetched + ARGV[8]
if held and now < h.fresh and now < h.fetched + ARGV[7] and not other then return reply('fresh') end

local soft = h.mark ~= '' and h.fresh == 0   -- an operator's HSET fresh_until 0: whoever failed before is asked again
local own = string.sub(h.lease, 1, #ARGV[10]) == ARGV[10]
if h.left > 0 and not own and not (h.failed and (soft or ARGV[11] == '1')) then return reply(h.failed and 'failed' or 'held') end

if h.kind ~= 'hash' and h.kind ~= 'none' then
  redis.call('DEL', key)
  h.vacant = 'overwritten:' .. ARGV[3]
end
local ttl = redis.call('PTTL', key)
put('lease', ARGV[3], 'lease_until', int(now + ARGV[4]))
if h.etag == '' then -- both stay when the lease is given back: see release
  if h.vacant == '' then h.vacant = ARGV[3] end -- names this hash without a document: after a purge it is another
  put('source', ARGV[6], 'vacant', h.vacant)
end
-- What fresh_until is now: whoever changes it while the lease lasts has purged softly. 0 becomes a number of its own, still
-- long ago, so that any other HSET to 0 is seen as well, whoever looks.
if soft then
  h.fresh, h.mark = -now, int(-now)
  if h.zero then
    h.soft = h.mark
    redis.call('HSET', key, 'fresh_until', h.mark, 'soft', h.soft)
  end
  put('fresh_until', h.mark, 'soft', h.soft)
end
local need = ARGV[4] + 1000
if ttl == -2 or (ttl >= 0 and ttl < need) then redis.call('PEXPIRE', key, int(need)) end
if set() == '' then redis.pcall('SET', dataset, ARGV[3]) end
if soft or not h.failed then h.lease = '' end
h.left = 0
return reply('granted')
