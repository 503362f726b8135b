-- Takes a lock and draws its fence in one step, if nobody holds the lock.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the fence counter
-- ARGV[1]  the record to write: the token, and the label if any
-- ARGV[2]  time to live of the record, in whole milliseconds
-- ARGV[3]  time to live of the counter, in whole milliseconds
--
-- Returns  the fence, above 0, when the lock was taken
--           0  somebody holds the lock
--          -1  the counter stands at the largest number that still grows exactly
--          -2  the counter holds something that is not a number
--
-- The fence is the larger of the last one plus 1 and the server's time in microseconds:
-- it still grows when the counter is lost, unless the server's clock went back as well.
-- Above 2^53 a Lua number stops growing by 1, so such a fence is refused.
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
local last = redis.pcall('GET', KEYS[2])
if type(last) == 'table' then
    -- A key of another type here must not be told as one in place of the lock.
    if string.find(last.err, 'WRONGTYPE', 1, true) then
        return -2
    end
    return last
end
local fence = 1
if last then
    -- Only what this script writes is a counter: digits, and no more of them than come
    -- back from a number unchanged. `nan`, hexadecimal and fractions are numbers in Lua.
    local number = string.match(last, '^%d+$') and tonumber(last)
    if not number or string.format('%.0f', number) ~= last then
        return -2
    end
    fence = number + 1
end
local now = redis.call('TIME')
local micros = tonumber(now[1]) * 1000000 + tonumber(now[2])
if fence < micros then
    fence = micros
end
if fence >= 9007199254740992 then
    return -1
end
local counted = redis.pcall('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3])
if type(counted) == 'table' and counted.err then
    return counted
end
-- From here on nothing may raise: what was written is not rolled back.
local taken = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if type(taken) == 'table' and taken.err then
    return taken
end
if not taken then
    return 0
end
return fence
