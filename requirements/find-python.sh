#!/bin/sh
# Print a Python of 3.11 or later that can make virtual environments; 3.11 first, which the pins are compiled for.
for python in python3.11 python3 python3.12 python3.13 python3.14; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$python"
        exit 0
    fi
done
echo "Carillon needs Python 3.11 or later with venv. On Debian or Ubuntu: apt-get install python3 python3-venv" >&2
exit 1
