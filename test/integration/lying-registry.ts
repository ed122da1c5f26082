import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { digestOf } from '../../src/oci/digest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

/** A registry that claims to have everything, and sends only the manifests of its given tags. */
export async function startLyingRegistry() {
  const tags = new Map<string, { bytes: Buffer; mediaType: string }>();
  const listener: RequestListener = ({ url = '', method }, response) => {
    const reference = url.split('/').at(-1) ?? '';
    const known = tags.get(reference);
    const digest = known ? digestOf(known.bytes) : reference;
    const size = known?.bytes.length ?? 1000;
    const headers = {
      'docker-content-digest': digest,
      'content-type': known?.mediaType ?? mediaTypes.ociManifest,
      'content-length': String(size),
    };
    if (method === 'HEAD') return response.writeHead(200, headers).end();
    if (known) return response.writeHead(200, headers).end(known.bytes);
    return response.writeHead(404, { 'content-length': '0' }).end();
  };
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    tag(name: string, mediaType: string, body: object) {
      const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...body }));
      tags.set(name, { bytes, mediaType });
      tags.set(digestOf(bytes), { bytes, mediaType });
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
