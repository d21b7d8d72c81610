package consume

import "github.com/redis/go-redis/v9"

// The scripts use GET, SET NX PX, PEXPIRE and DEL only, all of them present in Redis 2.6.12. Each
// touches one key, so they work on a cluster, and each is safe to run twice with the same
// arguments, so a client may retry a call whose reply was lost.
type scripts struct {
	begin, extend, done, abort, mark *redis.Script
}

func newScripts() scripts {
	return scripts{
		begin:  redis.NewScript(beginScript),
		extend: redis.NewScript(extendScript),
		done:   redis.NewScript(doneScript),
		abort:  redis.NewScript(abortScript),
		mark:   redis.NewScript(markScript),
	}
}

// beginScript takes the lease, or returns what stands in its way. Finding our
// own value means an earlier try of this very call got through.
// KEYS key; ARGV lease value, lease ms.
const beginScript = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return ''
end
local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return ''
end
return v
`

// extendScript keeps the lease alive. A key that vanished (expired, flushed,
// evicted) and that no other delivery has taken since is taken back.
// KEYS key; ARGV lease value, lease ms.
const extendScript = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0
`

// doneScript records that the effect happened. That is a fact whichever delivery
// holds the lease by now, so another delivery's lease gives way to it; an earlier
// done mark stays, with its own expiry.
// KEYS key; ARGV lease value, done value, ttl ms, lease prefix.
const doneScript = `
local v = redis.call('GET', KEYS[1])
if v == ARGV[2] then
  return 'marked'
end
if v and string.sub(v, 1, string.len(ARGV[4])) ~= ARGV[4] then
  return 'already'
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if v == ARGV[1] then
  return 'marked'
end
return 'late'
`

// abortScript gives the lease back if it is still ours.
// KEYS key; ARGV lease value.
const abortScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`

// markScript is the one-step form: it sets the done mark or returns what was there.
// KEYS key; ARGV done value, ttl ms.
const markScript = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return ''
end
local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then
  return ''
end
return v
`
