package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A change of the code that moves a mutant's ground away is noticed at once, and not at the next hunt.
func TestEveryMutantCanBePlanted(t *testing.T) {
	t.Chdir("../../..")
	names := map[string]bool{}
	for _, m := range catalogue() {
		texts, err := mutated(m)
		require.NoError(t, err, m.name)
		require.NotEmpty(t, texts, m.name)
		require.NotEmpty(t, m.breaks, m.name)
		require.False(t, names[m.name], "%s is there twice", m.name)
		names[m.name] = true
	}
}
