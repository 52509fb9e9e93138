-- Serve a version of the history, pinned; or, without one, end the pin. It is a fill without a
-- lease: one that is held is void. ARGV: the request that the hash must still have in its field
-- restore ('': none is needed); version; etag; body; source ('': as before); for how long it is
-- pinned, in ms; by whom; a name for the data set, if there is none. Returns {'restored', until}
-- (when the pin has ended: until when it was, or 0), {'withdrawn'} if that version is not there, or
-- {'lost'} if the request is not there any more.
local h = read()
if ARGV[1] ~= '' and h.restore ~= ARGV[1] then return {'lost'} end
if ARGV[2] == '' then
  if kind(key) ~= 'hash' then return {'restored', 0} end
  redis.call('HDEL', key, 'pinned_by', 'restore')
  if h.pinned <= now then return {'restored', 0} end
  redis.call('HSET', key, 'fresh_until', 0, 'pinned_until', int(now)) -- its stale windows begin
  return {'restored', h.pinned}
end
if kind(history) ~= 'hash' or redis.call('HSTRLEN', history, ARGV[2] .. ':body') == 0 then
  if ARGV[1] ~= '' then redis.call('HDEL', key, 'restore') end
  return {'withdrawn'}
end
local set, seq, till = h.set ~= '' and h.set or ARGV[8], h.seq + 1, now + ARGV[6]
clear(books)
redis.call('HSET', books, 'set', set, 'seq', int(seq))
if h.doc == 0 then redis.call('DEL', key) end
write(seq, ARGV[3], ARGV[5] ~= '' and ARGV[5] or h.source, now, till, '', '', '',
  'set', set, 'body', ARGV[4], 'pinned_until', int(till), 'pinned_by', ARGV[7])
redis.call('HDEL', key, 'restore', 'accept')
local about = string.gsub(redis.call('HGET', history, ARGV[2]) or '', '"at":%d+', '"at":' .. int(now), 1)
redis.call('HSET', history, ARGV[2], (string.gsub(about, '"changes":.*', '"changes":"restored"}', 1)))
return {'restored', till}
