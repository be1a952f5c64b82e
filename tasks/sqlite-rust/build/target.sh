#!/bin/sh
set -e
cargo build --release --offline
