-- Which replica notifies an endpoint of a resource, and of what it was notified last. KEYS: the
-- document's hash, and its lock record, which has two fields for each endpoint:
--   notified:ENDPOINT:TOPIC  SEQ SET VALUE AT   the last notice of a topic; a purge has no value
--   notifying:ENDPOINT       TOKEN UNTIL N      the replica that notifies now; or 'sent' or 'failed',
--                                               and until when to pause, after N failures in a row
-- ARGV: endpoint, topic, set, seq, value, 0 or the number of a purge without which the same value is
-- not known; step (begin, sent, failed), token, for how long in ms (a mark, or the pause
-- after it), failures. Returns {outcome, left in ms, failures, SEQ, VALUE, AT of the last notice, now};
-- the outcome is granted, busy, notified, or lost: the mark is another replica's by now.
-- Numbers above what is possible count as none, whoever wrote them.
local doc, lock = KEYS[1], KEYS[2]
local endpoint, topic, set, seq, value = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
if redis.replicate_commands then redis.replicate_commands() end -- else Redis 6 can refuse to write after TIME
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function int(n) return string.format('%.0f', n) end
local function num(s) return s and #s < 16 and string.find(s, '^%d+$') and tonumber(s) or 0 end
local lasted, marked = 'notified:' .. endpoint .. ':' .. topic, 'notifying:' .. endpoint

local f = redis.call('HMGET', lock, lasted, marked, 'set', 'seq')
local was, wasset, wasvalue, at = string.match(string.sub(f[1] or '', 1, 300), '^(%d+) (%S*) (%S*) (%d+)$')
local token, till, failures = string.match(string.sub(f[2] or '', 1, 300), '^(%S+) (%d+) (%d+)$')
was, failures = num(was), token == 'sent' and 0 or num(failures)
-- The highest number that this topic can have reached: a purge has the one after its document's.
local most = now
if topic == 'content' or topic == 'outage' then
  local d = redis.call('TYPE', doc).ok == 'hash' and redis.call('HMGET', doc, 'set', 'seq') or {}
  most = num(f[4])
  if (f[3] or '') ~= (wasset or '') then most = 1 elseif d[1] ~= f[3] or num(d[2]) ~= most then most = most + 1 end
end
if topic ~= 'content' then most = 2 * most + 1 end
if was > most or num(at) > now then was, wasset, wasvalue, at = 0, nil, nil, nil end
local left = num(till) - now
if left > (token == 'failed' and 600000 or 6000) then left, failures = 0, 0 end
left = math.max(left, 0)
local state = wasvalue or topic == 'outage' and 'well' or ''

local function reply(outcome)
  return {outcome, int(left), int(failures), int(was), wasvalue or '', int(num(at)), int(now)}
end
local function mark(by, n)
  redis.call('HSET', lock, marked, by .. ' ' .. int(now + tonumber(ARGV[9])) .. ' ' .. int(n))
end

if ARGV[7] ~= 'begin' then
  if token ~= ARGV[8] then return reply('lost') end
  if ARGV[7] == 'sent' then
    redis.call('HSET', lock, lasted, int(seq) .. ' ' .. set .. ' ' .. value .. ' ' .. int(now))
  end
  mark(ARGV[7], tonumber(ARGV[10]))
  return reply('granted')
end
local known = was > 0 and seq <= was and (set == wasset or set == '')
if known or value ~= '' and value == state and was >= num(ARGV[6]) then return reply('notified') end
if left > 0 then return reply('busy') end
mark(ARGV[8], failures)
return reply('granted')
