-- What is held. ARGV: the longest lease in ms, the etag of the copy that the caller has.
return found(read(tonumber(ARGV[1])), ARGV[2])
