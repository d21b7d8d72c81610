#!/usr/bin/env bash
# A release without publishing anything: everything that goreleaser builds, twice, whether both times are the same bytes,
# the deb in a clean root, the archive's man pages and completions, what the image is made of, and the modules as others
# get them. It ends with the list of files, and the tags in the order in which they are pushed.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH TAP_TOKEN=none
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
say() { printf '\n==> %s\n' "$*"; }

# The bill of materials has a new number each time.
skip=publish,announce,sign,docker,validate
command -v syft >/dev/null || { echo 'note: no bills of materials: syft is not installed'; skip+=,sbom; }
for round in 1 2; do
	say "build $round of 2"
	bin/goreleaser release --snapshot --clean --skip="$skip" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail 'goreleaser'; }
	grep -v '\.sbom\.json$' dist/checksums.txt | sort -k2 >"$work/sums.$round"
done
diff "$work/sums.1" "$work/sums.2" || fail 'two builds of one commit differ'
echo "same bytes twice: $(wc -l <"$work/sums.1") files"

say 'the deb in a clean root'
arch=$(go env GOARCH)
if command -v dpkg >/dev/null; then
	root=$work/root
	mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
	touch "$root/var/lib/dpkg/status"
	dpkg --root="$root" --force-script-chrootless --force-not-root --force-bad-path -i dist/*_"$arch".deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fail 'install the deb'; }
	"$root/usr/bin/outboxctl" version
	for file in usr/share/bash-completion/completions/outboxctl usr/share/man/man1/outboxctl-dlq-replay.1.gz lib/systemd/system; do
		[ -e "$root/$file" ] || [ -e "$root/${file%.gz}" ] || fail "the deb has no $file"
	done
else
	echo 'note: not tried: this machine has no dpkg'
fi

say 'the archive, with its man pages and completions'
mkdir "$work/archive"
tar -xzf dist/outboxctl_*_"$(go env GOOS)_$arch".tar.gz -C "$work/archive"
"$work/archive/outboxctl" version
mkdir -p "$work/share/man" && cp -r "$work/archive/docs/man" "$work/share/man/man1"
if command -v man >/dev/null; then
	[ "$(MANPATH=$work/share/man man -w outboxctl-publish)" ] || fail 'man does not find outboxctl-publish'
fi
bash -n "$work/archive/completions/outboxctl.bash" || fail 'the completion of bash'
[ -s "$work/archive/completions/_outboxctl" ] && [ -s "$work/archive/completions/outboxctl.fish" ] || fail 'completions are missing'

say 'what the images are made of'
for arch in amd64 arm64; do
	mkdir -p "$work/context/linux/$arch"
	cp dist/outboxctl_linux_"$arch"*/outboxctl "$work/context/linux/$arch/"
	file -b "$work/context/linux/$arch/outboxctl" 2>/dev/null | cut -c1-60 || true
done
grep -q '^COPY \$TARGETPLATFORM/outboxctl /outboxctl$' Dockerfile || fail 'Dockerfile does not take the released binary'

say 'no link to a file that is not there'
for url in $(grep -oE 'https://github.com/outboxctl/outboxctl/releases/download/[^"]+' dist/homebrew/Casks/outboxctl.rb | sed 's/.*#{version}_/_/'); do
	ls dist/*"$url" >/dev/null 2>&1 || ls dist | grep -qF "$(basename "$url")" || fail "the cask names $url, which is not built"
done

say 'the modules as others get them'
go test -count=1 -run 'TestModulesAsPublished' .

say 'files'
(cd dist && ls -l -- *.tar.gz *.deb *.rpm checksums.txt *.sbom.json homebrew/Casks/*.rb 2>/dev/null | awk '{printf "%10d  %s\n", $5, $9}')
say 'tags, in the order in which they are pushed'
printf '%s\n' emit/vX.Y.Z catalogue/vX.Y.Z consume/vX.Y.Z vX.Y.Z
