-- Accept what is held back, and acknowledge content warnings. ARGV: what is lost, as it stands in the
-- lock record ('': nothing is held back); the document's etag, and its content warnings as they are to
-- be ('': there are none). Returns {1}, or {0} if anything of that is not so any more.
local h = read()
local found = h.held and redis.call('HGET', lock, 'held_findings') or ''
if found ~= ARGV[1] or ARGV[3] ~= '' and h.etag ~= ARGV[2] then return {0} end
if ARGV[1] ~= '' then redis.call('HSET', lock, 'accepted', '1') end
if ARGV[3] ~= '' then redis.call('HSET', key, 'suspicions', ARGV[3]) end
return {1}
