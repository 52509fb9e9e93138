-- Each script works on one resource: KEYS[1] is its hash, and KEYS[2] names the data set that the hash is part of
-- (in a Cluster both are in one slot). The time is the server's, so that no two processes need to agree on it.
-- Times are Unix milliseconds.
local key, dataset = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function int(n) return string.format('%.0f', n) end
-- A field that is not a whole number of at most 15 digits reads as 0.
local function num(s)
  if s and #s < 16 and string.find(s, '^%-?%d+$') then return tonumber(s) end
  return 0
end
local function kind() return redis.call('TYPE', key).ok end
local function set()
  local name = redis.pcall('GET', dataset)
  return type(name) == 'string' and name or ''
end
-- The fields of a layout are in a space of their own (see load in scripts.go): versions of two layouts share the hash, each
-- with a document and a lease, and whoever purges the key purges both.
local function own(step, fields)
  if space == '' then return fields end
  for i = 1, #fields, step do fields[i] = space .. fields[i] end
  return fields
end
local function put(...) redis.call('HSET', key, unpack(own(2, {...}))) end
local function drop(...) redis.call('HDEL', key, unpack(own(1, {...}))) end
-- The one reading of the hash. A document fetched in the future is due (the clock was set back), and so is a lease that
-- lasts longer than any is given (most, in ms).
local function read(most)
  local k = kind()
  local names = own(1, {'etag', 'layout', 'source', 'fetched_at', 'changed_at', 'fresh_until', 'lease', 'lease_until',
    'upstream_etag', 'upstream_last_modified', 'vacant', 'soft'})
  names[13], names[14] = 'fresh_until', 'soft' -- of all layouts
  local f = k == 'hash' and redis.call('HMGET', key, unpack(names)) or {}
  local h = {kind = k, etag = f[1] or '', layout = f[2] or '', source = f[3] or '', fetched = num(f[4]), changed = num(f[5]),
    fresh = f[6] and num(f[6]) or 1, mark = f[6] or '', lease = f[7] or '', left = num(f[8]) - now, upstream = f[9] or '', modified = f[10] or '',
    vacant = f[11] or ''}
  -- An operator's fresh_until of 0 is meant for all layouts. The first that acquires leaves word of it in soft.
  h.zero, h.soft = f[13] and num(f[13]) == 0, f[14] or ''
  if space ~= '' and (h.zero or h.soft ~= (f[12] or '')) then h.fresh, h.mark = 0, 'soft' end
  h.at = h.fetched
  if h.fetched > now then h.fetched, h.fresh = now, math.min(h.fresh, now) end
  if h.lease == '' or h.left < 0 or h.left > most then h.left = 0 end
  h.failed = string.sub(h.lease, 1, 7) == 'failed:'
  return h
end
-- What is held, for a caller that has the body with that etag: another one's is sent. See lease.Record.
local function found(h, etag)
  local body = h.etag ~= '' and h.etag ~= etag and redis.call('HGET', key, space .. 'body')
  return {now, set(), h.kind, body, h.etag, h.layout, h.source, h.at, h.changed, h.fresh, h.lease, h.left, h.upstream, h.modified,
    h.vacant, h.mark}
end
