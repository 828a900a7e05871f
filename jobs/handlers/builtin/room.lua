-- Whether a tenant may put one more message into the queue ARGV[1], of at most ARGV[2] messages, while all the queues that
-- it writes to hold at most ARGV[3] bytes and are at most ARGV[4]. KEYS[1]: the set of those queues, which is kept here; a
-- queue that was emptied leaves it. Returns what stands in the way (length, bytes, queues, or nothing) and the figure.
local queue, bytes, count, known = ARGV[1], 0, 0, false
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    -- Of a long list a few entries are weighed, and the rest taken to be like them.
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
