#!/usr/bin/env bash
# Makes a release of the committed tree: version and date written, wheels and source archive built and checked, a tag.
#
#     bash tools/release.sh 0.1.0 [what the light wheels are for, default x86_64 aarch64 windows macos]
#
# Everything happens in a clone, from which commit and tag are taken over at the end; what fails leaves nothing behind.
# Pushing and uploading stay with you: the last lines say how.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n[release] %s\n' "$*" >&2; }

stop() {
    say "$*"
    exit 1
}

version=${1:-}
shift || true
machines=(${@:-x86_64 aarch64 windows macos})
branch=$(git symbolic-ref --quiet --short HEAD) || stop 'no branch is checked out. Check out the one to release.'

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || stop "name the version, such as 0.1.0; '$version' is none."
[[ -z $(git status --porcelain) ]] || stop 'there are changes that are not committed. Commit them or take them back.'
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || stop "the tag v$version exists. Take the next version."
grep -q "^## \[$version\] - unreleased$" CHANGELOG.md ||
    stop "CHANGELOG.md has no line '## [$version] - unreleased' above what has changed."

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
origin=$PWD
git clone --quiet --branch "$branch" "$origin" "$stage/tree"
cd "$stage/tree"
sed -i "s/^__version__ = .*/__version__ = '$version'/" rebnn_mm/version.py
sed -i "s/^version: .*/version: $version/" CITATION.cff
sed -i "s/^## \[$version\] - unreleased$/## [$version] - $(date --utc +%F)/" CHANGELOG.md

say 'build tools'
python3 -m venv "$stage/env"
"$stage/env/bin/pip" install --quiet --disable-pip-version-check build twine 'setuptools>=77' wheel ziglang
say 'source archive, and from it the wheel'
"$stage/env/bin/python" -m build --outdir dist . >"$stage/log" 2>&1 || { tail -n 30 "$stage/log" >&2; stop 'not built, see above.'; }
ran=()
built=()
for machine in "${machines[@]}"; do
    say "light wheel for $machine"
    wheel=$(PATH=$stage/env/bin:$PATH PYTHON=$stage/env/bin/python bash tools/build_board_wheel.sh "$machine" dist)
    if [[ $machine == "$(uname -m)" ]]; then
        python3 -m venv "$stage/light"
        "$stage/light/bin/pip" install --quiet --disable-pip-version-check "$wheel"
        (cd "$stage" && light/bin/rebnn check) >&2 || stop "the light wheel for $machine does not run, see above."
        ran+=("$machine")
    else
        built+=("$machine")
    fi
done
"$stage/env/bin/twine" check --strict dist/*

git diff --quiet || git -c user.name="$(git -C "$origin" config user.name)" -c user.email="$(git -C "$origin" config user.email)" \
    commit --quiet --all --message "Version $version"
git tag "v$version"
git -C "$origin" pull --quiet --ff-only "$stage/tree" "$branch"
git -C "$origin" fetch --quiet "$stage/tree" "refs/tags/v$version:refs/tags/v$version"
mkdir -p "$origin/dist"
mv dist/* "$origin/dist/"
say "dist/ holds version $version, and the tag v$version is set."
say "light wheels that ran here: ${ran[*]:-none}; built, but not run: ${built[*]:-none}. To publish:"
cat >&2 <<END
    git push origin $branch v$version
    twine upload dist/*$version*
    make docs-version && git push origin gh-pages
END
