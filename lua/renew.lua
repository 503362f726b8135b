-- Lengthens a lease, if the record is still the caller's: compare, then PEXPIRE.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the fence counter; passed only to learn the fence of a fenced lease
-- ARGV[1]  the whole record the caller believes to own: the token, and the label if any
-- ARGV[2]  time to live, in whole milliseconds, at least 1
--
-- Returns   1  renewed (with KEYS[2]: { 1, the counter as text, or false if it is gone })
--           0  there is no record
--          -1  the record is another's, and stands untouched
--
-- The expiry is set to the larger of what is asked and what is left, so that a renewal
-- never shortens a lease. It is written even when nothing changes: a read-only replica
-- must answer READONLY here and not "renewed". A missing record is never made anew.
local ttl = tonumber(ARGV[2])
if not ttl or ttl < 1 then
    -- PEXPIRE with 0 or less deletes the key.
    return redis.error_reply('ERR time to live below 1 ms')
end
local record = redis.call('GET', KEYS[1])
if not record then
    return 0
end
if record ~= ARGV[1] then
    return -1
end
local fence = false
if KEYS[2] then
    fence = redis.pcall('GET', KEYS[2])
    if type(fence) == 'table' then
        -- A counter of another type is a counter that is gone, not a lock of another type.
        fence = false
    end
end
local expiry = ARGV[2]
local left = redis.call('PTTL', KEYS[1])
if left > ttl then
    expiry = string.format('%.0f', left)
end
redis.call('PEXPIRE', KEYS[1], expiry)
if KEYS[2] then
    return { 1, fence }
end
return 1
