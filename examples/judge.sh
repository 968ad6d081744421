#!/bin/sh
# Ask a table service about a page, with curl: sh judge.sh URL [NAMESPACE]
#
# dedup serve runs on this machine. DEDUP_TOKEN is shown if it is set. The exit code is 1 for a near-duplicate.
set -eu
url=$1 namespace=${2:-default} service=${DEDUP_HTTP:-http://127.0.0.1:7780}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

ask() { # path, content type, file, more of curl's options
    path=$1 type=$2 file=$3
    shift 3
    curl -sf -m 2 -H "Authorization: Bearer ${DEDUP_TOKEN:-none}" -H "Content-Type: $type" --data-binary "@$file" "$@" "$service$path"
}

# 1. fetch
type=$(curl -sfL -o "$folder/page" -w '%{content_type}' "$url")

# 2. judge; when the service is away, keep the page
verdict=$(ask /v1/judge "${type:-text/html}" "$folder/page" --url-query "ns=$namespace" --url-query "url=$url") ||
    verdict='{"status":"exempt","reason":"service_away"}'
echo "$verdict"
case $verdict in *'"near_duplicate"'*) exit 1 ;; esac

# ... process $folder/page here ...

# 3. insert it, once it is processed ("/v1/release" gives it back if that failed)
item=$(printf %s "$verdict" | sed -n 's/.*"token":"\([^"]*\)".*"key":"\([^"]*\)".*/{"token":"\1","key":"\2"}/p')
if [ -n "$item" ]; then
    printf '{"ns":"%s","items":[%s]}' "$namespace" "$item" > "$folder/insert"
    ask /v1/insert application/json "$folder/insert"
    echo
fi
