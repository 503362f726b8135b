-- Reads a lock in one step: what stands there, and for how long.
--
-- KEYS[1]  the lock record
-- ARGV[1]  how many bytes of the record are wanted at most
--
-- Returns  { the beginning of the record, the time to live left in milliseconds, -1 if it
--          has none } or nil if there is no record
local record = redis.call('GET', KEYS[1])
if not record then
    return false
end
return { string.sub(record, 1, tonumber(ARGV[1])), redis.call('PTTL', KEYS[1]) }
