package migrate

// LockKey is the advisory lock of migration runs.
const LockKey = lockKey
