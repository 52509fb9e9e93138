-- Each script works on one document: KEYS[1] is its hash, KEYS[2] its lock record, and KEYS[3] its
-- history (in a Cluster all are in one slot). Times are Unix milliseconds by the server's clock. Only
-- documents expire, at until; the lock record, a placeholder and the history live a month. What
-- became of a script's work is learned from the next poll, not from its reply. A full Redis decides
-- by a script's first write, and rolls nothing back: it has to be one that makes something larger.
local key, lock, history = KEYS[1], KEYS[2], KEYS[3]
if redis.replicate_commands then redis.replicate_commands() end -- else Redis 6 can refuse to write after TIME
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local longest = 3600000 -- a lease or a backoff beyond that is garbage
local month = '2592000000'

local function int(n) return string.format('%.0f', n) end
-- A field that is not a whole number of at most 15 digits reads as 0.
local function num(s)
  if s and #s < 16 and string.find(s, '^%-?%d+$') then return tonumber(s) end
  return 0
end
-- A number of writes that leaves room for more.
local function count(s)
  local n = num(s)
  return n > 0 and n < 1e14 and n or 0
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
local function drop() redis.call('HDEL', lock, 'lease', 'lease_until', 'lease_length', 'lease_seq', 'lease_mark') end
local function clearhold()
  redis.call('HDEL', lock, 'held_since', 'held_seq', 'held_findings', 'held_clock', 'accepted')
end

-- The fleet's source is the one that took over last: at once if the lock record did not know it, as
-- after a change; and else, as after a restart, only when the one before was silent for so long. The
-- others are foreign: they fetch nothing. Record.Foreign has the same in Go.
local function foreign(source, silent)
  local l = fields(lock, 'source', 'source_seen', 'sources')
  local left = num(l[2]) + silent - now
  return (l[1] or '') ~= '' and l[1] ~= source and left > 0 and left <= silent and
    string.find(' ' .. (l[3] or '') .. ' ', ' ' .. source .. ' ', 1, true) ~= nil
end
-- The sources that the lock record knows, with this one: the last few.
local function known(source)
  local all = {source}
  for other in string.gmatch(fields(lock, 'sources')[1] or '', '%S+') do
    if other ~= source and #all < 16 and #other < 100 then all[#all + 1] = other end
  end
  return table.concat(all, ' ')
end

-- The one reading of both; record.go has the same in Go. A missing lock record is as the hash says,
-- without a lease. A hash without a number, or with another set or number than the lock record has,
-- is none: doc is its number, or 0; so is one whose body or etag was removed. A lease, a failure or a
-- hold of another number is void.
local function read()
  local f = fields(key, 'set', 'seq', 'etag', 'source', 'fetched_at', 'changed_at', 'fresh_until', 'restored_by')
  local l = fields(lock, 'set', 'seq', 'lease', 'lease_until', 'lease_length', 'lease_seq', 'lease_mark', 'held_seq', 'held_since', 'accepted')
  local set, seq = f[1] or '', count(f[2])
  local h = {set = l[1] or '', seq = count(l[2]), lease = l[3] or '', doc = 0, leasemark = l[7] or ''}
  if h.set == '' or h.seq == 0 then h.set, h.seq, h.lease = set, seq, '' end
  if h.set == '' or h.seq == 0 then h.set, h.seq = '', 0 end
  local whole = not f[5] -- a placeholder
  if (f[3] or '') ~= '' then whole = redis.call('HSTRLEN', key, 'body') > 0 end
  if seq > 0 and set == h.set and seq == h.seq and whole then h.doc = seq else f = {} end
  h.etag, h.source, h.at, h.changed = f[3] or '', f[4] or '', num(f[5]), num(f[6])
  h.mark, h.fresh = f[7] or '', f[7] and num(f[7]) or 1
  h.restored = h.etag ~= '' and (f[8] or '') ~= '' and h.fresh > now and h.fresh <= now + month
  h.fetched = h.at
  if h.fetched > now then h.fetched, h.fresh = now, math.min(h.fresh, now) end
  if h.doc == 0 or num(l[6]) ~= h.doc then h.lease = '' end
  h.left = h.lease ~= '' and remaining(l[4], num(l[5])) or 0
  h.failed = string.sub(h.lease, 1, 7) == 'failed:'
  h.held = h.etag ~= '' and num(l[8]) == h.doc and num(l[9]) > 0 and num(l[9]) <= now
  h.accepted = h.held and (l[10] or '') ~= ''
  h.ttl = h.etag ~= '' and redis.call('PTTL', key) or -1
  return h
end
-- Say when the document expires, and until when its absence is a purge.
local function expire(seq, at)
  redis.call('HSET', lock, 'until', int(at), 'until_seq', int(seq))
  redis.call('PEXPIREAT', key, int(at))
end
-- Have a document outlast a lease or a backoff.
local function prolong(h, length)
  if h.ttl >= 0 and h.ttl < length + 1000 then expire(h.doc, now + length + 1000) end
end
