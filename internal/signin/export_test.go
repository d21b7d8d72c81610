package signin

// Compare replaces the check of a password.
func (u *Users) Compare(check func(hash, password []byte) error) { u.compare = check }
