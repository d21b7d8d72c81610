package dispatch

// Suspect makes the next claims read so many rows one by one.
func (s *SQLStore) Suspect(rows int64) { s.suspects.Store(rows) }
