-- Reads a lock in one step: what stands there, for how long, and whether somebody waits for it.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the flag that somebody waits; may be left out
-- ARGV[1]  how many bytes of the record are wanted at most
--
-- Returns  { the beginning of the record, the time to live left in milliseconds, -1 if it
--          has none, 1 if somebody waits, 0 if nobody does, -1 where that is not to be learned }
--          or nil if there is no record
local record = redis.call('GET', KEYS[1])
if not record then
    return false
end
local waits = -1
if KEYS[2] then
    -- A user may lack the rights for it.
    local exists = redis.pcall('EXISTS', KEYS[2])
    if type(exists) == 'number' then
        waits = exists
    end
end
return { string.sub(record, 1, tonumber(ARGV[1])), redis.call('PTTL', KEYS[1]), waits }
