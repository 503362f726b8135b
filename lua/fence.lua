-- Draws the next fence. Not a script by itself: it stands in front of those that draw one.
--
-- counter  the key of the fence counter
-- ttl      time to live of the counter, in whole milliseconds
--
-- Returns   the fence, above 0, already written to the counter
--          -2  the counter stands at the largest number that still grows exactly
--          -3  the counter holds something that is not a number
--           or the error reply of the server, which then has written nothing
--
-- The fence is the larger of the last one plus 1 and the server's time in microseconds:
-- it still grows when the counter is lost, unless the server's clock went back as well.
-- Above 2^53 a Lua number stops growing by 1, so such a fence is refused.
local function draw_fence(counter, ttl)
    local last = redis.pcall('GET', counter)
    if type(last) == 'table' then
        -- A counter of another type must not be told as a lock of another type.
        if string.find(last.err, 'WRONGTYPE', 1, true) then
            return -3
        end
        return last
    end
    local fence = 1
    if last then
        -- Only what this function writes is a counter: digits, and no more of them than
        -- come back from a number unchanged. `nan`, hexadecimal and fractions are numbers
        -- in Lua.
        local number = string.match(last, '^%d+$') and tonumber(last)
        if not number or string.format('%.0f', number) ~= last then
            return -3
        end
        fence = number + 1
    end
    local now = redis.call('TIME')
    local micros = tonumber(now[1]) * 1000000 + tonumber(now[2])
    if fence < micros then
        fence = micros
    end
    if fence >= 9007199254740992 then
        return -2
    end
    local counted = redis.pcall('SET', counter, string.format('%.0f', fence), 'PX', ttl)
    if type(counted) == 'table' and counted.err then
        return counted
    end
    return fence
end

-- Draws the next fence and writes a record in one step; never a record without its fence. The
-- counter is written first: one that grew alone is harmless.
--
-- counter  the key of the fence counter
-- ttl      time to live of the counter, in whole milliseconds
-- ...      the arguments of the SET that writes the record
--
-- Returns   the fence, above 0, when the record was written
--           0  SET found that it was not to be written
--           or what draw_fence returns when it drew none
local function set_with_fence(counter, ttl, ...)
    local fence = draw_fence(counter, ttl)
    if type(fence) == 'table' or fence < 0 then
        return fence
    end
    -- From here on nothing may raise: what was written is not rolled back.
    local written = redis.pcall('SET', ...)
    if type(written) == 'table' and written.err then
        return written
    end
    if not written then
        return 0
    end
    return fence
end
