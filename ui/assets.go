package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
)

const iconFile = "icon.svg"

type asset struct {
	mime    string
	content []byte
}

// assets are the files that are the same for every request.
type assets struct {
	// named has the names under which files are served for ever: with a digest of their content.
	named  map[string]string
	served map[string]asset
}

func readAssets() (assets, error) {
	a := assets{named: map[string]string{}, served: map[string]asset{}}
	for name, mime := range map[string]string{
		"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "changes.js": "text/javascript; charset=utf-8",
		"chart.js": "text/javascript; charset=utf-8", iconFile: "image/svg+xml",
	} {
		content, err := files.ReadFile("assets/" + name)
		if err != nil {
			return a, fmt.Errorf("read assets: %w", err)
		}
		sum, ext := sha256.Sum256(content), path.Ext(name)
		a.named[name] = strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		a.served[a.named[name]] = asset{mime, content}
	}
	return a, nil
}

func (h *Handler) serveAsset(w http.ResponseWriter, r *http.Request) {
	found, ok := h.assets.served[r.PathValue("name")]
	if !ok {
		writeText(w, http.StatusNotFound, "no such file\n")
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	found.write(w)
}

// serveIcon is for browsers that ask for it at the place of old.
func (h *Handler) serveIcon(w http.ResponseWriter, _ *http.Request) {
	h.assets.served[h.assets.named[iconFile]].write(w)
}

func (a asset) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.mime)
	_, _ = w.Write(a.content) // the caller has gone
}
