-- Waits for a lock: takes it if nobody holds it, else makes known that somebody waits, so that
-- the holder's release wakes one. `fence.lua` stands in front of it.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the flag that somebody waits
-- KEYS[3]  the fence counter; passed only if a fence is to be drawn
-- ARGV[1]  the record to write: the token, and the label if any
-- ARGV[2]  time to live of the record, in whole milliseconds
-- ARGV[3]  time to live of the flag, in whole milliseconds
-- ARGV[4]  the name of the client that waits, which the flag holds
-- ARGV[5]  time to live of the counter, in whole milliseconds
--
-- Returns   1  taken (with KEYS[3]: the fence, above 0)
--           { the time to live left of the record in milliseconds, -1 if it has none; 1 if the
--             flag was set and will be seen, 0 if not }
--          -2  the counter stands at the largest number that still grows exactly
--          -3  the counter holds something that is not a number
local record = redis.call('GET', KEYS[1])
if record then
    local left = redis.call('PTTL', KEYS[1])
    local set = redis.pcall('SET', KEYS[2], ARGV[4], 'PX', ARGV[3])
    if type(set) == 'table' and set.err then
        if string.find(set.err, 'READONLY', 1, true) then
            -- What a replica says of a lock proves nothing.
            return set
        end
        -- Where memory is full, say, the lock is still held, and nobody will be woken.
        return { left, 0 }
    end
    -- Tokens of others look different, and whoever holds the lock by one of those wakes nobody.
    local token = string.match(record, '^%x+')
    if not token or #token ~= 40 then
        return { left, 0 }
    end
    return { left, 1 }
end
if not KEYS[3] then
    redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
    return 1
end
return set_with_fence(KEYS[3], ARGV[5], KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
