// Package words writes numbers and lengths of time as people read them, reads what people write,
// and finds the word that was meant.
package words
