#!/bin/sh
# The migrated tree: one cargo workspace, its standard library, nothing from the network.
set -eu
cargo build --release --offline
