package dispatch

// holds reports whether the lease of key, which owner got, still names the row.
func (s *memTable) holds(r *memRow, owner string, k Key) bool {
	if !r.published.IsZero() || r.dead != "" {
		return false
	}
	l := s.leaseOf(k.Lease)
	return s.bug == bugNoFence || (l != nil && l.owner == owner && l.rows[r])
}

// change is one row a settle changes, and how.
type change struct {
	row   *memRow
	key   Key
	apply func()
	count *int
}

// beginSettle locks leases, and the rows owner may settle. One that another transaction
// has locked makes it wait: then there is no transaction yet.
func (s *memTable) beginSettle(owner string, v Verdicts) (tx *memTx, n *Settled, kept []change) {
	n = &Settled{}
	all := s.changes(v, n)
	for _, c := range all {
		if l := s.leaseOf(c.key.Lease); (c.row != nil && c.row.tx != nil) || (l != nil && l.tx != nil) {
			return nil, nil, nil
		}
	}
	tx = &memTx{}
	if s.bug == bugTwoStatements {
		for _, x := range v.Dead {
			if s.holds(s.byID[x.ID], owner, x.Key) {
				s.letters = append(s.letters, &memLetter{eventID: x.ID, reason: x.Reason})
			}
		}
	}
	for _, c := range all {
		if c.row != nil && c.row.tx == nil && s.holds(c.row, owner, c.key) {
			tx.lock(c.row)
			kept = append(kept, c)
		}
		if l := s.leaseOf(c.key.Lease); l != nil {
			l.tx = tx
			tx.leases = append(tx.leases, l)
		}
	}
	if s.bug == bugShrinksFirst {
		s.shrink(kept)
	}
	tx.commit = func() {
		s.shrink(kept)
		for _, c := range kept {
			c.apply()
			*c.count++
		}
	}
	return tx, n, kept
}

// shrink takes what is settled out of its leases.
func (s *memTable) shrink(kept []change) {
	for _, c := range kept {
		if l := s.leaseOf(c.key.Lease); l != nil {
			delete(l.rows, c.row)
		}
	}
	s.dropEmpty()
}

func (s *memTable) changes(v Verdicts, n *Settled) (all []change) {
	now := s.now()
	add := func(k Key, count *int, apply func(r *memRow)) {
		r := s.byID[k.ID]
		all = append(all, change{r, k, func() { apply(r) }, count})
	}
	for _, x := range v.Published {
		add(x.Key, &n.Published, func(r *memRow) { r.published, r.messageID = now, x.MessageID })
	}
	for _, x := range v.Failed {
		add(x.Key, &n.Failed, func(r *memRow) {
			r.next, r.lastError = now.Add(x.Delay), x.Error
			if !x.Free {
				r.AttemptCount++
			}
		})
	}
	for _, x := range v.Dead {
		add(x.Key, &n.Dead, func(r *memRow) {
			r.dead, r.lastError = x.Reason, x.Error
			if x.Attempted {
				r.AttemptCount++
			}
			if s.bug != bugTwoStatements {
				s.letters = append(s.letters, &memLetter{eventID: r.ID, reason: x.Reason})
			}
		})
	}
	for _, k := range v.Released {
		add(k, &n.Released, func(*memRow) {})
	}
	return all
}
