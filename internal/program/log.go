package program

import (
	"io"
	"os"
)

// Bound keeps a log small while its writer goes on: the newest part moves to
// <path>.1 and the file is emptied. The writer appends, so it needs no notice;
// a line that is written between the two steps may be lost.
func Bound(path string, limit int64) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() <= limit {
		return err
	}
	src, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(path+".1", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = src.Seek(-limit, io.SeekEnd); err == nil {
		_, err = io.Copy(dst, io.LimitReader(src, limit))
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return src.Truncate(0)
}
