import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bytesOf, type Content } from '../corpus/content.ts';
import type { Image } from '../corpus/image.ts';

/** A registry whose owner decides what it says: it claims to have every blob, and sends those that it has. */
export interface AttackerRegistry extends AsyncDisposable {
  /** `127.0.0.1:<port>` */
  readonly host: string;
  /** The requests so far, such as `GET /v2/x/manifests/1`. */
  readonly requests: string[];
  /** Refuses all requests for blobs. */
  refusesBlobs: boolean;
  /**
   * Serves an image as `host/app:tag`, and returns that name.
   *
   * @param lacking blobs that the registry only claims to have
   */
  serve(tag: string, image: Image, lacking?: readonly Content[]): string;
}

export async function startAttackerRegistry(): Promise<AttackerRegistry> {
  const contents = new Map<string, Content>();
  const claimed = new Map<string, number>();
  const requests: string[] = [];
  const listener: RequestListener = ({ url = '', method = '' }, response) => {
    requests.push(`${method} ${url}`);
    const reference = decodeURIComponent(url.split('/').at(-1) ?? '');
    if (url === '/v2/') return response.writeHead(200).end();
    if (registry.refusesBlobs && url.includes('/blobs/')) return response.writeHead(403).end();
    const content = contents.get(reference);
    const size = content?.size ?? claimed.get(reference);
    if (size === undefined || (!content && method !== 'HEAD')) return response.writeHead(404).end();
    response.writeHead(200, {
      'docker-content-digest': content?.digest ?? reference,
      'content-type': content?.mediaType ?? 'application/octet-stream',
      'content-length': String(size),
    });
    return response.end(method === 'HEAD' || !content ? undefined : bytesOf(content));
  };
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const registry: AttackerRegistry = {
    ...{ host, requests, refusesBlobs: false },
    serve(tag, { root, children, blobs }, lacking = []) {
      for (const { digest, size } of lacking) claimed.set(digest, size);
      const sent = [root, ...children, ...blobs].filter(
        ({ digest }) => !lacking.some(one => one.digest === digest),
      );
      for (const content of sent) contents.set(content.digest, content);
      contents.set(tag, root);
      return `${host}/app:${tag}`;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
  return registry;
}
