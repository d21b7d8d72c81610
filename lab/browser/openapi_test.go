package browser

import (
	"io"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// The description of the API is valid by another program's judgement, and says how one signs in.
func TestTheDescriptionOfTheAPIIsValid(t *testing.T) {
	t.Parallel()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, newSite(t, nil).url+"/api/v1/openapi.json", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	api, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	require.NoError(t, api.Validate(t.Context()))
	require.NotEmpty(t, api.Components.SecuritySchemes)
	require.NotEmpty(t, api.Security)
}
