# To pin it: docker pull it, then pass --build-arg NODE_IMAGE=NAME@sha256:... with the digest from the line "Digest:".
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /sluice
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts
COPY bin bin
COPY scripts scripts
COPY src src
# scripts/buildkit.ts and scripts/uv.ts, which the bundle has, import them.
COPY test/world/tools.ts test/world/python-index.ts test/world/
COPY README.md LICENSE ./
# Without an index of Python packages in reach, the image has no uv, and Python packages require a builder.
RUN node scripts/uv.ts || echo 'uv was not installed' >&2
# The image has the bundle in place of the sources, and Node 24 in place of the copy that npm brings along. Other optional
# packages are needed, such as the native parts of those that compute password hashes.
RUN node scripts/prepare.js \
  && rm -rf node_modules/node-linux-* node_modules/.bin scripts test .bundle/sources.json \
  && find src -name '*.ts' -delete

FROM ${NODE_IMAGE}
ARG COMMIT=unknown
ENV NODE_ENV=production \
    SLUICE_COMMIT=$COMMIT \
    SLUICE_LISTEN=0.0.0.0:9090 \
    SLUICE_URL=http://127.0.0.1:9090 \
    SLUICE_DATA=/data \
    MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=131072
COPY --from=build /sluice /sluice
WORKDIR /sluice
# deploy/compose/setup.cjs uses chattr.
RUN apt-get update && apt-get install -y --no-install-recommends e2fsprogs \
  && rm -rf /var/lib/apt/lists/*
RUN mkdir /data node_modules/.cache && chown node:node /data node_modules/.cache
# `docker exec` and `kubectl exec` find the command line that messages name.
RUN ln -s /sluice/bin/sluice.js /usr/local/bin/sluice
USER node
# A start fills Node's compile cache, which belongs to this user: containers cannot where their root is read-only, and
# would take twice the time and processor to become ready. The pages are loaded while it stops.
RUN SLUICE_DATA=/tmp/data SLUICE_LISTEN=127.0.0.1:0 SLUICE_BUILDKIT=off \
    node --min-semi-space-size=4 --max-semi-space-size=4 bin/sluice.js serve > /tmp/log & server=$! \
  && until grep '"msg":"ready"' /tmp/log; do kill -0 $server || exit 1; sleep 0.1; done \
  && kill $server && wait $server && rm -r /tmp/data /tmp/log
VOLUME /data
EXPOSE 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9090/readyz').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--min-semi-space-size=4", "--max-semi-space-size=4", "bin/sluice.js"]
CMD ["serve"]
