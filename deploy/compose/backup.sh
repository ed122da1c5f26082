#!/bin/sh
# Backs the site up into /backup, and restores it: see docs/compose.md. Runs in the image of PostgreSQL.
set -eu
umask 077
cd /site

case ${1:-create} in
  create)
    # The rows first: content that they refer to stays for a day after its last use.
    pg_dump --format=custom --file=/backup/rows.dump.new
    # With 1, a file has gone or changed meanwhile: content that the rows do not have.
    tar --create --xattrs --file=/backup/content.tar.new keys store || [ $? -eq 1 ]
    sync
    mv /backup/content.tar.new /backup/content.tar
    mv /backup/rows.dump.new /backup/rows.dump
    ls -l /backup
    ;;
  restore)
    if [ -n "$(ls -A store)" ] || [ -n "$(ls -A keys)" ]; then
      echo "Cannot restore: the volumes 'store' and 'keys' have content. Restore into a new site" >&2
      exit 1
    fi
    pg_restore --dbname="$PGDATABASE" --no-owner --exit-on-error --single-transaction /backup/rows.dump
    tar --extract --xattrs --same-owner --file=/backup/content.tar
    sync
    ;;
  *)
    echo "Unknown command '$1': use create or restore" >&2
    exit 1
    ;;
esac
