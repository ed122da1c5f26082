/** Pushes to hosted repositories with plain requests, and checks the result. */
import { digestOf } from '../../src/oci/digest.ts';
import { call, type Reply } from '../faults/http-client.ts';

export const manifestType = 'application/vnd.oci.image.manifest.v1+json';
const configType = 'application/vnd.oci.image.config.v1+json';
const layerType = 'application/vnd.oci.image.layer.v1.tar';

export function basic(name: string, password: string): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` };
}

/** The account that {@link administered} configures. */
export const admin = basic('admin', 'secret');

/** A configuration with one account that has every right. */
export const administered = { accounts: { admin: 'secret' } };

/** A repository of a server, `http://127.0.0.1:1/v2/team/app`, with the rights of a caller. */
export class Repository {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(
    server: { readonly url: string },
    name: string,
    headers: Record<string, string> = admin,
  ) {
    this.url = `${server.url}/v2/${name}`;
    this.#headers = headers;
  }

  send(method: string, route: string, body?: Buffer, headers = {}): Promise<Reply> {
    const url = new URL(route, `${this.url}/`).href;
    const own = { ...this.#headers, ...headers };
    return call(url, { method, headers: own, ...(body ? { body } : {}) });
  }

  get(route: string): Promise<Reply> {
    return this.send('GET', route);
  }

  /** Begins an upload; returns its location. */
  async begin(): Promise<string> {
    const reply = await this.send('POST', 'blobs/uploads/');
    return String(reply.headers.location);
  }

  /** The whole blob in one request. */
  pushBlob(bytes: Buffer, digest: string = digestOf(bytes)): Promise<Reply> {
    return this.send('POST', `blobs/uploads/?digest=${digest}`, bytes);
  }

  /** A manifest with these blobs as its config and layers, which must be there. */
  pushManifest(tag: string, config: Buffer, layers: readonly Buffer[] = []): Promise<Reply> {
    return this.send('PUT', `manifests/${tag}`, manifestOf(config, layers), {
      'content-type': manifestType,
    });
  }

  /** Pushes a unique image: config, layers and manifest. Throws unless all of it is acknowledged. */
  async pushImage(tag: string, layers: readonly Buffer[]): Promise<string> {
    const config = configOf(tag, layers);
    for (const blob of [config, ...layers]) expect(await this.pushBlob(blob), 201);
    const reply = expect(await this.pushManifest(tag, config, layers), 201);
    return String(reply.headers['docker-content-digest']);
  }
}

export function manifestOf(config: Buffer, layers: readonly Buffer[]): Buffer {
  const describe = (mediaType: string) => (bytes: Buffer) => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  });
  return Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: describe(configType)(config),
      layers: layers.map(describe(layerType)),
    }),
  );
}

function configOf(name: string, layers: readonly Buffer[]): Buffer {
  return Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      author: name,
      rootfs: { type: 'layers', diff_ids: layers.map(layer => digestOf(layer)) },
    }),
  );
}

export function expect(reply: Reply, status: number): Reply {
  if (reply.status === status && reply.isWhole) return reply;
  throw new Error(`${reply.status} in place of ${status}: ${reply.body.toString('utf8')}`);
}
