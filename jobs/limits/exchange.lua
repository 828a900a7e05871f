-- Exchange accounts with the buckets of KEYS, all at one moment. A bucket's value is the time at which it is full again,
-- in seconds since 2024-12-31 16:00 UTC by Redis' clock. ARGV has for each bucket: seconds a token takes, burst, held
-- tokens given back, tokens spent, seconds since the first of these was spent, tokens to hold. Returns for each bucket:
-- tokens held, seconds until it is full, and 1 where something else stood in its place.
-- ARGV[1]: seconds of debt that are kept when several processes spent the same tokens.
local time = redis.call('TIME')
local now = (time[1] - 1735660800) + time[2] / 1000000
local debt = tonumber(ARGV[1])
local answers = {}
for n, key in ipairs(KEYS) do
    local at = n * 6 - 5
    local interval, burst = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local returned, spent, age = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
    local wanted = tonumber(ARGV[at + 6])
    local span = interval * burst
    local stored = redis.pcall('GET', key)
    local latest = now + span + math.min(span, debt)
    local full_at = now
    local odd, strange = false, 0
    if stored then
        full_at = type(stored) == 'string' and tonumber(stored)
        -- A time later than ``latest`` is of another rate, or of a clock that stepped back. A value that is no number
        -- is not ours. Each counts as an empty bucket, which fills from now on, so that it stops no process for long.
        strange = full_at and 0 or 1
        odd = not full_at or full_at > latest
        if odd then
            full_at = now + span
        end
    end
    full_at = full_at - returned * interval
    if spent > 0 then
        full_at = math.max(full_at, now - age)
    end
    full_at = math.max(math.min(full_at + spent * interval, latest), now)
    local held = math.max(0, math.min(wanted, math.floor((now + span - full_at) / interval + 0.000001)))
    full_at = full_at + held * interval
    if odd or returned > 0 or spent > 0 or held > 0 then
        if full_at > now then
            redis.call('SET', key, string.format('%.6f', full_at), 'PX', math.ceil((full_at - now) * 1000) + 1000)
        else
            redis.call('DEL', key)
        end
    end
    answers[n * 3 - 2] = held
    answers[n * 3 - 1] = string.format('%.6f', full_at - now)
    answers[n * 3] = strange
end
return answers
