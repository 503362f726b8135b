-- Takes a lock and draws its fence in one step, if nobody holds the lock. `fence.lua`
-- stands in front of it.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the fence counter
-- ARGV[1]  the record to write: the token, and the label if any
-- ARGV[2]  time to live of the record, in whole milliseconds
-- ARGV[3]  time to live of the counter, in whole milliseconds
--
-- Returns  the fence, above 0, when the lock was taken
--           0  somebody holds the lock
--          -2  the counter stands at the largest number that still grows exactly
--          -3  the counter holds something that is not a number
--
-- The counter is written before the lock: a counter that grew alone is harmless, a lock
-- without its fence is not. It is not written while somebody holds the lock, since the
-- holder may still have to ask for the fence of its own acquisition.
local record = redis.call('GET', KEYS[1])
if record then
    -- A write, though it changes nothing that matters: a read-only replica must answer
    -- READONLY here and not "held".
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    return 0
end
return set_with_fence(KEYS[2], ARGV[3], KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
