-- Each script works on one resource: KEYS[1] is the hash with its content, KEYS[2] the hash beside
-- it in which vitrine keeps its books, and KEYS[3] that with its history (in a Cluster all are in
-- one slot). The time is the server's, so that no two processes need to agree on it. Times are Unix
-- milliseconds. A full Redis decides by a script's first write, and rolls nothing back: it has to
-- be one that makes something larger.
local key, books, history = KEYS[1], KEYS[2], KEYS[3]
if redis.replicate_commands then redis.replicate_commands() end -- else Redis 6 can refuse to write after TIME
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local longest = 3600000 -- a lease or a pause beyond that is garbage
local pinnable = 2592000000 -- and so is a pin

local function int(n) return string.format('%.0f', n) end
-- A field that is not a whole number of at most 15 digits reads as 0.
local function num(s)
  if s and #s < 16 and string.find(s, '^%-?%d+$') then return tonumber(s) end
  return 0
end
-- What is left of a time that was to be so long: 0 when it is over, and where that is garbage.
local function remaining(till, length)
  local left = num(till) - now
  return left > 0 and left <= length and length <= longest and left or 0
end
local function kind(k) return redis.call('TYPE', k).ok end
local function fields(k, ...) return kind(k) == 'hash' and redis.call('HMGET', k, ...) or {} end
-- A key of another type than a hash makes room for one.
local function clear(k)
  if kind(k) ~= 'hash' and kind(k) ~= 'none' then
    redis.call('SET', k, '')
    redis.call('DEL', k)
  end
end
local function drop() redis.call('HDEL', books, 'lease', 'lease_until', 'lease_length', 'lease_seq') end
local held = {'held_since', 'held_until', 'held_seq', 'held_reason', 'held_before', 'held_now'}

-- The one reading of both. Books that are missing are as the hash says, without a lease. A hash
-- without a number, or with another set or number than the books have, is none: doc is its number,
-- or 0; so is one whose body or etag was removed. A lease or a failure of another hash is void, and
-- so is a hold. A failure that is a document held back is over once an operator has accepted it. If
-- the clock was set back, a document fetched in the future is due, and a hold that begins there is
-- void. A request to restore stands in whatever hash is there.
local function read()
  local f = fields(key, 'set', 'seq', 'etag', 'source', 'fetched_at', 'changed_at', 'fresh_until', 'upstream_etag', 'upstream_last_modified',
    'suspicions', 'accept', 'pinned_until', 'pinned_by', 'restore')
  local b = fields(books, 'set', 'seq', 'lease', 'lease_until', 'lease_length', 'lease_seq', 'wanted_until', unpack(held))
  local set, seq = f[1] or '', num(f[2])
  local h = {set = b[1] or '', seq = num(b[2]), lease = b[3] or '', doc = 0, restore = string.sub(f[14] or '', 1, 300)}
  if h.set == '' or h.seq <= 0 then h.set, h.seq, h.lease = set, math.max(seq, 0), '' end
  if h.set == '' or h.seq == 0 then h.set, h.seq = '', 0 end
  local whole = not f[6] -- a stub
  if (f[3] or '') ~= '' then whole = redis.call('HSTRLEN', key, 'body') > 0 end
  if seq > 0 and set == h.set and seq == h.seq and whole then h.doc = seq else f = {} end
  h.etag, h.source, h.at, h.changed = f[3] or '', f[4] or '', num(f[5]), num(f[6])
  h.mark, h.fresh, h.upstream, h.modified = f[7] or '', f[7] and num(f[7]) or 1, f[8] or '', f[9] or ''
  h.suspicions, h.accept = f[10] or '', (f[11] or '0') ~= '0'
  h.pinned, h.by = num(f[12]), f[13] or ''
  if h.etag == '' or h.pinned > now + pinnable then h.pinned, h.by = 0, '' end
  if not f[13] then h.pinned = math.min(h.pinned, now) end -- an operator has ended it
  h.fetched = h.at
  if h.fetched > now then h.fetched, h.fresh = now, math.min(h.fresh, now) end
  if h.doc == 0 or num(b[6]) ~= h.doc then h.lease = '' end
  if h.accept and string.find(h.lease, '^failed:%d+:held$') then h.lease = '' end
  h.hold = {0, 0, '', 0, 0} -- since when, until when (0: until it is accepted), why, and how many items there were and are
  if h.doc > 0 and num(b[10]) == h.doc and num(b[8]) > 0 and num(b[8]) <= now then
    h.hold = {num(b[8]), num(b[9]), b[11] or '', num(b[12]), num(b[13])}
  end
  h.left = h.lease ~= '' and remaining(b[4], num(b[5])) or 0
  h.failed = string.sub(h.lease, 1, 7) == 'failed:'
  h.wanted = remaining(b[7], longest)
  return h
end
-- What is held, for a caller that has the body with that etag: another one's is sent. See
-- lease.Record.
local function found(h, etag)
  local body = h.etag ~= '' and h.etag ~= etag and redis.call('HGET', key, 'body')
  return {now, h.set, h.seq, h.doc, body, h.etag, h.source, h.at, h.changed, h.fresh, h.lease, h.left, h.upstream, h.modified, h.mark,
    h.suspicions, h.accept and 1 or 0, h.pinned, h.by, h.restore, h.wanted, unpack(h.hold)}
end
-- Write a document, with more fields. The lease is over, and so is what was held back.
local function write(seq, etag, source, changed, fresh, upstream, modified, suspicions, ...)
  redis.call('HSET', key, 'seq', int(seq), 'etag', etag, 'source', source, 'fetched_at', int(now), 'changed_at', int(changed),
    'fresh_until', int(fresh), 'upstream_etag', upstream, 'upstream_last_modified', modified, 'suspicions', suspicions, ...)
  redis.call('HSET', books, 'seq', int(seq))
  redis.call('HDEL', books, unpack(held))
  drop()
end
