-- Keep a document in the history, if it is still the one that the caller has written. ARGV: set and
-- number of that fill; version; what is kept, compressed ('' asks whether it is wanted); the rest of
-- its JSON; in how many bytes the history is kept; and the versions that go. Returns {'lost'},
-- {'kept'}, or {'wanted', now, version, when it was written, ...}, newest first. A history with very
-- many names was not written by this program.
local h = read()
if h.doc == 0 or h.set ~= ARGV[1] or int(h.seq) ~= ARGV[2] then return {'lost'} end
clear(history)
if redis.call('HLEN', history) > 100 then redis.call('UNLINK', history) end
if ARGV[4] ~= '' then
  redis.call('HSET', history, ARGV[3] .. ':body', ARGV[4], ARGV[3], '{"at":' .. int(now) .. ',' .. ARGV[5])
end
for i = 7, #ARGV do redis.call('HDEL', history, ARGV[i], ARGV[i] .. ':body') end
local all = {} -- newest first
for _, name in ipairs(redis.call('HKEYS', history)) do
  if #name == 12 then
    local at = math.min(num(string.match(redis.call('HGET', history, name), '"at":(%d+)')), now)
    all[#all + 1] = {name = name, at = at, size = redis.call('HSTRLEN', history, name .. ':body')}
  end
end
table.sort(all, function(a, b) return a.at > b.at or a.at == b.at and a.name < b.name end)
local bytes, reply = 0, {'wanted', int(now)}
for _, v in ipairs(all) do
  bytes = bytes + v.size
  if bytes > num(ARGV[6]) then redis.call('HDEL', history, v.name, v.name .. ':body') end
  reply[#reply + 1] = v.name
  reply[#reply + 1] = int(v.at)
end
redis.call('PEXPIRE', history, month)
if ARGV[4] == '' and not (all[1] and all[1].name == ARGV[3]) then return reply end
return {'kept'}
