package outboxtest

import (
	"os"
	"syscall"
)

// memoryRoom is free space that the servers of a whole suite never need; a container's own /dev/shm
// has less.
const memoryRoom = 4 << 30

// TempDir returns the folder in which servers keep their files: one in memory where there is room.
// Most of the work of making and dropping a database is making and removing three hundred files.
// TMPDIR, when set, decides alone.
func TempDir() string {
	const memory = "/dev/shm"
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &fs) != nil ||
		fs.Bavail*uint64(fs.Bsize) < memoryRoom || syscall.Access(memory, 0b010) != nil {
		return os.TempDir()
	}
	return memory
}
