package catalogue

import "strings"

// Nearest is the one of the known words that a word was most likely meant to be: at most two
// letters differ, or only their case. Empty when none is close.
func Nearest(word string, known []string) (nearest string) {
	least := min(3, len(word)) // not all of its letters
	for _, k := range known {
		if strings.EqualFold(word, k) {
			return k
		}
		if d := distance(word, k); d < least {
			nearest, least = k, d
		}
	}
	return nearest
}

// distance is how many letters must be added, removed or replaced to turn one word into another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
