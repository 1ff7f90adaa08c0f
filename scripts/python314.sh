#!/bin/sh
# CPython 3.14 and torch (CPU) from Debian's testing suite, unpacked into a folder; nothing is installed on the system.
#
#   scripts/python314.sh DIR [PACKAGE...]
#
# DIR      where it goes; afterwards DIR/venv/bin/python is a Python like any other, with the suite's torch and numpy
# PACKAGE  Debian's packages that are wanted, the interpreter first; with torch, the headers and CPython's own tests unless told.
#          Its -venv package has to be among them, e.g. for scripts/next_python.py:
#          SUITE=... scripts/python314.sh DIR python3.15 python3.15-dev python3.15-venv
#
# As root on Debian 12, whose own mirror it asks. Ends with 75 where the suite cannot be had (no mirror, no network, no such Python in
# it any more): "not tried", not "failed". Takes half a minute and 1.5 GB. Called by .ci/run.
set -eu
dir=$(realpath -m "${1:?usage: scripts/python314.sh DIR [PACKAGE...]}")
shift
[ $# -gt 0 ] || set -- python3.14 python3.14-dev python3.14-venv libpython3.14-testsuite python3-torch python3-numpy libtorch-dev
python=$1 # python3.14
apt=$dir/apt root=$dir/root
not_tried() { echo "dynexplore: $*" >&2; exit 75; }

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || not_tried "$python comes from Debian's packages, and there is no apt-get here"
[ "$(id -u)" = 0 ] || not_tried "apt-get wants to be root"
lib=usr/lib/$(uname -m)-linux-gnu
# the mirror is the one that the machine itself uses, with another suite
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | awk '$1 !~ /security/ {print $2; exit}')
[ -n "$mirror" ] || not_tried "no apt source on this machine"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root/dev" "$root/proc" "$root/tmp" "$root/etc"
: >"$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror ${SUITE:-testing} main" >"$apt/sources.list"
get() {
    apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$apt" \
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o APT::Sandbox::User=root -o APT::Install-Recommends=0 -o Acquire::Languages=none -o APT::Update::Error-Mode=any "$@"
}
get update && get -y -d install "$@" || not_tried "no $* in suite ${SUITE:-testing}"
for link in bin sbin lib lib64; do
    mkdir -p "$root/usr/$link"
    ln -sfn "usr/$link" "$root/$link"
done
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --exclude='./usr/share/[!p]*' --exclude='./dev/*'
done
rm -rf "$apt"
# else gcc looks for it under the system's /usr/include
[ ! -d "$root/usr/include/$python" ] || cp "$root"/usr/include/*-linux-gnu/"$python"/pyconfig.h "$root/usr/include/$python/"
# The interpreter needs a newer glibc than the system's: its own loader and libraries; children of it get the system's again.
cat >"$root/usr/bin/run-$python" <<END
#!/bin/sh
exec $root/usr/lib64/ld-linux-x86-64.so.2 --argv0 "\$0" --library-path $root/$lib:$root/usr/lib:$root/$lib/blas:$root/$lib/lapack $root/usr/bin/$python "\$@"
END
chmod +x "$root/usr/bin/run-$python"
# Debian's venv looks for pip and for dist-packages under the system's /usr, so both are named here.
"$root/usr/bin/run-$python" -m venv --without-pip "$dir/venv"
echo "$root/usr/lib/python3/dist-packages" >"$dir/venv/lib/$python/site-packages/debian.pth"
"$dir/venv/bin/python" "$(ls "$root"/usr/share/python-wheels/pip-*.whl)/pip" -q --disable-pip-version-check install pip
"$dir/venv/bin/python" -c 'import sys; print(sys.version)'
