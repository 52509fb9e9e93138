-- Serve a version of the history, as a document that is due at a distant fresh_until. It is written
-- only at the set and number that were read, with a document or none as then: a purge does not change
-- the number. ARGV: set and number; version; etag; body; for how long in ms; the longer stale window in
-- ms; by whom; a name for the data set, if there is none; 1 if there was a document. Where there is
-- none, the number rises by two, as with placeholder and fill. Returns {'restored', until},
-- {'withdrawn'} if that version is not there, or {'lost'} if something else happened meanwhile.
local h = read()
if h.set ~= ARGV[1] or int(h.seq) ~= ARGV[2] or (h.etag ~= '') ~= (ARGV[10] == '1') then return {'lost'} end
if kind(history) ~= 'hash' or redis.call('HSTRLEN', history, ARGV[3] .. ':body') == 0 then return {'withdrawn'} end
local set, seq, till = h.set ~= '' and h.set or ARGV[9] .. '@' .. int(now), h.seq + (h.etag ~= '' and 1 or 2), now + ARGV[6]
clear(lock)
redis.call('HSET', lock, 'set', set, 'seq', int(seq), 'baseline_since', int(now))
redis.call('PEXPIRE', lock, month)
if h.doc == 0 then redis.call('DEL', key) end
redis.call('HSET', key, 'set', set, 'seq', int(seq), 'etag', ARGV[4], 'body', ARGV[5], 'source', h.source,
  'fetched_at', int(now), 'changed_at', int(now), 'fresh_until', int(till), 'upstream_etag', '', 'upstream_last_modified', '', 'suspicions', '', 'age', '0',
  'restored_by', string.sub(ARGV[8], 1, 300))
expire(seq, till + ARGV[7])
clearhold()
drop()
local about = string.gsub(redis.call('HGET', history, ARGV[3]) or '', '"at":%d+', '"at":' .. int(now), 1)
redis.call('HSET', history, ARGV[3], (string.gsub(about, '"changes":.*', '"changes":"restored"}', 1)))
redis.call('PEXPIRE', history, month)
return {'restored', till}
