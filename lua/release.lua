-- Gives a lock back, if the record is still the caller's: compare, then delete.
--
-- KEYS[1]  the lock record
-- ARGV[1]  the whole record the caller believes to own: the token, and the label if any
--
-- Returns   1  the record was the caller's and has been deleted
--           0  there is no record
--          -1  the record is another's, and stands untouched
--
-- A replica answers 0 and -1 without an error: they count only after ROLE has said
-- that the server is a primary.
local record = redis.call('GET', KEYS[1])
if not record then
    return 0
end
if record ~= ARGV[1] then
    return -1
end
redis.call('DEL', KEYS[1])
return 1
