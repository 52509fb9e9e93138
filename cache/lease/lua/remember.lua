-- Keep a document in the history, if it is still the one that the caller has written. ARGV: set and
-- seq of that fill; version; what is kept, compressed ('' asks whether it is wanted); the rest of
-- its JSON; how many versions are kept, in how many bytes, and for how long after they were
-- replaced, in ms. Returns {'lost'}, {'kept'}, or {'wanted', the newest version}.
local h = read()
if h.doc == 0 or h.set ~= ARGV[1] or int(h.seq) ~= ARGV[2] then return {'lost'} end
clear(history)
if ARGV[4] ~= '' then
  redis.call('HSET', history, ARGV[3] .. ':body', ARGV[4], ARGV[3], '{"at":' .. int(now) .. ',' .. ARGV[5])
end
local all = {} -- newest first
for _, name in ipairs(redis.call('HKEYS', history)) do
  if #name == 12 then
    local at = string.match(redis.call('HGET', history, name), '"at":(%d+)')
    all[#all + 1] = {name = name, at = num(at), size = redis.call('HSTRLEN', history, name .. ':body')}
  end
end
table.sort(all, function(a, b) return a.at > b.at or a.at == b.at and a.name < b.name end)
if ARGV[4] == '' and not (all[1] and all[1].name == ARGV[3]) then return {'wanted', all[1] and all[1].name or ''} end
local bytes = 0
for i, v in ipairs(all) do
  bytes = bytes + v.size
  if i > num(ARGV[6]) or bytes > num(ARGV[7]) or i > 1 and now - all[i - 1].at > num(ARGV[8]) then
    redis.call('HDEL', history, v.name, v.name .. ':body')
  end
end
return {'kept'}
