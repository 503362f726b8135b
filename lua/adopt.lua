-- Hands a lock on: replaces the record by one with a fresh token, if it is still the one
-- that was given away. Of several adopters one wins. `fence.lua` stands in front of it.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the fence counter; passed only if a fence is to be drawn
-- ARGV[1]  the whole record that was given away
-- ARGV[2]  the record to write: the fresh token, and the label if any
-- ARGV[3]  time to live of the record, in whole milliseconds
-- ARGV[4]  time to live of the counter, in whole milliseconds
--
-- Returns   1  adopted (with KEYS[2]: the fence, above 0)
--           0  there is no record
--          -1  the record is another's, and stands untouched
--          -2  the counter stands at the largest number that still grows exactly
--          -3  the counter holds something that is not a number
local record = redis.call('GET', KEYS[1])
if not record then
    return 0
end
if record ~= ARGV[1] then
    return -1
end
if not KEYS[2] then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
end
return set_with_fence(KEYS[2], ARGV[4], KEYS[1], ARGV[2], 'PX', ARGV[3])
