-- Do what an operator's HSET accept 1 would, if something is held, or is being fetched: the next
-- document is taken. Returns {1 if it is, else 0, 1 if a document is held back, else 0}.
local h = read()
if h.doc == 0 then return {0, 0} end
redis.call('HSET', key, 'accept', 1)
return {1, h.hold[1] > 0 and 1 or 0}
