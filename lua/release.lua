-- Gives a lock back, if the record is still the caller's: compare, then delete; and wakes one of
-- those who wait for it.
--
-- KEYS[1]  the lock record
-- KEYS[2]  the flag that somebody waits; passed only with KEYS[3]
-- KEYS[3]  the list that waiters block on
-- ARGV[1]  the whole record the caller believes to own: the token, and the label if any
-- ARGV[2]  with KEYS[3]: how long a wake-up that nobody takes stays, in whole milliseconds
-- ARGV[3]  with KEYS[3]: the name by which the caller's own waiters set the flag
--
-- Returns   1  the record was the caller's and has been deleted
--           2  the same, and another than the caller waits
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
-- From here on nothing may raise: the lock has been given back, whatever becomes of the wake-up.
-- A user may lack the rights for it, and a full memory refuses LPUSH.
if not KEYS[3] then
    return 1
end
local last = redis.pcall('GET', KEYS[2])
if type(last) ~= 'string' then
    return 1
end
-- One wake-up is enough: who is woken takes the lock, and its release wakes the next. More of
-- them would wake a herd.
if redis.pcall('EXISTS', KEYS[3]) == 0 then
    redis.pcall('LPUSH', KEYS[3], '1')
    redis.pcall('PEXPIRE', KEYS[3], ARGV[2])
end
-- A flag that the caller itself has set last may be all that is left of its own waiting. If not,
-- whoever else waits sets it anew within a second.
if last == ARGV[3] then
    return 1
end
return 2
