-- Who tells a target what became of a resource: KEYS[1] is the hash of what was told, with fields
-- for each target. ARGV: target, token, how long a claim lasts or, at its end, nobody shall tell
-- the target anything of this resource, in ms; topic, set, seq, value, 1 if the same value need not
-- be told again; '', or, to end the claim, 'told' or 'failed'; failures in a row. A notice
-- is told if one of its topic with its seq or a later one was, in the same set. What was told of a
-- topic is 'SEQ SET VALUE AT'; an empty set is any, and an empty value leaves the one before, with
-- a - in front of it. Returns {outcome, left in ms, failures in a row, what was told, now}; the
-- outcome is 'granted', 'held', 'paused' (after a failure) or 'told', or 'lost' for the end of a
-- claim that another has taken since.
if kind(key) ~= 'hash' then redis.call('DEL', key) end
local target, topic, set, seq, value = ARGV[1], ARGV[1] .. ':' .. ARGV[4], ARGV[5], num(ARGV[6]), ARGV[7]
local f = redis.call('HMGET', key, target .. ':claim', target .. ':until', target .. ':length', topic)
local claim, left, said = f[1] or '', remaining(f[2], num(f[3])), f[4] or ''
local failures = num(string.match(claim, '^failed:(%d+)$'))
local was, wasset, wasvalue = string.match(said, '^(%d+) (%S*) (%S*) %d+$')
local bare = string.gsub(wasvalue or 'well', '^%-', '')
local told = was and seq > 0 and seq <= num(was) and (set == wasset or set == '' or wasset == '')
  or ARGV[8] == '1' and value == bare
local function reply(outcome) return {outcome, int(left), int(failures), said, int(now)} end
local function hold(by, ms)
  redis.call('HSET', key, target .. ':claim', by, target .. ':until', int(now + ms), target .. ':length', int(ms))
end

if ARGV[9] == 'told' or ARGV[9] == 'failed' then
  if claim ~= ARGV[2] then return reply('lost') end
  if ARGV[9] == 'failed' then
    hold('failed:' .. int(num(ARGV[10])), num(ARGV[3]))
    return reply('paused')
  end
  said = int(seq) .. ' ' .. set .. ' ' .. (value ~= '' and value or '-' .. (was and bare or '')) .. ' ' .. int(now)
  redis.call('HSET', key, topic, said)
  hold('told', num(ARGV[3]))
  return reply('told')
end
if told then return reply('told') end
if left > 0 and claim ~= ARGV[2] then return reply(failures > 0 and 'paused' or 'held') end
hold(ARGV[2], num(ARGV[3]))
return reply('granted')
