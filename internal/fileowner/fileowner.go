// Package fileowner tells whether a file that nobody named, but that was found where one looks, can
// have been written by another user of the machine.
package fileowner

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Check reports who else than this user and root could have written a file, or put another in its
// place. A file that does not exist is fs.ErrNotExist.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := CheckFolder(path); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	return judge(folder, info, true)
}

// CheckFolder is Check without the folder around.
func CheckFolder(path string) error {
	// The link itself, if it is one, and what it leads to.
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if err != nil {
			return err
		}
		if err := judge(path, info, false); err != nil {
			return err
		}
	}
	return nil
}

// judge refuses what others own or may write to. Into a sticky folder such as /tmp all may write,
// but nobody can replace the files of another.
func judge(path string, info fs.FileInfo, around bool) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s cannot be told", path)
	}
	me := uint32(os.Geteuid()) // an id of a user is never negative
	if stat.Uid != me && stat.Uid != 0 {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, stat.Uid)
	}
	open := info.Mode().Perm() & 0o022
	if stat.Gid == stat.Uid { // the group of one user alone, as many systems give each
		open &= 0o002
	}
	if info.Mode()&fs.ModeSymlink != 0 || around && info.Mode()&fs.ModeSticky != 0 {
		open = 0
	}
	if open != 0 {
		return fmt.Errorf("%s may be written to by other users (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}
