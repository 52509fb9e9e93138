-- What is held. ARGV: the etag of the copy that the caller has.
return found(read(), ARGV[1])
