#!/usr/bin/env bash
# A release without publishing anything: every file that goreleaser builds, whether a second build in another folder has the
# same bytes, the deb in a root that holds nothing else, the archive with its man pages and completions, what the images are
# made of, the links of the cask, and the modules as others get them. It ends with the list of files, and the tags in the
# order in which they are pushed. bin/goreleaser and bin/syft must be there: make release-rehearsal builds them.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH PATH=$PWD/bin:$PATH
say() { printf '\n==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
# quiet shows what a command said only when it fails.
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; elif unshare -r true 2>/dev/null; then unshare -r "$@"; else sudo -n "$@"; fi
}
trap 'as_root rm -rf "$work"' EXIT

[ -z "$(git status --porcelain --untracked-files=no)" ] || fail 'a release is built from a commit: there are changes'
quiet bin/goreleaser check

# build runs goreleaser in a folder; more words are what it skips. Images need a registry, signatures an identity.
build() {
	(cd "$1" && quiet goreleaser release --snapshot --clean --skip="publish,announce,sign,docker,validate$2")
	# A bill of materials has a number and a time of its own.
	grep -v '\.sbom\.json$' "$1/dist/checksums.txt" | sort -k2
}
say 'build'
build . '' >"$work/sums.1"
say 'build again, from a clone in another folder'
quiet git clone --no-hardlinks . "$work/again"
build "$work/again" ',before,sbom' >"$work/sums.2"
diff "$work/sums.1" "$work/sums.2" || fail 'two builds of one commit differ'
diff dist/homebrew/Casks/outboxctl.rb "$work/again/dist/homebrew/Casks/outboxctl.rb" || fail 'two casks of one commit differ'
echo "the same bytes twice: $(wc -l <"$work/sums.1") files and the cask"
(cd dist && sha256sum --quiet --check checksums.txt)
for kind in linux_amd64.tar.gz linux_arm64.tar.gz darwin_amd64.tar.gz darwin_arm64.tar.gz linux_amd64.deb linux_arm64.deb linux_amd64.rpm linux_arm64.rpm; do
	grep -q "_$kind\$" "$work/sums.1" || fail "no file for $kind"
done
[ "$(ls dist/*.tar.gz.sbom.json | wc -l)" -eq 4 ] || fail 'an archive has no bill of materials'
grep -q 'github.com/jackc/pgx/v5' dist/*_linux_amd64.tar.gz.sbom.json || fail 'the bill of materials does not name pgx'
version=$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' dist/metadata.json)

host=$(go env GOARCH)
say 'the deb in a root that holds nothing else'
if command -v dpkg >/dev/null; then
	root=$work/root
	mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
	touch "$root/var/lib/dpkg/status"
	quiet as_root dpkg --root="$root" --force-not-root --install dist/*_linux_"$host".deb
	as_root chroot "$root" /usr/bin/outboxctl version
	as_root chroot "$root" /usr/bin/outboxctl version | grep -qF "$version" || fail 'the deb has another version'
	quiet as_root chroot "$root" /usr/bin/outboxctl init --name shop --database-url postgres://localhost/shop --broker nats
	quiet as_root chroot "$root" /usr/bin/outboxctl registry check catalogue.yaml
	for file in bash-completion/completions/outboxctl zsh/vendor-completions/_outboxctl fish/vendor_completions.d/outboxctl.fish man/man1/outboxctl-dlq-replay.1; do
		[ -s "$root/usr/share/$file" ] || fail "the deb has no /usr/share/$file"
	done
	[ -s "$root/lib/systemd/system/outboxctl-publish@.service" ] || fail 'the deb has no systemd unit'
	quiet as_root dpkg --root="$root" --force-not-root --purge outboxctl
	[ ! -e "$root/usr/bin/outboxctl" ] || fail 'the deb leaves the program behind'
else
	echo 'note: not tried: this machine has no dpkg'
fi
if command -v rpm >/dev/null; then
	rpm -qlp dist/*_linux_"$host".rpm | grep -qx /usr/bin/outboxctl || fail 'the rpm has no /usr/bin/outboxctl'
else
	echo 'note: the rpm was built and not opened: this machine has no rpm'
fi

say 'the archive, with its man pages and completions'
mkdir -p "$work/archive" "$work/share/man/man1"
tar -xzf dist/outboxctl_*_"$(go env GOOS)_$host".tar.gz -C "$work/archive"
cp "$work"/archive/man/*.1 "$work/share/man/man1"
if command -v man >/dev/null; then
	MANPATH=$work/share/man man outboxctl-publish | grep -q 'outboxctl publish' || fail 'man does not show outboxctl-publish'
fi
# What bash runs after "outboxctl dlq rep", where bash-completion is not installed too.
(
	PATH=$work/archive:$PATH
	source "$work/archive/completions/outboxctl.bash"
	complete -p outboxctl >/dev/null
	outboxctl __complete dlq rep 2>/dev/null | grep -q '^replay'
) || fail 'bash completes nothing'
for file in _outboxctl outboxctl.fish; do
	[ -s "$work/archive/completions/$file" ] || fail "the archive has no completions/$file"
done
echo "$(ls "$work/share/man/man1" | wc -l) man pages; bash completes \"dlq rep\""

say 'what the images are made of'
for arch in amd64 arm64; do
	mkdir -p "dist/image/linux/$arch"
	cp dist/outboxctl_linux_"$arch"*/outboxctl "dist/image/linux/$arch/"
done
cp Dockerfile dist/image/
grep -qx 'COPY $TARGETPLATFORM/outboxctl /outboxctl' Dockerfile || fail 'Dockerfile does not take the built program'
as_root chroot --userspec=65532:65532 dist/image "/linux/$host/outboxctl" version >/dev/null || fail 'the program does not run as the user of the image'
if docker buildx inspect >/dev/null 2>&1; then
	quiet docker buildx build --platform linux/amd64,linux/arm64 --target released dist/image
else
	echo 'note: the images were not built: this machine has no docker buildx'
fi

say 'no link to a file that is not there'
cask=dist/homebrew/Casks/outboxctl.rb
sed -n 's/.*version "\(.*\)".*/\1/p' "$cask" | grep -qxF "$version" || fail 'the cask has another version'
links=0
for file in $(grep -oE 'releases/download/[^"]+' "$cask" | sed "s/#{version}/$version/g; s#.*/##"); do
	sum=$(awk -v file="$file" '$2 == file {print $1}' dist/checksums.txt)
	{ [ -n "$sum" ] && grep -q "sha256 \"$sum\"" "$cask"; } || fail "the cask names $file, which is not built, or not these bytes"
	links=$((links + 1))
done
[ "$links" -eq 4 ] || fail "the cask has $links links"
echo "the cask's $links files are there, with its checksums"

say 'the modules as others get them'
OUTBOXTEST_PUBLISHED=1 go test -count=1 -run '^TestModulesAsPublished$' .

say 'files'
for file in dist/*.tar.gz dist/*.deb dist/*.rpm dist/*.sbom.json dist/checksums.txt "$cask" dist/image/Dockerfile dist/image/linux/*/outboxctl; do
	printf '%11d  %s\n' "$(wc -c <"$file")" "$file"
done

# A module is pushed after those that it requires; all of go.work but the laboratory are pushed.
say 'tags, in the order in which they are pushed'
next=$(sed -n 's#.*/outboxctl/emit \(v[^ ]*\).*#\1#p' go.mod)
pushed=' '
for module in emit emit/otelemit catalogue consume .; do
	for needs in $(sed -n "s#^.*github.com/outboxctl/outboxctl/\([a-z/]*\) $next.*#\1#p" "$module/go.mod"); do
		[[ $pushed == *" $needs "* ]] || fail "$module requires $needs, which is pushed later"
	done
	pushed+="$module "
	tag=$next
	[ "$module" = . ] || tag=$module/$next
	printf 'git tag %s && git push origin %s\n' "$tag" "$tag"
done
for module in $(sed -n 's#^\t\./\(.*\)#\1#p' go.work); do
	[[ $module == lab || $pushed == *" $module "* ]] || fail "$module is in go.work and has no tag"
done
