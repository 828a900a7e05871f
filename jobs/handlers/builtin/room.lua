-- Whether a tenant may put one more message into the queue ARGV[1]. The queue holds at most ARGV[2] messages. All queues
-- that the tenant writes to hold at most ARGV[3] bytes together, and there are at most ARGV[4] of them. KEYS[1]: the set
-- of those queues, which this script maintains; a queue that was emptied leaves it. Returns the bound that is reached
-- (length, bytes, queues, or nothing) and the figure; type, where the key holds no list.
local queue, bytes, count, known = ARGV[1], 0, 0, false
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    -- For a long list Redis measures a few entries and assumes that the rest are like them.
    local size = redis.pcall('MEMORY', 'USAGE', name, 'SAMPLES', 20)
    if type(size) == 'number' then
        bytes, count = bytes + size, count + 1
        known = known or name == queue
    else
        redis.call('SREM', KEYS[1], name)
    end
end
local length = redis.pcall('LLEN', queue)
if type(length) ~= 'number' then
    return {'type', 0}
elseif length >= tonumber(ARGV[2]) then
    return {'length', length}
elseif bytes >= tonumber(ARGV[3]) then
    return {'bytes', bytes}
elseif not known and count >= tonumber(ARGV[4]) then
    return {'queues', count}
end
if not known then
    redis.call('SADD', KEYS[1], queue)
end
return {'', 0}
